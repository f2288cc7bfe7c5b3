//! A client that coordinates its transactions itself, as in *Meerkat* (EuroSys '20): for clusters whose engine is `meerkat` or `meerkat-strict`.
//!
//! The transaction's code runs in the application. Its reads go to one replica, its *home*; when it has ended, what it read and writes goes to all
//! replicas at once, and if enough of them find it valid it is committed: one round trip to commit, and one for each
//! read before (or for a timestamp, if it reads nothing). Whoever sends a whole procedure as one request over RESP makes as many, or fewer.
//!
#![doc = include_str!("../README.md")]
//!
//! # Where to look
//!
//! | module | what |
//! |---|---|
//! | [`Client`] | what an application has: it waits for everything it asks |
//! | [`stepped`] | the same without threads, sockets and time, for procedures: what the simulator runs |
//! | [`core`](mod@core) | the protocol: homes, stamps, votes, decisions. Its invariants are in [`highwater_meerkat_wire`] |
//! | `net`, `remote`, `cache` | connections; reads that are waited for; reads that are known |

#![warn(missing_docs)]

mod attempts;
mod cache;
mod client;
pub mod core;
mod error;
mod net;
#[cfg(feature = "planted")]
pub mod planted;
mod remote;
pub mod stepped;

pub use client::{Client, Counts, Options, Ran, Tx};
pub use error::Error;
