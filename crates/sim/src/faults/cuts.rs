//! Which directions a partition cuts.

use highwater_core::NodeId;

/// Both directions.
pub(super) fn both_ways(a: NodeId, b: NodeId) -> [(NodeId, NodeId); 2] {
    [(a, b), (b, a)]
}

/// Both directions between a node and all others but the `hears` that follow it.
pub(super) fn strand(ids: &[NodeId], node: NodeId, hears: u8) -> Vec<(NodeId, NodeId)> {
    let behind = |id: &NodeId| (id.0 + ids.len() as u8 - node.0) % ids.len() as u8;
    ids.iter().filter(|id| behind(id) > hears).flat_map(|id| both_ways(node, *id)).collect()
}

/// Both directions of each pair whose bit is set.
pub(super) fn web(ids: &[NodeId], set: u32) -> Vec<(NodeId, NodeId)> {
    let pairs = ids.iter().enumerate().flat_map(|(at, a)| ids[at + 1..].iter().map(move |b| (*a, *b)));
    let cut = pairs.enumerate().filter(|(at, _)| set >> at & 1 == 1);
    cut.flat_map(|(_, (a, b))| both_ways(a, b)).collect()
}

/// Every direction between a set of nodes and the others; the bridge belongs to both sides.
pub(super) fn between(ids: &[NodeId], side: u8, bridge: Option<NodeId>) -> Vec<(NodeId, NodeId)> {
    let inside = |id: &NodeId| side >> id.0 & 1 == 1;
    let mut pairs = Vec::new();
    for from in ids.iter().filter(|id| Some(**id) != bridge) {
        let others = ids.iter().filter(|id| Some(**id) != bridge && inside(id) != inside(from));
        pairs.extend(others.map(|to| (*from, *to)));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_hears_both_sides() {
        let ids: Vec<NodeId> = (0..5).map(NodeId).collect();
        let cut = between(&ids, 0b00011, Some(NodeId(2)));
        assert_eq!(cut.len(), 2 * 2 * 2);
        assert!(!cut.iter().any(|(from, to)| *from == NodeId(2) || *to == NodeId(2)));
        assert!(cut.contains(&(NodeId(0), NodeId(4))) && cut.contains(&(NodeId(4), NodeId(0))));
        assert_eq!(between(&ids, 0b11100, None).len(), 2 * 2 * 3);
    }

    #[test]
    fn who_is_stranded_hears_so_many() {
        let ids: Vec<NodeId> = (0..4).map(NodeId).collect();
        let cut = [both_ways(NodeId(3), NodeId(1)), both_ways(NodeId(3), NodeId(2))].concat();
        assert_eq!(strand(&ids, NodeId(3), 1), cut);
        assert!(strand(&ids, NodeId(0), 3).is_empty());
    }

    #[test]
    fn a_web_cuts_the_pairs_of_its_bits() {
        let ids: Vec<NodeId> = (0..4).map(NodeId).collect();
        assert_eq!(web(&ids, 0b1), both_ways(NodeId(0), NodeId(1)));
        assert_eq!(web(&ids, 0b100000), both_ways(NodeId(2), NodeId(3)));
        assert_eq!(web(&ids, u32::MAX).len(), 2 * 6);
    }
}
