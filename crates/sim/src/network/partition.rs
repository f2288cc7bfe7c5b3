//! Partitions by name.

use highwater_core::NodeId;

use super::{Channel, Network};

impl Network {
    /// Cuts a node off from all of `others`, both ways.
    pub fn isolate(&mut self, id: NodeId, others: impl IntoIterator<Item = NodeId>) {
        for other in others.into_iter().filter(|other| *other != id) {
            self.cut_both(id, other);
        }
    }

    /// Two groups that do not hear each other.
    pub fn split(&mut self, one: &[NodeId], other: &[NodeId]) {
        for a in one {
            other.iter().filter(|b| *b != a).for_each(|b| self.cut_both(*a, *b));
        }
    }

    /// Two groups that hear each other through `middle` only, which hears everybody.
    pub fn bridge(&mut self, one: &[NodeId], other: &[NodeId], middle: NodeId) {
        let without = |group: &[NodeId]| group.iter().copied().filter(|id| *id != middle).collect::<Vec<_>>();
        self.split(&without(one), &without(other));
    }

    /// Nobody hears a node, which hears everybody.
    pub fn mute(&mut self, id: NodeId, others: impl IntoIterator<Item = NodeId>) {
        others.into_iter().filter(|other| *other != id).for_each(|other| self.cut(id, other));
    }

    /// A node hears nobody, everybody hears it.
    pub fn deafen(&mut self, id: NodeId, others: impl IntoIterator<Item = NodeId>) {
        others.into_iter().filter(|other| *other != id).for_each(|other| self.cut(other, id));
    }

    /// Cuts both directions: with two of three nodes, a partial partition.
    pub fn cut_both(&mut self, a: NodeId, b: NodeId) {
        self.cut(a, b);
        self.cut(b, a);
    }

    /// Mends one direction.
    pub fn mend(&mut self, from: NodeId, to: NodeId) {
        self.cut.remove(&(from, to));
    }

    /// Lets a held channel flow again.
    pub fn release(&mut self, channel: Channel) {
        self.held.remove(&channel);
    }

    /// A direction is neither slow nor clogged any more.
    pub fn clear(&mut self, from: NodeId, to: NodeId) {
        self.slow.remove(&(from, to));
        self.clogged.remove(&(from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_cuts_what_its_name_says() {
        let ids: Vec<NodeId> = (0..5).map(NodeId).collect();
        let flows =
            |network: &Network, from: u8, to: u8| network.flows(NodeId(from), NodeId(to), Channel::Control);
        let mut network = Network::default();
        network.isolate(NodeId(0), ids.clone());
        assert!(!flows(&network, 0, 3) && !flows(&network, 3, 0) && flows(&network, 1, 2));
        network.heal();
        network.bridge(&ids[..3], &ids[2..], NodeId(2));
        assert!(
            !flows(&network, 0, 3) && flows(&network, 0, 2) && flows(&network, 2, 4) && flows(&network, 3, 4)
        );
        network.heal();
        network.mute(NodeId(1), ids.clone());
        assert!(!flows(&network, 1, 0) && flows(&network, 0, 1));
        network.heal();
        network.deafen(NodeId(1), ids);
        assert!(flows(&network, 1, 0) && !flows(&network, 0, 1));
        network.mend(NodeId(0), NodeId(1));
        assert!(flows(&network, 0, 1) && !flows(&network, 2, 1));
    }
}
