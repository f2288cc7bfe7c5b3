//! Fingers: a worker's hints where in a table it was lately, so that runs of consecutive keys avoid descents.
//!
//! A finger is a leaf and the range of keys that it covered. TPC-C's order lines grow at ten places for each warehouse,
//! and are delivered at ten others: so there are more fingers than that for each table. The ranges are compared without
//! touching any node; only the node that is found must confirm.
//!
//! Fingers outlive guards: a leaf may have been reclaimed and be part of another tree by now. Nodes are type-stable
//! (see `node`), so the leaf itself tells.

use super::node::Node;
use crate::keys::Keys;

const FINGERS: usize = 32;

/// A worker's fingers for one table. Pure hints.
#[derive(Clone)]
pub(crate) struct Fingers {
    /// The first key of the range, for integer keys; else the head of the lower fence.
    first: [u64; FINGERS],
    /// How far it is from there to the last: one comparison tells whether a key is between the two.
    span: [u64; FINGERS],
    leaves: [*const Node; FINGERS],
    /// The one that was right last.
    recent: usize,
    /// The one to be replaced next.
    next: usize,
    /// The last key that somebody went down for step by step.
    sought: u64,
    /// How many bytes the record had that was read last.
    record_bytes: u32,
}

// SAFETY: tree nodes are shared memory that lives as long as the store.
unsafe impl Send for Fingers {}

impl Default for Fingers {
    fn default() -> Fingers {
        Fingers {
            first: [u64::MAX; FINGERS],
            span: [0; FINGERS],
            leaves: [std::ptr::null(); FINGERS],
            recent: 0,
            next: 0,
            sought: u64::MAX,
            record_bytes: 0,
        }
    }
}

impl Fingers {
    /// The finger whose range has the key.
    #[inline]
    pub(super) fn position<K: Keys>(&self, key: K::Key<'_>) -> Option<usize> {
        let head = K::head(key, 0);
        let has = |&at: &usize| head.wrapping_sub(self.first[at]) <= self.span[at];
        // Heads of byte strings may be alike in all leaves: only the most recent one is worth a try.
        Some(self.recent).filter(has).or_else(|| if K::EXACT { (0..FINGERS).find(has) } else { None })
    }

    /// Somebody is about to go down for this key step by step. Whether it is worth it: if another one is on the way to the key in front of it, its finger
    /// will be there in time.
    #[inline]
    pub(super) fn is_worth_descent<K: Keys>(&mut self, key: K::Key<'_>) -> bool {
        let head = K::head(key, 0);
        let before = std::mem::replace(&mut self.sought, head);
        !K::EXACT || head != before.wrapping_add(1)
    }

    /// A record was read, of so many bytes: the next one is likely to be alike.
    #[inline]
    pub fn saw(&mut self, record_bytes: usize) {
        self.record_bytes = record_bytes as u32;
    }

    /// How many bytes the next record is likely to have.
    #[inline]
    pub fn record_bytes(&self) -> usize {
        self.record_bytes.max(1) as usize
    }

    /// The leaf under a finger; null if there never was one.
    #[inline]
    pub(super) fn leaf(&self, at: usize) -> *const Node {
        self.leaves[at]
    }

    /// The finger was right, and is tried first the next time; or it was wrong, and is the next to be replaced.
    #[inline]
    pub(super) fn judge(&mut self, at: usize, right: bool) {
        *(if right { &mut self.recent } else { &mut self.next }) = at;
    }

    /// Puts a finger on a leaf: the most recent one if it is there already, as for lookups that went down side by side.
    #[inline]
    pub(super) fn put<K: Keys>(&mut self, leaf: &Node) {
        let (low, high) = (leaf.low(), leaf.high());
        let again = std::ptr::eq(self.leaves[self.recent], leaf);
        let at = if again { self.recent } else { self.next % FINGERS };
        self.first[at] = K::kept(&low).map_or(0, |low| K::head(low, 0));
        // The key in front of the fence, for integers, whose fences are never 0.
        let behind = u64::from(K::EXACT);
        let last = K::kept(&high).map_or(u64::MAX, |high| K::head(high, 0) - behind);
        // Of a node that somebody is changing the fences may not belong together; the leaf itself must confirm in any case.
        self.span[at] = last.saturating_sub(self.first[at]);
        self.leaves[at] = leaf;
        self.recent = at;
        if !again {
            self.next = at + 1;
        }
    }
}
