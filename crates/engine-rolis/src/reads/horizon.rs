//! What readers of applied snapshots and those who write to the store agree on without a lock: how far appliers may go,
//! and in which life of the snapshots a reader reads. [`snapshots`](crate::reads::snapshots) tells the story.
//!
//! Apart from the rest so that loom can explore it: no store here.

use highwater_core::Timestamp;
use highwater_core::sync::{AtomicU64, Ordering, fence};

use crate::hooks;

/// `timestamp << 1 | pinning`, on cache lines of its own: appliers load it for every entry.
///
/// Invariant: every bound that an applier was given is at or below the timestamp.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Horizon(AtomicU64);

/// A snapshot is being pinned at or above the horizon, which stands still.
const PINNING: u64 = 1;

impl Horizon {
    /// How far an applier that wants to go to `wanted` may go now.
    #[inline]
    pub fn admit(&self, wanted: Timestamp) -> Timestamp {
        // Acquire; pairs with the Release in `release`: who may pass a pin sees it. The exchanges in between carry it on.
        let mut horizon = self.0.load(Ordering::Acquire);
        loop {
            if horizon >> 1 >= wanted.0 {
                return wanted;
            }
            if horizon & PINNING != 0 && !hooks::overtakes_pins() {
                return Timestamp(horizon >> 1);
            }
            let raised = wanted.0 << 1;
            match self.0.compare_exchange_weak(horizon, raised, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return wanted,
                Err(now) => horizon = now,
            }
        }
    }

    /// Makes the horizon stand still, and says where. One caller at a time.
    pub fn hold(&self) -> Timestamp {
        let horizon = self.0.fetch_or(PINNING, Ordering::AcqRel);
        assert_eq!(horizon & PINNING, 0, "one snapshot is pinned at a time");
        Timestamp(horizon >> 1)
    }

    /// Lets it grow again, from `at` on, where a snapshot is pinned.
    pub fn release(&self, at: Timestamp) {
        self.0.store(at.0 << 1, Ordering::Release);
    }
}

/// Names a stretch of time in which only appliers wrote to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life(u64);

/// Counts those stretches.
#[derive(Debug, Default)]
pub struct Lives(AtomicU64);

impl Lives {
    /// The present one. To be asked before looking at what would forbid to read.
    pub fn present(&self) -> Life {
        // Acquire; pairs with the Release in `end`.
        Life(self.0.load(Ordering::Acquire))
    }

    /// Ends the present one. To be called after what forbids to read is visible, and before the first write.
    pub fn end(&self) {
        // Release; pairs with the Acquires in `present` and `lasts`.
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether a life goes on. To be asked after reading: if so, no foreign write was read.
    pub fn lasts(&self, life: Life) -> bool {
        // What the reader saw of a foreign write it saw by an Acquire; the life was ended before that write.
        fence(Ordering::Acquire);
        self.present() == life
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn nobody_passes_a_snapshot_while_it_is_pinned() {
        let horizon = Horizon::default();
        assert_eq!(horizon.admit(Timestamp(10)), Timestamp(10));
        assert_eq!(horizon.hold(), Timestamp(10), "what was given is given");
        assert_eq!(horizon.admit(Timestamp(11)), Timestamp(10), "makes do with what it has");
        assert_eq!(horizon.admit(Timestamp(9)), Timestamp(9));
        horizon.release(Timestamp(12));
        assert_eq!(horizon.admit(Timestamp(11)), Timestamp(11));
        assert_eq!(horizon.admit(Timestamp(13)), Timestamp(13));
        assert_eq!(horizon.hold(), Timestamp(13));
    }
}
