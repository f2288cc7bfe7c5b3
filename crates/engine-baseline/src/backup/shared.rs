//! What the threads of a replica share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use highwater_core::{Clock, NodeId};
use highwater_seam::engine::Abilities;
use highwater_seam::memory::Account;
use highwater_seam::options::Options;

/// The node that serves.
pub(super) const PRIMARY: NodeId = NodeId(0);

/// Every write goes to every replica, and nobody takes over.
pub(super) const ABILITIES: Abilities = Abilities {
    replicates: true,
    interruptible: true,
    sessions: true,
    real_time: true,
    in_order: true,
    closures: true,
    ..Abilities::NONE
};

/// One per replica.
pub(super) struct Shared {
    pub options: Options,
    pub clock: Arc<Clock>,
    pub account: Account,
    /// Everybody was met.
    pub serving: AtomicBool,
    /// Somebody lost its memory: never again.
    pub broken: AtomicBool,
    /// One per worker: entries that it made, or installed.
    pub entries: Vec<AtomicU64>,
    /// One per worker: bytes of entries that it keeps.
    pub log_bytes: Vec<AtomicU64>,
}

impl Shared {
    pub fn is_primary(&self) -> bool {
        self.options.node == PRIMARY
    }

    pub fn logs(&self) -> u64 {
        self.log_bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }
}
