//! The seam: what a replica looks like to whoever runs it, and one folder per engine behind it.
//!
//! A replica is a set of [`Worker`]s, one per core, plus one [`Controller`]. Each is an object that is *stepped*: it
//! takes requests, frames and the time, and hands out frames, replies and wake-ups. It owns no thread, socket, clock or
//! file. The node pins each worker to a thread and gives it sockets; the simulator gives each a turn on one thread.
//!
//! Workers of one replica share the store, a few padded atomics, and (off the fast path, for changes of epoch) small
//! mailboxes that live inside the engine; the host only carries the wake-ups.
//!
//! The host's duties:
//! - call [`Worker::turn`] after it handed in what arrived, and again when the returned [`Next`] says so;
//! - send frames in order per (worker, peer); losing a connection may lose frames, and is told by `peer_down`/`peer_up`;
//! - on `wake_workers` / `wake_controller`, give those who sleep a turn soon.

pub mod baseline;
pub mod options;
pub mod rolis;
pub mod seam;

pub use options::Options;
pub use seam::{
    ControlOutbox, Controller, Counters, EngineKind, Frame, Member, Nanos, Next, Outbox, Refusal, Released,
    Replica, Request, Role, Status, StreamStatus, Token, Worker,
};

use std::sync::Arc;

use highwater_core::{Clock, Library};

/// A fresh replica of an engine: `library`'s tables, empty, and its procedures.
///
/// # Panics
/// If `options` are not [valid](Options::validate).
pub fn build<L: Library>(kind: EngineKind, options: Options, library: &L, clock: Arc<Clock>) -> Replica {
    options.validate().expect("the host validates the options");
    match kind {
        EngineKind::Rolis => rolis::build(options, library, clock),
        EngineKind::Silo => baseline::silo::build(options, library, clock),
        EngineKind::Strawman => rolis::build_strawman(options, library, clock),
    }
}
