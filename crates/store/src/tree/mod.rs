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

mod finger;
mod insert;
mod node;
mod remove;
mod scan;

use std::marker::PhantomData;

pub(crate) use self::finger::Fingers;
use self::node::Node;
use self::node::Restart;
use self::scan::Seek;
pub(crate) use self::scan::{LeafCopy, Resume};
use crate::heap::Heap;
use crate::index::{Found, Index, NodeSet};
use crate::keys::{Kept, Keys};
use crate::record::Record;
use crate::sync::{AtomicPtr, Backoff, Ordering};
use crate::word::Busy;

/// An ordered index from keys of kind `K` to records.
pub(crate) struct Tree<K> {
    root: AtomicPtr<Node>,
    /// Different for each tree of the process's life; see `node`.
    id: u64,
    keys: PhantomData<fn(K)>,
}

/// A node on the way down, at a version.
#[derive(Clone, Copy)]
struct Step<'a> {
    node: &'a Node,
    version: u64,
    /// Which child of its parent it is.
    at: usize,
}

impl<K: Keys> Tree<K> {
    pub fn new(id: u64, heap: &mut Heap) -> Tree<K> {
        let root = Node::create::<K>(id, 0, Kept::NONE, Kept::NONE, heap);
        root.unlock(true);
        Tree { root: AtomicPtr::new(root.as_ptr()), id, keys: PhantomData }
    }

    /// The root at a version.
    #[inline]
    fn root(&self) -> Result<Step<'_>, Restart> {
        // SAFETY: nodes live as long as the store. Acquire; pairs with the Release in `grow`.
        let node = unsafe { &*self.root.load(Ordering::Acquire) };
        let version = node.stable()?;
        // It may have become a child meanwhile.
        if std::ptr::eq(self.root.load(Ordering::Acquire), node) {
            Ok(Step { node, version, at: 0 })
        } else {
            Err(Restart)
        }
    }

    /// The child of `parent` that `seek` leads to.
    #[inline]
    fn step<'a>(&'a self, parent: Step<'a>, seek: Seek<K::Key<'_>>) -> Result<Step<'a>, Restart> {
        let at = match seek {
            Seek::At(key) => parent.node.find_child::<K>(key, false)?,
            Seek::Below(key) => parent.node.find_child::<K>(key, true)?,
            Seek::First => 0,
            Seek::Last => parent.node.info().count.min(node::INNER_KEYS),
        };
        let child = parent.node.child(at).ok_or(Restart)?;
        parent.node.check(parent.version)?;
        let version = child.stable()?;
        parent.node.check(parent.version)?;
        Ok(Step { node: child, version, at })
    }

    /// The leaf that `seek` leads to.
    #[inline]
    fn descend(&self, seek: Seek<K::Key<'_>>) -> Result<Step<'_>, Restart> {
        let mut step = self.root()?;
        while step.node.info().level > 0 {
            step = self.step(step, seek)?;
        }
        Ok(step)
    }

    /// The leaf of the key, from the worker's fingers if one is right.
    #[inline]
    fn leaf_of(&self, key: K::Key<'_>, fingers: &mut Fingers) -> Result<Step<'_>, Restart> {
        if let Some(step) = self.finger(key, fingers) {
            return Ok(step);
        }
        let step = self.descend(Seek::At(key))?;
        self.point(step.node, fingers);
        Ok(step)
    }

    #[inline]
    fn try_find(&self, key: K::Key<'_>, fingers: &mut Fingers) -> Result<Found, Restart> {
        let leaf = self.leaf_of(key, fingers)?;
        let (at, exact) = leaf.node.find_slot::<K>(key)?;
        let found = if exact {
            Found::Record(leaf.node.record(at).ok_or(Restart)?)
        } else {
            Found::Absent(leaf.node.seen(leaf.version))
        };
        leaf.node.check(leaf.version)?;
        Ok(found)
    }
}

/// Tries until nobody is in the way.
#[inline]
fn until_undisturbed<T>(mut attempt: impl FnMut() -> Result<T, Restart>) -> T {
    let mut backoff = Backoff::default();
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(Restart) => backoff.wait(),
        }
    }
}

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
    fn prefetch_node(&self, key: K::Key<'_>, fingers: &Fingers) -> u64 {
        self.prefetch_finger(key, fingers);
        0
    }

    fn peek(&self, _: u64) -> Option<Record> {
        None
    }
}
