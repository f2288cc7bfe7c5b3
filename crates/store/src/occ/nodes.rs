//! The index nodes on whose absence of keys a transaction relies.

use super::map::Map;
use crate::index::NodeSet;
use crate::seen::NodeSeen;
use crate::sync::AtomicU64;

/// Up to so many nodes are looked through one by one. A transaction that relies on more, and inserts, finds them by
/// address.
const FEW: usize = 32;
/// How many nodes one insertion adds at most, as a rule: when a hash segment is split, each of its buckets becomes two.
const AT_ONCE: usize = 128;

/// The node set.
///
/// Invariant: if `indexed` is not 0, `seen[..indexed]` names each node once and the map finds it there; what stands
/// behind was only pushed since, and no insertion happens before [`Nodes::prepare_insertion`] has looked at it. So an
/// insertion, which tells of its changes while it holds the table's mutex, costs the same whatever the transaction's
/// size.
pub(super) struct Nodes {
    seen: Vec<NodeSeen>,
    indexed: usize,
    map: Map,
    /// Whether the last insertion changed a node that the transaction relies on.
    pub disturbed: bool,
    /// Nodes looked at by insertions one by one, ever.
    #[cfg(test)]
    pub visits: u64,
}

/// A bucket or a leaf by its address.
fn hash(node: *const AtomicU64) -> u64 {
    (node.addr() as u64 >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Nodes {
    pub fn new() -> Nodes {
        Nodes {
            seen: Vec::new(),
            indexed: 0,
            map: Map::new(),
            disturbed: false,
            #[cfg(test)]
            visits: 0,
        }
    }

    #[inline]
    pub fn clear(&mut self) {
        self.seen.clear();
        if self.indexed > 0 {
            self.indexed = 0;
            self.map.clear();
        }
    }

    /// How many it relies on, some of them twice.
    #[inline]
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// For so many there is room.
    #[inline]
    pub fn room(&self) -> usize {
        self.seen.capacity()
    }

    pub fn shrink_to(&mut self, room: usize) {
        self.seen.shrink_to(room);
    }

    /// Relies on a node as it was seen.
    #[inline]
    pub fn push(&mut self, node: NodeSeen) {
        self.seen.push(node);
    }

    /// Whether all are as they were seen, but for what this transaction did to them.
    #[inline]
    pub fn unchanged(&self) -> bool {
        self.seen.iter().all(NodeSeen::unchanged)
    }

    /// To be called before an insertion, and before it takes locks: the work that grows with the size of the
    /// transaction is done here, where it holds up nobody.
    #[inline]
    pub fn prepare_insertion(&mut self) {
        self.disturbed = false;
        let few = self.indexed == 0 && self.seen.len() <= FEW;
        if !few {
            self.index();
        }
    }

    fn index(&mut self) {
        let mut kept = self.indexed;
        for at in self.indexed..self.seen.len() {
            let node = self.seen[at];
            // If a node was seen twice, the first look counts. If the looks differ, somebody else has changed the node in
            // between. Versions never come back, so the first look fails validation, as it should.
            if self.find(node.version).is_none() {
                self.seen[kept] = node;
                self.map.add(hash(node.version), kept);
                kept += 1;
            }
        }
        self.seen.truncate(kept);
        self.seen.reserve(AT_ONCE);
        self.map.reserve(AT_ONCE);
        self.indexed = kept;
    }

    fn find(&self, node: *const AtomicU64) -> Option<usize> {
        self.map.find(hash(node), |at| self.seen[at].version == node)
    }

    /// As [`NodeSet::replaced`], for a transaction whose nodes are found by address.
    fn replace(&mut self, old: NodeSeen, new: &[NodeSeen]) {
        debug_assert_eq!(self.indexed, self.seen.len(), "prepared before the insertion");
        let Some(at) = self.find(old.version).filter(|&at| self.seen[at] == old) else { return };
        self.disturbed = true;
        self.seen[at] = new[0];
        if new[0].version != old.version {
            self.map.add(hash(new[0].version), at);
        }
        for node in &new[1..] {
            self.map.add(hash(node.version), self.seen.len());
            self.seen.push(*node);
        }
        self.indexed = self.seen.len();
    }
}

impl NodeSet for Nodes {
    #[inline]
    fn replaced(&mut self, old: NodeSeen, new: &[NodeSeen]) {
        if self.indexed > 0 {
            return self.replace(old, new);
        }
        for at in 0..self.seen.len() {
            #[cfg(test)]
            (self.visits += 1);
            if self.seen[at] == old {
                self.disturbed = true;
                self.seen[at] = new[0];
                self.seen.extend_from_slice(&new[1..]);
            }
        }
    }
}

#[cfg(test)]
impl Nodes {
    /// Work done to find nodes, ever.
    pub fn work(&self) -> u64 {
        self.visits + self.map.visits.get()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Nodes of 8 bytes each that a test changes by hand.
    struct World(Vec<AtomicU64>);

    impl World {
        fn seen(&self, at: usize) -> NodeSeen {
            let version = &self.0[at];
            NodeSeen { version, seen: version.load(crate::sync::Ordering::Relaxed) }
        }

        fn change(&self, at: usize) -> [NodeSeen; 2] {
            let before = self.seen(at);
            self.0[at].fetch_add(4, crate::sync::Ordering::Relaxed);
            [before, self.seen(at)]
        }
    }

    #[test]
    fn own_changes_are_followed_and_foreign_ones_noticed_whatever_the_size() {
        for size in [1, FEW, FEW + 1, 1000] {
            let world = World((0..2 * size + 1).map(|_| AtomicU64::new(0)).collect());
            let mut nodes = Nodes::new();
            for round in 0..3 {
                // Each is seen twice.
                (0..2 * size).for_each(|at| nodes.push(world.seen(at % size)));
                nodes.prepare_insertion();
                for at in 0..size {
                    let [before, after] = world.change(at);
                    // As a tree's leaf that is split: the new one first.
                    let other = size + at;
                    nodes.replaced(before, &[world.seen(other), after]);
                    assert!(nodes.disturbed, "size {size}, {at} in round {round}");
                }
                assert!(nodes.unchanged(), "size {size}, round {round}");
            }
            nodes.prepare_insertion();
            let [before, after] = world.change(2 * size);
            nodes.replaced(before, &[after]);
            assert!(!nodes.disturbed, "nobody relied on that one");
            world.change(size - 1);
            assert!(!nodes.unchanged(), "size {size}");
            // Seen again, as it is by now: the first look counts.
            nodes.push(world.seen(size - 1));
            nodes.prepare_insertion();
            assert!(!nodes.unchanged(), "size {size}");
            nodes.clear();
            assert!(nodes.unchanged());
        }
    }
}
