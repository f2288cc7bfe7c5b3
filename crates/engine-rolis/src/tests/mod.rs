//! Workers and controllers as a whole, message by message.

mod ended;
mod idle;
mod skipped;
