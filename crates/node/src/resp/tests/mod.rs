//! The door against a map instead of an engine. No sockets, no threads.

mod calls;
pub(in crate::resp) mod double;
mod exec;
mod frame;
mod golden;
mod large;
mod ordering;
mod readonly;
mod sessions;
mod types;
mod watch;
