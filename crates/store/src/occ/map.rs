//! Finds things by hash: open addressing, emptied in O(1) by a new stamp.

/// Slots of an empty map.
const SMALL: usize = 256;
/// A map that a large transaction blew up beyond so many slots starts small again: a small transaction's lookups would
/// each miss the cache in a large one.
const KEPT: usize = 4096;

/// Positions in a list that belongs to the caller, by the hash of what stands there.
///
/// A slot may name a position where something else stands by now: whoever looks compares.
pub(super) struct Map {
    slots: Box<[Slot]>,
    /// Slots with another stamp are empty.
    stamp: u32,
    used: usize,
    /// Slots looked at, ever.
    #[cfg(test)]
    pub visits: std::cell::Cell<u64>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    hash: u64,
    stamp: u32,
    at: u32,
}

impl Map {
    pub fn new() -> Map {
        Map {
            slots: vec![Slot::default(); SMALL].into(),
            stamp: 1,
            used: 0,
            #[cfg(test)]
            visits: Default::default(),
        }
    }

    #[inline]
    pub fn clear(&mut self) {
        self.used = 0;
        self.stamp = self.stamp.wrapping_add(1);
        if self.stamp == 0 || self.slots.len() > KEPT {
            self.reset();
        }
    }

    #[cold]
    fn reset(&mut self) {
        let slots = self.slots.len();
        self.slots = vec![Slot::default(); if slots > KEPT { SMALL } else { slots }].into();
        self.stamp = 1;
    }

    /// The position of this hash that `matches`.
    #[inline]
    pub fn find(&self, hash: u64, matches: impl Fn(usize) -> bool) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 20) as usize & mask;
        loop {
            #[cfg(test)]
            self.visits.set(self.visits.get() + 1);
            let slot = &self.slots[at];
            if slot.stamp != self.stamp {
                return None;
            }
            if slot.hash == hash && matches(slot.at as usize) {
                return Some(slot.at as usize);
            }
            at = (at + 1) & mask;
        }
    }

    #[inline]
    pub fn add(&mut self, hash: u64, at: usize) {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        self.used += 1;
        self.put(Slot { hash, stamp: self.stamp, at: at as u32 });
    }

    /// The same unless a position of this hash `matches`; whether it was added. Goes through the slots once.
    #[inline]
    pub fn add_unless(&mut self, hash: u64, at: usize, matches: impl Fn(usize) -> bool) -> bool {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut place = (hash >> 20) as usize & mask;
        loop {
            #[cfg(test)]
            self.visits.set(self.visits.get() + 1);
            let slot = &mut self.slots[place];
            if slot.stamp != self.stamp {
                *slot = Slot { hash, stamp: self.stamp, at: at as u32 };
                self.used += 1;
                return true;
            }
            if slot.hash == hash && matches(slot.at as usize) {
                return false;
            }
            place = (place + 1) & mask;
        }
    }

    /// Makes room for so many more, so that adding them moves nothing.
    pub fn reserve(&mut self, more: usize) {
        while (self.used + more) * 2 >= self.slots.len() {
            self.grow();
        }
    }

    #[inline]
    fn put(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = (slot.hash >> 20) as usize & mask;
        while self.slots[at].stamp == self.stamp {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![Slot::default(); self.slots.len() * 2].into();
        let old = std::mem::replace(&mut self.slots, larger);
        for slot in old {
            if slot.stamp == self.stamp {
                self.put(slot);
            }
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_added_again() {
        let mut map = Map::new();
        // Some hashes share slots, some are the same and mean other things, and the map grows on the way.
        let things: Vec<(u64, u8)> = (0..2000u64).map(|n| ((n / 3) << 18, (n % 3) as u8)).collect();
        let mut held = Vec::new();
        for round in 0..2 {
            for thing in &things {
                let same = |at: usize| held[at] == *thing;
                assert_eq!(map.add_unless(thing.0, held.len(), same), round == 0);
                if round == 0 {
                    held.push(*thing);
                }
            }
        }
        for (at, thing) in things.iter().enumerate() {
            assert_eq!(map.find(thing.0, |at| held[at] == *thing), Some(at));
        }
    }

    #[test]
    fn a_map_that_was_blown_up_is_small_again_and_finds_nothing_old() {
        let mut map = Map::new();
        for round in 0..3 {
            for at in 0..10_000 {
                let hash = (at as u64 + round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                assert_eq!(map.find(hash, |_| true), None);
                map.add(hash, at);
                assert_eq!(map.find(hash, |found| found == at), Some(at));
            }
            map.clear();
            assert_eq!(map.slots.len(), SMALL);
        }
    }
}
