//! The dependency graph: transactions, helper nodes, and why one comes before another.
//!
//! A helper node stands for "all of these": an edge into it carries the reason, the edges out of it ([`CONT`]) only continue.
//! So what would be a product of many before many (all that ended before all that began later) costs a sum.

mod search;
mod tarjan;

pub(crate) use search::{Cycle, cycles};

/// The next version's writer comes after this version's.
pub(crate) const WW: u8 = 1;
/// A reader comes after the writer of what it read.
pub(crate) const WR: u8 = 2;
/// A reader comes before the writer of the next version.
pub(crate) const RW: u8 = 4;
/// A client's own order. Together with [`RW`]: the order of versions rests on it.
pub(crate) const PROCESS: u8 = 8;
/// The end of one is before the beginning of the other. Together with [`RW`]: the order of versions rests on it.
pub(crate) const REALTIME: u8 = 16;
/// Out of a helper node.
pub(crate) const CONT: u8 = 32;

/// Edges as they are found; nodes below `txns` are transactions.
#[derive(Debug)]
pub(crate) struct Edges {
    txns: u32,
    nodes: u32,
    list: Vec<(u32, u32, u8)>,
}

impl Edges {
    pub(crate) fn new(txns: usize) -> Edges {
        // Transactions and the helpers below them in number: both need to fit.
        let txns = u32::try_from(txns).expect("fewer than 2^32 transactions fit in memory");
        Edges { txns, nodes: txns, list: Vec::new() }
    }

    /// A new helper node.
    pub(crate) fn helper(&mut self) -> u32 {
        self.nodes += 1;
        self.nodes - 1
    }

    /// `from` comes before `to`. Nothing comes before itself.
    pub(crate) fn link(&mut self, from: u32, to: u32, kind: u8) {
        if from != to {
            self.list.push((from, to, kind));
        }
    }

    /// How many edges have exactly this kind.
    pub(crate) fn count(&self, wanted: impl Fn(u8) -> bool) -> usize {
        self.list.iter().filter(|(_, _, kind)| wanted(*kind)).count()
    }

    pub(crate) fn finish(self) -> Graph {
        let mut starts = vec![0_u32; self.nodes as usize + 1];
        for (from, _, _) in &self.list {
            starts[*from as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let (mut to, mut kinds) = (vec![0; self.list.len()], vec![0; self.list.len()]);
        for (from, target, kind) in self.list {
            let at = &mut next[from as usize];
            to[*at as usize] = target;
            kinds[*at as usize] = kind;
            *at += 1;
        }
        Graph { txns: self.txns, starts, to, kinds }
    }
}

/// Edges grouped by the node they leave.
#[derive(Debug)]
pub(crate) struct Graph {
    txns: u32,
    starts: Vec<u32>,
    to: Vec<u32>,
    kinds: Vec<u8>,
}

impl Graph {
    fn nodes(&self) -> usize {
        self.starts.len() - 1
    }

    /// The numbers of the edges that leave a node.
    fn out(&self, node: u32) -> std::ops::Range<usize> {
        self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize
    }

    /// The part of the graph inside one component; nodes get new numbers, transactions first.
    fn within(&self, component: &[u32], number: &mut [u32]) -> (Graph, Vec<u32>) {
        let mut names = component.to_vec();
        names.sort_unstable();
        for (new, old) in names.iter().enumerate() {
            number[*old as usize] = new as u32;
        }
        let txns = names.partition_point(|old| *old < self.txns) as u32;
        let mut part = Graph { txns, starts: vec![0], to: Vec::new(), kinds: Vec::new() };
        for old in &names {
            for edge in self.out(*old) {
                let target = number[self.to[edge] as usize];
                // A number left over from another component names another node here.
                if names.get(target as usize) == Some(&self.to[edge]) {
                    part.to.push(target);
                    part.kinds.push(self.kinds[edge]);
                }
            }
            part.starts.push(part.to.len() as u32);
        }
        (part, names)
    }
}

/// True if the edge needs nothing beyond `mask`.
fn allowed(kind: u8, mask: u8) -> bool {
    kind & !(mask | CONT) == 0
}
