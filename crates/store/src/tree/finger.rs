//! Fingers: a worker's hints where in a table it was lately, so that runs of consecutive keys avoid descents.
//!
//! A finger is a leaf and the range of keys that it covered. TPC-C's order lines grow at ten places for each warehouse,
//! and are delivered at ten others: so there are more fingers than that for each table. The ranges are compared without
//! touching any node; only the node that is found must confirm.
//!
//! Fingers outlive guards: a leaf may have been reclaimed and be part of another tree by now. Nodes are type-stable
//! (see `node`), so the leaf itself tells.

use super::node::Node;
use crate::index::Way;
use crate::keys::Keys;
use crate::sync::prefetch;

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
    /// The last key that somebody began to look for step by step.
    sought: u64,
    /// The last key in the leaf where it probably is, if that is known.
    run_end: u64,
    /// The place in its leaf behind the one where a key was written last.
    place: usize,
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
            run_end: u64::MAX,
            place: 0,
            record_bytes: 0,
        }
    }
}

impl Fingers {
    /// The finger whose range has the key.
    #[inline]
    pub(super) fn position<K: Keys>(&self, key: K::Key<'_>) -> Option<usize> {
        let head = K::head(key, 0);
        if self.has(self.recent, head) {
            return Some(self.recent);
        }
        // Heads of byte strings may be alike in all leaves: only the most recent one is worth a try.
        if K::EXACT { self.search(head) } else { None }
    }

    #[inline]
    fn has(&self, at: usize, head: u64) -> bool {
        head.wrapping_sub(self.first[at]) <= self.span[at]
    }

    #[inline(never)]
    fn search(&self, head: u64) -> Option<usize> {
        (0..FINGERS).find(|&at| self.has(at, head))
    }

    /// The beginning of a lookup that goes on in turn with others, unless that is the root.
    #[inline]
    pub(super) fn begin<K: Keys>(&mut self, key: K::Key<'_>) -> Option<Way> {
        let head = K::head(key, 0);
        let before = std::mem::replace(&mut self.sought, head);
        // Whoever is on the way to the key in front of this one leaves a finger on their leaf in time.
        if K::EXACT && head == before.wrapping_add(1) && head <= self.run_end {
            return Some(Way::Nowhere);
        }
        let at = self.position::<K>(key);
        self.run_end = at.map_or(u64::MAX, |at| self.first[at].wrapping_add(self.span[at]));
        // Most likely the key is the next of those that were added there lately: nothing is looked for.
        at.map(|at| {
            prefetch(self.leaves[at]);
            Way::Finger(at)
        })
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

    /// A key was written in this place of its leaf: the next one of a run comes behind it.
    #[inline]
    pub(super) fn wrote(&mut self, place: usize) {
        self.place = place + 1;
    }

    /// Where in its leaf a key is if it is the next of a run.
    #[inline]
    pub(super) fn next_place(&self) -> usize {
        self.place
    }

    /// The leaf under a finger; null if there never was one.
    #[inline]
    pub(super) fn leaf(&self, at: usize) -> *const Node {
        self.leaves[at]
    }

    /// For a lookup that came this way: its finger is tried first.
    #[inline]
    pub fn follow(&mut self, way: Way) {
        if let Way::Finger(at) = way {
            self.recent = at;
        }
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
