//! Controllers as a whole, message by message.

mod appended;
mod golden;
pub mod ordered;
mod unborn;
