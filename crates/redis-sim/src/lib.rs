//! Clients of Redis in the simulator: the product's door, its lines of waiting clients and its sweep, in whole runs under faults.
//!
//! The simulator depends on no door, and the door on no simulator: this crate is where both meet
//! (`docs/decisions/0025-guests-meet-the-simulator-in-a-crate-of-their-own.md`). It is a [`House`] for runs: tables and procedures
//! of the door behind the simulator's own ([`library`]), a [`host`] on each node that does what a worker's thread does for its clients, and
//! [`guests`] that type commands.
//!
//! # What is judged
//!
//! - *Expiry, lists and sorted sets*: every request that was released has its moment in the one order of transactions, and the time that its command
//!   saw. In that order each must have answered what [Redis in small](model) answers ([`order`]); and what was told before another one was
//!   asked comes before it. So every element that was pushed is popped once or is still there, and a key that was seen to be gone stays gone.
//! - *Order in a connection*: what a client asked later takes effect later, also through followers that forward ([`forward`]) while the lead is handed over; and no
//!   engine takes a request that one has taken.
//! - *Users*: what a change of users took away, and its client was told so, nobody uses afterwards ([`rules`]).
//! - *Waiting*: nobody sleeps while there is something for it, or when its time is over; nobody who waits for one key alone is served
//!   while somebody who came earlier sleeps ([`host`]).
//! - *Transactions that clients decide*: strict serializability by the checker, and the sum of all accounts.
//! - Replicas hold the same rows in the end, as in every run.

mod door;
pub mod forward;
pub mod guests;
pub mod host;
pub mod ledger;
pub mod library;
pub mod model;
pub mod order;
#[cfg(feature = "planted")]
pub mod planted;
pub mod reply;
pub mod rules;
pub mod seat;
pub mod wires;

use highwater_seam::Nanos;
use highwater_sim::{Guests, House, Plan};

pub use library::Joined;

/// A house with a door for clients of Redis.
#[derive(Clone, Copy, Debug)]
pub struct WithDoor;

impl House for WithDoor {
    type Library = Joined;

    fn library(&self) -> Joined {
        Joined
    }

    fn guests(&self, plan: &Plan, now: Nanos) -> Option<Box<dyn Guests<Joined>>> {
        plan.redis.map(|redis| Box::new(guests::House::new(plan, redis, now)) as Box<dyn Guests<Joined>>)
    }
}
