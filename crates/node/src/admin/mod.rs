//! The admin port: what it speaks ([`protocol`]), the connections that speak it ([`server`]), and the thread that does
//! nothing else ([`thread`]); before that thread runs, [`starting`] says how far the start is.
//!
//! What the requests do is the control thread's business. It gets them parsed, one at a time per connection, and never
//! sees a socket: heartbeats depend on that thread, and a line takes as long as its sender likes.

pub mod protocol;
pub mod report;
pub mod server;
pub mod starting;
pub mod thread;
