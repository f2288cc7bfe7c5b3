//! What a worker of a primary sends to its backups: numbered, once to all, and again to whoever lost it with a connection.

use std::collections::VecDeque;

use highwater_core::{NodeId, Timestamp};
use highwater_kit::validation::message::{About, Message};
use highwater_kit::validation::payload::Payload;
use highwater_seam::Outbox;

use super::common::Common;

/// Sent, and not yet acknowledged by all. Numbers grow; they need not be without gaps.
pub struct Outgoing {
    queue: VecDeque<(u64, Timestamp)>,
    bytes: usize,
    /// What was posted to all in earlier turns ends with this number.
    posted: u64,
    /// By node: what it was sent over its present connection ends with this number.
    sent: Vec<u64>,
}

/// A transaction as it travels to backups.
pub fn message(number: u64, ts: Timestamp, payload: Payload) -> Message {
    Message { ts, about: About::Outcome { number, commit: true, payload: Some(payload) } }
}

impl Outgoing {
    /// To so many nodes, this one included.
    pub fn new(nodes: u8) -> Outgoing {
        Outgoing { queue: VecDeque::new(), bytes: 0, posted: 0, sent: vec![0; nodes as usize] }
    }

    /// One more, which is posted to all.
    pub fn push(&mut self, common: &mut Common, number: u64, ts: Timestamp, payload: Payload) {
        assert!(self.queue.back().is_none_or(|(last, _)| *last < number), "numbers grow");
        self.queue.push_back((number, ts));
        self.bytes += payload.len();
        common.post.for_all(&message(number, ts, payload));
    }

    /// Takes the next one that ends at or below `acknowledged`. `len`: how long its payload is.
    pub fn pop(&mut self, acknowledged: u64, len: impl FnOnce(Timestamp) -> usize) -> Option<Timestamp> {
        let (_, ts) = self.queue.pop_front_if(|(number, _)| *number <= acknowledged)?;
        self.bytes -= len(ts);
        Some(ts)
    }

    /// Bytes of payloads that somebody has not acknowledged.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The connection to a node is new: what it has not acknowledged is sent again.
    pub fn again(&mut self, node: NodeId) {
        self.sent[node.0 as usize] = 0;
    }

    /// Service is over.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }

    /// Sends each node what it was not sent. `acknowledged`: how far a node is; `payload`: of a number, unless the
    /// node has acknowledged it meanwhile.
    pub fn send(
        &mut self,
        common: &mut Common,
        (closed, news): (Timestamp, bool),
        acknowledged: impl Fn(&Common, NodeId) -> u64,
        payload: impl Fn(&Common, u64, Timestamp) -> Option<Payload>,
        out: &mut Outbox,
    ) {
        let last = self.queue.back().map_or(self.posted, |(last, _)| (*last).max(self.posted));
        for node in common.listeners().collect::<Vec<_>>() {
            let sent = std::mem::replace(&mut self.sent[node.0 as usize], last);
            let follows = sent == self.posted;
            if !follows {
                let from = sent.max(acknowledged(common, node));
                for (number, ts) in self.queue.iter().filter(|(number, _)| *number > from) {
                    if let Some(payload) = payload(common, *number, *ts) {
                        common.post.for_one(node, &message(*number, *ts, payload));
                    }
                }
            }
            let news = news && common.peer(node).told.1 != closed;
            common.send(node, (follows, news), closed, out);
        }
        common.post.sent_to_all();
        self.posted = last;
    }
}
