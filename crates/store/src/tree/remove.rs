//! Unlinking records, and giving back leaves and inner nodes that they leave empty.

use super::descent::{Seek, Step, Tree};
use super::finger::Fingers;
use super::node::{INNER_FULL, Node, Restart};
use crate::heap::Heap;
use crate::keys::{Kept, Keys};
use crate::record::Record;
use crate::word::Busy;

/// Locks that are let go together when one of them cannot be had.
struct Locked<'a, const N: usize>([&'a Node; N]);

impl<'a, const N: usize> Locked<'a, N> {
    fn all(steps: [Step<'a>; N]) -> Result<Locked<'a, N>, Restart> {
        for (at, step) in steps.iter().enumerate() {
            if let Err(restart) = step.node.lock_at(step.version) {
                for held in &steps[..at] {
                    held.node.unlock(false);
                }
                return Err(restart);
            }
        }
        Ok(Locked(steps.map(|step| step.node)))
    }
}

impl<K: Keys> Tree<K> {
    /// Unlinks the key's record if its word is `expected`: returns it (see [`Index::unlink`]), and whether the leaf is
    /// empty now.
    ///
    /// [`Index::unlink`]: crate::index::Index::unlink
    pub(super) fn try_unlink(
        &self,
        key: K::Key<'_>,
        expected: u64,
        fingers: &mut Fingers,
        heap: &mut Heap,
    ) -> Result<(Result<Option<Record>, Busy>, bool), Restart> {
        let Step { node: leaf, version, .. } = self.leaf_of(key, fingers)?;
        let (at, exact) = leaf.find_slot::<K>(key)?;
        if !exact {
            leaf.check(version)?;
            return Ok((Ok(None), false));
        }
        leaf.lock_at(version)?;
        // Nothing changed since the search, so its result holds.
        let record = leaf.locked_record(at);
        let died = record.word().die(expected);
        if died != Ok(true) {
            leaf.unlock(false);
            return Ok((died.map(|_| None), false));
        }
        leaf.remove_slot(at);
        let emptied = leaf.info().count == 0;
        leaf.unlock(true);
        record.retire(heap);
        Ok((Ok(Some(record)), emptied))
    }

    /// Gives the key's leaf back if it is empty and has a neighbour under its parent, which takes over its range.
    pub(super) fn try_prune(&self, key: K::Key<'_>, heap: &mut Heap) -> Result<(), Restart> {
        let (mut above, mut parent, mut leaf) = (None, None, self.root()?);
        while leaf.node.info().level > 0 {
            (above, parent) = (parent, Some(leaf));
            leaf = self.step(leaf, Seek::At(key))?;
        }
        let empty = leaf.node.info().count == 0;
        leaf.node.check(leaf.version)?;
        let (true, Some(parent)) = (empty, parent) else { return Ok(()) };
        if parent.node.info().count == 0 {
            parent.node.check(parent.version)?;
            return match above {
                Some(above) if self.give_child_away(above, parent, heap)? => Err(Restart),
                _ => Ok(()),
            };
        }
        let neighbour = self.neighbour(parent, leaf)?;
        let Locked([parent, _, neighbour]) = Locked::all([parent, leaf, neighbour])?;
        let separator = parent.remove_child::<K>(leaf.at);
        self.take_over(neighbour, leaf, heap);
        K::drop_kept(separator, heap);
        leaf.node.make_obsolete::<K>(heap);
        neighbour.unlock(true);
        parent.unlock(true);
        Ok(())
    }

    /// Moves the only child of an inner node to a neighbour and gives the node back. `Ok(false)`: there is no
    /// neighbour with room; then the node stays, to be filled again.
    fn give_child_away(&self, above: Step<'_>, node: Step<'_>, heap: &mut Heap) -> Result<bool, Restart> {
        let alone = above.node.info().count == 0;
        above.node.check(above.version)?;
        if alone {
            return Ok(false);
        }
        let neighbour = self.neighbour(above, node)?;
        let full = neighbour.node.info().count >= INNER_FULL;
        neighbour.node.check(neighbour.version)?;
        if full {
            return Ok(false);
        }
        let Locked([above, _, neighbour]) = Locked::all([above, node, neighbour])?;
        let separator = above.remove_child::<K>(node.at);
        self.take_over(neighbour, node, heap);
        let child = node.node.locked_child(0);
        if node.at > 0 {
            neighbour.insert_child::<K>(neighbour.info().count, separator, child);
        } else {
            neighbour.insert_first_child::<K>(child, separator);
        }
        node.node.make_obsolete::<K>(heap);
        neighbour.unlock(true);
        above.unlock(true);
        Ok(true)
    }

    /// The left neighbour under the same parent; for the first child the right one.
    fn neighbour<'a>(&'a self, parent: Step<'a>, node: Step<'a>) -> Result<Step<'a>, Restart> {
        let at = if node.at > 0 { node.at - 1 } else { 1 };
        let neighbour = parent.node.child(at).ok_or(Restart)?;
        parent.node.check(parent.version)?;
        Ok(Step { node: neighbour, version: neighbour.stable()?, at })
    }

    /// Moves the neighbour's fence so that it covers the range of `gone` too. Both are locked.
    fn take_over(&self, neighbour: &Node, gone: Step<'_>, heap: &mut Heap) {
        let copy =
            |fence: Kept, heap: &mut Heap| K::kept(&fence).map_or(Kept::NONE, |key| K::keep(key, heap));
        let old = if gone.at > 0 {
            neighbour.set_high::<K>(copy(gone.node.high(), heap))
        } else {
            neighbour.set_low::<K>(copy(gone.node.low(), heap))
        };
        K::drop_kept(old, heap);
    }
}
