//! The admin port: what it speaks ([`protocol`]) and the connections that speak it ([`server`]).
//!
//! What the requests do is the control thread's business.

pub mod protocol;
pub mod server;
