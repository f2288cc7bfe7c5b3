//! Staying ahead of need: somebody off the hot path touches the pages that workers will want next.
//!
//! The kernel clears a page when it is first touched, which can cost a transaction as much as everything else that it
//! does. A host that has a thread for it calls [`provision`](crate::Store::provision) every few milliseconds. How many
//! chunks stand ready follows from how fast chunks were asked for lately: an idle store takes nothing.

use super::pool::CHUNK;
use super::shared::{Heaps, lock, unmap_chunks};

/// Chunks that stand ready while the store grows, at least.
const LEAST: u64 = 2;
/// And at most.
const MOST: u64 = 64;
/// Chunks that are touched in one call, at most: a call takes a few milliseconds.
const AT_ONCE: u64 = 8;
/// So many calls' demand stands ready.
const AHEAD: u64 = 8;
/// After so many calls without demand the store counts as idle.
const IDLE: u32 = 200;
/// How often workers are asked for what they keep, in calls.
const GATHER: u32 = 10;

/// How fast chunks are asked for.
#[derive(Default)]
pub(super) struct Pace {
    /// The pool's demand at the last call.
    seen: u64,
    /// Chunks a call, the most that was seen lately, in 64ths.
    peak: u64,
    /// Calls since there was any demand.
    quiet: u32,
    calls: u32,
}

impl Pace {
    /// How many chunks should stand ready.
    fn want(&mut self, demand: u64) -> u64 {
        let now = (demand - self.seen) * 64;
        self.seen = demand;
        self.quiet = if now > 0 { 0 } else { self.quiet.saturating_add(1) };
        self.peak = now.max(self.peak - self.peak.div_ceil(64));
        if self.quiet >= IDLE || demand == 0 {
            return 0;
        }
        (self.peak * AHEAD / 64).clamp(LEAST, MOST)
    }
}

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
            (pace.want(pool.demand), pool.spare_chunks() as u64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_ready_follows_the_demand_and_ends_with_it() {
        let mut pace = Pace::default();
        assert_eq!(pace.want(0), 0, "nothing was ever asked for");
        assert_eq!(pace.want(1), AHEAD);
        assert_eq!(pace.want(5), 4 * AHEAD);
        for _ in 0..IDLE - 1 {
            assert!(pace.want(5) >= LEAST);
        }
        assert_eq!(pace.want(5), 0, "idle");
        assert_eq!(pace.want(1000), MOST);
    }
}
