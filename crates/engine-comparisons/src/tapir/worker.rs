//! The worker as a replica: it validates, accepts, and installs what is decided; and its turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_core::{Incarnation, Levels, NodeId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::outcomes::Outcomes;
use highwater_kit::validation::own::{Asked, Vote};
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::quorum::Quorums;
use highwater_kit::validation::stamps::{Coordinator, Layout, Stamps};
use highwater_seam::{Counters, Endpoint, Frame, Nanos, Next, Outbox, Refusal, Request, Taken, Worker};

use super::record::{Ended, Found, SharedRecord};
use crate::common::Common;
use crate::node::Node;
use crate::storage::Shelf;

pub(super) struct TapirWorker {
    pub common: Common,
    pub record: Arc<SharedRecord>,
    pub stamps: Stamps,
    pub outcomes: Outcomes,
    pub quorums: Quorums,
    pub coordinator: Coordinator,
    /// Transactions that this worker has entered into the record and that are not over.
    pending: usize,
    /// By node: what of its transactions of this number was trimmed.
    trimmed: Vec<Timestamp>,
    /// Everything at or below is over at every replica, of this worker's own transactions.
    closed: Timestamp,
    /// Connections that are new since the last turn.
    fresh: Vec<NodeId>,
}

impl TapirWorker {
    pub fn new(
        at: u16,
        (node, record): (&Arc<Node>, &Arc<SharedRecord>),
        shelf: &Shelf,
        counters: Arc<Counters>,
    ) -> TapirWorker {
        let (me, nodes, workers) = (node.options.node, node.options.nodes, node.options.workers);
        let coordinator = Coordinator { node: me, worker: at };
        let mut outcomes = Outcomes::default();
        outcomes.begin((0..nodes).map(NodeId).filter(|other| *other != me));
        TapirWorker {
            stamps: Stamps::new(node.clock.clone(), Layout::new(workers), coordinator),
            common: Common::new(at, node.clone(), shelf, counters),
            record: record.clone(),
            outcomes,
            quorums: Quorums::of(nodes),
            coordinator,
            pending: 0,
            trimmed: vec![Timestamp::ZERO; nodes as usize],
            closed: Timestamp::ZERO,
            fresh: Vec::new(),
        }
    }

    fn coordinator_at(&self, node: NodeId) -> Coordinator {
        Coordinator { node, worker: self.common.at }
    }

    /// What this replica says to a transaction, once and for all; nothing, if it is over.
    pub fn vote(&mut self, coordinator: Coordinator, ts: Timestamp, payload: &Payload) -> Option<Vote> {
        match self.record.enter(coordinator, ts, payload) {
            Found::Over => None,
            Found::Voted(valid) => Some(Vote { valid, ..Vote::VALID }),
            Found::New => {
                self.pending += 1;
                let valid = self.common.storage.validate(payload, ts);
                self.record.vote(coordinator, ts, valid.is_ok());
                let hint = valid.err().map_or(Timestamp::ZERO, |way| way.0);
                Some(Vote { valid: valid.is_ok(), late: false, hint })
            }
        }
    }

    /// A transaction is decided: it is installed here, if it commits, and its marks go.
    pub fn conclude(
        &mut self,
        coordinator: Coordinator,
        ts: Timestamp,
        commit: bool,
        payload: Option<Payload>,
    ) {
        let Some(Ended { payload, marked, entered }) = self.record.end(coordinator, ts, commit, payload)
        else {
            return;
        };
        self.pending -= usize::from(entered);
        if let Some(payload) = &payload {
            match (commit, marked) {
                (true, _) => {
                    self.common.storage.commit(payload, ts);
                    Counters::add(&self.common.counters.applied, 1);
                }
                (false, true) => self.common.storage.abort(payload, ts),
                (false, false) => {}
            }
        }
        assert!(payload.is_some() || !commit, "who has not voted is sent what a transaction writes");
        self.common.count(|cell| &cell.decided);
    }

    fn on_message(&mut self, now: Nanos, from: NodeId, Message { ts, about }: Message) {
        let coordinator = self.coordinator_at(from);
        match about {
            About::Validate { payload } if !self.is_closed(from, ts) => {
                if let Some(Vote { valid, late, hint }) = self.vote(coordinator, ts, &payload) {
                    let about = About::Vote { valid, late, hint };
                    self.common.post.for_one(from, &Message { ts, about });
                }
            }
            About::Vote { valid, late, hint } => self.on_vote(now, from, ts, Vote { valid, late, hint }),
            About::Accept { view, commit, .. } if !self.is_closed(from, ts) => {
                self.record.accept(coordinator, ts, commit);
                self.common.post.for_one(from, &Message { ts, about: About::Accepted { view } });
            }
            About::Accepted { .. } => self.on_accepted(now, from, ts),
            About::Outcome { number, commit, payload } => {
                let peer = self.common.peer(from);
                // In the order of their numbers; what is told again over a new connection was taken before.
                if number == peer.heard + 1 {
                    peer.heard = number;
                    self.conclude(coordinator, ts, commit, payload);
                    self.common.beat_soon(now);
                }
            }
            _ => {}
        }
    }

    /// Whether a transaction is over everywhere, by the word of its coordinator: it must not be entered again.
    fn is_closed(&self, node: NodeId, ts: Timestamp) -> bool {
        self.common.peers[node.0 as usize].as_ref().is_some_and(|peer| ts <= peer.closed)
    }

    fn send(&mut self, beat: bool, out: &mut Outbox) {
        let closed = self.outcomes.first_open().map(|first| Timestamp(first.0 - 1).min(self.stamps.last()));
        self.closed = match closed {
            Some(closed) => closed,
            None if beat => self.stamps.close(),
            None => self.stamps.last(),
        };
        for node in std::mem::take(&mut self.fresh) {
            self.ask_again(node);
        }
        for node in self.common.listeners().collect::<Vec<_>>() {
            let post = &mut self.common.post;
            self.outcomes.tell(node, |message| post.for_one(node, &message));
            let closed = self.closed;
            let peer = self.common.peer(node);
            let news = beat && peer.told != (peer.heard, closed);
            self.common.send(node, (true, news), closed, out);
        }
        self.common.post.sent_to_all();
    }

    /// Drops what is over everywhere from the record. Until where that is, over all coordinators of this worker's number.
    fn trim(&mut self) -> Timestamp {
        let mut due = Vec::new();
        let mut least = self.closed;
        for (node, trimmed) in (0..).map(NodeId).zip(&mut self.trimmed) {
            let closed = match &self.common.peers[node.0 as usize] {
                _ if node == self.common.me => self.closed,
                Some(peer) => peer.closed,
                None => Timestamp::ZERO,
            };
            least = least.min(closed);
            if std::mem::replace(trimmed, closed) < closed {
                due.push((Coordinator { node, worker: self.common.at }, closed));
            }
        }
        if !due.is_empty() {
            let bytes = self.record.trim(&due);
            self.common.node.shared_bytes.store(bytes as u64, Ordering::Relaxed);
        }
        least
    }
}

impl Worker for TapirWorker {
    fn ready(&self) -> Result<(), Refusal> {
        self.common.ready(self.outcomes.bytes())?;
        if self.reachable().count_ones() < self.quorums.majority { Err(Refusal::NoQuorum) } else { Ok(()) }
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.common.owns.reply_bytes() + self.common.done.reply_bytes.len()
    }

    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        crate::ABILITIES.admit(&request)?;
        self.ready()?;
        self.attempt(now, Asked::of(now, &request), Timestamp::ZERO);
        Ok(Taken::PutOff)
    }

    fn peer_up(&mut self, _now: Nanos, peer: NodeId, incarnation: Incarnation, _levels: Levels) {
        self.common.peer_up(peer, incarnation);
        self.outcomes.tell_again(peer);
        self.fresh.push(peer);
    }

    fn peer_down(&mut self, _now: Nanos, peer: NodeId) {
        self.common.peer_down(peer);
    }

    fn deliver(&mut self, now: Nanos, from: Endpoint, frame: Frame) {
        if let Some(parts) = self.common.open(from.node, &frame) {
            let heard = self.common.peer(from.node).heard_there;
            self.outcomes.heard(from.node, heard);
            Common::messages(parts).for_each(|message| self.on_message(now, from.node, message));
        }
    }

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        self.common.greet(out);
        if self.common.node.broken() {
            self.common.give_up();
        } else {
            while let Some(retry) = self.common.owns.lanes.take(now) {
                self.attempt(now, retry.asked, retry.hint);
            }
            self.decide_late(now);
            let busy = !self.common.owns.is_empty() || self.outcomes.unheard() > 0;
            let beat = self.common.beat(now, busy);
            self.send(beat, out);
        }
        let closed = self.trim();
        let busy = self.pending + self.common.owns.len() + self.outcomes.unheard();
        self.common.publish(busy, self.outcomes.bytes(), closed);
        let more = self.common.storage.collect(now);
        self.common.hand_out(out);
        if more {
            return Next::Now;
        }
        let patience = self.patience();
        let late = self.common.owns.all.values().map(|own| own.since + patience).filter(|at| *at > now).min();
        self.common.next(now).sooner(late.map_or(Next::Idle, Next::At))
    }

    fn describe(&self) -> String {
        format!(
            "{} under way, {} put off, {} outcomes unheard, {} pending here, {} in the record",
            self.common.owns.all.len(),
            self.common.owns.lanes.waiting(),
            self.outcomes.unheard(),
            self.pending,
            self.record.len()
        )
    }
}
