//! Every engine, and what they are made of. What an engine looks like from outside is the [`seam`].

#![cfg(not(loom))]

pub mod registry;

pub use registry::{EngineKind, build};

pub use highwater_engine_meerkat as meerkat;
pub use highwater_engine_rolis as rolis;
pub use highwater_kit::{copy, sessions};
pub use highwater_seam as seam;
pub use highwater_seam::mailbox;
#[cfg(feature = "planted")]
pub use highwater_seam::planted;
pub use highwater_seam::{
    Abilities, CheckpointNews, CheckpointOrder, ClientId, ControlOutbox, Controller, Counters, DiskState,
    Endpoint, Engine, Figure, Frame, Freshness, Handover, LogPosition, Member, MemberAnswer, MemberChange,
    Nanos, Next, Options, Outbox, Owner, Refusal, Released, Replica, Request, Resume, Roster, Rules, Service,
    Session, Status, Taken, Teller, Token, Worker, releasable,
};
pub use highwater_seam::{engine, memory, observer, options};
