//! A cluster in virtual time: nodes, what travels between them, disks, and who does what when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use bytes::Bytes;
use highwater_consensus::*;
use highwater_core::codec::Reader;
use highwater_core::{Ballot, Durability, EntryIndex, Epoch, NodeId, Random};

use crate::common::{Node, Wire, as_change, founder, founders};

pub const MS: Nanos = 1_000_000;

/// Chance from a seed.
pub struct Rng(Random);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(Random::new(seed))
    }

    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound.max(1))
    }

    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

pub enum Event {
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
pub struct Seen {
    pub promised: Vec<Ballot>,
    pub decided: Vec<EntryIndex>,
    /// The log of each stream as who executes at once has it: by what was appended, and what was said to be replaced.
    pub executed: Vec<BTreeMap<EntryIndex, Bytes>>,
}

/// A leader asked whether it leads.
pub struct Question {
    pub leader: Voter,
    pub stream: usize,
    pub ballot: Ballot,
    pub number: u64,
    /// The highest ballot that had won an election by then.
    pub won: Ballot,
}

pub struct Simulation {
    pub rng: Rng,
    pub now: Nanos,
    pub events: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    pub bodies: BTreeMap<usize, Event>,
    pub sequence: u64,
    pub nodes: Vec<Node>,
    pub down: Vec<bool>,
    pub paused_until: Vec<Nanos>,
    pub tick_at: Vec<Option<Nanos>>,
    pub seen: Vec<Seen>,
    pub next_life: u64,
    pub streams: usize,
    /// What was ever decided, by stream.
    pub history: Vec<Vec<Bytes>>,
    pub winners: BTreeMap<Epoch, (Ballot, Voter)>,
    /// Those without an answer, and how many had theirs.
    pub questions: Vec<Question>,
    pub confirmed: u64,
    /// How often a leader overruled what a stream held.
    pub replacements: u64,
    /// Connections that keep order, or free datagrams.
    pub connections: bool,
    /// Directed; with connections: symmetric. Bumped when a connection breaks: what was under way is lost.
    pub lines: BTreeMap<(usize, usize), (bool, u64)>,
    pub last_arrival: BTreeMap<(usize, usize), Nanos>,
    pub loss: u64,
    pub repetition: u64,
    pub delay: Nanos,
    pub faults: bool,
    pub load: bool,
    pub proposed: u64,
    pub steps: u64,
    pub options: (ElectionOptions, StreamOptions),
    /// Nodes have disks: they come back as the same voters, and any number of them may crash at once.
    pub disks: Option<Rng>,
    /// A sync takes so much longer, for ever: longer than the timeout of elections.
    pub slow: Nanos,
    /// A majority may crash at once though it forgets.
    pub powerless: bool,
    /// Which life of each process it is.
    pub lives: Vec<u64>,
    pub syncing: Vec<bool>,
}

impl Simulation {
    pub fn new(seed: u64, durability: Durability) -> Simulation {
        let durable = durability.has_disk();
        let mut rng = Rng::new(seed);
        let count = [3, 3, 5, 5, 7][rng.below(5) as usize];
        let streams = 1 + rng.below(3) as usize;
        let election = ElectionOptions { nodes: count, heartbeat: 3 * MS, timeout: 12 * MS };
        let window_bytes = [30, 100, 10_000][rng.below(3) as usize];
        let stream = StreamOptions { window_bytes, durability, retry: 5 * MS, ..StreamOptions::default() };
        let bases = || vec![(EntryIndex::NONE, founders(count)); streams];
        let nodes: Vec<Node> =
            (0..count).map(|n| Node::new(founder(n), bases(), election, stream, rng.bits())).collect();
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
            questions: Vec::new(),
            confirmed: 0,
            replacements: 0,
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
            slow: if durable && seed % 10 == 3 { (2 + seed / 10 % 7) * election.timeout } else { 0 },
            powerless: seed % 3 == 1,
            disks: durable.then_some(Rng::new(seed ^ 0xd15c)),
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

    pub fn schedule(&mut self, at: Nanos, event: Event) {
        self.sequence += 1;
        let id = self.sequence as usize;
        self.bodies.insert(id, event);
        self.events.push(Reverse((at, self.sequence, id)));
    }

    pub fn line(&self, a: usize, b: usize) -> (bool, u64) {
        *self.lines.get(&(a, b)).unwrap_or(&(true, 0))
    }

    pub fn step(&mut self) {
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

    pub fn on_load(&mut self, node: usize) {
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
            self.ask(node);
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

    /// A leader asks whether it leads.
    pub fn ask(&mut self, node: usize) {
        let stream = self.rng.below(self.streams as u64) as usize;
        let won = self.winners.values().map(|(ballot, _)| *ballot).max().unwrap_or_default();
        let leader = &mut self.nodes[node];
        let ballot = leader.streams[stream].promised();
        let number = leader.streams[stream].ask_for_confirmation();
        leader.poll(self.now);
        self.questions.push(Question { leader: self.nodes[node].me, stream, ballot, number, won });
    }

    /// A leader changes the epoch to admit lives that follow it.
    pub fn admit(&mut self, node: usize) {
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

    pub fn copy_if_too_far(&mut self, node: usize, stream: usize) {
        let own = &self.nodes[node].streams[stream];
        let (known, decided) = (own.decided().0, self.history[stream].len() as u64);
        if own.too_far().is_some() && self.rng.percent(50) {
            let base = known + self.rng.below(decided - known + 1);
            let members = self.members_at(stream, base);
            self.nodes[node].copy_state(stream, EntryIndex(base), members);
        }
    }

    pub fn members_at(&self, stream: usize, base: u64) -> Members {
        let before = self.history[stream][..base as usize].iter().rev();
        before.filter_map(as_change).next().unwrap_or(founders(self.nodes.len() as u8))
    }

    /// Ticks, sends what waits, checks.
    pub fn after(&mut self, node: usize) {
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
    pub fn sync(&mut self, node: usize) {
        let (Some(rng), Some(disk)) = (&mut self.disks, &self.nodes[node].disk) else { return };
        let upto = disk.written.len();
        if disk.synced == upto || self.syncing[node] {
            return;
        }
        self.syncing[node] = true;
        let slowest = if self.faults && rng.percent(5) { 60 * MS } else { 3 * MS };
        let at = self.now + MS / 20 + self.slow + rng.below(slowest);
        self.schedule(at, Event::Synced { node, life: self.lives[node], upto });
    }

    pub fn send(&mut self, from: Voter, to: NodeId, wire: Wire) {
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

    pub fn run_for(&mut self, time: Nanos) {
        let until = self.now + time;
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= until) {
            self.step();
        }
        self.now = until;
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
        Wire::Probe(..) | Wire::Vouch(..) => wire,
    }
}
