//! The deterministic simulator: the production store, consensus and engine, stepped on one thread in virtual time from
//! one seed.
//!
//! A [`World`] holds whole replicas, a network of connections between their workers and controllers, and clients that
//! submit transactions. Everything that happens is an event in one queue, ordered by virtual time; every choice is drawn
//! from one seeded generator. The same seed gives the same run.
//!
//! A [`Plan`] is a whole run, drawn from a seed: replicas, settings, load and faults. [`run`](run()) runs and judges it.

pub mod clients;
pub mod faults;
pub mod house;
pub mod isolate;
pub mod library;
pub mod network;
pub mod plan;
#[cfg(feature = "planted")]
pub mod planted;
pub mod report;
pub mod run;
pub mod shrink;
mod stage;
mod trace;
mod units;
pub mod watch;
pub mod world;

pub use highwater_core::Random;
pub use house::{Guests, House};
pub use plan::Plan;
pub use run::{Failure, FailureKind, Summary, run, run_in, run_tracing};
pub use stage::{Buggify, Interleaving};
pub use world::clock::NodeClock;
pub use world::{Refused, Reply, Tune, World, WorldOptions};
