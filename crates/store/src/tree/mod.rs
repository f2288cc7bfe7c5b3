//! The ordered index: a B+-tree with optimistic lock coupling.
//!
//! Readers descend without locks: they read a node's version, find the child, check the version, and start again from
//! the root if it moved. Writers lock the leaf they change, and its parent too when they split or remove it; inner
//! nodes that are full are split on the way down, so that a split never climbs. A writer that fails to get a lock lets
//! go of all it has and starts again: no deadlock.
//!
//! A leaf's version is its phantom protection: every key that comes or goes changes it, and so does every change of
//! its fences. There are no links between leaves: a scan goes on from a leaf's fence, through the cached parent where
//! that has not changed. As fences tile the key space, and change only together with versions, a scan whose leaves are
//! all unchanged has seen every key in its range.
//!
//! A leaf that loses its last key is merged into a neighbour under the same parent; an inner node that is left with one
//! child gives it to a neighbour. So a queue (insert at the right, delete at the left) does not leak.

mod descent;
mod finger;
mod insert;
mod node;
mod remove;
mod scan;

use self::descent::until_undisturbed;
pub(crate) use self::descent::{Descent, Tree};
pub(crate) use self::finger::Fingers;
pub(crate) use self::scan::{LeafCopy, Resume};
use crate::heap::Heap;
use crate::index::{Found, Index, NodeSet, Way};
use crate::keys::Keys;
use crate::record::Record;
use crate::word::Busy;

impl<K: Keys> Index for Tree<K> {
    type Keys = K;

    #[inline]
    fn find(&self, key: K::Key<'_>, _: u64, fingers: &mut Fingers) -> Found {
        until_undisturbed(|| self.try_find(key, fingers))
    }

    fn find_or_add(
        &self,
        key: K::Key<'_>,
        _: u64,
        value_len: usize,
        word: u64,
        fingers: &mut Fingers,
        heap: &mut Heap,
        nodes: &mut impl NodeSet,
    ) -> (Record, bool) {
        until_undisturbed(|| self.try_insert(key, value_len, word, fingers, heap, nodes))
    }

    fn unlink(
        &self,
        key: K::Key<'_>,
        _: u64,
        expected: u64,
        fingers: &mut Fingers,
        heap: &mut Heap,
    ) -> Result<Option<Record>, Busy> {
        let (removed, emptied) = until_undisturbed(|| self.try_unlink(key, expected, fingers, heap));
        if emptied {
            until_undisturbed(|| self.try_prune(key, heap));
        }
        removed
    }

    #[inline]
    fn enter(&self, key: K::Key<'_>, fingers: Option<&mut Fingers>) -> Way {
        self.begin(key, fingers)
    }

    #[inline]
    fn go_on(&self, way: Way, key: K::Key<'_>) -> Way {
        match way {
            Way::Down(descent) if !descent.at_leaf() => {
                self.descend_once(descent, key).map_or(Way::Nowhere, Way::Down)
            }
            way => way,
        }
    }

    #[inline]
    fn peek(&self, mut way: Way, key: K::Key<'_>, fingers: &mut Fingers) -> Option<Record> {
        while way.is_under_way() {
            way = self.go_on(way, key);
        }
        self.look_in(way, key, fingers)
    }
}
