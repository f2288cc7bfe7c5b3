//! Tarjan's strongly connected components, without recursion: the graphs are deep.

use super::{Graph, allowed};

const UNSEEN: u32 = u32::MAX;
const DONE: u32 = u32::MAX - 1;

/// The components of more than one transaction, along edges within `mask`.
pub(super) fn knots(graph: &Graph, mask: u8) -> Vec<Vec<u32>> {
    let nodes = graph.nodes();
    // A node's number in order of discovery, then DONE.
    let mut number = vec![UNSEEN; nodes];
    // The smallest number reachable, as far as known.
    let mut low = vec![0_u32; nodes];
    let mut open: Vec<u32> = Vec::new();
    // The path from the root: node, next edge.
    let mut path: Vec<(u32, u32)> = Vec::new();
    let mut found = Vec::new();
    let mut next = 0;
    for root in 0..nodes as u32 {
        if number[root as usize] != UNSEEN {
            continue;
        }
        path.push((root, graph.starts[root as usize]));
        while let Some((node, edge)) = path.last_mut() {
            let at = *node as usize;
            if number[at] == UNSEEN {
                number[at] = next;
                low[at] = next;
                next += 1;
                open.push(*node);
            }
            if *edge < graph.starts[at + 1] {
                let taken = *edge as usize;
                *edge += 1;
                if !allowed(graph.kinds[taken], mask) {
                    continue;
                }
                let target = graph.to[taken];
                match number[target as usize] {
                    UNSEEN => path.push((target, graph.starts[target as usize])),
                    DONE => {}
                    seen => low[at] = low[at].min(seen),
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                low[*parent as usize] = low[*parent as usize].min(low[at]);
            }
            if low[at] == number[at] {
                let start = open.iter().rposition(|node| *node as usize == at).expect("a root is open");
                open[start..].iter().for_each(|node| number[*node as usize] = DONE);
                if open[start..].iter().filter(|node| **node < graph.txns).count() > 1 {
                    found.push(open[start..].to_vec());
                }
                open.truncate(start);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::{Edges, RW, WW};
    use super::*;

    fn sorted(mut knots: Vec<Vec<u32>>) -> Vec<Vec<u32>> {
        knots.iter_mut().for_each(|knot| knot.sort_unstable());
        knots.sort();
        knots
    }

    #[test]
    fn two_cycles_joined_one_way_are_two_knots() {
        let mut edges = Edges::new(6);
        for (from, to) in [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (4, 5)] {
            edges.link(from, to, WW);
        }
        assert_eq!(sorted(knots(&edges.finish(), WW)), [vec![0, 1, 2], vec![3, 4]]);
    }

    #[test]
    fn edges_beyond_the_mask_do_not_count() {
        let mut edges = Edges::new(2);
        edges.link(0, 1, WW);
        edges.link(1, 0, RW);
        let graph = edges.finish();
        assert!(knots(&graph, WW).is_empty());
        assert_eq!(knots(&graph, WW | RW).len(), 1);
    }

    #[test]
    fn a_long_chain_needs_no_deep_stack() {
        let nodes = 200_000;
        let mut edges = Edges::new(nodes);
        (0..nodes as u32).for_each(|node| edges.link(node, (node + 1) % nodes as u32, WW));
        assert_eq!(knots(&edges.finish(), WW)[0].len(), nodes);
    }
}
