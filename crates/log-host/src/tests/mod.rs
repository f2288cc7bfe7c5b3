//! Controllers as a whole, message by message.

mod unborn;
