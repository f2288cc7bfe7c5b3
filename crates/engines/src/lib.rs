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
//! - send frames in order per (sending worker, receiving worker); losing a connection may lose frames, and is told by
//!   `peer_down`/`peer_up` (see [`Frame`]);
//! - panic at writes that it cannot bring to a disk;
//! - on `wake_workers` / `wake_controller`, give those who sleep a turn soon.

#[cfg(not(loom))]
mod attempt;
#[cfg(not(loom))]
pub mod backup;
#[cfg(not(loom))]
pub mod baseline;
#[cfg(not(loom))]
mod call;
#[cfg(not(loom))]
mod checkpointing;
#[cfg(not(loom))]
pub mod comparisons;
#[cfg(not(loom))]
pub mod copy;
#[cfg(not(loom))]
pub mod engine;
pub mod mailbox;
#[cfg(not(loom))]
pub mod meerkat;
#[cfg(not(loom))]
pub mod memory;
#[cfg(not(loom))]
pub mod observer;
#[cfg(not(loom))]
pub mod options;
#[cfg(not(loom))]
mod padded;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(not(loom))]
pub mod registry;
#[cfg(not(loom))]
mod retries;
#[cfg(not(loom))]
pub mod rolis;
#[cfg(not(loom))]
pub mod seam;
#[cfg(not(loom))]
pub mod sessions;
#[cfg(not(loom))]
mod shares;
mod sync;
#[cfg(not(loom))]
mod witness;

/// What the threads of a replica share and loom can explore: whatever needs no store (see `core::sync`).
#[cfg(loom)]
pub mod rolis {
    #[allow(dead_code, reason = "told by hooks that loom does not get to")]
    mod facts;
    #[allow(dead_code, reason = "most are called where loom does not get to")]
    mod hooks;
    pub mod horizon;
    #[cfg(feature = "planted")]
    pub mod planted;
    pub mod watermark;
}

#[cfg(not(loom))]
pub use engine::{Abilities, Engine};
#[cfg(not(loom))]
pub use observer::{Rules, Teller};
#[cfg(not(loom))]
pub use options::Options;
#[cfg(not(loom))]
pub use registry::{EngineKind, build};
#[cfg(not(loom))]
pub use seam::{
    CheckpointNews, CheckpointOrder, ClientId, ControlOutbox, Controller, Counters, DiskState, Endpoint,
    Figure, Frame, Freshness, Handover, LogPosition, Member, MemberAnswer, MemberChange, Nanos, Next, Outbox,
    Owner, Refusal, Released, Replica, Request, Resume, Roster, Service, Session, Status, Taken, Token,
    Worker, releasable,
};
