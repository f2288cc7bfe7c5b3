//! A worker: on the primary it executes, numbers, validates, appends, sends and answers; on a backup it enters what comes into the log, and
//! installs from it.

use std::sync::Arc;

use highwater_core::{Incarnation, Levels, NodeId, Timestamp, planted};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::own::Asked;
use highwater_seam::{Counters, Endpoint, Frame, Nanos, Next, Outbox, Refusal, Request, Taken, Worker};

use super::log::Order;
use crate::PRIMARY;
use crate::common::Common;
use crate::node::Node;
use crate::outgoing::Outgoing;
use crate::storage::Shelf;

pub(super) struct KuafuWorker {
    common: Common,
    order: Arc<Order>,
    outgoing: Outgoing,
    /// Up to where the log was trimmed here last.
    trimmed: u64,
    /// Everything at or below is over at every replica, of this worker's.
    closed: Timestamp,
    /// Numbers that were taken in advance: a planted mistake.
    ahead: Vec<Timestamp>,
}

impl KuafuWorker {
    pub fn new(
        at: u16,
        (node, order): (&Arc<Node>, &Arc<Order>),
        shelf: &Shelf,
        counters: Arc<Counters>,
    ) -> KuafuWorker {
        KuafuWorker {
            outgoing: Outgoing::new(node.options.nodes),
            common: Common::new(at, node.clone(), shelf, counters),
            order: order.clone(),
            trimmed: 0,
            closed: Timestamp::ZERO,
            ahead: Vec::new(),
        }
    }

    fn number(&mut self) -> Timestamp {
        if planted!(NumbersAhead) {
            if self.ahead.is_empty() {
                self.ahead = (0..8).map(|_| self.order.next()).collect();
                self.ahead.reverse();
            }
            return self.ahead.pop().expect("some were taken");
        }
        self.order.next()
    }

    /// Executes it, numbers it, and looks whether it can stand there: if so it is decided, and goes into the log and to the backups.
    fn attempt(&mut self, now: Nanos, mut asked: Asked) {
        asked.attempts += 1;
        let common = &mut self.common;
        let Some(outcome) = common.storage.execute(&asked) else {
            return common.put_off(now, asked, Timestamp::ZERO);
        };
        let ts = self.number();
        let common = &mut self.common;
        assert!(ts > common.storage.seen(), "every version has a number that was given out before");
        let payload = common.storage.end(ts);
        common.count_execution(&payload);
        if let Err(way) = common.storage.validate(&payload, ts) {
            return common.put_off(now, asked.wants(&payload), way.0);
        }
        common.add(now, ts, asked, (outcome, payload.clone()));
        let position = self.order.append(payload.clone());
        self.outgoing.push(common, position, ts, payload);
    }

    /// What all backups have installed ends with this position of the log.
    fn acknowledged(&self) -> u64 {
        let options = &self.common.node.options;
        let others = (0..options.nodes).map(NodeId).filter(|node| *node != options.node);
        others.map(|node| self.order.acknowledged(node)).min().unwrap_or(u64::MAX)
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
        if self.trimmed < acknowledged || acknowledged == u64::MAX {
            self.trimmed = acknowledged;
            self.order.trim(acknowledged);
        }
    }

    fn turn_as_primary(&mut self, now: Nanos, out: &mut Outbox) {
        while let Some(retry) = self.common.owns.lanes.take(now) {
            self.attempt(now, retry.asked);
        }
        self.release(now);
        let busy = !self.common.owns.all.is_empty();
        let beat = self.common.beat(now, busy);
        self.closed = match self.common.owns.all.first_key_value() {
            Some((first, _)) => Timestamp(first.0 - 1),
            None => self.order.last(),
        };
        let order = &self.order;
        let acknowledged = |_: &Common, node: NodeId| order.acknowledged(node);
        let payload = |_: &Common, position, _| order.payload(position);
        self.outgoing.send(&mut self.common, (self.closed, beat), acknowledged, payload, out);
    }

    fn turn_as_backup(&mut self, out: &mut Outbox) {
        self.replay();
        for node in self.common.listeners().collect::<Vec<_>>() {
            let peer = self.common.peer(node);
            let news = node == PRIMARY && peer.told.0 != peer.heard;
            self.common.send(node, (false, news), Timestamp::ZERO, out);
        }
        let primary = self.common.peers[PRIMARY.0 as usize].as_ref();
        self.closed = primary.map_or(Timestamp::ZERO, |peer| peer.closed);
    }

    /// Installs what stands in the log and nobody has taken, whoever received it.
    fn replay(&mut self) {
        let mut done = None;
        loop {
            let (taken, installed) = self.order.take(done);
            let Some(primary) = &mut self.common.peers[PRIMARY.0 as usize] else { return };
            if installed > primary.heard {
                primary.heard = installed;
                // If this worker cannot say so, another one has to.
                self.common.done.wake_workers |= !primary.listens();
            }
            let Some((position, ts, payload)) = taken else { return };
            self.common.storage.commit(&payload, ts);
            self.common.count(|cell| &cell.decided);
            Counters::add(&self.common.counters.applied, 1);
            done = Some(position);
        }
    }

    fn on_frame(&mut self, from: NodeId, frame: &Frame) {
        let Some(parts) = self.common.open(from, frame) else { return };
        for Message { ts, about } in Common::messages(parts) {
            if let About::Outcome { number, payload: Some(payload), .. } = about {
                self.order.receive(number, ts, payload);
            }
        }
        let heard = self.common.peer(from).heard_there;
        if self.common.node.serves() && self.order.acknowledge(from, heard) {
            // Other workers' transactions may wait for this.
            self.common.done.wake_workers |= self.common.node.cells.len() > 1;
        }
    }
}

impl Worker for KuafuWorker {
    fn ready(&self) -> Result<(), Refusal> {
        self.common.ready(self.outgoing.bytes())
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.common.owns.reply_bytes() + self.common.done.reply_bytes.len()
    }

    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        crate::ABILITIES.admit(&request)?;
        self.ready()?;
        self.attempt(now, Asked::of(now, &request));
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
        self.on_frame(from.node, &frame);
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
        let nodes = (0..self.common.node.options.nodes).map(NodeId);
        let acknowledged: Vec<_> = nodes.map(|node| self.order.acknowledged(node)).collect();
        format!(
            "{} under way, {} put off; the log is acknowledged up to {acknowledged:?}",
            self.common.owns.all.len(),
            self.common.owns.lanes.waiting()
        )
    }
}
