//! Frames between workers of different numbers, by an engine that does nothing else: every worker sends numbered frames to
//! every worker of every other node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use highwater_core::codec::Reader;
use highwater_core::{Clock, Incarnation, Levels, NodeId};
use highwater_engines::{EngineKind, build};
use highwater_seam::{
    Endpoint, Frame, Nanos, Next, Options, Outbox, Refusal, Replica, Request, Taken, Worker,
};
use highwater_sim::{Interleaving, World, WorldOptions};

use super::common::{MS, library::ListLibrary};

const NODES: u8 = 3;
const WORKERS: u16 = 3;
/// Nobody sends before everybody is connected.
const BEGIN: Nanos = 20 * MS;
const END: Nanos = 70 * MS;
const EVERY: Nanos = MS / 10;

/// How many frames each worker got from each other one.
type Got = Arc<Mutex<BTreeMap<(Endpoint, Endpoint), u64>>>;

struct Chatter {
    me: Endpoint,
    life: Incarnation,
    /// Whom `peer_up` told last.
    up: BTreeMap<NodeId, Incarnation>,
    sent: u64,
    /// When to send again.
    due: Nanos,
    /// The last frame from each: the sender's life and the frame's number.
    heard: BTreeMap<Endpoint, (Incarnation, u64)>,
    got: Got,
    plan: Plan,
}

/// What all chatters do.
#[derive(Clone, Copy)]
enum Plan {
    Talk,
    TalkUntilTheEnd,
    Write,
}

impl Chatter {
    fn frame(&self) -> Frame {
        let head = [self.life.0.to_le_bytes(), self.sent.to_le_bytes()].concat();
        // Now and then a long one, which those behind it overtake if they may.
        let len = if self.sent.is_multiple_of(16) { 50_000 } else { 1 };
        Frame { head: head.into(), body: Bytes::from(vec![7; len]) }
    }
}

impl Worker for Chatter {
    fn ready(&self) -> Result<(), Refusal> {
        Err(Refusal::Busy)
    }

    fn submit(&mut self, _: Nanos, _: Request<'_>) -> Result<Taken, Refusal> {
        Err(Refusal::Busy)
    }

    fn peer_up(&mut self, _: Nanos, peer: NodeId, incarnation: Incarnation, _: Levels) {
        assert_eq!(self.up.insert(peer, incarnation), None, "it was down");
    }

    fn peer_down(&mut self, _: Nanos, peer: NodeId) {
        assert!(self.up.remove(&peer).is_some(), "it was up");
    }

    fn deliver(&mut self, _: Nanos, from: Endpoint, frame: Frame) {
        let mut reader = Reader::new(&frame.head);
        let (life, number) = (Incarnation(reader.u64().unwrap()), reader.u64().unwrap());
        let up = self.up.get(&from.node).copied();
        if up.is_none() && from.worker == self.me.worker {
            // The simulator lets a restarted process have what its last life was sent over the same connection.
            return;
        }
        assert_eq!(up, Some(life), "{from} to {}: who speaks is up", self.me);
        let before = self.heard.insert(from, (life, number));
        if let Some((_, last)) = before.filter(|(same, _)| *same == life) {
            assert!(number > last, "{from} to {}: {number} behind {last}", self.me);
        }
        *self.got.lock().unwrap().entry((from, self.me)).or_default() += 1;
    }

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        if now >= END && matches!(self.plan, Plan::TalkUntilTheEnd) {
            return Next::Idle;
        }
        if now >= self.due {
            self.sent += 1;
            self.due = now + EVERY;
            for node in self.up.keys() {
                let to = |worker| Endpoint { node: *node, worker };
                out.frames.extend((0..WORKERS).map(|worker| (to(worker), self.frame())));
            }
            if matches!(self.plan, Plan::Write) {
                out.writes.push(Bytes::from_static(b"entry"));
            }
        }
        Next::At(self.due)
    }

    fn describe(&self) -> String {
        format!("{} frames sent", self.sent)
    }
}

struct Chat {
    world: World<ListLibrary>,
    got: Got,
    plan: Plan,
}

impl Chat {
    fn new(seed: u64, plan: Plan) -> Chat {
        let tune = (|_: &mut Options| {}).into();
        let options = WorldOptions { seed, engine: EngineKind::Silo, nodes: NODES, workers: WORKERS, tune };
        let mut chat = Chat { world: World::new(options, ListLibrary), got: Got::default(), plan };
        chat.world.ids().for_each(|id| chat.start(id));
        chat
    }

    /// A replica of Silo's, but for its workers.
    fn start(&mut self, node: NodeId) {
        let (got, plan) = (self.got.clone(), self.plan);
        let replica = move |options: Options, library: &ListLibrary, clock: Arc<Clock>| -> Replica {
            let life = options.incarnation;
            let worker = |worker| -> Box<dyn Worker> {
                let (me, got) = (Endpoint { node, worker }, got.clone());
                let (up, heard) = Default::default();
                Box::new(Chatter { me, life, up, sent: 0, due: BEGIN, heard, got, plan })
            };
            let workers = (0..WORKERS).map(worker).collect();
            Replica { workers, ..build(EngineKind::Silo, options, library, clock) }
        };
        self.world.start_with(node, replica);
    }

    fn run(&mut self, length: Nanos) {
        self.world.run_until(self.world.now + length);
    }

    /// Every pair of workers that are to hear of each other.
    fn pairs(&self) -> usize {
        usize::from(NODES) * usize::from(NODES - 1) * usize::from(WORKERS) * usize::from(WORKERS)
    }

    /// Everybody hears everybody.
    fn verify(&mut self) {
        self.run(200 * MS);
        self.got.lock().unwrap().clear();
        self.run(20 * MS);
        assert_eq!(self.got.lock().unwrap().len(), self.pairs());
    }
}

#[test]
fn frames_reach_workers_of_every_number_and_none_is_lost() {
    let [one, two] = [(); 2].map(|()| {
        let mut chat = Chat::new(1, Plan::TalkUntilTheEnd);
        chat.run(END + 20 * MS);
        let got = chat.got.lock().unwrap().clone();
        assert_eq!(got.len(), chat.pairs());
        for ((from, to), count) in &got {
            let same = Endpoint { worker: from.worker, ..*to };
            assert_eq!(*count, got[&(*from, same)], "{from} sends as many to {to} as to {same}");
            assert!(*count > 100, "{count} frames from {from} to {to}");
        }
        chat.world.trace_hash()
    });
    assert_eq!(one, two);
}

/// Connections break and nodes stop and die: what still arrives is in order, and from who is up (the chatters see to it).
#[test]
fn frames_to_other_numbers_are_lost_in_order_with_connections() {
    let mut lost = 0;
    for seed in 1..=12 {
        let mut chat = Chat::new(seed, Plan::Talk);
        chat.world.network.faults.truncate = seed.is_multiple_of(2);
        if seed.is_multiple_of(3) {
            chat.world.interleave(Interleaving { one_in: 5, long_one_in: 5, longest: MS });
        }
        for _ in 0..40 {
            let length = chat.world.random.between(MS / 10, 4 * MS);
            chat.run(length);
            let a = NodeId(chat.world.random.below(NODES.into()) as u8);
            let b = NodeId((a.0 + 1) % NODES);
            match chat.world.random.below(6) {
                0 | 1 => chat.world.break_links(a, b),
                2 => chat.world.flap_links(a, b, MS, 3 * MS),
                3 => chat.world.pause(a, 2 * MS),
                4 => chat.world.slow_down(b, 1 + length % 50),
                _ => {
                    chat.world.kill(a);
                    chat.start(a);
                }
            }
        }
        chat.world.calm();
        chat.verify();
        lost += chat.world.marks.values().sum::<u64>();
    }
    assert!(lost > 0, "some were lost between two workers of a node, too");
}

#[test]
#[should_panic(expected = "this host has none")]
fn what_an_engine_writes_is_not_swallowed() {
    let mut chat = Chat::new(1, Plan::Write);
    chat.run(2 * BEGIN);
}
