//! (in progress)

pub mod admin;
pub mod clock;
pub mod config;
pub mod mailbox;
pub mod poll;
pub mod resp;
pub mod token;
pub mod transport;
pub mod waker;
