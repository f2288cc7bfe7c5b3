//! Staying ahead of need: somebody off the hot path touches the pages that workers will want next.
//!
//! The kernel clears a page when it is first touched, which can cost a transaction as much as everything else that it
//! does. A host that has a thread for it calls [`provision`](crate::Store::provision) every few milliseconds. How many
//! chunks stand ready follows from how fast chunks were asked for lately: an idle store takes nothing.

use super::pace::{IDLE, LEAST};
use super::pool::CHUNK;
use super::shared::{Heaps, lock, unmap_chunks};

/// Chunks that are touched in one call, at most: a call takes a few milliseconds.
const AT_ONCE: u64 = 8;
/// How often workers are asked for what they keep, in calls.
const GATHER: u32 = 10;

/// What a call of [`provision`](crate::Store::provision) found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provision {
    /// The store has asked for memory lately: the next call should come soon.
    pub growing: bool,
    /// Workers have free memory, or tombstones to unlink. Each looks after them in its next
    /// [`collect`](crate::Occ::collect): one that sleeps should be woken for it.
    pub collect: bool,
}

impl Heaps {
    /// See [`crate::Store::provision`].
    pub fn provision(&self, limit: u64, orphans: bool) -> Provision {
        self.trim();
        let mut pace = lock(&self.pace);
        pace.calls = pace.calls.wrapping_add(1);
        let (want, ready) = {
            let pool = lock(&self.pool);
            let used = (pool.reserved - pool.spare_bytes) / CHUNK;
            (pace.want(pool.demand, used as u64), pool.spare_chunks() as u64)
        };
        let collect = pace.calls.is_multiple_of(GATHER) && (self.gather() | self.any_waiting() | orphans);
        if pace.quiet >= IDLE {
            let mut freed = Vec::new();
            lock(&self.pool).give_back(LEAST as usize, &mut freed);
            unmap_chunks(freed);
            return Provision { growing: false, collect };
        }
        let mut added = 0;
        while ready + added < want && added < AT_ONCE {
            if self.memory().reserved + CHUNK as u64 > limit || !self.add_touched() {
                break;
            }
            added += 1;
        }
        Provision { growing: true, collect }
    }
}
