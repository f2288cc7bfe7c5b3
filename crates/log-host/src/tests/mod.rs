//! Controllers as a whole, message by message.

mod golden;
mod unborn;
