//! The deterministic simulator: the production store, consensus and engine, stepped on one thread in virtual time from
//! one seed.
//!
//! A [`World`] holds whole replicas, a network of connections between their workers and controllers, and clients that
//! submit transactions. Everything that happens is an event in one queue, ordered by virtual time; every choice is drawn
//! from one seeded generator. The same seed gives the same run.

pub mod network;
pub mod random;
mod stage;
mod trace;
pub mod watch;
pub mod world;

pub use random::Random;
pub use stage::{Buggify, Interleaving};
pub use world::clock::NodeClock;
pub use world::{Refused, Reply, Tune, World, WorldOptions};
