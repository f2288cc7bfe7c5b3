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

#![cfg(not(loom))]
#![warn(missing_docs)]

mod checkpoint;
mod counters;
pub mod engine;
mod handover;
pub mod hot;
pub mod mailbox;
mod members;
pub mod memory;
pub mod observer;
pub mod options;
mod outbox;
pub mod padded;
#[cfg(feature = "planted")]
pub mod planted;
mod replica;
mod request;
pub mod settings;
mod shares;
mod status;

pub use highwater_core::Nanos;

pub use checkpoint::{CheckpointNews, CheckpointOrder, Resume, releasable};
pub use counters::Counters;
pub use engine::{Abilities, Engine};
pub use handover::Handover;
pub use members::{MemberAnswer, MemberChange, Roster};
pub use observer::{Rules, Teller};
pub use options::Options;
pub use outbox::{Endpoint, Frame, LogPosition, Outbox, RELEASE_BYTES, Released};
pub use replica::{ControlOutbox, Controller, DiskState, Next, Replica, Worker};
pub use request::{ClientId, Freshness, Owner, Refusal, Request, Session, Taken, Token};
pub use status::{Figure, Member, Service, Status};
