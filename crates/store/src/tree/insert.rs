//! Insertion, and splits on the way down.

use super::descent::{Seek, Step, Tree};
use super::finger::Fingers;
use super::node::{INNER_FULL, LEAF_FULL, Node, Restart};
use crate::heap::Heap;
use crate::index::NodeSet;
use crate::keys::{Kept, Keys};
use crate::record::Record;
use crate::sync::Ordering;

impl<K: Keys> Tree<K> {
    /// One attempt of `find_or_add`.
    #[inline]
    pub(super) fn try_insert(
        &self,
        key: K::Key<'_>,
        value_len: usize,
        word: u64,
        fingers: &mut Fingers,
        heap: &mut Heap,
        nodes: &mut impl NodeSet,
    ) -> Result<(Record, bool), Restart> {
        let Step { node: leaf, version, .. } = self.leaf_of(key, fingers)?;
        let (at, exact) = leaf.find_slot_in_run::<K>(key, fingers.next_place())?;
        fingers.wrote(at);
        if exact {
            let record = leaf.record(at).ok_or(Restart)?;
            leaf.check(version)?;
            return Ok((record, false));
        }
        if leaf.info().count >= LEAF_FULL {
            leaf.check(version)?;
            self.split_towards(key, heap, nodes)?;
            return Err(Restart);
        }
        // Nothing changed since the search, so its result holds.
        leaf.lock_at(version)?;
        let record = Record::create(K::logged(key), value_len, word, heap);
        leaf.insert_slot::<K>(at, record);
        let after = leaf.unlock(true);
        nodes.replaced(leaf.seen(version), &[leaf.seen(after)]);
        Ok((record, true))
    }

    /// Splits the first full node on the way to the key's leaf, if there still is one.
    #[cold]
    fn split_towards(
        &self,
        key: K::Key<'_>,
        heap: &mut Heap,
        nodes: &mut impl NodeSet,
    ) -> Result<(), Restart> {
        let mut parent: Option<Step<'_>> = None;
        let mut step = self.root()?;
        loop {
            let info = step.node.info();
            let full = info.count >= if info.level == 0 { LEAF_FULL } else { INNER_FULL };
            step.node.check(step.version)?;
            if full {
                return self.split(parent, step, key, heap, nodes);
            }
            if info.level == 0 {
                return Ok(());
            }
            parent = Some(step);
            step = self.step(step, Seek::At(key))?;
        }
    }

    /// Splits a full node under a parent that has room, or under a new root.
    fn split(
        &self,
        parent: Option<Step<'_>>,
        step: Step<'_>,
        key: K::Key<'_>,
        heap: &mut Heap,
        nodes: &mut impl NodeSet,
    ) -> Result<(), Restart> {
        if let Some(parent) = parent {
            parent.node.lock_at(parent.version)?;
        }
        if let Err(restart) = step.node.lock_at(step.version) {
            if let Some(parent) = parent {
                parent.node.unlock(false);
            }
            return Err(restart);
        }
        let is_leaf = step.node.info().level == 0;
        let (separator, right) =
            if is_leaf { self.split_leaf(step.node, key, heap) } else { self.split_inner(step.node, heap) };
        match parent {
            Some(parent) => {
                parent.node.insert_child::<K>(step.at, separator, right);
                parent.node.unlock(true);
            }
            None => self.grow(step.node, separator, right, heap),
        }
        let after = [right, step.node].map(|node| node.seen(node.unlock(true)));
        if is_leaf {
            nodes.replaced(step.node.seen(step.version), &after);
        }
        Ok(())
    }

    /// Moves the upper part of a locked leaf to a new one. Returns the separator between the two, and the new one,
    /// locked.
    ///
    /// Keys that come in order fill their leaves: if `key`, for which room is made, follows the key that came last,
    /// the cut is right where it belongs, so that it and its successors go to the end of the left part, or, if they
    /// are the largest of the leaf, to an empty right one.
    fn split_leaf(&self, left: &Node, key: K::Key<'_>, heap: &mut Heap) -> (Kept, &Node) {
        let count = left.info().count;
        let Ok((at, _)) = left.find_slot::<K>(key) else {
            unreachable!("nobody else writes to a locked leaf")
        };
        let cut = if at > 0 && at == left.hint() + 1 { at } else { count / 2 };
        let last = left.locked_record(cut - 1);
        let kept = if cut < count {
            let first = left.locked_record(cut);
            K::keep(K::separator(K::stored(&last), K::stored(&first)), heap)
        } else {
            K::keep(K::separator(K::stored(&last), key), heap)
        };
        let separator = K::separating(&kept);
        let right = Node::create::<K>(self.id, 0, K::keep(separator, heap), left.high(), heap);
        left.move_slots::<K>(cut, right);
        // The old high fence is the right leaf's now.
        let _ = left.set_high::<K>(K::keep(separator, heap));
        (kept, right)
    }

    /// As [`Tree::split_leaf`], for an inner node.
    fn split_inner(&self, left: &Node, heap: &mut Heap) -> (Kept, &Node) {
        let info = left.info();
        let cut = info.count / 2 + 1;
        let middle = left.separator::<K>(cut - 1);
        let key = K::separating(&middle);
        let right = Node::create::<K>(self.id, info.level, K::keep(key, heap), left.high(), heap);
        let separator = left.move_children::<K>(cut, right);
        // The old high fence is the right node's now.
        let _ = left.set_high::<K>(K::keep(key, heap));
        (separator, right)
    }

    /// Puts a new root over the two halves of the old one, which the caller holds locked.
    fn grow(&self, left: &Node, separator: Kept, right: &Node, heap: &mut Heap) {
        let root = Node::create::<K>(self.id, left.info().level + 1, Kept::NONE, Kept::NONE, heap);
        root.set_child(0, left);
        root.insert_child::<K>(0, separator, right);
        root.unlock(true);
        debug_assert!(std::ptr::eq(self.root.load(Ordering::Relaxed), left));
        // Release; pairs with the Acquire in `root`.
        self.root.store(root.as_ptr(), Ordering::Release);
    }
}
