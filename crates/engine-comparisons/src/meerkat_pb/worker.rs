//! A worker: on the primary it executes, validates, sends and answers; on a backup it installs and acknowledges.

use std::sync::Arc;

use highwater_core::{Incarnation, Levels, NodeId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::Asked;
use highwater_kit::validation::stamps::{Coordinator, Layout, Stamps};
use highwater_seam::{Counters, Endpoint, Frame, Nanos, Next, Outbox, Refusal, Request, Taken, Worker};

use crate::PRIMARY;
use crate::common::Common;
use crate::node::Node;
use crate::outgoing::Outgoing;
use crate::storage::Shelf;

pub(super) struct PbWorker {
    common: Common,
    stamps: Stamps,
    outgoing: Outgoing,
    /// The number of the last transaction that was sent.
    last: u64,
    /// Everything at or below is over at every replica, of this worker's.
    closed: Timestamp,
}

impl PbWorker {
    pub fn new(at: u16, node: &Arc<Node>, shelf: &Shelf, counters: Arc<Counters>) -> PbWorker {
        let coordinator = Coordinator { node: node.options.node, worker: at };
        PbWorker {
            stamps: Stamps::new(node.clock.clone(), Layout::new(node.options.workers), coordinator),
            outgoing: Outgoing::new(node.options.nodes),
            common: Common::new(at, node.clone(), shelf, counters),
            last: 0,
            closed: Timestamp::ZERO,
        }
    }

    /// Executes it, and looks whether it can stand at a timestamp: if so it is decided, and goes to the backups.
    fn attempt(&mut self, now: Nanos, mut asked: Asked, hint: Timestamp) {
        asked.attempts += 1;
        let common = &mut self.common;
        let Some(outcome) = common.storage.execute(&asked) else { return common.put_off(now, asked, hint) };
        let ts = self.stamps.next(common.storage.seen().max(hint), 0);
        let payload = common.storage.end(ts);
        common.count_execution(&payload);
        if let Err(way) = common.storage.validate(&payload, ts) {
            self.stamps.observe(way.0);
            return common.put_off(now, asked.wants(&payload), way.0);
        }
        common.add(now, ts, asked, (outcome, payload.clone()));
        self.last += 1;
        self.outgoing.push(common, self.last, ts, payload);
    }

    /// What all backups have installed ends with this number.
    fn acknowledged(&self) -> u64 {
        let peers = self.common.peers.iter().flatten();
        peers.map(|peer| peer.heard_there).min().unwrap_or(self.last)
    }

    /// What all backups have installed is installed here, and answered.
    fn release(&mut self, now: Nanos) {
        let acknowledged = self.acknowledged();
        let common = &mut self.common;
        while let Some(ts) = self.outgoing.pop(acknowledged, |ts| common.owns.all[&ts].payload.len()) {
            let own =
                common.owns.remove(ts, true, (0, 0)).expect("it is under way until all have acknowledged it");
            common.storage.commit(&own.payload, ts);
            common.count(|cell| &cell.decided);
            common.answer(now, &own);
        }
    }

    fn turn_as_primary(&mut self, now: Nanos, out: &mut Outbox) {
        while let Some(retry) = self.common.owns.lanes.take(now) {
            self.attempt(now, retry.asked, retry.hint);
        }
        self.release(now);
        let busy = !self.common.owns.all.is_empty();
        let beat = self.common.beat(now, busy);
        self.closed = match self.common.owns.all.first_key_value() {
            Some((first, _)) => Timestamp(first.0 - 1).min(self.stamps.last()),
            None if beat => self.stamps.close(),
            None => self.stamps.last(),
        };
        let acknowledged = |common: &Common, node: NodeId| {
            common.peers[node.0 as usize].as_ref().map_or(0, |peer| peer.heard_there)
        };
        let payload = |common: &Common, _, ts: Timestamp| Some(common.owns.all[&ts].payload.clone());
        self.outgoing.send(&mut self.common, (self.closed, beat), acknowledged, payload, out);
    }

    fn turn_as_backup(&mut self, out: &mut Outbox) {
        for node in self.common.listeners().collect::<Vec<_>>() {
            let peer = self.common.peer(node);
            let news = peer.told.0 != peer.heard;
            self.common.send(node, (false, news), Timestamp::ZERO, out);
        }
        let primary = self.common.peers[PRIMARY.0 as usize].as_ref();
        self.closed = primary.map_or(Timestamp::ZERO, |peer| peer.closed);
    }

    /// A transaction of the primary's: its worker of this number sends them one after another.
    fn on_message(&mut self, from: NodeId, Message { ts, about }: Message) {
        let About::Outcome { number, payload: Some(payload), .. } = about else { return };
        let peer = self.common.peer(from);
        if number != peer.heard + 1 {
            // It is sent again over a new connection: it came before, or what is before it comes first.
            return;
        }
        peer.heard = number;
        self.common.storage.commit(&payload, ts);
        self.common.count(|cell| &cell.decided);
        Counters::add(&self.common.counters.applied, 1);
    }
}

impl Worker for PbWorker {
    fn ready(&self) -> Result<(), Refusal> {
        self.common.ready(self.outgoing.bytes())
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
        self.outgoing.again(peer);
    }

    fn peer_down(&mut self, _now: Nanos, peer: NodeId) {
        self.common.peer_down(peer);
    }

    fn deliver(&mut self, _now: Nanos, from: Endpoint, frame: Frame) {
        if let Some(parts) = self.common.open(from.node, &frame) {
            Common::messages(parts).for_each(|message| self.on_message(from.node, message));
        }
    }

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        self.common.greet(out);
        if self.common.node.broken() {
            self.outgoing.clear();
            self.common.give_up();
        } else if self.common.node.serves() {
            self.turn_as_primary(now, out);
        } else {
            self.turn_as_backup(out);
        }
        self.common.publish(self.common.owns.len(), self.outgoing.bytes(), self.closed);
        let more = self.common.storage.collect(now);
        self.common.hand_out(out);
        match (more, self.common.node.serves()) {
            (true, _) => Next::Now,
            (false, true) => self.common.next(now),
            (false, false) => Next::Idle,
        }
    }

    fn describe(&self) -> String {
        let heard: Vec<_> = self.common.peers.iter().flatten().map(|peer| peer.heard_there).collect();
        format!(
            "{} under way, {} put off, {} sent, of which the others have {heard:?}",
            self.common.owns.all.len(),
            self.common.owns.lanes.waiting(),
            self.last
        )
    }
}
