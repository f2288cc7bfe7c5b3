//! Clusters in virtual time: lost, repeated, late and reordered messages, broken connections, partitions, pauses, crashes
//! that lose the memory, or all but what is on disk. One seed draws everything. First faults, with safety checked at every step; then healing, and
//! the cluster must make progress, agree, and fall silent.
//!
//! `HIGHWATER_SEEDS=FROM..TO` runs other seeds.

#![allow(clippy::unwrap_used)] // a test may fail so

mod common;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bytes::Bytes;
use common::{Node, Wire, as_change, founder, founders};
use highwater_consensus::*;
use highwater_core::codec::Reader;
use highwater_core::{Ballot, EntryIndex, Epoch, Incarnation, NodeId};

const MS: Nanos = 1_000_000;

/// splitmix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

enum Event {
    Deliver {
        from: Voter,
        to: Voter,
        line: u64,
        wire: Wire,
    },
    Tick {
        node: usize,
    },
    Load {
        node: usize,
    },
    Fault,
    /// The disk has brought down what was written up to here.
    Synced {
        node: usize,
        life: u64,
        upto: usize,
    },
}

/// What the checker remembers of one life.
#[derive(Default)]
struct Seen {
    promised: Vec<Ballot>,
    decided: Vec<EntryIndex>,
}

struct Simulation {
    rng: Rng,
    now: Nanos,
    events: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    bodies: BTreeMap<usize, Event>,
    sequence: u64,
    nodes: Vec<Node>,
    down: Vec<bool>,
    paused_until: Vec<Nanos>,
    tick_at: Vec<Option<Nanos>>,
    seen: Vec<Seen>,
    next_life: u64,
    streams: usize,
    /// What was ever decided, by stream.
    history: Vec<Vec<Bytes>>,
    winners: BTreeMap<Epoch, (Ballot, Voter)>,
    /// Connections that keep order, or free datagrams.
    connections: bool,
    /// Directed; with connections: symmetric. Bumped when a connection breaks: what was under way is lost.
    lines: BTreeMap<(usize, usize), (bool, u64)>,
    last_arrival: BTreeMap<(usize, usize), Nanos>,
    loss: u64,
    repetition: u64,
    delay: Nanos,
    faults: bool,
    load: bool,
    proposed: u64,
    steps: u64,
    options: (ElectionOptions, StreamOptions),
    /// Nodes have disks: they come back as the same voters, and any number of them may crash at once.
    disks: Option<Rng>,
    /// Which life of each process it is.
    lives: Vec<u64>,
    syncing: Vec<bool>,
}

impl Simulation {
    fn new(seed: u64, durable: bool) -> Simulation {
        let mut rng = Rng(seed);
        let count = [3, 3, 5, 5, 7][rng.below(5) as usize];
        let streams = 1 + rng.below(3) as usize;
        let election = ElectionOptions { nodes: count, heartbeat: 3 * MS, timeout: 12 * MS };
        let window_bytes = [30, 100, 10_000][rng.below(3) as usize];
        let stream = StreamOptions { window_bytes, durable, retry: 5 * MS, ..StreamOptions::default() };
        let bases = || vec![(EntryIndex::NONE, founders(count)); streams];
        let nodes: Vec<Node> =
            (0..count).map(|n| Node::new(founder(n), bases(), election, stream, rng.next())).collect();
        let (n, connections) = (count as usize, rng.percent(50));
        let mut simulation = Simulation {
            now: 0,
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            sequence: 0,
            nodes,
            down: vec![false; n],
            paused_until: vec![0; n],
            tick_at: vec![None; n],
            seen: (0..n).map(|_| Seen::default()).collect(),
            next_life: 2,
            streams,
            history: vec![Vec::new(); streams],
            winners: BTreeMap::new(),
            connections,
            lines: BTreeMap::new(),
            last_arrival: BTreeMap::new(),
            loss: if connections { 0 } else { rng.below(30) },
            repetition: if connections { 0 } else { rng.below(20) },
            delay: [MS / 2, 2 * MS, 8 * MS][rng.below(3) as usize],
            faults: true,
            load: true,
            proposed: 0,
            steps: 0,
            options: (election, stream),
            disks: durable.then_some(Rng(seed ^ 0xd15c)),
            lives: vec![0; n],
            syncing: vec![false; n],
            rng,
        };
        for node in 0..n {
            simulation.after(node);
            simulation.schedule(0, Event::Load { node });
        }
        simulation.schedule(10 * MS, Event::Fault);
        simulation
    }

    fn schedule(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        let id = self.sequence as usize;
        self.bodies.insert(id, event);
        self.events.push(Reverse((at, self.sequence, id)));
    }

    fn line(&self, a: usize, b: usize) -> (bool, u64) {
        *self.lines.get(&(a, b)).unwrap_or(&(true, 0))
    }

    fn step(&mut self) {
        let Reverse((at, _, id)) = self.events.pop().expect("there is always something to do");
        let event = self.bodies.remove(&id).unwrap();
        self.now = self.now.max(at);
        self.steps += 1;
        match event {
            Event::Deliver { from, to, line, wire } => {
                let (a, b) = (from.node.0 as usize, to.node.0 as usize);
                if self.paused_until[b] > self.now {
                    let resumes = self.paused_until[b];
                    return self.schedule(resumes, Event::Deliver { from, to, line, wire });
                }
                let (open, current) = self.line(a, b);
                let lost = if self.connections { line != current } else { !open };
                // Nothing of an earlier life arrives after the later one has begun.
                let stale = self.nodes[b].me != to || (self.nodes[a].me != from);
                if !lost && !stale && !self.down[b] {
                    self.nodes[b].deliver(self.now, from, wire);
                    self.after(b);
                }
            }
            Event::Tick { node } => {
                if self.tick_at[node] == Some(at) && !self.down[node] {
                    self.tick_at[node] = None;
                    if self.paused_until[node] > self.now {
                        let resumes = self.paused_until[node];
                        self.tick_at[node] = Some(resumes);
                        return self.schedule(resumes, Event::Tick { node });
                    }
                    self.after(node);
                }
            }
            Event::Load { node } => self.on_load(node),
            Event::Synced { node, life, upto } => {
                if self.lives[node] == life && !self.down[node] {
                    self.syncing[node] = false;
                    self.nodes[node].synced(self.now, upto);
                    self.after(node);
                }
            }
            Event::Fault => {
                if self.faults {
                    self.fault();
                    let next = self.now + self.rng.below(25 * MS);
                    self.schedule(next, Event::Fault);
                }
            }
        }
    }

    fn on_load(&mut self, node: usize) {
        let next = self.now + self.rng.below(4 * MS) + MS / 10;
        self.schedule(next, Event::Load { node });
        if self.down[node] || self.paused_until[node] > self.now {
            return;
        }
        let (now, streams) = (self.now, self.streams as u64);
        if self.load && self.nodes[node].is_open() {
            for _ in 0..1 + self.rng.below(4) {
                let stream = self.rng.below(streams) as usize;
                if self.nodes[node].streams[stream].undecided() > 40 {
                    continue;
                }
                let text = format!("{}.{}", self.nodes[node].me.incarnation.0, self.proposed);
                self.nodes[node].propose(now, stream, &text);
                self.proposed += 1;
            }
        }
        if self.nodes[node].is_open() {
            self.admit(node);
        }
        for stream in 0..self.streams {
            if self.rng.percent(10) {
                let upto = self.nodes[node].streams[stream].decided();
                // A budget that is too small for the load would make slow followers copy for ever.
                let keep = if self.faults { self.rng.below(60) } else { 10_000 };
                self.nodes[node].streams[stream].trim(upto, keep);
            }
            self.copy_if_too_far(node, stream);
        }
        self.after(node);
    }

    /// A leader changes the epoch to admit lives that follow it.
    fn admit(&mut self, node: usize) {
        let leader = &self.nodes[node];
        let (ballot, members) = (leader.election.promised(), leader.members());
        let follows = |other: &Node| other.streams.iter().all(|stream| stream.tail().accepted == ballot);
        let learners: Vec<Voter> = (0..self.nodes.len())
            .filter(|other| !self.down[*other] && follows(&self.nodes[*other]))
            .map(|other| self.nodes[other].me)
            .filter(|voter| !members.contains(*voter))
            .collect();
        if !learners.is_empty() && leader.lead.as_ref().unwrap().settled && self.rng.percent(20) {
            let one = learners[self.rng.below(learners.len() as u64) as usize];
            self.nodes[node].admit = vec![one];
            self.nodes[node].election.campaign(self.now);
            self.nodes[node].poll(self.now);
        }
    }

    fn copy_if_too_far(&mut self, node: usize, stream: usize) {
        let own = &self.nodes[node].streams[stream];
        let (known, decided) = (own.decided().0, self.history[stream].len() as u64);
        if own.too_far().is_some() && self.rng.percent(50) {
            let base = known + self.rng.below(decided - known + 1);
            let members = self.members_at(stream, base);
            self.nodes[node].copy_state(stream, EntryIndex(base), members);
        }
    }

    fn members_at(&self, stream: usize, base: u64) -> Members {
        let before = self.history[stream][..base as usize].iter().rev();
        before.filter_map(as_change).next().unwrap_or(founders(self.nodes.len() as u8))
    }

    /// Ticks, sends what waits, checks.
    fn after(&mut self, node: usize) {
        let next = self.nodes[node].tick(self.now);
        if let Some(next) = next
            && self.tick_at[node].is_none_or(|at| next < at)
        {
            let next = next.max(self.now + 1);
            self.tick_at[node] = Some(next);
            self.schedule(next, Event::Tick { node });
        }
        self.sync(node);
        let from = self.nodes[node].me;
        for (to, wire) in std::mem::take(&mut self.nodes[node].out) {
            self.send(from, to, reread(wire));
        }
        self.check(node);
    }

    /// Has the disk bring down what was written, if it is not at it.
    fn sync(&mut self, node: usize) {
        let (Some(rng), Some(disk)) = (&mut self.disks, &self.nodes[node].disk) else { return };
        let upto = disk.written.len();
        if disk.synced == upto || self.syncing[node] {
            return;
        }
        self.syncing[node] = true;
        let slowest = if self.faults && rng.percent(5) { 60 * MS } else { 3 * MS };
        let at = self.now + MS / 20 + rng.below(slowest);
        self.schedule(at, Event::Synced { node, life: self.lives[node], upto });
    }

    fn send(&mut self, from: Voter, to: NodeId, wire: Wire) {
        let (a, b) = (from.node.0 as usize, to.0 as usize);
        let (open, line) = self.line(a, b);
        if !open || self.down[b] || self.rng.percent(self.loss) {
            return;
        }
        let to = self.nodes[b].me;
        let copies = if self.rng.percent(self.repetition) { 2 } else { 1 };
        for _ in 0..copies {
            let mut at = self.now + MS / 20 + self.rng.below(self.delay);
            if self.faults && !self.connections && self.rng.percent(3) {
                at += self.rng.below(60 * MS);
            }
            if self.connections || !self.faults {
                let last = self.last_arrival.entry((a, b)).or_default();
                at = at.max(*last);
                *last = at;
            }
            self.schedule(at, Event::Deliver { from, to, line, wire: wire.clone() });
        }
    }

    fn fault(&mut self) {
        let (n, now) = (self.nodes.len(), self.now);
        let (a, b) = (self.rng.below(n as u64) as usize, self.rng.below(n as u64) as usize);
        match self.rng.below(10) {
            0 | 1 if !self.down[a] => self.paused_until[a] = now + self.rng.below(60 * MS),
            2 | 3 if self.may_crash(a) => self.crash(a),
            4 | 5 => {
                if let Some(node) = (0..n).find(|node| self.down[*node]) {
                    self.restart(node);
                }
            }
            6 if a != b => self.cut(a, b),
            7 => (0..n).filter(|b| *b != a).for_each(|b| self.cut(a, b)),
            _ => self.mend_all(),
        }
    }

    /// Loses what is under way; with datagrams, one way only.
    fn cut(&mut self, a: usize, b: usize) {
        let (_, line) = self.line(a, b);
        self.lines.insert((a, b), (false, line + 1));
        if self.connections {
            self.lines.insert((b, a), (false, line + 1));
            let now = self.now;
            for (node, peer) in [(a, b), (b, a)] {
                if !self.down[node] {
                    let gone = self.down[peer];
                    self.nodes[node].peer_down(now, NodeId(peer as u8), gone);
                    self.after(node);
                }
            }
        }
    }

    fn mend_all(&mut self) {
        let closed: Vec<_> =
            self.lines.iter().filter(|(_, (open, _))| !open).map(|(pair, _)| *pair).collect();
        for (a, b) in closed {
            if !self.connections {
                self.lines.get_mut(&(a, b)).unwrap().0 = true;
            } else if a < b && !self.down[a] && !self.down[b] {
                for pair in [(a, b), (b, a)] {
                    self.lines.get_mut(&pair).unwrap().0 = true;
                }
                for (node, peer) in [(a, b), (b, a)] {
                    let peer = self.nodes[peer].me;
                    self.nodes[node].peer_up(self.now, peer);
                    self.after(node);
                }
            }
        }
    }

    /// Whether every membership that may matter keeps a majority of lives.
    fn may_crash(&self, node: usize) -> bool {
        let alive = |voter: Voter| {
            let at = voter.node.0 as usize;
            at != node && !self.down[at] && self.nodes[at].me == voter
        };
        let live = (0..self.nodes.len()).filter(|at| !self.down[*at] && *at != node);
        if self.disks.is_some() {
            return !self.down[node];
        }
        !self.down[node]
            && live.clone().all(|at| {
                let node = &self.nodes[at];
                let mut all = node.pending();
                all.push(node.members());
                all.extend(node.lead.as_ref().map(|lead| lead.members.clone()));
                all.into_iter().all(|members| Quorums::of(members).reached(alive))
            })
    }

    fn crash(&mut self, node: usize) {
        self.down[node] = true;
        self.paused_until[node] = 0;
        self.tick_at[node] = None;
        if self.connections {
            (0..self.nodes.len()).filter(|peer| *peer != node).for_each(|peer| self.cut(node, peer));
        }
    }

    fn restart(&mut self, node: usize) {
        if self.disks.is_some() {
            return self.restart_from_disk(node);
        }
        let me = Voter { node: NodeId(node as u8), incarnation: Incarnation(self.next_life) };
        self.next_life += 1;
        let mut bases = Vec::new();
        for stream in 0..self.streams {
            let decided = self.history[stream].len() as u64;
            let base = decided - self.rng.below(6).min(decided);
            bases.push((EntryIndex(base), self.members_at(stream, base)));
        }
        let (election, stream) = self.options;
        self.nodes[node] = Node::new(me, bases, election, stream, self.rng.next());
        self.seen[node] = Seen::default();
        self.down[node] = false;
        self.after(node);
        self.mend_all();
    }

    /// What was synced is there, and any part of what was written after, as far as it goes without a hole.
    fn restart_from_disk(&mut self, node: usize) {
        let (rng, disk) = (self.disks.as_mut().unwrap(), self.nodes[node].disk.take().unwrap());
        let mut written = disk.written;
        let unsynced = written.len() - disk.synced;
        written.truncate(disk.synced + rng.below(unsynced as u64 + 1) as usize);
        let (me, seed) = (self.nodes[node].me, rng.next());
        let members = |stream, base| self.members_at(stream, base);
        let node_again = Node::recover(me, written, members, self.options, (self.streams, seed));
        self.nodes[node] = node_again;
        self.seen[node] = Seen::default();
        self.lives[node] += 1;
        self.syncing[node] = false;
        self.down[node] = false;
        self.after(node);
        self.mend_all();
    }

    fn check(&mut self, node: usize) {
        let (life, seen) = (&mut self.nodes[node], &mut self.seen[node]);
        seen.promised.resize(self.streams, Ballot::default());
        seen.decided.resize(self.streams, EntryIndex::NONE);
        for ballot in life.won.drain(..) {
            let winner = self.winners.insert(ballot.epoch, (ballot, life.me));
            assert!(winner.is_none(), "one leader per epoch: {winner:?}, then {ballot} by {:?}", life.me);
        }
        for (at, stream) in life.streams.iter().enumerate() {
            assert!(stream.promised() >= seen.promised[at], "a promise moved back");
            assert!(stream.decided() >= seen.decided[at], "a decision was taken back");
            assert!(stream.tail().accepted <= stream.promised(), "accepted without a promise");
            assert!(stream.decided() <= stream.last(), "decided what it doesn't hold");
            let history = &mut self.history[at];
            for index in seen.decided[at].0 + 1..=stream.decided().0 {
                let Some(entry) = stream.entry(EntryIndex(index)) else {
                    assert!(index <= history.len() as u64, "copied what nobody decided");
                    continue;
                };
                match history.get(index as usize - 1) {
                    Some(known) => {
                        assert_eq!(known, entry, "two values at {index} of stream {at}, node {node}")
                    }
                    None => history.push(entry.clone()),
                }
                assert!(history.len() as u64 >= index, "history has no holes");
            }
            seen.promised[at] = stream.promised();
            seen.decided[at] = stream.decided();
        }
    }

    fn run_for(&mut self, time: Nanos) {
        let until = self.now + time;
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= until) {
            self.step();
        }
        self.now = until;
    }

    fn heal(&mut self) {
        self.faults = false;
        (self.loss, self.repetition, self.delay) = (0, 0, MS);
        self.paused_until.fill(0);
        (0..self.nodes.len()).filter(|node| self.down[*node]).collect::<Vec<_>>().into_iter().for_each(|n| {
            self.restart(n);
        });
        self.mend_all();
    }

    /// Runs until `done`, within a bounded time.
    fn expect(&mut self, what: &str, done: impl Fn(&mut Simulation) -> bool) {
        let deadline = self.now + 3000 * MS;
        while !done(self) {
            assert!(self.now < deadline, "not within 3 s: {what}\n{}", self.describe());
            self.run_for(3 * MS);
        }
    }

    fn describe(&self) -> String {
        let mut text = String::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let election = &node.election;
            text += &format!(
                "{:?} down={} {:?} promised {} members {:?} pending {:?}\n",
                node.me,
                self.down[at],
                election.standing(),
                election.promised(),
                node.members(),
                node.pending()
            );
            for stream in &node.streams {
                text += &format!(
                    "   promised {} {:?} too far {:?}\n",
                    stream.promised(),
                    stream.tail(),
                    stream.too_far()
                );
            }
        }
        text
    }
}

/// Through bytes and back.
fn reread(wire: Wire) -> Wire {
    let mut bytes = Vec::new();
    match wire {
        Wire::Stream(stream, message, entry) => {
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&mut Reader::new(&bytes)), Ok(message.clone()));
            Wire::Stream(stream, message, entry)
        }
        Wire::Election(message) => {
            message.encode(&mut bytes);
            Wire::Election(ElectionMessage::decode(&mut Reader::new(&bytes)).unwrap())
        }
    }
}

/// One cluster's story; returns how many steps it took.
fn run(seed: u64, durable: bool) -> u64 {
    let mut simulation = Simulation::new(seed, durable);
    // Many short stories and a few long ones.
    let most = simulation.rng.below(500 * MS);
    let time = simulation.rng.below(most);
    simulation.run_for(time);
    simulation.heal();
    let decided = |simulation: &Simulation| simulation.history.iter().map(Vec::len).sum::<usize>();
    let before = decided(&simulation);
    simulation.expect("progress", |simulation| decided(simulation) >= before + 30);
    simulation.expect("everyone votes", |simulation| {
        let alive = simulation.nodes.iter().map(|node| node.me);
        let all = Members::new(Epoch(0), alive.collect());
        let votes = |node: &Node| node.members().voters() == all.voters();
        simulation.nodes.iter().all(votes)
    });
    simulation.load = false;
    simulation.expect("agreement, and silence", |simulation| {
        let now = simulation.now;
        let lengths: Vec<u64> = simulation.history.iter().map(|history| history.len() as u64).collect();
        simulation.nodes.iter_mut().all(|node| {
            let mut streams = node.streams.iter_mut().zip(&lengths);
            streams.all(|(stream, length)| {
                stream.decided().0 == *length && stream.last().0 == *length && stream.tick(now).is_none()
            })
        })
    });
    simulation.steps
}

/// The seeds to run, and whether they were asked for.
fn seeds() -> (std::ops::Range<u64>, bool) {
    let Ok(range) = std::env::var("HIGHWATER_SEEDS") else { return (0..600, false) };
    let (from, to) = range.split_once("..").expect("HIGHWATER_SEEDS=FROM..TO");
    (from.parse().unwrap()..to.parse().unwrap(), true)
}

#[test]
fn every_seed_stays_safe_and_converges() {
    run_all(false);
}

/// With disks that lose what was not synced: nodes come back as the voters that they were, and all may crash at once.
#[test]
fn every_seed_with_disks_stays_safe_and_converges() {
    run_all(true);
}

fn run_all(durable: bool) {
    let (range, asked) = seeds();
    let mut steps = 0;
    for seed in range.clone() {
        let run = std::panic::catch_unwind(|| run(seed, durable));
        steps += run.unwrap_or_else(|_| panic!("seed {seed} failed: HIGHWATER_SEEDS={seed}..{}", seed + 1));
    }
    if asked {
        println!("{range:?}: {steps} steps");
    }
}
