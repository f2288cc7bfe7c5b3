//! Fingers: a worker's hints where in a table it was lately, so that runs of consecutive keys avoid descents.
//!
//! A finger is a leaf and the range of keys that it covered. TPC-C's order lines grow at ten places for each warehouse,
//! and are delivered at ten others: so there are more fingers than that for each table. The ranges are compared without touching any node; the node that is
//! found must confirm.
//!
//! Fingers outlive guards: a leaf may have been reclaimed and be part of another tree by now. Nodes are type-stable
//! (see `node`), so the leaf itself tells.

use super::node::{LOCKED, Node, OBSOLETE, Restart};
use super::{Seek, Step, Tree};
use crate::keys::Keys;
use crate::sync::{Ordering, prefetch};

const FINGERS: usize = 32;

/// A worker's fingers for one table. Pure hints.
#[derive(Clone)]
pub(crate) struct Fingers {
    /// First and last key of the range, for integer keys; else the heads of the fences.
    first: [u64; FINGERS],
    last: [u64; FINGERS],
    leaves: [*const Node; FINGERS],
    /// The one that was right last.
    recent: usize,
    /// The one to be replaced next.
    next: usize,
}

// SAFETY: tree nodes are shared memory that lives as long as the store.
unsafe impl Send for Fingers {}

impl Default for Fingers {
    fn default() -> Fingers {
        Fingers {
            first: [u64::MAX; FINGERS],
            last: [u64::MAX; FINGERS],
            leaves: [std::ptr::null(); FINGERS],
            recent: 0,
            next: 0,
        }
    }
}

impl Fingers {
    /// The finger whose range has the key.
    #[inline]
    fn position<K: Keys>(&self, key: K::Key<'_>) -> Option<usize> {
        let head = K::head(key, 0);
        let has = |&at: &usize| self.first[at] <= head && head <= self.last[at];
        // Heads of byte strings may be alike in all leaves: only the most recent one is worth a try.
        Some(self.recent).filter(has).or_else(|| if K::EXACT { (0..FINGERS).find(has) } else { None })
    }
}

impl<K: Keys> Tree<K> {
    /// The leaf under a finger, if it is a leaf of this tree that covers the key.
    ///
    /// A node that is not obsolete now, under our guard, stays what it is while we look.
    #[inline]
    pub(super) fn finger(&self, key: K::Key<'_>, fingers: &mut Fingers) -> Option<Step<'_>> {
        let at = fingers.position::<K>(key)?;
        let step = self.confirm(key, fingers.leaves[at]);
        // A wrong one is the next to be replaced.
        *(if step.is_some() { &mut fingers.recent } else { &mut fingers.next }) = at;
        step
    }

    /// The leaf, if it is what the finger says.
    #[inline]
    fn confirm(&self, key: K::Key<'_>, leaf: *const Node) -> Option<Step<'_>> {
        // SAFETY: null, or a node of this store, whose memory stays a node for the store's life.
        let node = unsafe { leaf.as_ref() }?;
        // Acquire; pairs with the Release in `unlock`.
        let version = node.version.load(Ordering::Acquire);
        if version & (OBSOLETE | LOCKED) != 0 || node.tree() != self.id || node.info().level != 0 {
            return None;
        }
        let covered = node.covers::<K>(key);
        node.check(version).ok()?;
        covered.then_some(Step { node, version, at: 0 })
    }

    /// Puts a finger on a leaf.
    #[inline]
    pub(super) fn point(&self, leaf: &Node, fingers: &mut Fingers) {
        let (low, high) = (leaf.low(), leaf.high());
        let at = fingers.next % FINGERS;
        fingers.first[at] = K::kept(&low).map_or(0, |low| K::head(low, 0));
        // The key in front of the fence, for integers, whose fences are never 0.
        let behind = u64::from(K::EXACT);
        fingers.last[at] = K::kept(&high).map_or(u64::MAX, |high| K::head(high, 0) - behind);
        fingers.leaves[at] = leaf;
        fingers.recent = at;
        fingers.next = at + 1;
    }

    /// Asks for the leaf of the key: under a finger, or below the lowest inner node.
    #[inline]
    pub(super) fn prefetch_finger(&self, key: K::Key<'_>, fingers: &Fingers) {
        match fingers.position::<K>(key) {
            Some(at) => prefetch(fingers.leaves[at]),
            None => self.prefetch_leaf(key),
        }
    }

    /// Asks for the leaf of the key. Inner nodes are few, and in the cache as a rule; a leaf is not. Whoever is in the way
    /// ends the attempt. The caller is pinned.
    pub(crate) fn prefetch_leaf(&self, key: K::Key<'_>) {
        let Ok(mut step) = self.root() else { return };
        while step.node.info().level > 1 {
            match self.step(step, Seek::At(key)) {
                Ok(next) => step = next,
                Err(Restart) => return,
            }
        }
        if step.node.info().level == 1
            && let Ok(at) = step.node.find_child::<K>(key, false)
            && let Some(leaf) = step.node.child(at)
        {
            leaf.prefetch_for_search();
        }
    }
}
