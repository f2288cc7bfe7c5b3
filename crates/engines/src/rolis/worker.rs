//! One worker: stream *i*, its share of the execution while the node leads, its share of the applying while it follows.
//!
//! This file joins the parts and no more: it knows what the worker does with its stream at the moment ([`Mode`]), carries out
//! the controller's commands, and hands each part what else it may touch. [`lead`](super::lead) executes, seals and releases;
//! [`apply`](super::apply) follows the decided log; [`reads`](super::reads) reads snapshots of it; [`copy`](crate::copy) sends
//! and receives state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::{Change, Recovered, Stream, StreamOptions, Voter};
use highwater_core::{Ballot, EntryIndex, Incarnation, NodeId, Registry, StreamId, Timestamp};
use highwater_store::{Applier, Occ, SnapshotTx, Store};

use super::abilities::ABILITIES;
use super::apply::{Applying, Replay};
use super::checked::{CheckedEntry, is_sound};
use super::context::{Context, Turn};
use super::feed::Feed;
use super::figures::Figures;
use super::funnel::Funnel;
use super::gate::Gate;
use super::hooks;
use super::lead::Lead;
use super::locate::{Donor, locate};
use super::messages::{Command, Report, Restart};
use super::opening::Opening;
use super::reads::Reads;
use super::seal::fresh_entry;
use super::shared::Shared;
use super::speculation::Speculation;
use super::wire::{Head, carried_entry};
use crate::copy::{CopyMessage, Installer, Sender};
use crate::options::Options;
use crate::seam::{Counters, Endpoint, Frame, LogPosition, Nanos, Next, Outbox, Refusal, Request, Worker};

/// Worker *i* of a Rolis replica.
pub struct RolisWorker {
    context: Context,
    mode: Mode,
    stream: Stream,
    /// Which life of each peer is connected.
    peers: BTreeMap<NodeId, Incarnation>,
    /// The ballot that the controller was last told of.
    known: Ballot,
    store: Arc<Store>,
    /// The store, as a transaction sees it.
    occ: Occ,
    /// The store, as a follower of the log sees it.
    applier: Applier,
    feed: Feed,
    lead: Lead,
    speculation: Speculation,
    replay: Replay,
    reads: Reads,
    sender: Sender,
    installer: Installer,
    figures: Figures,
    /// Frames came since the last turn.
    stirred: bool,
    gate: Gate,
    /// What an earlier life wrote, as far as it has been handed in.
    recovering: Option<Recovered>,
    /// The state that an earlier life had copied is lost: the log begins behind it.
    lost_store: bool,
}

/// What the worker does with its stream.
#[derive(Debug)]
enum Mode {
    /// Nothing is known yet, or the store is being replaced: keeps its promises, looks at no entry.
    Parked,
    /// Applies what is decided and safe.
    Following,
    /// Adopts the best log, then starts the epoch.
    TakingOver(Opening),
    /// Executes transactions.
    Leading(Ballot),
}

/// How much a new leader installs in one turn, in bytes of log.
const TAKEOVER_BYTES: u32 = 4 << 20;

impl RolisWorker {
    /// A worker with an empty log and store. Its procedures come as a leader runs them, and as a follower does.
    pub fn new(
        id: StreamId,
        shared: Arc<Shared>,
        store: Arc<Store>,
        (registry, readers): (Registry<Occ>, Registry<SnapshotTx>),
        counters: Arc<Counters>,
    ) -> RolisWorker {
        let options = shared.options.clone();
        let me = Voter { node: options.node, incarnation: options.incarnation };
        let occ = Occ::new(store.clone(), shared.clock.clone());
        let context = Context { id, me, shared, counters };
        RolisWorker {
            stream: Stream::new(me, EntryIndex::NONE, stream_options(&options)),
            mode: Mode::Following,
            peers: BTreeMap::new(),
            known: Ballot::default(),
            occ,
            applier: Applier::new(store.clone()),
            feed: Feed::default(),
            lead: Lead::new(&context, registry),
            speculation: Speculation::default(),
            replay: Replay::default(),
            reads: Reads::new(readers),
            sender: Sender::default(),
            installer: Installer::default(),
            figures: Figures::default(),
            stirred: false,
            gate: Gate::default(),
            recovering: None,
            lost_store: false,
            context,
            store,
        }
    }

    /// Takes what the other workers commit into this worker's stream.
    pub fn with_funnel(mut self, funnel: Arc<Funnel>) -> RolisWorker {
        self.feed = Feed::of_all(funnel);
        self
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        match command {
            Command::Fence(ballot) => self.fence(ballot, turn),
            Command::Follow(ballot) => {
                self.known = self.known.max(ballot);
                if ballot >= self.stream.promised() {
                    self.stop_leading(turn.out);
                    self.stream.follow(turn.now, ballot);
                }
            }
            Command::TakeOver { plan, start } => {
                let ballot = plan.ballot;
                if ballot != self.stream.promised() {
                    return;
                }
                if self.stream.take_over(turn.now, plan) {
                    self.mode = Mode::TakingOver(Opening::new(ballot, start));
                } else {
                    turn.report(&self.context, Report::TakeOverFailed(ballot));
                }
            }
            Command::Open { ballot, members } => {
                if matches!(&self.mode, Mode::TakingOver(opening) if opening.ballot() == ballot)
                    && self.stream.is_leading(ballot)
                {
                    self.stream.end_joint_quorum(members);
                    self.open(ballot);
                }
            }
            Command::Quiesce => self.lead.quiesce(true),
            Command::Resume => self.lead.quiesce(false),
            Command::Park => self.park(turn),
            Command::Restart(restart) => self.restart(restart, turn),
            Command::Locate { copy, floor } => {
                let start = if self.may_send() { locate(&self.stream, floor) } else { None };
                if start.is_some() {
                    self.sender.announce(copy);
                } else {
                    // With an entry above what was trimmed the next question has an answer, even if nobody asks for more.
                    self.lead.close_up_to(self.high());
                }
                let stream = self.context.id;
                turn.report(&self.context, Report::Located { copy, stream, start });
            }
        }
    }

    fn fence(&mut self, ballot: Ballot, turn: &mut Turn<'_>) {
        if ballot < self.stream.promised() {
            // A stream may have met a still higher ballot by itself; the controller will hear of that one.
            return;
        }
        self.stop_leading(turn.out);
        let unpromised = hooks::fences_unpromised(ballot.node != self.context.me.node);
        let tail = if unpromised { self.stream.tail() } else { self.stream.promise(ballot) };
        self.known = self.known.max(ballot);
        let pending = self.replay.pending_changes(&self.context, &self.stream);
        let high = self.high();
        let report = Report::Fenced { ballot, stream: self.context.id, tail, pending, high };
        self.gate.report(self.stream.changes_made(), report, &self.context, turn);
    }

    /// The epoch is open: everything older is applied on all workers.
    fn open(&mut self, ballot: Ballot) {
        let watermark = &self.context.shared.watermark;
        let base = watermark.closed(self.context.id);
        assert_eq!(watermark.epoch(), ballot.epoch, "an epoch opens after every stream has entered it");
        assert!(self.replay.caught_up(), "an epoch opens after everything older is applied");
        self.mode = Mode::Leading(ballot);
        hooks::leads(ballot.epoch);
        self.speculation.begin(ballot.epoch, &self.context.shared);
        self.feed.open(ballot.epoch, base, &self.store);
        self.lead.begin(base, &self.context, &mut self.occ);
    }

    /// Ends leading, if it was: what is speculative is left to the final mark.
    fn stop_leading(&mut self, out: &mut Outbox) {
        match self.mode {
            Mode::Leading(_) => {
                self.feed.close(out);
                self.lead.end(&self.context, &mut self.occ, out);
                // The receivers would wait for a mark that this epoch may never reach.
                self.sender.refuse_all();
                self.mode = Mode::Following;
            }
            Mode::TakingOver(_) => self.mode = Mode::Following,
            Mode::Following | Mode::Parked => {}
        }
    }

    /// The store is about to be replaced.
    fn park(&mut self, turn: &mut Turn<'_>) {
        self.stop_leading(turn.out);
        self.mode = Mode::Parked;
        if let Some(first) = self.stream.too_far()
            && first > self.stream.decided().next()
        {
            // The log need not wait for the store: this vote may be the one that a new leader lacks, and until it
            // leads nobody may be able to give a copy.
            self.stream.restart_after(EntryIndex(first.0 - 1));
        }
        (self.sender, self.installer) = (Sender::default(), Installer::default());
        let members = self.stream.members().cloned();
        turn.report(&self.context, Report::Parked(self.context.id, members));
    }

    /// Goes on from a copied state that is about to arrive.
    fn restart(&mut self, restart: Restart, turn: &mut Turn<'_>) {
        let Restart { store, start, floor, donor, copy, leader } = restart;
        let tail = self.stream.tail();
        if start < tail.first {
            // The donor's log reaches further back than ours: its floor is too old for what we kept.
            return turn.report(&self.context, Report::CopyStalled { copy });
        }
        let shared = &self.context.shared;
        self.occ = Occ::new(store.clone(), shared.clock.clone());
        self.occ.log().take(fresh_entry());
        self.applier = Applier::new(store.clone());
        self.reads.leave_store();
        self.speculation.leave_store(shared);
        self.store = store;
        if start > tail.last.next() || self.stream.too_far().is_some() {
            let base = EntryIndex(start.0 - 1).max(tail.decided);
            self.stream.restart_after(base);
        }
        shared.watermark.members().into_iter().for_each(|members| self.stream.know_members(members));
        self.replay = Replay::starting_at(start, floor);
        if self.stream.tail().first > start {
            return turn.report(&self.context, Report::CopyStalled { copy });
        }
        self.mode = Mode::Following;
        self.sender = Sender::default();
        self.installer = Installer::expect(turn.now, donor, copy, self.store.clone());
        self.stream.follow(turn.now, leader);
    }

    /// Above every timestamp in the log.
    fn high(&self) -> Timestamp {
        let last = CheckedEntry::held(&self.stream, self.stream.last());
        let closed = last.map(|entry| entry.header().closed_ts).unwrap_or_default();
        closed.max(self.replay.floor()).max(self.context.shared.watermark.closed(self.context.id)).next()
    }

    /// A frame's sender, if its connection is up.
    fn peer(&self, from: NodeId) -> Option<Voter> {
        self.peers.get(&from).map(|incarnation| Voter { node: from, incarnation: *incarnation })
    }

    /// Whether this worker may send its part of the store: a leader may (see [`Donor`]); anybody else only if no worker of this
    /// replica has executed anything whose fate is open.
    fn may_send(&self) -> bool {
        match self.mode {
            Mode::Parked => false,
            Mode::Leading(_) => true,
            Mode::Following | Mode::TakingOver(_) => {
                !self.installer.is_receiving() && self.context.shared.is_certain()
            }
        }
    }

    fn turn_following(&mut self, turn: &mut Turn<'_>) -> Next {
        self.replay.report_too_far(&self.context, &self.stream, turn);
        if self.stream.has_output() && !self.replay.caught_up() {
            // Acknowledge first: the leader waits for it.
            return Next::Now;
        }
        let parts = (&self.speculation, &mut self.applier);
        let next = self.replay.turn(&self.context, &mut self.stream, parts, turn);
        self.collect_garbage(false, turn);
        next
    }

    fn turn_taking_over(&mut self, turn: &mut Turn<'_>) -> Next {
        let Mode::TakingOver(opening) = &mut self.mode else { unreachable!("the caller looked") };
        if !self.stream.is_leading(opening.ballot()) {
            return Next::Idle;
        }
        if opening.start(&self.context, &mut self.stream) {
            self.look_at_decided(turn);
        }
        let applying = self.apply(TAKEOVER_BYTES, turn);
        let caught_up = self.replay.caught_up() && self.replay.scan() > self.stream.decided();
        if let Mode::TakingOver(opening) = &mut self.mode {
            opening.report_ready(caught_up, &self.context, &mut self.stream, turn);
        }
        if applying == Applying::More { Next::Now } else { Next::Idle }
    }

    fn turn_leading(&mut self, ballot: Ballot, turn: &mut Turn<'_>) -> Next {
        let parts = (&mut self.occ, &self.feed);
        let no_room = self.lead.turn(ballot, &self.context, parts, &mut self.stream, turn);
        // A lone voter decides by itself, at once.
        self.look_at_decided(turn);
        self.apply(u32::MAX, turn);
        self.lead.release(ballot, &self.context, &mut self.occ, &mut self.stream, turn);
        self.collect_garbage(true, turn);
        self.lead.report_quiesced(&self.context, &self.stream, turn);
        self.lead.next(turn.now, no_room, &self.context, (&self.stream, self.replay.scan()))
    }

    /// Looks at every decided entry not looked at yet.
    fn look_at_decided(&mut self, turn: &mut Turn<'_>) {
        let parts = (&mut self.speculation, &mut self.occ);
        let moved = self.replay.look(&self.context, &mut self.stream, parts, turn);
        if moved && (self.feed.is_shared() || self.context.shared.watermark.others_wait(self.context.id)) {
            turn.out.wake_workers = true;
        }
    }

    /// Installs what the mark has passed.
    fn apply(&mut self, budget: u32, turn: &mut Turn<'_>) -> Applying {
        let parts = (&self.speculation, &mut self.applier);
        self.replay.apply(budget, &self.context, &mut self.stream, parts, turn)
    }

    /// Unlinks tombstones that no reader and no older write can need.
    fn collect_garbage(&mut self, leads: bool, turn: &mut Turn<'_>) {
        let shared = &self.context.shared;
        if shared.receiving_copy.load(Ordering::SeqCst) || shared.serving_copies.load(Ordering::SeqCst) > 0 {
            return;
        }
        // Another worker's roll-back may restore what our tombstone replaced: the record has to be in its index still, though
        // the marks of the new epoch have passed the tombstone's timestamp.
        if !leads && !shared.is_certain() {
            return;
        }
        let watermark = &shared.watermark;
        let floor = if leads {
            watermark.mark()
        } else {
            hooks::tombstone_floor(|| watermark.applied_floor(), || watermark.mark())
        };
        hooks::collects();
        // Bounded work: a large delete takes several turns, and no other traffic may come to give them.
        turn.again |= self.applier.collect(floor) | self.occ.collect(floor);
    }

    /// Sends chunks as far as the windows allow; asks for and watches over the copy that is arriving.
    fn turn_copying(&mut self, turn: &mut Turn<'_>) -> Next {
        let context = &self.context;
        let worker = context.id.0;
        let frame = |node, message, body| {
            (Endpoint { node, worker }, Frame { head: Head::Copy(message).encode(), body })
        };
        self.installer.acknowledge(|to, message| turn.out.frames.push(frame(to, message, Bytes::new())));
        if let Some((copy, complete_at)) = self.installer.take_completed() {
            turn.report(context, Report::Copied { copy, stream: context.id, complete_at });
        }
        self.report_refused(turn);
        let peers = &self.peers;
        let watching = self.installer.watch(
            turn.now,
            |donor| peers.contains_key(&donor),
            |to, message| turn.out.frames.push(frame(to, message, Bytes::new())),
        );
        if let Some(copy) = self.installer.take_stalled() {
            turn.report(&self.context, Report::CopyStalled { copy });
        }
        let donor = Donor { shared: &self.context.shared, leads: matches!(self.mode, Mode::Leading(_)) };
        let sent = self.sender.turn(turn.now, &donor, |to, message, chunk| {
            turn.out.frames.push(frame(to, message, chunk));
        });
        sent.waits_for.into_iter().for_each(|position| self.lead.close_up_to(position));
        self.report_refused(turn);
        watching.sooner(sent.next)
    }

    fn report_refused(&mut self, turn: &mut Turn<'_>) {
        for copy in self.sender.take_refused() {
            turn.report(&self.context, Report::CopyRefused(copy));
        }
    }

    fn turn_reading(&mut self, turn: &mut Turn<'_>) -> Next {
        let only_appliers_write = matches!(self.mode, Mode::Following | Mode::TakingOver(_));
        let store = only_appliers_write.then_some(&self.store);
        self.reads.turn(store, &self.context, turn)
    }

    fn deliver_to_stream(&mut self, now: Nanos, sender: Voter, frame: (highwater_consensus::Message, Bytes)) {
        let (message, body) = frame;
        if carried_entry(&message).is_some_and(|index| !is_sound(&body, self.context.id, index)) {
            return;
        }
        let leads = message.of_leader();
        self.stream.deliver(now, sender, message, own_entry(body));
        // Under the ballot that this stream follows: a leader of the past is no leader.
        if let Some(ballot) = leads.filter(|ballot| *ballot == self.stream.promised()) {
            self.context.pulse().hear_leader(ballot.epoch, now);
        }
    }

    fn deliver_to_copy(&mut self, now: Nanos, sender: Voter, message: CopyMessage, body: &Bytes) {
        match message {
            CopyMessage::CopyStart { copy } => {
                let part = (self.context.id.0 as usize, self.context.options().workers as usize);
                let may = self.may_send();
                self.sender.start(sender, copy, may, &self.store, part);
            }
            CopyMessage::CopyChunk { copy, seq, complete_at } => {
                let bytes = self.installer.take(now, sender.node, (copy, seq), complete_at, body);
                self.context.shared.copied_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            CopyMessage::CopyAck { copy, seq } => self.sender.acknowledged(sender, copy, seq),
        }
    }

    fn hand_out_frames(&mut self, out: &mut Outbox) {
        for envelope in self.stream.drain() {
            let head = Head::Stream(envelope.message).encode();
            let to = Endpoint { node: envelope.to, worker: self.context.id.0 };
            self.gate.send(envelope.after, to, Frame { head, body: envelope.entry }, out);
        }
    }

    /// Shows the controller that this worker is at work, and whether its stream moves.
    fn show_pulse(&mut self, now: Nanos, next: Next) {
        let leads = matches!(self.mode, Mode::Leading(_));
        let still_since = self.lead.still_since(now, leads, &self.stream);
        self.stirred = false;
        let pulse = self.context.pulse();
        pulse.still_since(still_since);
        pulse.waiting_bytes(if leads { self.stream.undecided_bytes() } else { 0 });
        pulse.turned(now, next);
    }
}

impl Worker for RolisWorker {
    fn ready(&self) -> Result<(), Refusal> {
        match self.mode {
            Mode::Leading(_) => self.lead.admits(&self.context, &self.occ),
            _ => Err(self.context.refer()),
        }
    }

    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<(), Refusal> {
        ABILITIES.admit(&request)?;
        self.ready()?;
        let stream = (&self.stream, self.replay.scan());
        self.lead.submit(now, request, &self.context, (&mut self.occ, &self.feed), stream)
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.lead.pending_bytes()
    }

    fn submit_snapshot(&mut self, now: Nanos, request: Request<'_>) -> Result<(), Refusal> {
        ABILITIES.admit(&request)?;
        match self.mode {
            Mode::Leading(_) => self.submit(now, request),
            // The strawman's other workers know no store while they follow: no snapshots there.
            Mode::Parked => Err(self.context.refer()),
            _ if self.feed.is_shared() || !self.context.shared.has_snapshots() => Err(self.context.refer()),
            _ => self.reads.submit(now, request),
        }
    }

    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation) {
        self.peers.insert(peer, incarnation);
        self.sender.peer_changed(peer);
        self.installer.peer_changed(peer);
        self.stream.peer_up(now, Voter { node: peer, incarnation });
    }

    fn peer_down(&mut self, _now: Nanos, peer: NodeId) {
        self.peers.remove(&peer);
        self.sender.peer_changed(peer);
        self.installer.peer_changed(peer);
        self.gate.peer_down(peer);
        self.stream.peer_down(peer);
    }

    fn deliver(&mut self, now: Nanos, from: Endpoint, frame: Frame) {
        // A stream's messages do not name it: one of another stream's worker would be taken for this one's.
        let own = from.worker == self.context.id.0;
        let Some(sender) = self.peer(from.node).filter(|_| own) else { return };
        if !std::mem::replace(&mut self.stirred, true) && !self.lead.is_busy() {
            self.context.pulse().stirred(now);
        }
        self.context.pulse().hear(from.node, now);
        match Head::decode(&frame.head) {
            Ok(Head::Stream(message)) => self.deliver_to_stream(now, sender, (message, frame.body)),
            Ok(Head::Copy(message)) => self.deliver_to_copy(now, sender, message, &frame.body),
            // A peer of the same format version sends what we can read; anything else is noise on the wire.
            Err(_) => {}
        }
    }

    fn synced(&mut self, _now: Nanos, position: LogPosition) {
        let changes = self.gate.synced(position);
        self.stream.synced(changes);
    }

    fn recover(&mut self, record: Bytes) -> Result<(), String> {
        let change = Change::decode(&record);
        let recovering = self.recovering.get_or_insert_default();
        let applied = change.and_then(|change| recovering.apply(change));
        applied.map_err(|why| format!("{}: a record that does not fit: {why:?}", self.context.id))
    }

    fn recovered(&mut self) {
        let Some(recovered) = self.recovering.take() else { return };
        let context = &self.context;
        self.stream = Stream::recover(context.me, recovered, stream_options(context.options()));
        self.known = self.stream.promised();
        context.shared.recovered(self.known);
        let base = EntryIndex(self.stream.tail().first.0 - 1);
        if base > EntryIndex::NONE {
            self.mode = Mode::Parked;
            self.lost_store = true;
        }
        hooks::restarted();
    }

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        let mut turn = Turn { now, out, again: false };
        self.gate.open(&self.context, &mut turn);
        if std::mem::take(&mut self.lost_store) {
            turn.report(&self.context, Report::TooFar(self.context.id));
        }
        // Taken out first: the workers count their references to what they share on one line.
        let commands = self.context.shared.commands[self.context.id.0 as usize].take();
        for command in commands {
            self.command(command, &mut turn);
        }
        if self.stream.promised() > self.known {
            self.known = self.stream.promised();
            self.stop_leading(turn.out);
            turn.report(&self.context, Report::Met(self.known));
        }
        let stream_at = self.stream.tick(now);
        if !matches!(self.mode, Mode::Parked) {
            self.look_at_decided(&mut turn);
        }
        let next = match self.mode {
            Mode::Leading(ballot) => self.turn_leading(ballot, &mut turn),
            Mode::TakingOver(_) => self.turn_taking_over(&mut turn),
            Mode::Following => self.turn_following(&mut turn),
            Mode::Parked => Next::Idle,
        };
        let reading = self.turn_reading(&mut turn);
        let copying = self.turn_copying(&mut turn);
        self.gate.write(&mut self.stream, turn.out);
        if hooks::sends_later() {
            turn.again = true;
        } else {
            self.hand_out_frames(turn.out);
        }
        let next = if turn.again { Next::Now } else { next };
        let figures = self.figures.refresh(now, &self.context, &self.stream, self.replay.applied());
        let next = next.sooner(copying).sooner(reading).sooner(figures);
        let next = stream_at.map_or(next, |at| next.sooner(Next::At(at)));
        self.show_pulse(now, next);
        next
    }

    fn describe(&self) -> String {
        let Context { id, .. } = &self.context;
        format!("{id} {:?} {:?} {}", self.mode, self.replay, self.stream.describe())
    }
}

fn stream_options(options: &Options) -> StreamOptions {
    StreamOptions {
        window_bytes: options.max_in_flight_bytes as u64,
        backlog_bytes: options.backlog_bytes(),
        durable: options.durable,
        ..StreamOptions::default()
    }
}

/// An entry that may be kept for long. A small one gets memory of its own: as a part of a receive buffer it would keep
/// all of that, which may be a hundred times as much.
fn own_entry(body: Bytes) -> Bytes {
    if body.len() < OWN_BELOW_BYTES { Bytes::copy_from_slice(&body) } else { body }
}

/// Entries below this size are copied out of the receive buffer.
const OWN_BELOW_BYTES: usize = 192 << 10;
