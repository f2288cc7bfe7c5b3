//! The cycles worth telling: in each knot the shortest of each class, under the weakest assumptions that suffice.
//!
//! A knot is first looked at with dependencies alone, then with the clients' own orders, then with real time; the first stage
//! that has a cycle is told. In small knots every edge is tried as a cycle's first, in large ones those that go back in time
//! the farthest, since a wrong edge does. The work is bounded; a knot whose search runs out of it still yields some cycle.

use std::collections::VecDeque;

use super::tarjan::knots;
use super::{CONT, Graph, PROCESS, REALTIME, RW, WR, WW, allowed};
use crate::verdict::AnomalyKind;

/// Edges looked at in all searches together, and in one.
const ALL_WORK: usize = 150_000_000;
const ONE_SEARCH: usize = 10_000_000;
/// A knot with at most so many edges is searched exhaustively; of others so many first edges are tried.
const SMALL_KNOT: usize = 4_096;
const FIRST_EDGES: usize = 48;

/// A cycle: `txns[i]` comes before `txns[i + 1]` because of `kinds[i]`, and the last before the first.
#[derive(Debug)]
pub(crate) struct Cycle {
    pub(crate) kind: AnomalyKind,
    pub(crate) txns: Vec<u32>,
    pub(crate) kinds: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    G0,
    G1c,
    Single,
    G2,
}

/// What a cycle has to be: its first edge, what its other edges may be, and what must occur in it.
#[derive(Clone, Copy)]
struct Wanted {
    class: Class,
    /// 0, PROCESS or REALTIME.
    order: u8,
}

impl Wanted {
    fn first(self, kind: u8) -> bool {
        match self.class {
            Class::G0 => kind & WW != 0,
            Class::G1c => kind & WR != 0,
            Class::Single | Class::G2 => kind & RW != 0,
        }
    }

    /// What the edges may need: an order assumed later includes those before it.
    fn orders(self) -> u8 {
        match self.order {
            REALTIME => PROCESS | REALTIME,
            order => order,
        }
    }

    fn others(self) -> u8 {
        self.orders()
            | match self.class {
                Class::G0 => WW,
                Class::G1c | Class::Single => WW | WR,
                Class::G2 => WW | WR | RW,
            }
    }
}

/// Finds the cycles of a graph; also says how many knots there are. `before` tells of two transactions by how much the
/// second ended before the first began: the larger, the more suspicious is an edge from the first to the second.
pub(crate) fn cycles(graph: &Graph, before: impl Fn(u32, u32) -> i64) -> (Vec<Cycle>, usize) {
    let knots_found = knots(graph, WW | WR | RW | PROCESS | REALTIME);
    let mut found = Vec::new();
    let mut number = vec![u32::MAX; if knots_found.is_empty() { 0 } else { graph.nodes() }];
    let mut work = ALL_WORK;
    for knot in &knots_found {
        let (part, names) = graph.within(knot, &mut number);
        let told = found.len();
        for order in [0, PROCESS, REALTIME] {
            let orders = Wanted { class: Class::G0, order }.orders();
            let mut inner_number = vec![u32::MAX; part.nodes()];
            for inner in knots(&part, WW | WR | RW | orders) {
                let (inner_part, inner_names) = part.within(&inner, &mut inner_number);
                let outer = |local: u32| names[inner_names[local as usize] as usize];
                let score = |from: u32, to: u32| before(outer(from), outer(to));
                for mut cycle in of_knot(&inner_part, order, &score, &mut work) {
                    cycle.txns.iter_mut().for_each(|txn| *txn = outer(*txn));
                    found.push(cycle);
                }
            }
            if found.len() > told {
                break;
            }
        }
    }
    (found, knots_found.len())
}

/// The cycles of one knot that need `order`; at least one, if there is one at all within that order.
fn of_knot(graph: &Graph, order: u8, score: &impl Fn(u32, u32) -> i64, work: &mut usize) -> Vec<Cycle> {
    let mut found: Vec<Cycle> = Vec::new();
    let mut single = false;
    for class in [Class::G0, Class::G1c, Class::Single, Class::G2] {
        if class == Class::G2 && single {
            continue;
        }
        let wanted = Wanted { class, order };
        if let Some(cycle) = shortest(graph, wanted, score, work) {
            single |= class == Class::Single;
            found.push(cycle);
        }
    }
    if found.is_empty() {
        let mask = WW | WR | RW | Wanted { class: Class::G2, order }.orders();
        found.extend(any(graph, mask));
    }
    found
}

fn shortest(
    graph: &Graph,
    wanted: Wanted,
    score: &impl Fn(u32, u32) -> i64,
    work: &mut usize,
) -> Option<Cycle> {
    let mut firsts: Vec<(i64, u32, usize)> = Vec::new();
    for from in 0..graph.txns {
        for edge in graph.out(from) {
            let kind = graph.kinds[edge];
            if wanted.first(kind) && allowed(kind, wanted.others() | RW) {
                firsts.push((-backwards(graph, from, graph.to[edge], score), from, edge));
            }
        }
    }
    if graph.to.len() > SMALL_KNOT && firsts.len() > FIRST_EDGES {
        firsts.select_nth_unstable(FIRST_EDGES);
        firsts.truncate(FIRST_EDGES);
    }
    firsts.sort_unstable();
    let mut best: Option<Cycle> = None;
    let mut search = Search::new(graph, wanted);
    let mut left = ONE_SEARCH.min(*work);
    let granted = left;
    for (_, from, edge) in firsts {
        let longest = best.as_ref().map_or(usize::MAX, |cycle| cycle.txns.len() - 1);
        if longest < 2 || left == 0 {
            break;
        }
        if let Some(cycle) = search.closing(from, edge, longest, &mut left) {
            best = Some(cycle);
        }
    }
    *work -= granted - left;
    best
}

/// By how much an edge goes back in time; of a helper node the first few that it stands for count.
fn backwards(graph: &Graph, from: u32, to: u32, score: &impl Fn(u32, u32) -> i64) -> i64 {
    if to < graph.txns {
        return score(from, to);
    }
    let behind = graph.out(to).take(16).map(|edge| graph.to[edge]).filter(|node| *node < graph.txns);
    behind.map(|node| score(from, node)).max().unwrap_or(0)
}

const NONE: u32 = u32::MAX;

/// Breadth-first search from a first edge back to its beginning. A state is a node and what has been met on the way
/// there: a second read-write edge, an edge that needs the wanted order.
struct Search<'a> {
    graph: &'a Graph,
    wanted: Wanted,
    /// For each state the state before it, in the round when it was reached.
    reached: Vec<(u32, u32)>,
    round: u32,
}

const MET_RW: u32 = 1;
const MET_ORDER: u32 = 2;
const STATES: u32 = 4;

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, wanted: Wanted) -> Search<'a> {
        Search { graph, wanted, reached: vec![(0, NONE); graph.nodes() * STATES as usize], round: 0 }
    }

    fn met(&self, kind: u8, first: bool) -> u32 {
        let rw = !first && kind & RW != 0;
        let order = kind & self.wanted.order != 0;
        (if rw { MET_RW } else { 0 }) | (if order { MET_ORDER } else { 0 })
    }

    /// The shortest cycle of at most `longest` transactions that begins with this edge.
    fn closing(&mut self, from: u32, edge: usize, longest: usize, left: &mut usize) -> Option<Cycle> {
        self.round += 1;
        let goal = self.goal(from);
        let begin = self.graph.to[edge] * STATES + self.met(self.graph.kinds[edge], true);
        let mut queue = VecDeque::from([(begin, 1_usize)]);
        self.reached[begin as usize] = (self.round, NONE);
        // The transactions so far: edges out of helpers count nothing, so their states go to the front.
        while let Some((state, length)) = queue.pop_front() {
            if length >= longest {
                return None;
            }
            let node = state / STATES;
            for next in self.graph.out(node) {
                *left = left.saturating_sub(1);
                let kind = self.graph.kinds[next];
                if !allowed(kind, self.wanted.others()) {
                    continue;
                }
                let target = self.graph.to[next] * STATES + ((state % STATES) | self.met(kind, false));
                if self.reached[target as usize].0 == self.round {
                    continue;
                }
                self.reached[target as usize] = (self.round, state);
                if target == goal {
                    return self.cycle(from, edge);
                }
                match kind == CONT {
                    true => queue.push_front((target, length)),
                    false => queue.push_back((target, length + 1)),
                }
            }
            if *left == 0 {
                return None;
            }
        }
        None
    }

    /// Walks back from the goal. `None` if a transaction occurs twice: then a shorter cycle of some class says it better.
    fn cycle(&self, from: u32, first: usize) -> Option<Cycle> {
        let (mut nodes, mut kinds) = (vec![], vec![]);
        let mut target = self.goal(from);
        loop {
            let state = self.reached[target as usize].1;
            if state == NONE {
                break;
            }
            nodes.push(state / STATES);
            kinds.push(self.taken(state, target));
            target = state;
        }
        nodes.push(from);
        kinds.push(self.graph.kinds[first]);
        nodes.reverse();
        kinds.reverse();
        build(self.graph, nodes, kinds)
            .filter(|cycle| cycle.kind == name(self.wanted.class, self.wanted.order))
    }

    /// The kind of the edge that led from one state to the next.
    fn taken(&self, state: u32, target: u32) -> u8 {
        let leads = |kind: u8| {
            allowed(kind, self.wanted.others()) && (state % STATES) | self.met(kind, false) == target % STATES
        };
        let mut edges = self.graph.out(state / STATES).filter(|edge| self.graph.to[*edge] == target / STATES);
        let edge = edges.find(|edge| leads(self.graph.kinds[*edge])).expect("the search came this way");
        self.graph.kinds[edge]
    }

    /// Back at the beginning, with all that is wanted met.
    fn goal(&self, from: u32) -> u32 {
        let rw = if self.wanted.class == Class::G2 { MET_RW } else { 0 };
        let order = if self.wanted.order != 0 { MET_ORDER } else { 0 };
        (from * STATES) | rw | order
    }
}

/// Some cycle through the first transaction of a knot that has one, the shortest, whatever its class.
fn any(graph: &Graph, mask: u8) -> Option<Cycle> {
    let mut before: Vec<(u32, u8)> = vec![(NONE, 0); graph.nodes()];
    let mut queue = VecDeque::from([0_u32]);
    while let Some(node) = queue.pop_front() {
        for edge in graph.out(node).filter(|edge| allowed(graph.kinds[*edge], mask)) {
            let target = graph.to[edge];
            if before[target as usize].0 != NONE {
                continue;
            }
            before[target as usize] = (node, graph.kinds[edge]);
            if target == 0 {
                let (mut nodes, mut kinds, mut at) = (vec![], vec![], 0);
                loop {
                    let (from, kind) = before[at as usize];
                    nodes.push(from);
                    kinds.push(kind);
                    at = from;
                    if at == 0 {
                        break;
                    }
                }
                nodes.reverse();
                kinds.reverse();
                return build(graph, nodes, kinds);
            }
            queue.push_back(target);
        }
    }
    None
}

/// A cycle without its helper nodes, named by what it holds.
fn build(graph: &Graph, nodes: Vec<u32>, kinds: Vec<u8>) -> Option<Cycle> {
    let (txns, kinds): (Vec<u32>, Vec<u8>) =
        nodes.into_iter().zip(kinds).filter(|(node, _)| *node < graph.txns).unzip();
    let mut distinct = txns.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() != txns.len() {
        return None;
    }
    let all = kinds.iter().fold(0, |all, kind| all | kind);
    let class = match kinds.iter().filter(|kind| **kind & RW != 0).count() {
        0 if all & WR == 0 => Class::G0,
        0 => Class::G1c,
        1 => Class::Single,
        _ => Class::G2,
    };
    let order = if all & REALTIME != 0 { REALTIME } else { all & PROCESS };
    Some(Cycle { kind: name(class, order), txns, kinds })
}

fn name(class: Class, order: u8) -> AnomalyKind {
    match (class, order) {
        (Class::G0, 0) => AnomalyKind::G0,
        (Class::G0, PROCESS) => AnomalyKind::G0Process,
        (Class::G0, _) => AnomalyKind::G0Realtime,
        (Class::G1c, 0) => AnomalyKind::G1c,
        (Class::G1c, PROCESS) => AnomalyKind::G1cProcess,
        (Class::G1c, _) => AnomalyKind::G1cRealtime,
        (Class::Single, 0) => AnomalyKind::GSingle,
        (Class::Single, PROCESS) => AnomalyKind::GSingleProcess,
        (Class::Single, _) => AnomalyKind::GSingleRealtime,
        (Class::G2, 0) => AnomalyKind::G2,
        (Class::G2, PROCESS) => AnomalyKind::G2Process,
        (Class::G2, _) => AnomalyKind::G2Realtime,
    }
}
