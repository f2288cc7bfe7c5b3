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

use std::sync::OnceLock;

use crate::sync::{AtomicU64, Ordering, Padded, fence};

/// The slot is free for a new participant.
const FREE: u64 = 0;
/// The participant holds no pointers.
const UNPINNED: u64 = 1;
/// The first generation; above the two marks.
const FIRST: u64 = 2;
/// The participant keeps no before-images.
const NO_IMAGES: u64 = u64::MAX;

/// How often the room for participants may double.
const DOUBLINGS: usize = 12;

/// What one participant tells the others. Written by its owner only.
#[derive(Debug)]
struct Slot {
    /// [`FREE`], [`UNPINNED`], or the generation in which its owner pinned.
    pinned: AtomicU64,
    /// The owner keeps before-images of transactions above this timestamp only.
    images_above: AtomicU64,
}

type Slots = Box<[Padded<Slot>]>;

fn slots(count: usize) -> Slots {
    let slot = |_| Slot { pinned: AtomicU64::new(FREE), images_above: AtomicU64::new(NO_IMAGES) };
    (0..count).map(slot).map(Padded).collect()
}

/// The participants and the generation of one store.
#[derive(Debug)]
pub struct Guards {
    generation: Padded<AtomicU64>,
    first: Slots,
    /// More room, made when it is needed: each as large as all before it. So any number of workers can take part.
    more: [OnceLock<Slots>; DOUBLINGS],
}

impl Guards {
    /// Room for `participants` at a time; if more join, the room grows.
    pub fn new(participants: usize) -> Guards {
        Guards {
            generation: Padded(AtomicU64::new(FIRST)),
            first: slots(participants),
            more: [const { OnceLock::new() }; DOUBLINGS],
        }
    }

    /// Takes a slot for a participant.
    ///
    /// # Panics
    /// If there are 4096 times as many as there was room for at first: somebody joins and never leaves.
    pub fn join(&self) -> usize {
        let taken = |slots: &Slots| {
            slots.iter().position(|slot| {
                // Acquire; pairs with the Release in `leave`.
                slot.pinned.compare_exchange(FREE, UNPINNED, Ordering::Acquire, Ordering::Relaxed).is_ok()
            })
        };
        let mut before = 0;
        let mut room = self.first.len();
        if let Some(slot) = taken(&self.first) {
            return slot;
        }
        for more in &self.more {
            before += room;
            room = before;
            // Whoever pins in new room does so behind the fence of `pin`: a collector that does not see the room yet
            // stamped before that fence, and the pin finds nothing that it unlinked (the module's second case).
            if let Some(slot) = taken(more.get_or_init(|| slots(room))) {
                return before + slot;
            }
        }
        panic!("participants join a store and never leave it");
    }

    #[inline]
    fn slot(&self, slot: usize) -> &Slot {
        match self.first.get(slot) {
            Some(slot) => slot,
            None => self.far_slot(slot),
        }
    }

    #[cold]
    fn far_slot(&self, slot: usize) -> &Slot {
        let doubling = (slot / self.first.len()).ilog2() as usize;
        let before = self.first.len() << doubling;
        &self.more[doubling].get().expect("the slot was taken when the room was there")[slot - before]
    }

    fn all(&self) -> impl Iterator<Item = &Slot> {
        let more = self.more.iter().map_while(OnceLock::get);
        std::iter::once(&self.first).chain(more).flat_map(|slots| slots.iter().map(|slot| &slot.0))
    }

    /// Gives the slot back.
    pub fn leave(&self, slot: usize) {
        // Relaxed: whoever unlinks looks again under the record's lock; see `images_above`.
        self.slot(slot).images_above.store(NO_IMAGES, Ordering::Relaxed);
        // Release; pairs with the Acquires in `join` and `safe`.
        self.slot(slot).pinned.store(FREE, Ordering::Release);
    }

    /// From here on, what this participant finds stays valid.
    #[inline]
    pub fn pin(&self, slot: usize) {
        let generation = self.generation.load(Ordering::Relaxed);
        // Release; pairs with the Acquire in `safe`: whoever sees that we are pinned anew knows that our reads under the
        // pin before are over. (Found by loom.)
        self.slot(slot).pinned.store(generation, Ordering::Release);
        // Pairs with the fence in `stamp`; see the module's proof.
        fence(Ordering::SeqCst);
    }

    /// This participant holds no pointers any more.
    #[inline]
    pub fn unpin(&self, slot: usize) {
        // Release; pairs with the Acquire in `safe`: our reads are over before the memory is used again.
        self.slot(slot).pinned.store(UNPINNED, Ordering::Release);
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
        for slot in self.all() {
            // Acquire; pairs with the Releases in `pin`, `unpin` and `leave`.
            let pinned = slot.pinned.load(Ordering::Acquire);
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

    /// This participant keeps before-images of transactions above `ts` only; or none, if `ts` is `None`.
    ///
    /// Told before a record that an image is of is unlocked, so that who finds what the transaction wrote knows of the
    /// image, too.
    #[inline]
    pub fn keep_images_above(&self, slot: usize, ts: Option<u64>) {
        // Relaxed: the record's lock, or whatever tells others of its tombstone, carries it along.
        self.slot(slot).images_above.store(ts.unwrap_or(NO_IMAGES), Ordering::Relaxed);
    }

    /// No participant keeps a before-image of a transaction at or below the result.
    pub fn no_images_up_to(&self) -> u64 {
        self.all().map(|slot| slot.images_above.load(Ordering::Relaxed)).min().unwrap_or(NO_IMAGES)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_room_for_participants_grows() {
        let guards = Guards::new(2);
        let slots: Vec<usize> = (0..1000).map(|_| guards.join()).collect();
        assert!(slots.iter().enumerate().all(|(at, slot)| at == *slot));
        for (at, slot) in slots.iter().enumerate() {
            assert_eq!(guards.safe(), u64::MAX);
            assert_eq!(guards.no_images_up_to(), u64::MAX);
            guards.pin(*slot);
            guards.keep_images_above(*slot, Some(at as u64));
            assert_eq!(guards.safe(), FIRST, "slot {slot} is looked at");
            assert_eq!(guards.no_images_up_to(), at as u64);
            guards.unpin(*slot);
            guards.keep_images_above(*slot, None);
        }
        guards.leave(700);
        assert_eq!(guards.join(), 700);
    }
}
