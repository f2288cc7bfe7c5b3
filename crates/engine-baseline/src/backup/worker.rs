//! A worker: on the primary it executes, sends and releases; on a backup it installs and acknowledges.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::codec::Reader;
use highwater_core::{Incarnation, Levels, NodeId, Outcome, Registry, Timestamp};
use highwater_kit::attempt::{InStore, attempt};
use highwater_kit::call::Call;
use highwater_kit::retries::{ATTEMPTS_IN_A_ROW, Again, Retries};
use highwater_seam::memory::Grant;
use highwater_seam::{
    Counters, Endpoint, Frame, Nanos, Next, Outbox, Refusal, Request, Taken, Token, Worker,
};
use highwater_store::{Applier, Occ, Store};

use super::shared::{ABILITIES, PRIMARY, Shared};

pub(super) struct BackupWorker {
    at: usize,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    registry: Registry<Occ>,
    occ: Occ,
    applier: Applier,
    grant: Grant,
    /// Entries made, or installed.
    last: u64,
    /// Entries that somebody has not acknowledged, up to `last`.
    log: VecDeque<Bytes>,
    log_bytes: usize,
    peers: BTreeMap<NodeId, Peer>,
    /// In the order of execution; the number of the entry that has to be acknowledged first.
    pending: VecDeque<(u64, Token, Outcome, Vec<u8>)>,
    pending_bytes: usize,
    retries: Retries,
    reply: Vec<u8>,
    /// The primary has to hear how far this node is, and of which life of the primary's.
    greets: bool,
}

struct Peer {
    incarnation: Incarnation,
    connected: bool,
    /// On the primary: how far it acknowledged, once it said so.
    acknowledged: Option<u64>,
    /// How far this side sent, or acknowledged.
    sent: u64,
}

/// What a frame's head says: an entry in the body, or how far all are installed (without a body).
struct Head {
    /// The primary's life.
    primary: Incarnation,
    number: u64,
    crc: u32,
}

impl Head {
    fn encode(&self) -> Bytes {
        [&self.primary.0.to_le_bytes()[..], &self.number.to_le_bytes(), &self.crc.to_le_bytes()]
            .concat()
            .into()
    }

    fn decode(bytes: &[u8]) -> Option<Head> {
        let mut reader = Reader::new(bytes);
        let primary = Incarnation(reader.u64().ok()?);
        Some(Head { primary, number: reader.u64().ok()?, crc: reader.u32().ok()? })
    }
}

impl BackupWorker {
    pub fn new(
        at: usize,
        shared: Arc<Shared>,
        store: &Arc<Store>,
        registry: Registry<Occ>,
        counters: Arc<Counters>,
    ) -> BackupWorker {
        let mut occ = Occ::new(store.clone(), shared.clock.clone());
        occ.log().set_most(shared.options.max_transaction_bytes);
        occ.work().set_most(shared.options.max_transaction_rows);
        occ.set_room(0);
        BackupWorker {
            at,
            counters,
            registry,
            occ,
            applier: Applier::new(store.clone()),
            grant: Grant::of(at),
            last: 0,
            log: VecDeque::new(),
            log_bytes: 0,
            peers: BTreeMap::new(),
            pending: VecDeque::new(),
            pending_bytes: 0,
            retries: Retries::default(),
            reply: Vec::new(),
            greets: false,
            shared,
        }
    }

    /// Which life of the primary this node takes part with.
    fn primary(&self) -> Option<Incarnation> {
        let options = &self.shared.options;
        if options.node == PRIMARY {
            return Some(options.incarnation);
        }
        self.peers.get(&PRIMARY).map(|peer| peer.incarnation)
    }

    fn breaks(&self) {
        self.shared.broken.store(true, Ordering::Relaxed);
    }

    /// Entries that all backups have.
    fn acknowledged(&self) -> u64 {
        let others = self.shared.options.nodes as usize - 1;
        let least = self.peers.values().map(|peer| peer.acknowledged.unwrap_or(0)).min();
        if self.peers.len() < others { 0 } else { least.unwrap_or(self.last) }
    }

    fn number_of_first(&self) -> u64 {
        self.last + 1 - self.log.len() as u64
    }

    /// Closes the open entry and sends to each backup what it was not sent.
    fn send(&mut self, out: &mut Outbox) {
        if !self.occ.log().is_empty() {
            let entry = Bytes::from(self.occ.log().take(Vec::new()));
            Counters::add(&self.counters.entries, 1);
            Counters::add(&self.counters.log_bytes, entry.len() as u64);
            self.last += 1;
            self.log_bytes += entry.len();
            self.log.push_back(entry);
        }
        let (first, primary) = (self.number_of_first(), self.shared.options.incarnation);
        for (node, peer) in self.peers.iter_mut().filter(|(_, peer)| peer.connected) {
            for number in peer.sent + 1..=self.last {
                let body = self.log[(number - first) as usize].clone();
                let head = Head { primary, number, crc: crc32fast::hash(&body) }.encode();
                out.frames.push((Endpoint { node: *node, worker: self.at as u16 }, Frame { head, body }));
            }
            peer.sent = self.last;
        }
    }

    /// Drops what all backups have, and hands out the replies that waited for it.
    fn release(&mut self, out: &mut Outbox) {
        let acknowledged = self.acknowledged();
        while self.number_of_first() <= acknowledged
            && let Some(entry) = self.log.pop_front()
        {
            self.log_bytes -= entry.len();
        }
        let broken = self.shared.broken.load(Ordering::Relaxed);
        while let Some((_, token, outcome, reply)) =
            self.pending.pop_front_if(|(number, ..)| *number <= acknowledged || broken)
        {
            self.pending_bytes -= reply.len();
            let outcome = if broken { Outcome::Unknown } else { outcome };
            out.reply(token, outcome, if broken { &[] } else { &reply });
            let committed = outcome == Outcome::Committed;
            let counter = if committed { &self.counters.committed } else { &self.counters.rolled_back };
            Counters::add(counter, 1);
        }
    }

    /// Tells the primary how much is installed.
    fn acknowledge(&mut self, out: &mut Outbox) {
        let last = self.last;
        let greets = std::mem::take(&mut self.greets);
        let due = |peer: &&mut Peer| peer.connected && (peer.sent < last || greets);
        let Some(peer) = self.peers.get_mut(&PRIMARY).filter(due) else { return };
        peer.sent = last;
        let head = Head { primary: peer.incarnation, number: last, crc: 0 }.encode();
        let primary = Endpoint { node: PRIMARY, worker: self.at as u16 };
        out.frames.push((primary, Frame { head, body: Bytes::new() }));
    }

    /// A few attempts in a row; whether one ended other than by a conflict.
    fn execute(&mut self, token: Token, call: Call<'_>) -> bool {
        for _ in 0..ATTEMPTS_IN_A_ROW {
            self.grant.look(&self.shared.account, &mut self.occ);
            match attempt(&self.registry, &mut self.occ, call, &mut self.reply, &mut InStore) {
                Some((_, Outcome::OutOfMemory)) if self.grant.more(&self.shared.account, &mut self.occ) => {}
                Some((_, outcome)) => {
                    Counters::add(&self.counters.executed, 1);
                    self.wait_for_backups(token, outcome);
                    return true;
                }
                None => {
                    self.counters.conflict(&mut self.occ);
                    highwater_core::hooks::wait();
                }
            }
        }
        false
    }

    /// Lets the reply wait for what was committed before it.
    fn wait_for_backups(&mut self, token: Token, outcome: Outcome) {
        let number = self.last + u64::from(!self.occ.log().is_empty());
        self.pending_bytes += self.reply.len();
        self.pending.push_back((number, token, outcome, self.reply.clone()));
    }

    /// Gives requests that met conflicts another round of attempts.
    fn retry(&mut self, out: &mut Outbox) {
        let mut retries = std::mem::take(&mut self.retries);
        let most_bytes = self.shared.options.max_in_flight_bytes;
        let gave_up = retries.round(self.shared.options.max_attempts, |retry| {
            if self.log_bytes >= most_bytes || self.pending_bytes >= most_bytes {
                return Again::Waits;
            }
            if self.execute(retry.token, retry.call()) { Again::Done } else { Again::Conflict }
        });
        self.retries = retries;
        if let Some(token) = gave_up {
            out.reply(token, Outcome::Conflict, &[]);
        }
    }

    fn install(&mut self, head: &Head, body: &[u8]) {
        if head.number != self.last + 1 {
            // It was sent again over a new connection.
            return;
        }
        if crc32fast::hash(body) != head.crc {
            return self.breaks();
        }
        match self.applier.apply(body, Timestamp::ZERO, Timestamp::MAX) {
            Ok(applied) => Counters::add(&self.counters.applied, applied.transactions),
            Err(_) => return self.breaks(),
        }
        self.last += 1;
    }
}

impl Worker for BackupWorker {
    fn ready(&self) -> Result<(), Refusal> {
        let (shared, options) = (&self.shared, &self.shared.options);
        if !shared.is_primary() {
            return Err(Refusal::NotServing { ask: Some(PRIMARY) });
        }
        // Who lost its memory hears of it from the others before it serves.
        let met = self.peers.values().filter(|peer| peer.acknowledged.is_some()).count();
        let all = met + 1 == usize::from(options.nodes);
        if !all || !shared.serving.load(Ordering::Relaxed) || shared.broken.load(Ordering::Relaxed) {
            return Err(Refusal::NoQuorum);
        }
        let full = self.log_bytes >= options.max_in_flight_bytes
            || self.pending_bytes >= options.max_in_flight_bytes
            || self.pending.len() >= options.max_in_flight_requests
            || self.retries.is_full(options.max_in_flight_bytes);
        if full { Err(Refusal::Busy) } else { Ok(()) }
    }

    fn submit(&mut self, _now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        ABILITIES.admit(&request)?;
        self.ready()?;
        if self.execute(request.token, Call::of(&request)) {
            return Ok(Taken::Placed);
        }
        Ok(self.retries.put_off(&request))
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.pending_bytes
    }

    fn peer_up(&mut self, _now: Nanos, node: NodeId, incarnation: Incarnation, _levels: Levels) {
        let fresh = Peer { incarnation, connected: true, acknowledged: None, sent: 0 };
        let peer = self.peers.entry(node).or_insert(fresh);
        let lost = peer.incarnation != incarnation;
        // What was under way may be lost. To a backup everything is sent again that it has not acknowledged; to the primary,
        // how far this one is.
        (peer.connected, peer.sent) = (true, peer.acknowledged.unwrap_or(0));
        self.greets |= node == PRIMARY;
        if lost {
            self.breaks();
        }
    }

    fn peer_down(&mut self, _now: Nanos, peer: NodeId) {
        self.peers.entry(peer).and_modify(|peer| peer.connected = false);
    }

    fn deliver(&mut self, _now: Nanos, from: Endpoint, frame: Frame) {
        let Some(head) = Head::decode(&frame.head) else { return };
        if self.primary() != Some(head.primary) {
            return self.breaks();
        }
        if from.node == PRIMARY {
            self.install(&head, &frame.body);
        } else if let Some(peer) = self.peers.get_mut(&from.node) {
            peer.acknowledged = peer.acknowledged.max(Some(head.number));
        }
    }

    fn turn(&mut self, _now: Nanos, out: &mut Outbox) -> Next {
        let more = if self.shared.is_primary() {
            self.retry(out);
            self.send(out);
            self.release(out);
            self.grant.next_turn(&self.shared.account, &mut self.occ);
            // The primary never rolls back: nothing older can be written any more.
            let most_bytes = self.shared.options.max_in_flight_bytes;
            let full = self.log_bytes >= most_bytes || self.pending_bytes >= most_bytes;
            // What makes room gives a turn, too.
            self.occ.collect(self.shared.clock.now()) || !(full || self.retries.is_empty())
        } else {
            self.acknowledge(out);
            false
        };
        self.shared.entries[self.at].store(self.last, Ordering::Relaxed);
        self.shared.log_bytes[self.at].store(self.log_bytes as u64, Ordering::Relaxed);
        if more { Next::Now } else { Next::Idle }
    }

    fn describe(&self) -> String {
        format!(
            "{} entries, {} not acknowledged, {} replies wait",
            self.last,
            self.log.len(),
            self.pending.len()
        )
    }
}
