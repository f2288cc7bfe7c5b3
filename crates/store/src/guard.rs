//! Guards: when may memory that others might still be reading be used again?
//!
//! A reader *pins* before it follows pointers and unpins when it has dropped them all. Whoever unlinks something
//! *stamps* it with the current generation afterwards and frees it once every pinned reader pinned in a later one.
//!
//! Why that is enough. A pin stores the generation it read, then fences; a stamp fences, then reads the generation.
//! - A reader pinned at `p > stamp` read a generation that the stamping thread did not see yet. So its fence comes
//!   after the stamp's fence, and what it reads afterwards shows the unlinking: it cannot find the thing.
//! - A reader pinned at `p <= stamp` is seen by [`Guards::safe`], or else its fence comes after the stamp's, which comes
//!   after the unlinking: again it cannot find the thing.
//!
//! A pin costs one store and one fence; nothing is shared but the generation, which moves rarely.

use crate::sync::{AtomicU64, Ordering, Padded, fence};

/// The slot is free for a new participant.
const FREE: u64 = 0;
/// The participant holds no pointers.
const UNPINNED: u64 = 1;
/// The first generation; above the two marks.
const FIRST: u64 = 2;

/// The participants and the generation of one store.
#[derive(Debug)]
pub struct Guards {
    generation: Padded<AtomicU64>,
    /// [`FREE`], [`UNPINNED`], or the generation in which its owner pinned. Written by its owner only.
    slots: Box<[Padded<AtomicU64>]>,
}

impl Guards {
    /// Room for `participants` at a time.
    pub fn new(participants: usize) -> Guards {
        Guards {
            generation: Padded(AtomicU64::new(FIRST)),
            slots: (0..participants).map(|_| Padded(AtomicU64::new(FREE))).collect(),
        }
    }

    /// Takes a slot for a participant.
    ///
    /// # Panics
    /// If all slots are taken: the number of participants is a configuration error, not a load.
    pub fn join(&self) -> usize {
        self.slots
            .iter()
            .position(|slot| {
                // Acquire; pairs with the Release in `leave`.
                slot.compare_exchange(FREE, UNPINNED, Ordering::Acquire, Ordering::Relaxed).is_ok()
            })
            .expect("a store has at most as many participants as guard slots")
    }

    /// Gives the slot back.
    pub fn leave(&self, slot: usize) {
        // Release; pairs with the Acquires in `join` and `safe`.
        self.slots[slot].store(FREE, Ordering::Release);
    }

    /// From here on, what this participant finds stays valid.
    #[inline]
    pub fn pin(&self, slot: usize) {
        let generation = self.generation.load(Ordering::Relaxed);
        // Release; pairs with the Acquire in `safe`: whoever sees that we are pinned anew knows that our reads under the
        // pin before are over. (Found by loom.)
        self.slots[slot].store(generation, Ordering::Release);
        // Pairs with the fence in `stamp`; see the module's proof.
        fence(Ordering::SeqCst);
    }

    /// This participant holds no pointers any more.
    #[inline]
    pub fn unpin(&self, slot: usize) {
        // Release; pairs with the Acquire in `safe`: our reads are over before the memory is used again.
        self.slots[slot].store(UNPINNED, Ordering::Release);
    }

    /// The generation for things that this thread has just unlinked.
    #[inline]
    pub fn stamp(&self) -> u64 {
        // Pairs with the fence in `pin`; see the module's proof.
        fence(Ordering::SeqCst);
        self.generation.load(Ordering::Relaxed)
    }

    /// Things stamped below the result may be freed, by the thread that stamped them. (The fence in `stamp` orders the
    /// looks at the slots here.)
    pub fn safe(&self) -> u64 {
        let mut safe = u64::MAX;
        for slot in &self.slots {
            // Acquire; pairs with the Releases in `pin`, `unpin` and `leave`.
            let pinned = slot.load(Ordering::Acquire);
            if pinned >= FIRST {
                safe = safe.min(pinned);
            }
        }
        safe
    }

    /// Moves the generation on from `stamp`, so that later pins no longer hold up what was stamped with it.
    pub fn advance(&self, stamp: u64) {
        // Relaxed: the fences around it do the work. A failure means that somebody else moved it.
        let _ = self.generation.compare_exchange(stamp, stamp + 1, Ordering::Relaxed, Ordering::Relaxed);
    }
}
