//! The way down: the tree, a step from a node to its child, and what starts again when somebody is in the way.

use std::marker::PhantomData;
use std::ptr::NonNull;

use highwater_core::Direction;

use super::finger::Fingers;
use super::node::{self, LOCKED, Node, OBSOLETE, Restart};
use crate::heap::Heap;
use crate::index::{Found, Way};
use crate::keys::{Kept, Keys};
use crate::record::Record;
use crate::sync::{AtomicPtr, Backoff, Ordering};

/// An ordered index from keys of kind `K` to records.
pub(crate) struct Tree<K> {
    pub(super) root: AtomicPtr<Node>,
    /// Different for each tree of the process's life; see `node`.
    pub(super) id: u64,
    keys: PhantomData<fn(K)>,
}

/// A node on the way down, at a version.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub node: &'a Node,
    pub version: u64,
    /// Which child of its parent it is.
    pub at: usize,
}

/// A descent whose steps are taken in turn with those of others. It stands in front of a node that was asked for and is not looked at before its
/// next step. Only a hint: the node was the right one when its parent was looked at, and may have been split since. The caller stays pinned from
/// the first step to the last, so a node that is not obsolete is still what it was.
#[derive(Clone, Copy)]
pub(crate) struct Descent {
    node: NonNull<Node>,
    level: u8,
}

impl Descent {
    #[inline]
    fn before(node: &Node, level: u8) -> Descent {
        Descent { node: NonNull::from(node), level }
    }

    #[inline]
    fn node<'a>(&self) -> &'a Node {
        // SAFETY: nodes live as long as the store, whose tree the caller borrows.
        unsafe { self.node.as_ref() }
    }

    /// Whether it stands in front of a leaf.
    #[inline]
    pub(crate) fn at_leaf(&self) -> bool {
        self.level == 0
    }
}

impl<K: Keys> Tree<K> {
    pub fn new(id: u64, heap: &mut Heap) -> Tree<K> {
        let root = Node::create::<K>(id, 0, Kept::NONE, Kept::NONE, heap);
        root.unlock(true);
        Tree { root: AtomicPtr::new(root.as_ptr()), id, keys: PhantomData }
    }

    /// The root at a version.
    #[inline]
    pub(super) fn root(&self) -> Result<Step<'_>, Restart> {
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
    pub(super) fn step<'a>(&'a self, parent: Step<'a>, seek: Seek<K::Key<'_>>) -> Result<Step<'a>, Restart> {
        let at = match seek {
            Seek::At(key) => parent.node.find_child::<K>(key, false)?,
            Seek::Below(key) => parent.node.find_child::<K>(key, true)?,
            Seek::First => 0,
            Seek::Last => parent.node.info().count.min(node::INNER_KEYS),
        };
        let child = parent.node.child(at).ok_or(Restart)?;
        let level = parent.node.info().level.saturating_sub(1);
        match seek {
            Seek::At(key) => parent.node.prefetch_child::<K>(at, child, level, key),
            _ => Node::prefetch_for_search(child, level),
        }
        parent.node.check(parent.version)?;
        let version = child.stable()?;
        parent.node.check(parent.version)?;
        Ok(Step { node: child, version, at })
    }

    /// The leaf that `seek` leads to.
    #[inline]
    pub(super) fn descend(&self, seek: Seek<K::Key<'_>>) -> Result<Step<'_>, Restart> {
        let mut step = self.root()?;
        while step.node.info().level > 0 {
            step = self.step(step, seek)?;
        }
        Ok(step)
    }

    /// As [`Tree::descend`], and the leaf's neighbour in this direction under the same parent, if it has one: where a scan is likely to go on. Only a hint.
    pub(super) fn descend_beside(
        &self,
        seek: Seek<K::Key<'_>>,
        direction: Direction,
    ) -> Result<(Step<'_>, Option<&Node>), Restart> {
        let (mut step, mut neighbour) = (self.root()?, None);
        while step.node.info().level > 0 {
            let parent = step.node;
            step = self.step(step, seek)?;
            let beside = match direction {
                Direction::Forward => Some(step.at + 1).filter(|&at| at <= node::INNER_KEYS),
                Direction::Backward => step.at.checked_sub(1),
            };
            neighbour = beside.and_then(|at| parent.child(at));
        }
        Ok((step, neighbour))
    }

    /// The leaf of the key, from the worker's fingers if one is right.
    #[inline(always)]
    pub(super) fn leaf_of(&self, key: K::Key<'_>, fingers: &mut Fingers) -> Result<Step<'_>, Restart> {
        if let Some(step) = self.finger(key, fingers) {
            return Ok(step);
        }
        self.descend_with_finger(key, fingers)
    }

    /// The leaf of the key, from the root; leaves a finger there.
    #[inline(never)]
    fn descend_with_finger(&self, key: K::Key<'_>, fingers: &mut Fingers) -> Result<Step<'_>, Restart> {
        let step = self.descend(Seek::At(key))?;
        fingers.put::<K>(step.node);
        Ok(step)
    }

    #[inline]
    pub(super) fn try_find(&self, key: K::Key<'_>, fingers: &mut Fingers) -> Result<Found, Restart> {
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

impl<K: Keys> Tree<K> {
    /// The leaf under a finger, if it is a leaf of this tree that covers the key.
    ///
    /// A node that is not obsolete now, under our guard, stays what it is while we look.
    #[inline]
    fn finger(&self, key: K::Key<'_>, fingers: &mut Fingers) -> Option<Step<'_>> {
        let at = fingers.position::<K>(key)?;
        let step = self.confirm(key, fingers.leaf(at));
        fingers.judge(at, step.is_some());
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

    /// The beginning of a lookup that goes on in turn with others: from a finger, or from the root.
    #[inline]
    pub(super) fn begin(&self, key: K::Key<'_>, fingers: Option<&mut Fingers>) -> Way {
        if let Some(way) = fingers.and_then(|fingers| fingers.begin::<K>(key)) {
            return way;
        }
        match self.root() {
            Ok(Step { node, .. }) => Way::Down(Descent::before(node, node.info().level)),
            Err(Restart) => Way::Nowhere,
        }
    }

    /// A level down, to a node that is asked for.
    #[inline(always)]
    pub(super) fn descend_once(&self, descent: Descent, key: K::Key<'_>) -> Option<Descent> {
        let node = descent.node();
        let version = node.stable().ok()?;
        let at = node.find_child::<K>(key, false).ok()?;
        let child = node.child(at)?;
        node.check(version).ok()?;
        let level = descent.level - 1;
        node.prefetch_child::<K>(at, child, level, key);
        Some(Descent::before(child, level))
    }

    /// The key's record, from its leaf. A finger stays, so that whoever inserts the key next, or comes for its neighbours, need not descend; but not
    /// among rows that are numbered, which are updated here and there.
    #[inline]
    pub(super) fn look_in(&self, way: Way, key: K::Key<'_>, fingers: &mut Fingers) -> Option<Record> {
        let Way::Down(descent) = way else { return None };
        let leaf = descent.node();
        let version = leaf.stable().ok()?;
        let (at, exact) = leaf.find_slot::<K>(key).ok()?;
        let record = exact.then(|| leaf.record(at)).flatten();
        if record.is_none() || leaf.place_in_full_range::<K>(key).is_none() {
            fingers.put::<K>(leaf);
        }
        leaf.check(version).ok()?;
        record
    }
}

/// Where a descent goes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seek<Key> {
    /// The leaf that covers the key.
    At(Key),
    /// The leaf that covers the largest keys below.
    Below(Key),
    First,
    Last,
}

/// Tries until nobody is in the way.
#[inline]
pub(super) fn until_undisturbed<T>(mut attempt: impl FnMut() -> Result<T, Restart>) -> T {
    let mut backoff = Backoff::default();
    loop {
        match attempt() {
            Ok(result) => return result,
            Err(Restart) => backoff.wait(),
        }
    }
}
