//! The door against a map instead of an engine. No sockets, no threads.

mod bounds;
mod calls;
mod clients;
pub(super) mod clock;
mod cluster;
mod collections;
mod crowds;

pub(super) mod double;
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
mod short;
mod tables;
mod types;
mod watch;

use highwater_core::With;
use highwater_workloads::AllWorkloads;

use super::Product;

/// The library of a node with `server.benchmarks = "on"`.
const WITH_WORKLOADS: With<Product, AllWorkloads> = With(Product, AllWorkloads);
