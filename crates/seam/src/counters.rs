//! What a worker counts.

use std::sync::atomic::{AtomicU64, Ordering};

use highwater_store::Occ;

use super::hot::HotKeys;

/// Counts kept by one worker: written by its owner only, read by anyone. One cache-line pair each, so that counting
/// shares nothing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Transactions committed in the store (speculatively on a leader).
    pub executed: AtomicU64,
    /// Replies released with [`Outcome::Committed`](highwater_core::Outcome::Committed).
    pub committed: AtomicU64,
    /// Replies released with [`Outcome::RolledBack`](highwater_core::Outcome::RolledBack) or
    /// [`Outcome::BadRequest`](highwater_core::Outcome::BadRequest).
    pub rolled_back: AtomicU64,
    /// Attempts that ended in a conflict (each retry counts).
    pub conflicts: AtomicU64,
    /// Transactions applied from the log.
    pub applied: AtomicU64,
    /// Transactions that read a snapshot here.
    pub snapshot_reads: AtomicU64,
    /// Entries sealed.
    pub entries: AtomicU64,
    /// Bytes of the entries sealed, headers included.
    pub log_bytes: AtomicU64,
    /// Where the conflicts were, as far as the engine knows.
    pub hot: HotKeys,
}

impl Counters {
    /// Adds to a counter that only this thread writes.
    #[inline]
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    /// Counts a conflict, and where it was.
    #[cold]
    pub fn conflict(&self, occ: &mut Occ) {
        Counters::add(&self.conflicts, 1);
        if let Some((table, key)) = occ.take_met() {
            self.hot.met(table, key);
        }
    }
}
