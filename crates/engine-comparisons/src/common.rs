//! What the workers of the three systems have in common: requests and their attempts, other nodes, frames, beats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use highwater_core::codec::Reader;
use highwater_core::{Epoch, Incarnation, NodeId, Outcome, Random, Timestamp};
use highwater_kit::validation::lanes::Retry;
use highwater_kit::validation::message::{Head, Message, TAG};
use highwater_kit::validation::own::{Asked, Own, Owns, Phase};
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::post::Post;
use highwater_seam::{Counters, Frame, Nanos, Next, Outbox, Refusal};

use super::node::{Cell, Node};
use super::storage::{Shelf, Storage};

/// Who has nothing to do says how far it is every so many election timeouts: others can forget, then.
const IDLE_BEAT: u64 = 16;

/// The same-numbered worker of another node.
pub struct Peer {
    connected: bool,
    /// It is of the same cluster, and takes messages: a frame of it came.
    pub met: bool,
    /// It has to hear from this worker, whether there is anything to say or not.
    greet: bool,
    /// How far it is: what it has told.
    pub heard_there: u64,
    /// How far this worker is with what it was sent from there, in the system's own numbers.
    pub heard: u64,
    /// What it was told last: [`Peer::heard`], and what is closed.
    pub told: (u64, Timestamp),
    /// Of what it coordinates what is at or below is over everywhere.
    pub closed: Timestamp,
}

impl Peer {
    /// Whether it takes messages now.
    pub fn listens(&self) -> bool {
        self.connected && self.met
    }
}

/// What each worker has, whatever the system.
pub struct Common {
    pub at: u16,
    pub me: NodeId,
    pub node: Arc<Node>,
    pub counters: Arc<Counters>,
    pub storage: Storage,
    /// Requests under way, and those that are put off.
    pub owns: Owns,
    pub post: Post,
    /// By node; none of this one.
    pub peers: Vec<Option<Peer>>,
    /// Replies of this turn, and wake-ups.
    pub done: Outbox,
    /// How long a round trip takes, about.
    pub round_trip: Nanos,
    random: Random,
    next_beat: Nanos,
    /// All that are connected were greeted since everybody was met.
    greeted: bool,
}

impl Common {
    /// Of a worker of a fresh replica.
    pub fn new(at: u16, node: Arc<Node>, shelf: &Shelf, counters: Arc<Counters>) -> Common {
        let options = &node.options;
        Common {
            at,
            me: options.node,
            counters,
            storage: Storage::new(node.clone(), shelf),
            owns: Owns::default(),
            post: Post::new(options.nodes),
            peers: (0..options.nodes).map(|_| None).collect(),
            done: Outbox::default(),
            round_trip: 100_000,
            random: Random::new(options.seed ^ (u64::from(at) + 1) << 40),
            next_beat: 0,
            greeted: false,
            node,
        }
    }

    /// This worker's cell.
    pub fn cell(&self) -> &Cell {
        &self.node.cells[self.at as usize]
    }

    /// Whether a request would be taken now; `kept`: bytes that are kept for replicas that have not heard.
    pub fn ready(&self, kept: usize) -> Result<(), Refusal> {
        if !self.node.serves() {
            return Err(Refusal::NotServing { ask: self.node.primary });
        }
        let met = self.peers.iter().flatten().filter(|peer| peer.met).count();
        // Who lost its memory hears of it from the others before it serves.
        if met + 1 < self.peers.len() || self.node.cluster().is_none() || self.node.broken() {
            return Err(Refusal::NoQuorum);
        }
        let options = &self.node.options;
        let full = self.owns.len() >= options.max_in_flight_requests
            || self.owns.bytes() >= options.max_in_flight_bytes
            || kept >= options.log_retain_bytes
            || self.done.reply_bytes.len() >= options.max_in_flight_bytes;
        if full { Err(Refusal::Busy) } else { Ok(()) }
    }

    /// An attempt has been executed: it is under way from here on, at `ts`.
    pub fn add(&mut self, now: Nanos, ts: Timestamp, asked: Asked, (outcome, payload): (Outcome, Payload)) {
        let asked = asked.wants(&payload);
        self.owns.add(
            ts,
            Own {
                asked,
                outcome,
                reply: self.storage.reply(),
                payload,
                valid: 0,
                invalid: 0,
                hint: Timestamp::ZERO,
                lead: (0, 0),
                phase: Phase::Validating,
                since: now,
                again: (Nanos::MAX, 0),
                counts: false,
                joined: Vec::new(),
            },
        );
        self.beat_soon(now);
    }

    /// An execution came to its end, and has a timestamp.
    pub fn count_execution(&self, payload: &Payload) {
        Counters::add(&self.counters.executed, 1);
        Counters::add(&self.counters.log_bytes, payload.len() as u64);
    }

    /// A transaction has committed: its client is told.
    pub fn answer(&mut self, now: Nanos, own: &Own) {
        let took = now.saturating_sub(own.since).min(self.node.options.election_timeout);
        self.round_trip = (7 * self.round_trip + took.max(1)) / 8;
        let done = own.outcome == Outcome::Committed;
        let counter = if done { &self.counters.committed } else { &self.counters.rolled_back };
        Counters::add(counter, 1);
        self.done.reply(own.asked.token, own.outcome, &own.reply);
    }

    /// An attempt came to nothing: another one, later and above `hint`, unless there were too many.
    pub fn put_off(&mut self, now: Nanos, asked: Asked, hint: Timestamp) {
        Counters::add(&self.counters.conflicts, 1);
        let Some(at) = asked.again(now, &self.node.options, self.round_trip, &mut self.random) else {
            return self.done.reply(asked.token, Outcome::Conflict, &[]);
        };
        self.owns.lanes.put_off(Retry { at, asked, hint }, true);
    }

    /// Service is over: nobody will say what became of what is under way; of what was put off nothing was done.
    pub fn give_up(&mut self) {
        for (_, own) in self.owns.take_all() {
            self.done.reply(own.asked.token, Outcome::Unknown, &[]);
        }
        for Retry { asked, .. } in self.owns.lanes.take_all() {
            self.done.reply(asked.token, Outcome::Conflict, &[]);
        }
    }

    /// Everybody of this replica has to look.
    fn wake_all(&mut self) {
        self.done.wake_workers = true;
        self.done.wake_controller = true;
    }

    /// Ends the service of this node.
    pub fn break_off(&mut self) {
        if self.node.break_off() {
            self.wake_all();
        }
    }

    /// See [`Worker::peer_up`](highwater_seam::Worker::peer_up). What was on its way to there is lost.
    pub fn peer_up(&mut self, node: NodeId, life: Incarnation) {
        if node == self.me || node.0 >= self.node.options.nodes {
            return;
        }
        if self.node.meet(node, life) {
            self.wake_all();
        }
        let peer = self.peers[node.0 as usize].get_or_insert(Peer {
            connected: true,
            met: false,
            greet: true,
            heard_there: 0,
            heard: 0,
            told: (0, Timestamp::ZERO),
            closed: Timestamp::ZERO,
        });
        (peer.connected, peer.greet) = (true, true);
    }

    /// See [`Worker::peer_down`](highwater_seam::Worker::peer_down).
    pub fn peer_down(&mut self, node: NodeId) {
        if let Some(Some(peer)) = self.peers.get_mut(node.0 as usize) {
            peer.connected = false;
        }
    }

    /// Other nodes that take messages now.
    pub fn listeners(&self) -> impl Iterator<Item = NodeId> + '_ {
        let all = self.peers.iter().zip(0..);
        all.filter(|(peer, _)| peer.as_ref().is_some_and(Peer::listens)).map(|(_, node)| NodeId(node))
    }

    /// The peer of a node.
    ///
    /// # Panics
    /// If it was never connected.
    pub fn peer(&mut self, node: NodeId) -> &mut Peer {
        self.peers[node.0 as usize].as_mut().expect("who sends, or is sent to, was connected")
    }

    /// Takes a frame apart, if it is of this cluster: its messages, those with payloads last. A frame that is not ends the service.
    pub fn open(&mut self, from: NodeId, frame: &Frame) -> Option<[Bytes; 2]> {
        let cluster = self.node.cluster()?;
        let mut reader = Reader::new(&frame.head);
        let tagged = reader.u8() == Ok(TAG);
        let head = Head::decode(&mut reader).ok().filter(|_| tagged);
        let Some((head, _)) =
            head.filter(|(head, crc)| head.epoch.0 == cluster && crc32fast::hash(&frame.body) == *crc)
        else {
            self.break_off();
            return None;
        };
        let peer = self.peers[from.0 as usize].as_mut()?;
        if !std::mem::replace(&mut peer.met, true) {
            peer.greet = true;
        }
        peer.closed = peer.closed.max(head.closed);
        peer.heard_there = peer.heard_there.max(head.heard);
        let light = frame.head.slice(frame.head.len() - reader.rest().len()..);
        (!self.node.broken()).then(|| [light, frame.body.clone()])
    }

    /// The messages of [`open`](Common::open), one after another.
    pub fn messages(parts: [Bytes; 2]) -> impl Iterator<Item = Message> {
        parts.into_iter().flat_map(|mut rest| {
            std::iter::from_fn(move || {
                let more = !rest.is_empty();
                more.then(|| {
                    Message::decode(&mut rest).expect("the checksum is right, and builds are the same")
                })
            })
        })
    }

    /// Sends a node what there is for it: `for_all`: what is for all, too; `news`: a frame even if there is nothing.
    pub fn send(&mut self, node: NodeId, (for_all, news): (bool, bool), closed: Timestamp, out: &mut Outbox) {
        let Some(cluster) = self.node.cluster() else { return };
        let (at, has) = (self.at, self.post.has(node) || for_all && self.post.has_for_all());
        let peer = self.peer(node);
        if !has && !news && !peer.greet {
            return;
        }
        peer.greet = false;
        peer.told = (peer.heard, closed);
        let head = Head { epoch: Epoch(cluster), closed, heard: peer.heard, clock: Timestamp::ZERO };
        self.post.send(node, at, head, for_all, out);
    }

    /// Greets those who are connected, and have not said who they are.
    pub fn greet(&mut self, out: &mut Outbox) {
        if self.node.cluster().is_none() {
            return;
        }
        if !std::mem::replace(&mut self.greeted, true) {
            self.peers.iter_mut().flatten().for_each(|peer| peer.greet = true);
        }
        for node in (0..self.peers.len() as u8).map(NodeId) {
            let peer = self.peers[node.0 as usize].as_ref();
            if peer.is_some_and(|peer| peer.connected && (!peer.met || self.node.broken())) {
                self.send(node, (false, false), Timestamp::ZERO, out);
            }
        }
    }

    /// Whether it is time to say how far this worker is; it is again soon if it is `busy`.
    pub fn beat(&mut self, now: Nanos, busy: bool) -> bool {
        if now < self.next_beat {
            return false;
        }
        let options = &self.node.options;
        self.next_beat = now + if busy { options.heartbeat } else { IDLE_BEAT * options.election_timeout };
        true
    }

    /// There will be something to say.
    pub fn beat_soon(&mut self, now: Nanos) {
        self.next_beat = self.next_beat.min(now + self.node.options.heartbeat);
    }

    /// When the next turn is due, as far as beats and attempts are concerned.
    pub fn next(&self, now: Nanos) -> Next {
        if self.node.broken() {
            return Next::Idle;
        }
        let at = self.owns.lanes.next().unwrap_or(Nanos::MAX).min(self.next_beat);
        Next::At(at.max(now + 1))
    }

    /// Hands out the replies of this turn.
    pub fn hand_out(&mut self, out: &mut Outbox) {
        // Offsets of replies are those of an outbox that was empty.
        assert!(
            out.reply_bytes.is_empty() || self.done.reply_bytes.is_empty(),
            "an outbox is emptied between turns"
        );
        out.replies.append(&mut self.done.replies);
        out.reply_bytes.append(&mut self.done.reply_bytes);
        out.wake_workers |= self.done.wake_workers;
        out.wake_controller |= self.done.wake_controller;
        self.done.clear();
    }

    /// Says how many transactions are under way, and how many bytes are kept.
    pub fn publish(&self, busy: usize, kept: usize, closed: Timestamp) {
        let cell = self.cell();
        cell.busy.store(busy as u64, Ordering::Relaxed);
        cell.bytes.store(kept as u64, Ordering::Relaxed);
        // Release; pairs with the Acquire in `Node::floor`.
        cell.closed.store(closed.0, Ordering::Release);
    }

    /// Counts in one of this worker's figures.
    pub fn count(&self, figure: impl Fn(&Cell) -> &AtomicU64) {
        Counters::add(figure(self.cell()), 1);
    }
}
