//! The seam: what a replica looks like to whoever runs it, and what an engine says of itself.
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
mod checkpoint;
#[cfg(not(loom))]
mod counters;
#[cfg(not(loom))]
pub mod engine;
#[cfg(not(loom))]
mod handover;
#[cfg(not(loom))]
pub mod hot;
pub mod mailbox;
#[cfg(not(loom))]
mod members;
#[cfg(not(loom))]
pub mod memory;
#[cfg(not(loom))]
pub mod observer;
#[cfg(not(loom))]
pub mod options;
#[cfg(not(loom))]
mod outbox;
#[cfg(not(loom))]
pub mod padded;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(not(loom))]
mod replica;
#[cfg(not(loom))]
mod request;
#[cfg(not(loom))]
mod shares;
#[cfg(not(loom))]
mod status;
pub mod sync;

pub use highwater_core::Nanos;

#[cfg(not(loom))]
pub use checkpoint::{CheckpointNews, CheckpointOrder, Resume, releasable};
#[cfg(not(loom))]
pub use counters::Counters;
#[cfg(not(loom))]
pub use engine::{Abilities, Engine};
#[cfg(not(loom))]
pub use handover::Handover;
#[cfg(not(loom))]
pub use members::{MemberAnswer, MemberChange, Roster};
#[cfg(not(loom))]
pub use observer::{Rules, Teller};
#[cfg(not(loom))]
pub use options::Options;
#[cfg(not(loom))]
pub use outbox::{Endpoint, Frame, LogPosition, Outbox, RELEASE_BYTES, Released};
#[cfg(not(loom))]
pub use replica::{ControlOutbox, Controller, DiskState, Next, Replica, Worker};
#[cfg(not(loom))]
pub use request::{ClientId, Freshness, Owner, Refusal, Request, Session, Taken, Token};
#[cfg(not(loom))]
pub use status::{Figure, Member, Service, Status};
