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
//! | `epochs` | pause, and the beginning of an epoch |

mod coordinate;
#[cfg(feature = "delegates")]
mod delegates;
#[cfg(not(feature = "delegates"))]
#[path = "no_delegates.rs"]
mod delegates;
mod disk;
mod epochs;
mod replicate;
mod ripen;
mod terminate;
#[cfg(test)]
mod tests;
mod together;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::codec::Reader;
use highwater_core::{Epoch, Incarnation, Levels, NodeId, Random, Registry, Timestamp};
use highwater_kit::copy::{CopyMessage, Installer, Sender};
use highwater_kit::validation::marks::{Linger, Marks};
use highwater_kit::validation::message::{Head, Message, TAG};
use highwater_kit::validation::outcomes::Outcomes;
use highwater_kit::validation::own::{Owns, bit, over_at};
use highwater_kit::validation::payload::Payload;
use highwater_kit::validation::post::Post;
use highwater_kit::validation::record::Records;
use highwater_kit::validation::stamps::{Coordinator, Stamps};
use highwater_kit::validation::tx::MeerkatTx;
use highwater_seam::{
    ClientId, Counters, Endpoint, Frame, LogPosition, Nanos, Next, Outbox, Refusal, Request, Taken, Worker,
};
use highwater_store::{Applier, Store};

use super::ABILITIES;
use super::journal::Journal;
use super::shared::{Cell, Report, Seat, Shared};
use super::strict::Lead;
use coordinate::MOST_TIMEOUTS;
use delegates::Delegates;
use ripen::STANDS_STILL_PACE;
use terminate::Terminations;
pub use terminate::safe;

/// How long a worker that has nothing to do goes on telling others how far it is, in heartbeats.
const RESTLESS: u32 = 3;

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

/// The same-numbered worker of another node.
struct Peer {
    incarnation: Incarnation,
    connected: bool,
    /// Its outcomes up to this number have taken effect here.
    heard: u64,
    /// The same, on this node's disk where that is promised: what it is told.
    safe: u64,
    /// What it was told last: [`Peer::safe`], and what is closed.
    told: (u64, Timestamp),
    /// Of what it coordinates what is at or below is over everywhere.
    closed: Timestamp,
    /// It was heard in this epoch: what it was sent before may have come before it had begun, and is lost.
    met: bool,
}

/// A worker of a Meerkat replica.
pub struct MeerkatWorker {
    at: u16,
    me: NodeId,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    registry: Registry<MeerkatTx>,
    store: Arc<Store>,
    marks: Arc<Marks>,
    tx: MeerkatTx,
    applier: Applier,
    stamps: Stamps,
    random: Random,
    /// The epoch that it takes part in, if it takes part in one.
    seat: Option<Seat>,
    /// It promised this epoch, and does nothing in the one before.
    paused: Option<Epoch>,
    peers: Vec<Option<Peer>>,
    records: Records,
    journal: Journal,
    /// The last epoch that it has begun, and whose records it has; [`Epoch(0)`](Epoch): none.
    began: Epoch,
    /// Records that were handed in when it came back.
    replayed: u64,
    /// By node: up to where records of this epoch are gone, because all of that is over everywhere; and whether that is to be noted down.
    gone: Vec<(Timestamp, bool)>,
    /// How far was written when it was noted down last.
    noted: u64,
    /// Up to here it is noted down that all is over everywhere.
    closed: Timestamp,
    /// What an earlier life wrote of this epoch that committed, and is not installed yet: it may have to be left out.
    held: BTreeMap<Timestamp, Payload>,
    /// It had paused for this epoch when it ended.
    had_paused: Option<Epoch>,
    /// A checkpoint that is to be settled, once this is over everywhere.
    settles: Option<(u64, Timestamp)>,
    owns: Owns,
    outcomes: Outcomes,
    terminations: Terminations,
    delegates: Delegates,
    /// The latest timestamp that it has met.
    latest: Timestamp,
    /// The same, when it was last looked which tombstones may go.
    met: Timestamp,
    /// Everything that committed at or below is installed here: as it was in the last turn.
    as_of: Timestamp,
    linger: Linger,
    /// Lanes whose key somebody else has committed in this turn.
    woken: Vec<u64>,
    /// Votes that are withheld, and since when.
    unripe: BTreeMap<Timestamp, Nanos>,
    /// The latest that the clock was seen to show, where real time is promised.
    shown: Timestamp,
    /// When it was last looked how fast the clock goes, what it showed, and its units in a microsecond.
    pace: (Nanos, Timestamp, u64),
    /// When it was last looked whether the clock moves, what it showed, and that it did not.
    pulse: (Nanos, Timestamp, bool),
    lead: Lead,
    post: Post,
    /// Replies of this turn, and what took effect in it.
    done: Outbox,
    /// The host wants to hear what takes effect.
    tells_writes: bool,
    reply: Vec<u8>,
    /// How long a round trip takes, about.
    round_trip: Nanos,
    /// The same, and the time for which a proposal has to be ahead of clocks.
    answer_time: Nanos,
    /// When it tells again what nobody answered, and how far it is.
    next_beat: Nanos,
    restless: u32,
    installer: Installer,
    sender: Sender,
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
        let options = &shared.options;
        let me = options.node;
        let coordinator = Coordinator { node: me, worker: at };
        shared.cells[at as usize].oldest.store(Nanos::MAX, Ordering::SeqCst);
        MeerkatWorker {
            at,
            me,
            counters,
            registry,
            tx: MeerkatTx::new(store.clone(), options.max_transaction_bytes)
                .of_rows(options.max_transaction_rows),
            applier: Applier::new(store.clone()),
            store: store.clone(),
            marks: marks.clone(),
            stamps: Stamps::new(shared.clock.clone(), shared.layout, coordinator),
            random: Random::new(options.seed ^ (u64::from(at) + 1) << 40),
            seat: None,
            paused: None,
            peers: (0..options.nodes).map(|_| None).collect(),
            records: Records::default(),
            journal: Journal::new(options.durability, options.disk_window),
            began: Epoch(0),
            replayed: 0,
            gone: vec![(Timestamp::ZERO, false); options.nodes as usize],
            noted: 0,
            closed: Timestamp::ZERO,
            held: BTreeMap::new(),
            had_paused: None,
            settles: None,
            owns: Owns::default(),
            outcomes: Outcomes::default(),
            terminations: Terminations::default(),
            delegates: Delegates::default(),
            latest: Timestamp::ZERO,
            met: Timestamp::ZERO,
            as_of: Timestamp::ZERO,
            linger: Linger::default(),
            woken: Vec::new(),
            unripe: BTreeMap::new(),
            shown: Timestamp::ZERO,
            pace: (0, Timestamp::ZERO, 1000),
            pulse: (0, Timestamp::ZERO, false),
            lead: Lead::default(),
            post: Post::new(options.nodes),
            done: Outbox::default(),
            tells_writes: false,
            reply: Vec::new(),
            round_trip: 100_000,
            answer_time: 100_000,
            next_beat: 0,
            restless: 0,
            installer: Installer::default(),
            sender: Sender::default(),
            shared,
        }
    }

    fn cell(&self) -> &Cell {
        &self.shared.cells[self.at as usize]
    }

    fn beat(&self) -> Nanos {
        self.shared.options.heartbeat
    }

    /// The epoch that it works in now, if it does: not while it pauses, or other workers still install what came before.
    fn working(&self) -> Option<Epoch> {
        let seat = self.seat.as_ref()?;
        let paused = self.paused.is_some() && !highwater_core::planted!(OldEpochCounts);
        let open = self.shared.open_epoch() == Some(seat.epoch) || highwater_core::planted!(OldEpochCounts);
        (!paused && open).then_some(seat.epoch)
    }

    /// Whether it votes, and coordinates.
    fn votes(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.votes)
    }

    fn connected(&self, node: NodeId) -> bool {
        self.peers[node.0 as usize].as_ref().is_some_and(|peer| peer.connected)
    }

    /// Voters that are connected, this node included: a bit each.
    fn reachable(&self) -> u32 {
        let Some(seat) = &self.seat else { return 0 };
        let here = |(node, life): &&(NodeId, Incarnation)| {
            *node == self.me
                || self.peers[node.0 as usize]
                    .as_ref()
                    .is_some_and(|peer| peer.connected && peer.incarnation == *life)
        };
        seat.members.voters.iter().filter(here).fold(0, |all, (node, _)| all | bit(*node))
    }

    fn may_serve(&self) -> Result<(), Refusal> {
        let elsewhere = || Refusal::NotServing { ask: self.shared.serving().filter(|node| *node != self.me) };
        if !self.votes() {
            return Err(elsewhere());
        }
        if self.shared.no_quorum.load(Ordering::Relaxed)
            || self.reachable().count_ones() < self.shared.quorums.majority
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
        let heard = self.peers[node.0 as usize].as_ref().map_or(0, |peer| peer.safe);
        let clock = if self.shared.strict { self.shared.clock.now() } else { Timestamp::ZERO };
        Head { epoch, closed: self.closed(), heard, clock }
    }

    /// A frame's messages, one after the other.
    fn take_frame(&mut self, now: Nanos, from: NodeId, frame: &Frame) -> Option<()> {
        let mut reader = Reader::new(&frame.head);
        let tag = reader.u8().ok()?;
        if tag != TAG {
            let message = CopyMessage::decode(tag, &mut reader).ok()?;
            self.on_copy(now, from, message, &frame.body);
            return Some(());
        }
        let (head, crc) = Head::decode(&mut reader).ok()?;
        let (seat, life) = (self.seat.as_ref()?, self.peers[from.0 as usize].as_ref()?.incarnation);
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
        if self.shared.strict {
            self.hold_clock(now);
            // Nothing rests on when exactly a clock is read, but on its never going back.
            self.shared.clock.advance_past(head.clock);
        }
        self.outcomes.heard(from, head.heard);
        let Some(peer) = &mut self.peers[from.0 as usize] else { return };
        peer.closed = peer.closed.max(head.closed);
        if !std::mem::replace(&mut peer.met, true) {
            peer.told = (u64::MAX, Timestamp::ZERO);
            self.outcomes.tell_again(from);
            self.ask_soon(now);
            self.restless = RESTLESS;
        }
    }

    /// What goes out: whatever there is for anybody.
    fn send(&mut self, beat: bool, out: &mut Outbox) {
        let Some(epoch) = self.working() else {
            self.post.clear();
            return;
        };
        let Some(seat) = &self.seat else { return };
        let others: Vec<NodeId> = seat.others(self.me).collect();
        let closed = if beat && self.owns.all.is_empty() && self.outcomes.unheard() == 0 {
            self.stamps.close()
        } else {
            self.closed()
        };
        for node in others {
            if !self.connected(node) {
                continue;
            }
            let (post, outcomes) = (&mut self.post, &mut self.outcomes);
            outcomes.tell(node, |message| post.for_one(node, &message));
            let seat = self.seat.as_ref().expect("it works in an epoch");
            let votes = seat.members.voters.iter().any(|(voter, _)| *voter == node);
            let head = self.head(epoch, node);
            let peer = self.peers[node.0 as usize].as_mut().expect("it is connected");
            let news = beat && peer.told != (head.heard, closed);
            if self.post.has(node) || (votes && self.post.has_for_all()) || news {
                peer.told = (head.heard, head.closed);
                self.post.send(node, self.at, head, votes, out);
            }
        }
        self.post.sent_to_all();
    }

    /// Now and then: asks again what nobody answered, tells again what nobody heard.
    fn beat_if_due(&mut self, now: Nanos) -> bool {
        if now < self.next_beat {
            return false;
        }
        self.next_beat = now + self.beat();
        if self.working().is_none() {
            return false;
        }
        let busy = !self.owns.is_empty()
            || self.outcomes.unheard() > 0
            || !self.records.is_empty()
            || self.shared.awaited().is_some()
            || self.settles.is_some()
            || self.delegates.granted() > 0;
        self.restless = if busy { RESTLESS } else { self.restless.saturating_sub(1) };
        self.ask_again(now);
        let most = MOST_TIMEOUTS * self.shared.options.election_timeout / self.beat();
        self.outcomes.tell_those_who_stand_still(most as u32);
        self.terminate_overdue(now);
        self.ask_how_far();
        self.close_ahead(now);
        busy || self.restless > 0
    }

    /// A proposal ahead of this node's clock is closed when that has come there. One that stands still never does: where nothing is under way, later
    /// ones go above it then.
    fn close_ahead(&mut self, now: Nanos) {
        self.look_at_pace(now);
        let (.., pace) = self.pace;
        if pace <= STANDS_STILL_PACE && self.owns.all.is_empty() && self.outcomes.unheard() == 0 {
            self.stamps.close_ahead();
        }
    }

    /// All that is over everywhere is over here: by the word of its coordinator, which has heard so of this replica.
    ///
    /// # Panics
    /// If it is not.
    fn close(&mut self, now: Nanos) {
        let Some(seat) = &self.seat else { return };
        let of = |node: NodeId| match node == self.me {
            true => self.closed(),
            false => self.peers[node.0 as usize].as_ref().map_or(Timestamp::ZERO, |peer| peer.closed),
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
        let before = self.shared.oldest_pending();
        let own = self.closed();
        self.delegates.assert_open(own);
        let planted = highwater_core::planted!(TrimmedEarly);
        let Some(seat) = &self.seat else { return };
        // Who has no vote coordinates nothing.
        let mut least = if seat.votes { own } else { Timestamp::MAX };
        for (node, _) in &seat.members.voters {
            let closed = if *node == self.me {
                own
            } else {
                self.peers[node.0 as usize].as_ref().map_or(Timestamp::ZERO, |peer| peer.closed)
            };
            least = least.min(closed);
            let (closed, before) = if planted { (Timestamp::MAX, Nanos::MAX) } else { (closed, before) };
            if let Some(ts) = self.records.trim(*node, closed, before) {
                self.gone[node.0 as usize] = (ts, self.journal.writes());
            }
        }
        let least = if least == Timestamp::MAX { own } else { least };
        // Others look at it in each of their turns.
        if self.cell().closed.load(Ordering::Relaxed) != least.0 {
            // Release; pairs with the Acquire in `Shared::closed`.
            self.cell().closed.store(least.0, Ordering::Release);
        }
    }

    /// Says up to where tombstones wait that have done so for a while: none that is younger, of which others are about to say that it is over.
    fn tell_graves(&mut self, now: Nanos) {
        if now < self.linger.next() {
            return;
        }
        let waits = self.applier.has_tombstones() && !self.shared.keeps_all_tombstones();
        let graves = if waits { self.met.0 } else { 0 };
        self.cell().graves.store(graves, Ordering::Relaxed);
        self.met = self.latest;
    }

    /// Unlinks tombstones that nobody needs. Whether more are due.
    fn collect(&mut self, now: Nanos) -> bool {
        self.tell_graves(now);
        let shared = &self.shared;
        let long = self.linger.look(now, shared.options.election_timeout, || shared.closed());
        // What was closed in another epoch says nothing of this one.
        let upto = if shared.keeps_all_tombstones() { Timestamp::ZERO } else { long.min(shared.closed()) };
        let marks = &self.marks;
        self.applier.collect_telling(upto, |table, key, ts| marks.collected(table, key, ts))
    }

    fn publish(&mut self) {
        let oldest = self.records.oldest_pending().unwrap_or(Nanos::MAX);
        let busy = self.records.pending()
            + self.owns.len()
            + self.outcomes.unheard()
            + self.terminations.len()
            + self.delegates.granted();
        let laggard = if self.outcomes.bytes() > self.shared.options.log_retain_bytes / 2 {
            self.outcomes.slowest(self.me).map_or(0, |node| u32::from(node.0) + 1)
        } else {
            0
        };
        let cell = self.cell();
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
            || self.restless > 0;
        let beat = match busy {
            true => Next::At(self.next_beat.max(now + 1)),
            false if self.applier.has_tombstones() => Next::At(self.linger.next().max(now + 1)),
            false => Next::Idle,
        };
        let over = self.owns.lanes.oldest().map(|since| over_at(since, &self.shared.options));
        let beat = over.map_or(beat, |at| beat.sooner(Next::At(at.max(now + 1))));
        if self.working().is_none() {
            // Whatever else is put off waits for the next epoch, which comes with a command.
            return beat;
        }
        let late = self.owns.all.values().map(|own| own.since + self.patience()).filter(|at| *at > now).min();
        let times = [self.owns.lanes.next(), late, self.next_ripe(now)];
        times.into_iter().flatten().fold(beat, |next, at| next.sooner(Next::At(at.max(now + 1))))
    }
}

impl Worker for MeerkatWorker {
    fn ready(&self) -> Result<(), Refusal> {
        self.may_serve()?;
        let options = &self.shared.options;
        let full = self.owns.len() >= options.max_in_flight_requests
            || self.owns.bytes() >= options.max_in_flight_bytes
            || self.outcomes.bytes() >= options.log_retain_bytes
            || self.done.reply_bytes.len() >= options.max_in_flight_bytes;
        if full { Err(Refusal::Busy) } else { Ok(()) }
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.owns.reply_bytes() + self.done.reply_bytes.len()
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
        self.tells_writes = tells;
    }

    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation, _levels: Levels) {
        if peer.0 >= self.shared.options.nodes {
            return;
        }
        let known = self.peers[peer.0 as usize].take();
        // What its earlier life coordinated in this epoch stays over: words about it that come late must not make records.
        let closed = known.as_ref().map_or(Timestamp::ZERO, |known| known.closed);
        let known = known.filter(|known| known.incarnation == incarnation).unwrap_or(Peer {
            incarnation,
            connected: true,
            heard: 0,
            safe: 0,
            told: (0, Timestamp::ZERO),
            closed,
            met: false,
        });
        self.peers[peer.0 as usize] = Some(Peer { connected: true, told: (0, Timestamp::ZERO), ..known });
        self.installer.peer_changed(peer);
        self.sender.peer_changed(peer);
        self.outcomes.tell_again(peer);
        self.ask_soon(now);
        self.next_beat = self.next_beat.min(now + self.beat());
        self.restless = RESTLESS;
    }

    fn peer_down(&mut self, _now: Nanos, peer: NodeId) {
        if let Some(Some(peer)) = self.peers.get_mut(peer.0 as usize) {
            peer.connected = false;
        }
        self.installer.peer_changed(peer);
        self.sender.peer_changed(peer);
    }

    fn deliver(&mut self, now: Nanos, from: Endpoint, frame: Frame) {
        self.take_commands(now);
        if from.worker == self.at && from.node.0 < self.shared.options.nodes {
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
        if self.shared.strict {
            self.hold_clock(now);
        }
        if self.working().is_some() {
            self.as_of = self.shared.installed();
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
        let copying = self.copy_some(now, out);
        self.trim(now);
        self.publish();
        let more = self.collect(now);
        if self.journal.writes() {
            self.write_trimmed(beat);
            self.write_closed(beat);
            self.settle_when_closed(now);
            self.journal.take_writes(now, &mut out.writes);
        }
        out.replies.append(&mut self.done.replies);
        // Offsets of replies are those of an outbox that was empty.
        assert!(
            out.reply_bytes.is_empty() || self.done.reply_bytes.is_empty(),
            "an outbox is emptied between turns"
        );
        out.reply_bytes.append(&mut self.done.reply_bytes);
        out.written.append(&mut self.done.written);
        if self.done.wake_controller {
            out.wake_controller = true;
        }
        self.tell_standing();
        self.delegates.hand_out(&mut out.to_clients);
        self.done.clear();
        if more { Next::Now } else { self.next(now).sooner(copying) }
    }

    fn describe(&self) -> String {
        format!(
            "epoch {}, {} under way, {} put off, {} granted, {} outcomes unheard, {} records ({} pending), {} taken over{}",
            self.seat.as_ref().map_or(0, |seat| seat.epoch.0),
            self.owns.all.len(),
            self.owns.lanes.waiting(),
            self.delegates.granted(),
            self.outcomes.unheard(),
            self.records.len(),
            self.records.pending(),
            self.terminations.len(),
            self.unripe.first_key_value().map_or(String::new(), |(ts, since)| {
                let (count, clock) = (self.unripe.len(), self.shared.clock.now());
                format!(", {count} withheld: {ts} since {since}, it is {clock}; lead {}", self.lead)
            })
        )
    }
}

impl MeerkatWorker {
    fn report(&mut self, report: Report) {
        self.shared.reports.put(report);
        self.done.wake_controller = true;
    }
}
