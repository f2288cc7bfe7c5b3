//! A worker: coordinator of the transactions that its clients ask for, and replica of everybody's of its number.
//!
//! | file | what |
//! |---|---|
//! | `mod` | what it joins, and its turn |
//! | `coordinate` | its own transactions: execution, votes, decisions, attempts |
//! | `together` | requests that want the same key, in one transaction |
//! | `replicate` | its part as a replica: validation, acceptance, outcomes |
//! | `ripen` | votes that are withheld until their time has come |
//! | `terminate` | its part as a backup coordinator |
//! | `delegates` | clients that coordinate their transactions themselves, in builds with that feature |
//! | `disk` | what it writes, and how it comes back |
//! | `epochs` | what the controller commands: pause, and the beginning of an epoch |
//!
//! These are the worker's; what it is made of has state of its own, and is handed what else it touches:
//!
//! | file | what |
//! |---|---|
//! | `context` | what every part may look at |
//! | `executor`, `rows` | the store: as a transaction sees it, and as a replica does |
//! | `sitting`, `peers` | the epoch that it takes part in; who else is there, what was heard of them and what they were told |
//! | `disk/` | `gone`, `settling` what it notes down: records that are gone, what is over everywhere; `earlier` what an earlier life wrote |
//! | `time/` | `pace` how the clock goes; `times` how long answers take; `beat` when it looks after what nobody answered |
//! | `answers`, `copies` | what the host is told; its part in copies of the state |

mod answers;
mod context;
mod coordinate;
mod copies;
#[cfg(feature = "delegates")]
mod delegates;
#[cfg(not(feature = "delegates"))]
#[path = "no_delegates.rs"]
mod delegates;
mod disk;
mod epochs;
mod executor;
mod peers;
mod replicate;
mod ripen;
mod rows;
mod sitting;
mod terminate;
#[cfg(test)]
mod tests;
mod time;
mod together;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::Voter;
use highwater_core::codec::Reader;
use highwater_core::{Epoch, Incarnation, Levels, NodeId, Random, Registry, Timestamp};
use highwater_kit::copy::CopyMessage;
use highwater_kit::validation::marks::Marks;
use highwater_kit::validation::message::{Head, Message, TAG};
use highwater_kit::validation::outcomes::Outcomes;
use highwater_kit::validation::own::{Owns, bit, over_at};
use highwater_kit::validation::post::Post;
use highwater_kit::validation::record::Records;
use highwater_kit::validation::stamps::Stamps;
use highwater_kit::validation::tx::MeerkatTx;
use highwater_seam::{
    ClientId, Counters, Endpoint, Frame, LogPosition, Nanos, Next, Outbox, Refusal, Request, Taken, Worker,
};
use highwater_store::Store;

use super::ABILITIES;
use super::hooks;
use super::journal::Journal;
use super::shared::{Report, Shared};
use super::strict::Lead;
use answers::Answers;
use context::Context;
use copies::Copies;
use delegates::Delegates;
use disk::{Earlier, Gone, Settling};
use executor::Executor;
use peers::Peers;
use ripen::Unripe;
use rows::Rows;
use sitting::Sitting;
use terminate::Terminations;
pub use terminate::safe;
use time::{Beat, MOST_TIMEOUTS, Pace, Times};

/// To whom a replica says what it makes of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whom {
    /// The same-numbered worker of a node.
    Node(NodeId),
    /// The client that coordinates it.
    Client(ClientId),
}

impl From<NodeId> for Whom {
    fn from(node: NodeId) -> Whom {
        Whom::Node(node)
    }
}

/// A worker of a Meerkat replica.
pub struct MeerkatWorker {
    context: Context,
    executor: Executor,
    rows: Rows,
    random: Random,
    sitting: Sitting,
    peers: Peers,
    /// Records of everybody's transactions, own ones among them; and up to where they are gone.
    records: Records,
    gone: Gone,
    journal: Journal,
    settling: Settling,
    earlier: Earlier,
    /// Own transactions: those under way, the timestamps that they get, and outcomes that somebody has not heard.
    owns: Owns,
    stamps: Stamps,
    outcomes: Outcomes,
    terminations: Terminations,
    delegates: Delegates,
    /// The latest timestamp that it has met.
    latest: Timestamp,
    /// Everything that committed at or below is installed here: as it was in the last turn.
    as_of: Timestamp,
    /// Lanes whose key somebody else has committed in this turn.
    woken: Vec<u64>,
    unripe: Unripe,
    pace: Pace,
    times: Times,
    lead: Lead,
    beat: Beat,
    post: Post,
    answers: Answers,
    copies: Copies,
}

impl MeerkatWorker {
    /// A worker of a fresh replica.
    pub fn new(
        at: u16,
        shared: Arc<Shared>,
        (store, marks): (&Arc<Store>, &Arc<Marks>),
        registry: Registry<MeerkatTx>,
        counters: Arc<Counters>,
    ) -> MeerkatWorker {
        let context = Context { at, me: shared.options.node, shared: shared.clone(), counters };
        let options = &shared.options;
        context.cell().oldest.store(Nanos::MAX, Ordering::SeqCst);
        MeerkatWorker {
            executor: Executor::new(registry, store, options),
            rows: Rows::new(store, marks),
            random: Random::new(options.seed ^ (u64::from(at) + 1) << 40),
            sitting: Sitting::default(),
            peers: Peers::new(options.nodes),
            records: Records::default(),
            gone: Gone::new(options.nodes),
            journal: Journal::new(options.durability, options.disk_window),
            settling: Settling::default(),
            earlier: Earlier::default(),
            owns: Owns::default(),
            stamps: Stamps::new(shared.clock.clone(), shared.layout, context.coordinator()),
            outcomes: Outcomes::default(),
            terminations: Terminations::default(),
            delegates: Delegates::default(),
            latest: Timestamp::ZERO,
            as_of: Timestamp::ZERO,
            woken: Vec::new(),
            unripe: Unripe::default(),
            pace: Pace::default(),
            times: Times::default(),
            lead: Lead::default(),
            beat: Beat::default(),
            post: Post::new(options.nodes),
            answers: Answers::default(),
            copies: Copies::default(),
            context,
        }
    }

    /// The epoch that it works in now, if it does.
    fn working(&self) -> Option<Epoch> {
        self.sitting.working(&self.context.shared)
    }

    /// Whether it votes, and coordinates.
    fn votes(&self) -> bool {
        self.sitting.votes()
    }

    /// Voters that are connected, this node included: a bit each.
    fn reachable(&self) -> u32 {
        let Some(seat) = self.sitting.seat() else { return 0 };
        let here =
            |(node, life): &&(NodeId, Incarnation)| *node == self.context.me || self.peers.has(*node, *life);
        seat.members.voters.iter().filter(here).fold(0, |all, (node, _)| all | bit(*node))
    }

    fn may_serve(&self) -> Result<(), Refusal> {
        let elsewhere = || Refusal::NotServing {
            ask: self.context.shared.serving().filter(|node| *node != self.context.me),
        };
        if !self.votes() {
            return Err(elsewhere());
        }
        if self.context.shared.no_quorum.load(Ordering::Relaxed)
            || self.reachable().count_ones() < self.context.shared.quorums.majority
        {
            return Err(Refusal::NoQuorum);
        }
        // A change of epoch is under way: a round trip or two.
        if self.working().is_none() { Err(Refusal::Busy) } else { Ok(()) }
    }

    /// Of what this worker coordinates everything at or below is over everywhere, and there will be no others.
    fn closed(&self) -> Timestamp {
        let open = self.outcomes.first_open();
        open.map_or(self.stamps.last(), |first| Timestamp(first.0 - 1).min(self.stamps.last()))
    }

    fn head(&self, epoch: Epoch, node: NodeId) -> Head {
        let heard = self.peers.safe(node);
        let clock =
            if self.context.shared.strict { self.context.shared.clock.now() } else { Timestamp::ZERO };
        Head { epoch, closed: self.closed(), heard, clock }
    }

    /// A frame's messages, one after the other.
    fn take_frame(&mut self, now: Nanos, from: NodeId, frame: &Frame) -> Option<()> {
        let mut reader = Reader::new(&frame.head);
        let tag = reader.u8().ok()?;
        if tag != TAG {
            let message = CopyMessage::decode(&mut Reader::new(&frame.head)).ok()?;
            let from = Voter { node: from, incarnation: self.peers.life(from)? };
            let sends = (self.votes(), self.rows.store());
            self.copies.hear(now, from, (message, &frame.body), sends, &self.context);
            return Some(());
        }
        let (head, crc) = Head::decode(&mut reader).ok()?;
        let (seat, life) = (self.sitting.seat()?, self.peers.life(from)?);
        let epoch = self.working()?;
        if head.epoch != epoch || !seat.belongs(from, life) || crc32fast::hash(&frame.body) != crc {
            return None;
        }
        let voter = seat.is_voter(from, life);
        self.take_head(now, from, head);
        let light = frame.head.slice(frame.head.len() - reader.rest().len()..);
        for mut rest in [light, frame.body.clone()] {
            while !rest.is_empty() {
                let Ok(message) = Message::decode(&mut rest) else { break };
                self.on_message(now, from, voter, message);
            }
        }
        Some(())
    }

    fn take_head(&mut self, now: Nanos, from: NodeId, head: Head) {
        if self.context.shared.strict {
            self.pace.hold(now, &self.context.shared);
            // Nothing rests on when exactly a clock is read, but on its never going back.
            self.context.shared.clock.advance_past(head.clock);
        }
        self.outcomes.heard(from, head.heard);
        if self.peers.closes(from, head.closed) {
            self.outcomes.tell_again(from);
            self.ask_soon(now);
            self.beat.rouse();
        }
    }

    /// What goes out: whatever there is for anybody.
    fn send(&mut self, beat: bool, out: &mut Outbox) {
        let Some(epoch) = self.working() else {
            self.post.clear();
            return;
        };
        let Some(seat) = self.sitting.seat() else { return };
        let others: Vec<NodeId> = seat.others(self.context.me).collect();
        let closed = if beat && self.owns.all.is_empty() && self.outcomes.unheard() == 0 {
            self.stamps.close()
        } else {
            self.closed()
        };
        for node in others {
            if !self.peers.is_connected(node) {
                continue;
            }
            let (post, outcomes) = (&mut self.post, &mut self.outcomes);
            outcomes.tell(node, |message| post.for_one(node, &message));
            let seat = self.sitting.seat().expect("it works in an epoch");
            let votes = seat.members.voters.iter().any(|(voter, _)| *voter == node);
            let head = self.head(epoch, node);
            let news = beat && !self.peers.knows(node, head.heard, closed);
            if self.post.has(node) || (votes && self.post.has_for_all()) || news {
                self.peers.told(node, head.heard, head.closed);
                self.post.send(node, self.context.at, head, votes, out);
            }
        }
        self.post.sent_to_all();
    }

    /// Now and then: asks again what nobody answered, tells again what nobody heard.
    fn beat_if_due(&mut self, now: Nanos) -> bool {
        if !self.beat.is_due(now, self.context.beat()) || self.working().is_none() {
            return false;
        }
        let busy = !self.owns.is_empty()
            || self.outcomes.unheard() > 0
            || !self.records.is_empty()
            || self.context.shared.awaited().is_some()
            || self.settling.awaits().is_some()
            || self.delegates.granted() > 0;
        self.beat.pass(busy);
        self.ask_again(now);
        let most = MOST_TIMEOUTS * self.context.options().election_timeout / self.context.beat();
        self.outcomes.tell_those_who_stand_still(most as u32);
        self.terminate_overdue(now);
        self.ask_how_far();
        self.close_ahead(now);
        busy || self.beat.is_restless()
    }

    /// A proposal ahead of this node's clock is closed when that has come there. One that stands still never does: where nothing is under way, later
    /// ones go above it then.
    fn close_ahead(&mut self, now: Nanos) {
        self.pace.look(now, &self.context.shared);
        if !self.pace.moves() && self.owns.all.is_empty() && self.outcomes.unheard() == 0 {
            self.stamps.close_ahead();
        }
    }

    /// All that is over everywhere is over here: by the word of its coordinator, which has heard so of this replica.
    ///
    /// # Panics
    /// If it is not.
    fn close(&mut self, now: Nanos) {
        let Some(seat) = self.sitting.seat() else { return };
        let of = |node: NodeId| match node == self.context.me {
            true => self.closed(),
            false => self.peers.closed(node),
        };
        let closed: Vec<_> = seat.members.voters.iter().map(|(node, _)| (*node, of(*node))).collect();
        for (node, closed) in closed {
            for ts in self.records.close(node, closed) {
                let proposed = self.records.get(node, ts).and_then(|record| record.client);
                assert!(proposed.is_some(), "{ts} is over everywhere, and under way here");
                // A client gave the stamp back at its home, and had proposed it here. It is trusted, and must not end a replica.
                self.conclude(now, node, ts, false, None);
            }
        }
    }

    fn trim(&mut self, now: Nanos) {
        self.close(now);
        let before = self.context.shared.oldest_pending();
        let own = self.closed();
        self.delegates.assert_open(own);
        let Some(seat) = self.sitting.seat() else { return };
        // Who has no vote coordinates nothing.
        let mut least = if seat.votes { own } else { Timestamp::MAX };
        for (node, _) in &seat.members.voters {
            let closed = if *node == self.context.me { own } else { self.peers.closed(*node) };
            least = least.min(closed);
            let (closed, before) = hooks::trims(closed, before);
            if let Some(ts) = self.records.trim(*node, closed, before) {
                self.gone.went(*node, ts, self.journal.writes());
            }
        }
        let least = if least == Timestamp::MAX { own } else { least };
        // Others look at it in each of their turns.
        if self.context.cell().closed.load(Ordering::Relaxed) != least.0 {
            // Release; pairs with the Acquire in `Shared::closed`.
            self.context.cell().closed.store(least.0, Ordering::Release);
        }
    }

    fn publish(&mut self) {
        let oldest = self.records.oldest_pending().unwrap_or(Nanos::MAX);
        let busy = self.records.pending()
            + self.owns.len()
            + self.outcomes.unheard()
            + self.terminations.len()
            + self.delegates.granted();
        let laggard = if self.outcomes.bytes() > self.context.options().log_retain_bytes / 2 {
            self.outcomes.slowest(self.context.me).map_or(0, |node| u32::from(node.0) + 1)
        } else {
            0
        };
        let cell = self.context.cell();
        if cell.oldest.load(Ordering::Relaxed) != oldest {
            cell.oldest.store(oldest, Ordering::SeqCst);
        }
        cell.busy.store(busy as u64, Ordering::Relaxed);
        cell.bytes.store(self.records.bytes() + self.outcomes.bytes() as u64, Ordering::Relaxed);
        cell.laggard.store(laggard, Ordering::Relaxed);
    }

    fn next(&self, now: Nanos) -> Next {
        let busy = !self.owns.is_empty()
            || self.outcomes.unheard() > 0
            || !self.records.is_empty()
            || self.terminations.len() > 0
            || self.delegates.granted() > 0
            || self.beat.is_restless();
        let beat = match busy {
            true => Next::At(self.beat.next().max(now + 1)),
            false if self.rows.has_tombstones() => Next::At(self.rows.next().max(now + 1)),
            false => Next::Idle,
        };
        let over = self.owns.lanes.oldest().map(|since| over_at(since, self.context.options()));
        let beat = over.map_or(beat, |at| beat.sooner(Next::At(at.max(now + 1))));
        if self.working().is_none() {
            // Whatever else is put off waits for the next epoch, which comes with a command.
            return beat;
        }
        let patience = self.times.patience(self.context.beat());
        let late = self.owns.all.values().map(|own| own.since + patience).filter(|at| *at > now).min();
        let times = [self.owns.lanes.next(), late, self.unripe.next(now, &self.pace)];
        times.into_iter().flatten().fold(beat, |next, at| next.sooner(Next::At(at.max(now + 1))))
    }
}

impl Worker for MeerkatWorker {
    fn ready(&self) -> Result<(), Refusal> {
        self.may_serve()?;
        let options = self.context.options();
        let full = self.owns.len() >= options.max_in_flight_requests
            || self.owns.bytes() >= options.max_in_flight_bytes
            || self.outcomes.bytes() >= options.log_retain_bytes
            || self.answers.reply_bytes() >= options.max_in_flight_bytes;
        if full { Err(Refusal::Busy) } else { Ok(()) }
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.owns.reply_bytes() + self.answers.reply_bytes()
    }

    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        // Both kinds admit the same.
        ABILITIES.admit(&request)?;
        self.take_commands(now);
        self.ready()?;
        self.begin_own(now, &request);
        Ok(Taken::PutOff)
    }

    fn tell_writes(&mut self, tells: bool) {
        self.answers.tell_writes(tells);
    }

    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation, _levels: Levels) {
        if peer.0 >= self.context.options().nodes {
            return;
        }
        self.peers.up(peer, incarnation);
        self.copies.peer_changed(peer);
        self.outcomes.tell_again(peer);
        self.ask_soon(now);
        self.beat.rouse_at(now + self.context.beat());
    }

    fn peer_down(&mut self, _now: Nanos, peer: NodeId) {
        self.peers.down(peer);
        self.copies.peer_changed(peer);
    }

    fn deliver(&mut self, now: Nanos, from: Endpoint, frame: Frame) {
        self.take_commands(now);
        if from.worker == self.context.at && from.node.0 < self.context.options().nodes {
            // What makes no sense, or is of another epoch, is as good as lost.
            let _ = self.take_frame(now, from.node, &frame);
        }
    }

    #[cfg(feature = "delegates")]
    fn client_up(&mut self, _now: Nanos, client: ClientId) -> Result<(), Refusal> {
        self.meet_client(client);
        Ok(())
    }

    #[cfg(feature = "delegates")]
    fn client_down(&mut self, now: Nanos, client: ClientId) {
        self.lose_client(now, client);
    }

    #[cfg(feature = "delegates")]
    fn deliver_client(&mut self, now: Nanos, client: ClientId, message: Bytes) -> Result<(), String> {
        self.take_commands(now);
        self.hear_client(now, client, &message)
    }

    fn synced(&mut self, now: Nanos, position: LogPosition) {
        self.on_synced(now, position);
    }

    fn recover(&mut self, record: Bytes) -> Result<(), String> {
        self.replay(&record)
    }

    fn recovered(&mut self) -> Result<(), String> {
        self.journal.hold(false);
        self.tell_end();
        Ok(())
    }

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        self.records.begin_turn(now);
        self.take_commands(now);
        if self.context.shared.strict {
            self.pace.hold(now, &self.context.shared);
        }
        if self.working().is_some() {
            self.as_of = self.context.shared.installed();
        }
        self.end_waiting(now);
        self.wake(now);
        while self.working().is_some()
            && let Some(retry) = self.owns.lanes.take(now)
        {
            self.try_again(now, retry);
        }
        self.ripen(now);
        let beat = self.beat_if_due(now);
        self.decide_late(now);
        self.send(beat, out);
        let copying = self.copies.turn(now, &self.context, &self.peers, &mut self.answers, out);
        self.trim(now);
        self.publish();
        let more = self.rows.collect(now, &self.context, self.latest);
        if self.journal.writes() {
            self.gone.write(&mut self.journal, beat);
            self.write_closed(beat);
            self.settle_when_closed(now);
            self.journal.take_writes(now, &mut out.writes);
        }
        self.answers.hand_out(out);
        self.tell_standing();
        self.delegates.hand_out(&mut out.to_clients);
        if more { Next::Now } else { self.next(now).sooner(copying) }
    }

    fn describe(&self) -> String {
        format!(
            "epoch {}, {} under way, {} put off, {} granted, {} outcomes unheard, {} records ({} pending), {} taken over{}",
            self.sitting.epoch().unwrap_or_default().0,
            self.owns.all.len(),
            self.owns.lanes.waiting(),
            self.delegates.granted(),
            self.outcomes.unheard(),
            self.records.len(),
            self.records.pending(),
            self.terminations.len(),
            self.unripe.describe(&self.context.shared.clock, &self.lead)
        )
    }
}

impl MeerkatWorker {
    fn report(&mut self, report: Report) {
        self.answers.report(&self.context, report);
    }
}
