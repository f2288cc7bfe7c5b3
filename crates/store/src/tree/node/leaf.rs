//! What leaves do: records in slots, in the order of their keys. Results of searches are hints until the version is
//! checked.

use std::ptr::NonNull;

use super::{FRONT, LEAF_KEYS, LeafBody, Node, Restart};
use crate::keys::Keys;
use crate::record::Record;
use crate::sync::{Ordering, prefetch};

impl Node {
    /// The record of a slot; `None` if a racing writer has just emptied it.
    #[inline]
    pub fn record(&self, at: usize) -> Option<Record> {
        // Acquire; pairs with the Release in `set_slot`: the record's key is there.
        let record = NonNull::new(self.leaf().records[at].load(Ordering::Acquire))?;
        // SAFETY: leaves hold records that were in the index after the caller's guard was pinned.
        Some(unsafe { Record::from_ptr(record) })
    }

    /// The record of a slot below the count. The caller holds the lock, so the slot is filled.
    #[inline]
    pub fn locked_record(&self, at: usize) -> Record {
        self.record(at).expect("slots below the count are filled")
    }

    pub fn set_slot(&self, at: usize, head: u64, record: Record) {
        self.leaf().heads[at].store(head, Ordering::Relaxed);
        // Release; pairs with the Acquire in `record`.
        self.leaf().records[at].store(record.as_ptr(), Ordering::Release);
    }

    /// Moves the records from position `from` on to the empty leaf `right`. The caller holds both locks.
    pub fn move_slots<K: Keys>(&self, from: usize, right: &Node) {
        let (count, skip) = (self.info().count, right.info().skip);
        for at in from..count {
            let record = self.locked_record(at);
            right.set_slot(at - from, K::head(K::stored(&record), skip), record);
            self.leaf().records[at].store(std::ptr::null_mut(), Ordering::Relaxed);
        }
        right.set_count(count - from);
        self.set_count(from);
    }

    /// Makes room for, or closes, a slot: moves `from..count` by one.
    fn shift_slots(&self, from: usize, count: usize, up: bool) {
        let body = self.leaf();
        let copy = |from: usize, to: usize| {
            body.heads[to].store(body.heads[from].load(Ordering::Relaxed), Ordering::Relaxed);
            // Release; pairs with the Acquire in `record`.
            body.records[to].store(body.records[from].load(Ordering::Relaxed), Ordering::Release);
        };
        if up {
            (from..count).rev().for_each(|at| copy(at, at + 1));
        } else {
            (from..count).for_each(|at| copy(at, at - 1));
        }
    }

    /// Puts a record in position `at`. The caller holds the lock and has checked that there is room.
    pub fn insert_slot<K: Keys>(&self, at: usize, record: Record) {
        let info = self.info();
        self.shift_slots(at, info.count, true);
        self.set_slot(at, K::head(K::stored(&record), info.skip), record);
        self.set_count(info.count + 1);
        self.set_hint(at);
    }

    /// Takes the record in position `at` out. The caller holds the lock.
    pub fn remove_slot(&self, at: usize) {
        let count = self.info().count;
        self.shift_slots(at + 1, count, false);
        self.leaf().records[count - 1].store(std::ptr::null_mut(), Ordering::Relaxed);
        self.set_count(count - 1);
    }

    /// Position of the first key not below `key`, and whether it is `key`.
    #[inline]
    pub fn find_slot<K: Keys>(&self, key: K::Key<'_>) -> Result<(usize, bool), Restart> {
        let info = self.info();
        let count = info.count.min(LEAF_KEYS);
        let (heads, head) = (&self.leaf().heads, K::head(key, info.skip));
        if let Some(at) = self.place_in_full_range::<K>(key)
            && at < count
            && heads[at].load(Ordering::Relaxed) == head
        {
            return Ok((at, true));
        }
        let mut at = Self::heads_below(heads, count, head);
        while at < count && heads[at].load(Ordering::Relaxed) == head {
            if K::EXACT {
                return Ok((at, true));
            }
            let record = self.record(at).ok_or(Restart)?;
            match K::compare(K::stored(&record), key) {
                std::cmp::Ordering::Less => at += 1,
                std::cmp::Ordering::Equal => return Ok((at, true)),
                std::cmp::Ordering::Greater => break,
            }
        }
        Ok((at, false))
    }

    /// Where the key is if every integer between the fences is here; a guess that is looked at in any case. Rows that are numbered and never
    /// deleted make such leaves.
    #[inline]
    pub fn place_in_full_range<K: Keys>(&self, key: K::Key<'_>) -> Option<usize> {
        let low = self.low.word.load(Ordering::Relaxed);
        if K::EXACT { place(low, self.high.word.load(Ordering::Relaxed), K::head(key, 0)) } else { None }
    }

    /// As [`Node::prefetch_for_search`] for a leaf that holds the integers in `low..high`: where those are so few that the leaf has room for
    /// all, it is likely to have them all, and then only three of its lines matter.
    #[inline]
    pub fn prefetch_for_key(this: *const Node, low: u64, high: u64, key: u64) {
        let Some(at) = place(low, high, key) else { return Node::prefetch_for_search(this, 0) };
        let line = |offset: usize| prefetch(this.cast::<u8>().wrapping_add(offset));
        line(0);
        line(FRONT + std::mem::offset_of!(LeafBody, heads) + at * size_of::<u64>());
        line(FRONT + std::mem::offset_of!(LeafBody, records) + at * size_of::<u64>());
    }

    /// As [`Node::find_slot`], with two guesses first, as keys that come in order are there: that the key is in the `next` place; or that
    /// it comes right behind the one that was inserted last.
    #[inline]
    pub fn find_slot_in_run<K: Keys>(&self, key: K::Key<'_>, next: usize) -> Result<(usize, bool), Restart> {
        if !K::EXACT {
            return self.find_slot::<K>(key);
        }
        let count = self.info().count.min(LEAF_KEYS);
        let (heads, head) = (&self.leaf().heads, K::head(key, 0));
        if next < count && heads[next].load(Ordering::Relaxed) == head {
            return Ok((next, true));
        }
        let next = self.hint() + 1;
        if next <= count {
            let behind = heads[next - 1].load(Ordering::Relaxed) < head;
            if behind && (next == count || head < heads[next].load(Ordering::Relaxed)) {
                return Ok((next, false));
            }
        }
        self.find_slot::<K>(key)
    }
}

/// The place of `key` among the integers in `low..high`, if those are so few that a leaf may hold them all.
#[inline]
fn place(low: u64, high: u64, key: u64) -> Option<usize> {
    let (at, all) = (key.wrapping_sub(low), high.wrapping_sub(low));
    (at < all && all <= LEAF_KEYS as u64).then_some(at as usize)
}
