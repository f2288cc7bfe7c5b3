//! The door against a map instead of an engine. No sockets, no threads.

mod bounds;
mod calls;
mod clients;
mod cluster;
mod collections;
mod crowds;

pub(in crate::resp) mod double;
mod exec;
mod flush;
mod frame;
mod golden;
mod interactive;
mod large;
mod local;
#[cfg(feature = "wasm")]
mod modules;
mod ordering;
mod readonly;
mod rights;
mod scans;
mod scripts;
mod sessions;
mod tables;
mod types;
mod watch;
