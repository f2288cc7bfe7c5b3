//! The door against a map instead of an engine. No sockets, no threads.

mod double;
mod exec;
mod frame;
mod golden;
mod large;
mod ordering;
mod readonly;
mod scripts;
mod sessions;
mod types;
mod watch;
