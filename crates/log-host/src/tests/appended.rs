//! The host serves an engine that executes entries when they are appended: it is told what a new leader overrules, and before it looks at what came instead.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use highwater_core::{Incarnation, Levels, NodeId, Outcome, ProcedureId, Random, Schema, StreamId};
use highwater_seam::memory::Account;
use highwater_seam::options::Options;
use highwater_seam::{
    ControlOutbox, Controller, Counters, Endpoint, Frame, Nanos, Outbox, Request, Token, Worker,
};
use highwater_store::Store;

use super::ordered::{Ordered, Tape};
use crate::controller::LogController;
use crate::worker::LogWorker;

const MS: Nanos = 1_000_000;

struct Node {
    worker: LogWorker<Ordered>,
    controller: LogController,
    tape: Arc<Mutex<Tape>>,
}

fn node(at: u8, nodes: u8, seed: u64) -> Node {
    let mut options = Options::new(NodeId(at), nodes, 1, Incarnation(1));
    (options.heartbeat, options.election_timeout, options.seed) = (4 * MS, 20 * MS, seed ^ u64::from(at));
    let (shared, marks) = crate::testing::parts(options.clone(), Account::new(&options, 1));
    let (schema, tape) = (Schema::new(vec![]), Arc::new(Mutex::new(Tape::default())));
    let (store, counters) = (Store::new(schema.clone()), Arc::new(Counters::default()));
    let policy = Ordered::on(tape.clone());
    let worker = LogWorker::new(StreamId(0), (shared.clone(), marks), store.clone(), counters, |_| policy);
    Node { worker, controller: LogController::new(shared, schema, store), tape }
}

/// A message on a connection, which keeps order.
enum Wire {
    Control(Bytes),
    Frame(Frame),
}

struct Cluster {
    nodes: Vec<Node>,
    random: Random,
    now: Nanos,
    /// Connections that are up, by both ends, the lower one first; and what is under way, by sender and receiver.
    up: BTreeSet<(usize, usize)>,
    lines: BTreeMap<(usize, usize), VecDeque<Wire>>,
    asked: u64,
    acknowledged: BTreeSet<u64>,
}

impl Cluster {
    fn new(seed: u64) -> Cluster {
        let mut random = Random::new(seed);
        let count = random.pick(&[3u8, 5]);
        let nodes = (0..count).map(|at| node(at, count, random.bits())).collect();
        let mut cluster = Cluster {
            nodes,
            random,
            now: 0,
            up: BTreeSet::new(),
            lines: BTreeMap::new(),
            asked: 0,
            acknowledged: BTreeSet::new(),
        };
        cluster.heal();
        cluster
    }

    fn pairs(&self) -> Vec<(usize, usize)> {
        let count = self.nodes.len();
        (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect()
    }

    fn cut(&mut self, pair @ (a, b): (usize, usize)) {
        if !self.up.remove(&pair) {
            return;
        }
        for (me, peer) in [(a, b), (b, a)] {
            self.lines.remove(&(me, peer));
            self.nodes[me].worker.peer_down(self.now, NodeId(peer as u8));
            self.nodes[me].controller.peer_down(self.now, NodeId(peer as u8), false);
        }
    }

    fn connect(&mut self, pair @ (a, b): (usize, usize)) {
        if !self.up.insert(pair) {
            return;
        }
        for (me, peer) in [(a, b), (b, a)] {
            let (id, life) = (NodeId(peer as u8), Incarnation(1));
            self.nodes[me].controller.peer_up(self.now, id, life, Levels::default());
            self.nodes[me].worker.peer_up(self.now, id, life, Levels::default());
        }
    }

    fn heal(&mut self) {
        self.pairs().into_iter().for_each(|pair| self.connect(pair));
    }

    /// Half of the connections of some node break, or all.
    fn disturb(&mut self) {
        let node = self.random.below(self.nodes.len() as u64) as usize;
        let all = self.random.one_in(2);
        for pair in self.pairs() {
            if (pair.0 == node || pair.1 == node) && (all || self.random.one_in(2)) {
                self.cut(pair);
            }
        }
    }

    /// A millisecond: some of what is under way arrives, and everybody has a turn.
    fn step(&mut self) {
        self.now += MS;
        let ends: Vec<(usize, usize)> = self.lines.keys().copied().collect();
        for (from, to) in ends {
            for _ in 0..self.random.below(6) {
                let Some(wire) = self.lines.get_mut(&(from, to)).and_then(VecDeque::pop_front) else { break };
                let (sender, node) = (NodeId(from as u8), &mut self.nodes[to]);
                match wire {
                    Wire::Control(message) => node.controller.deliver(self.now, sender, message),
                    Wire::Frame(frame) => {
                        node.worker.deliver(self.now, Endpoint { node: sender, worker: 0 }, frame);
                    }
                }
            }
        }
        for me in 0..self.nodes.len() {
            let (mut out, mut said) = (Outbox::default(), ControlOutbox::default());
            self.nodes[me].worker.turn(self.now, &mut out);
            self.nodes[me].controller.turn(self.now, &mut said);
            self.nodes[me].worker.turn(self.now, &mut out);
            let committed = out.replies.iter().filter(|reply| reply.outcome == Outcome::Committed);
            self.acknowledged.extend(committed.map(|reply| reply.token.0));
            let control = said.messages.into_iter().map(|(to, message)| (to, Wire::Control(message)));
            let frames = out.frames.into_iter().map(|(to, frame)| (to.node, Wire::Frame(frame)));
            for (to, wire) in control.chain(frames) {
                let to = usize::from(to.0);
                if self.up.contains(&(me.min(to), me.max(to))) {
                    self.lines.entry((me, to)).or_default().push_back(wire);
                }
            }
        }
    }

    fn ask(&mut self) {
        let at = self.random.below(self.nodes.len() as u64) as usize;
        let worker = &mut self.nodes[at].worker;
        if worker.ready().is_ok() {
            self.asked += 1;
            let args = self.asked.to_le_bytes();
            let request = Request::new(Token(self.asked), ProcedureId(0), &args);
            worker.submit(self.now, request).expect("it was ready");
        }
    }

    fn agree(&self) -> bool {
        let tapes: Vec<_> = self.nodes.iter().map(|node| node.tape.lock().unwrap()).collect();
        let ends: BTreeSet<_> = tapes.iter().map(|tape| (tape.decided, tape.executed.len())).collect();
        ends.len() == 1 && tapes[0].decided > 0 && tapes[0].decided == tapes[0].executed.len()
    }
}

/// One cluster's story: how many requests were acknowledged, and how many entries were executed and taken back.
fn run(seed: u64) -> (usize, usize) {
    let mut cluster = Cluster::new(seed);
    let mut calm_at = 0;
    for _ in 0..1500 {
        if cluster.now >= calm_at {
            cluster.heal();
            if cluster.random.one_in(40) {
                cluster.disturb();
                calm_at = cluster.now + cluster.random.between(10, 150) * MS;
            }
        }
        for _ in 0..cluster.random.below(4) {
            cluster.ask();
        }
        cluster.step();
    }
    cluster.heal();
    let healed = cluster.now;
    while !cluster.agree() {
        assert!(cluster.now < healed + 2000 * MS, "seed {seed}: it settles");
        cluster.step();
    }
    let tapes: Vec<_> = cluster.nodes.iter().map(|node| node.tape.lock().unwrap()).collect();
    assert!(tapes.iter().all(|tape| tape.executed == tapes[0].executed), "seed {seed}: all have the same");
    let mut times = BTreeMap::<u64, usize>::new();
    for entry in &tapes[0].executed {
        let entry = highwater_core::log::EntryHeader::open(entry, true).unwrap();
        if entry.header.kind == highwater_core::log::EntryKind::Batch && entry.body.len() == 8 {
            *times.entry(u64::from_le_bytes(entry.body.try_into().unwrap())).or_default() += 1;
        }
    }
    assert!(times.values().all(|times| *times == 1), "seed {seed}: nothing runs twice");
    for acknowledged in &cluster.acknowledged {
        assert!(
            times.contains_key(acknowledged),
            "seed {seed}: {acknowledged} was acknowledged, and is lost"
        );
    }
    (cluster.acknowledged.len(), tapes.iter().map(|tape| tape.taken_back).sum())
}

#[test]
fn who_executes_what_is_appended_takes_back_what_is_overruled() {
    let (mut acknowledged, mut taken_back) = (0, 0);
    for seed in 0..40 {
        let of = run(seed);
        (acknowledged, taken_back) = (acknowledged + of.0, taken_back + of.1);
    }
    assert!(acknowledged > 40 * 100, "requests are served: {acknowledged}");
    assert!(taken_back > 40, "entries are overruled: {taken_back}");
}
