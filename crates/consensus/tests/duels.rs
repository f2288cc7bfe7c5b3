//! How long a cluster is without a leader when several nodes stand at once: a leader dies, in many seeds, and the
//! elections and the time until its successor is open are counted.
//!
//! `HIGHWATER_SEEDS=FROM..TO cargo test -p highwater-consensus --test protocol duels:: -- --nocapture` prints the spread.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Node, Wire, founder, founders};
use highwater_consensus::*;
use highwater_core::{Ballot, EntryIndex, NodeId};

const MS: Nanos = 1_000_000;
const HEARTBEAT: Nanos = 20 * MS;
const TIMEOUT: Nanos = 120 * MS;

/// Connections that keep order and lose nothing; a message takes 0.05 ms to `latency`.
struct Cluster {
    now: Nanos,
    random: u64,
    latency: Nanos,
    nodes: Vec<Node>,
    dead: Vec<bool>,
    /// `(from, to)`: nothing arrives.
    cut: BTreeSet<(usize, usize)>,
    ticks: Vec<Nanos>,
    /// By arrival and sequence.
    under_way: BTreeMap<(Nanos, u64), (usize, usize, Wire)>,
    last_arrival: BTreeMap<(usize, usize), Nanos>,
    sequence: u64,
    wins: Vec<Ballot>,
}

impl Cluster {
    fn new(count: u8, latency: Nanos, seed: u64) -> Cluster {
        let election = ElectionOptions { nodes: count, heartbeat: HEARTBEAT, timeout: TIMEOUT };
        let stream = StreamOptions { window_bytes: 1 << 20, retry: 20 * MS, ..StreamOptions::default() };
        let bases = || vec![(EntryIndex::NONE, founders(count)); 2];
        let seed_of = |node: u8| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(node) << 40;
        Cluster {
            now: 0,
            random: seed_of(99) | 1,
            latency,
            nodes: (0..count).map(|n| Node::new(founder(n), bases(), election, stream, seed_of(n))).collect(),
            dead: vec![false; count as usize],
            cut: BTreeSet::new(),
            ticks: vec![0; count as usize],
            under_way: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            sequence: 0,
            wins: Vec::new(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }

    /// Sends what a node has to say; gives it its next tick.
    fn after(&mut self, node: usize) {
        self.ticks[node] = self.nodes[node].tick(self.now).unwrap_or(Nanos::MAX).max(self.now + 1);
        self.wins.append(&mut self.nodes[node].won);
        for (to, wire) in std::mem::take(&mut self.nodes[node].out) {
            let to = to.0 as usize;
            let at = self.now + MS / 20 + self.below(self.latency);
            let last = self.last_arrival.entry((node, to)).or_default();
            *last = at.max(*last);
            self.sequence += 1;
            self.under_way.insert((*last, self.sequence), (node, to, wire));
        }
    }

    fn step(&mut self) {
        let alive = (0..self.nodes.len()).filter(|node| !self.dead[*node]);
        let (tick, node) = alive.map(|node| (self.ticks[node], node)).min().unwrap();
        match self.under_way.first_entry() {
            Some(first) if first.key().0 <= tick => {
                self.now = first.key().0;
                let (from, to, wire) = first.remove();
                if !self.dead[from] && !self.dead[to] && !self.cut.contains(&(from, to)) {
                    let from = self.nodes[from].me;
                    self.nodes[to].deliver(self.now, from, wire);
                    self.after(to);
                }
            }
            _ => {
                self.now = tick;
                self.after(node);
            }
        }
    }

    /// The leader whom all living nodes follow, with its epoch open.
    fn leader(&self) -> Option<usize> {
        let alive = || (0..self.nodes.len()).filter(|node| !self.dead[*node]);
        let leader = alive().find(|node| self.nodes[*node].is_open())?;
        let ballot = self.nodes[leader].election.promised();
        let follows = |node: usize| {
            let election = &self.nodes[node].election;
            election.promised() == ballot && election.leader(self.now) == Some(ballot.node)
        };
        (self.nodes[leader].lead.as_ref().unwrap().settled && alive().all(follows)).then_some(leader)
    }

    fn run_until_led(&mut self) {
        let deadline = self.now + 100 * TIMEOUT;
        while self.leader().is_none() {
            assert!(self.now < deadline, "no leader within a hundred timeouts");
            self.step();
        }
    }
}

/// What an election cost.
#[derive(Debug)]
struct Cost {
    time: Nanos,
    epochs: u64,
    wins: usize,
}

/// `seen`: the others learn that the process is dead; else they only miss it.
fn leader_dies(count: u8, latency: Nanos, seen: bool, seed: u64) -> Cost {
    let mut cluster = Cluster::new(count, latency, seed);
    cluster.nodes[0].election.campaign(0);
    (0..count as usize).for_each(|node| cluster.after(node));
    cluster.run_until_led();
    let pause = cluster.below(3 * HEARTBEAT);
    let until = cluster.now + pause;
    while cluster.now < until {
        cluster.step();
    }
    let leader = cluster.leader().unwrap();
    cluster.dead[leader] = true;
    let (died, epoch) = (cluster.now, cluster.nodes[leader].election.promised().epoch);
    cluster.wins.clear();
    for node in (0..count as usize).filter(|node| seen && *node != leader) {
        cluster.nodes[node].peer_down(died, NodeId(leader as u8), true);
        cluster.after(node);
    }
    cluster.run_until_led();
    let successor = cluster.leader().unwrap();
    let epochs = cluster.nodes[successor].election.promised().epoch.0 - epoch.0;
    Cost { time: cluster.now - died, epochs, wins: cluster.wins.len() }
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(range) = std::env::var("HIGHWATER_SEEDS") else { return 1..400 };
    let (from, to) = range.split_once("..").expect("HIGHWATER_SEEDS=FROM..TO");
    from.parse().unwrap()..to.parse().unwrap()
}

fn spread(count: u8, latency: Nanos, seen: bool) -> Vec<Cost> {
    let mut costs: Vec<Cost> = seeds().map(|seed| leader_dies(count, latency, seen, seed)).collect();
    costs.sort_by_key(|cost| cost.time);
    let (n, ms) = (costs.len(), |cost: &Cost| cost.time as f64 / MS as f64);
    println!(
        "{count} nodes, up to {:.2} ms, {}: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms; epochs: mean {:.3}, max {}; won in \
         vain: {}",
        latency as f64 / MS as f64,
        if seen { "seen to die" } else { "missed" },
        ms(&costs[n / 2]),
        ms(&costs[n * 99 / 100]),
        ms(&costs[n - 1]),
        costs.iter().map(|cost| cost.epochs).sum::<u64>() as f64 / n as f64,
        costs.iter().map(|cost| cost.epochs).max().unwrap(),
        costs.iter().map(|cost| cost.wins - 1).sum::<usize>(),
    );
    costs
}

/// With two survivors and connections that keep order no election is in vain: whoever asks for less holds back.
/// Once: two candidates of one epoch split the votes, or the loser's higher ballot deposed the winner: a quarter of the
/// elections among two survivors at 2 ms latency cost a timeout more, some three.
#[test]
fn two_survivors_never_split_their_votes() {
    for latency in [MS / 5, 2 * MS, 8 * MS] {
        for seen in [true, false] {
            for cost in spread(3, latency, seen) {
                assert_eq!((cost.epochs, cost.wins), (1, 1), "{cost:?}");
                // Half a heartbeat apart; questions, promises, fetching and adopting: at most 6 round trips.
                let standing = if seen { HEARTBEAT / 2 } else { 2 * TIMEOUT };
                let bound = standing + HEARTBEAT + 12 * (latency + MS / 20);
                assert!(cost.time <= bound, "{cost:?}, not {bound}");
            }
        }
    }
}

/// Among more, votes may be split, but rarely, and once.
#[test]
fn larger_clusters_rarely_split_their_votes() {
    for count in [5, 7] {
        for latency in [MS / 5, 2 * MS, 8 * MS] {
            for seen in [true, false] {
                let costs = spread(count, latency, seen);
                let in_vain = costs.iter().filter(|cost| cost.epochs > 1).count();
                assert!(in_vain * 10 <= costs.len(), "{in_vain} of {}", costs.len());
                assert!(costs.iter().all(|cost| cost.epochs <= 3 && cost.time <= 5 * TIMEOUT), "{costs:?}");
            }
        }
    }
}

/// The leader of `count` dies, and those above the smallest majority with it. Of those that are left one hears all, and the
/// others hear that one only. Whoever had the highest ballot asked for ever, and kept its yes from the only one that could win.
#[test]
fn who_cannot_win_does_not_keep_its_yes_for_ever() {
    for (count, latency) in [(4, MS / 5), (4, 8 * MS), (4, 60 * MS), (5, 2 * MS), (7, 2 * MS)] {
        let mut times = Vec::new();
        for seed in seeds().step_by(8) {
            let majority = count as usize / 2 + 1;
            for middle in 1..=majority {
                let mut cluster = Cluster::new(count, latency, seed);
                cluster.nodes[0].election.campaign(0);
                (0..count as usize).for_each(|node| cluster.after(node));
                cluster.run_until_led();
                let ends = || (1..=majority).filter(|end| *end != middle);
                cluster.cut = ends()
                    .flat_map(|one| ends().map(move |other| (one, other)))
                    .filter(|(a, b)| a != b)
                    .collect();
                (0..count as usize).for_each(|node| cluster.dead[node] = !(1..=majority).contains(&node));
                let died = cluster.now;
                cluster.run_until_led();
                assert_eq!(cluster.leader(), Some(middle));
                times.push((cluster.now - died) / MS);
            }
        }
        times.sort_unstable();
        let (p50, most) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{count} nodes, up to {} ms: p50 {p50} ms, max {most} ms of {} runs",
            latency / MS,
            times.len()
        );
    }
}
