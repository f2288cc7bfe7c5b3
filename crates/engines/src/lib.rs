//! Every engine, and what they are made of. What an engine looks like from outside is the [`seam`].

#[cfg(not(loom))]
pub mod registry;
#[cfg(not(loom))]
pub mod rolis;

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
pub use registry::{EngineKind, build};

#[cfg(not(loom))]
pub use highwater_engine_meerkat as meerkat;
#[cfg(not(loom))]
pub use highwater_kit::{copy, sessions};
pub use highwater_seam as seam;
pub use highwater_seam::mailbox;
#[cfg(feature = "planted")]
pub use highwater_seam::planted;
#[cfg(not(loom))]
pub use highwater_seam::{
    Abilities, CheckpointNews, CheckpointOrder, ClientId, ControlOutbox, Controller, Counters, DiskState,
    Endpoint, Engine, Figure, Frame, Freshness, Handover, LogPosition, Member, MemberAnswer, MemberChange,
    Nanos, Next, Options, Outbox, Owner, Refusal, Released, Replica, Request, Resume, Roster, Rules, Service,
    Session, Status, Taken, Teller, Token, Worker, releasable,
};
#[cfg(not(loom))]
pub use highwater_seam::{engine, memory, observer, options};
