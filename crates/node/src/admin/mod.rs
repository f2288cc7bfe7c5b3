//! The admin port: its sockets ([`server`]), the conversations over them ([`talk`]), and the thread that does nothing else
//! ([`thread`]); before that thread runs, [`starting`] says how far the start is.
//!
//! Two languages are spoken: JSON lines ([`protocol`]) by highwater's own commands, HTTP ([`http`]) by everybody else.
//!
//! What the requests do is the control thread's business. It gets them parsed, one at a time per connection, and never
//! sees a socket: heartbeats depend on that thread, and a line takes as long as its sender likes.

pub mod http;
pub mod metrics;
pub mod protocol;
mod pulses;
pub mod report;
pub mod server;
pub mod starting;
pub mod talk;
pub mod thread;
pub mod work;
