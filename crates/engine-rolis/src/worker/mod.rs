//! One worker: stream *i*, its share of the execution while the node leads, its share of the applying while it follows.
//!
//! This folder joins the parts and no more: it knows what the worker does with its stream at the moment ([`Mode`]), carries out
//! the controller's commands (`commands`), and hands each part what else it may touch (`turns`). [`lead`](crate::lead) executes, seals and releases;
//! [`apply`](crate::follow::apply) follows the decided log; [`reads`](crate::reads) reads snapshots of it; [`copy`](highwater_kit::copy) sends
//! and receives state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::{Change, Message, Recovered, Stream, StreamOptions, Voter};
use highwater_core::log::EntryKind;
use highwater_core::{
    Ballot, EntryIndex, Generation, Incarnation, Level, Levels, NodeId, Registry, StreamId, Timestamp,
};
use highwater_kit::copy::{CopyMessage, Installer, Sender};
use highwater_seam::options::Options;
use highwater_seam::{
    Counters, Endpoint, Frame, LogPosition, Nanos, Next, Outbox, Refusal, Request, Taken, Worker,
};
use highwater_store::{Applier, Occ, SnapshotTx, Store};

use crate::abilities::ABILITIES;
use crate::context::{Context, Turn};
use crate::follow::apply::Replay;
use crate::follow::checked::CheckedEntry;
use crate::follow::locate::begins_too_late;
use crate::hooks;
use crate::lead::Lead;
use crate::lead::opening::Opening;
use crate::lead::speculation::Speculation;
use crate::marks::Marks;
use crate::reads::Reads;
use crate::reads::bounded::Bounded;
use crate::strawman::feed::Feed;
use crate::strawman::funnel::{Entrance, Funnel};
use highwater_log_host::context::Context as LogContext;
use highwater_log_host::disk::gate::Gate;
use highwater_log_host::disk::points::Points;
use highwater_log_host::disk::recall::Recall;
use highwater_log_host::messages::{Command, Report};
use highwater_log_host::probes::{ProbeMessage, Probes, Vouching};
use highwater_log_host::pulse::NEVER;
use highwater_log_host::shared::{Past, Shared};
use highwater_log_host::wire::{Head, carried_entry};
use highwater_log_host::worker::figures::Figures;
use highwater_log_host::worker::spares::Spares;

mod commands;
mod levels;
mod turns;

/// Worker *i* of a Rolis replica.
pub struct RolisWorker {
    context: Context,
    mode: Mode,
    stream: Stream,
    /// Which life of each peer is connected, and reads what this worker writes.
    peers: BTreeMap<NodeId, Incarnation>,
    /// The newest level that each connected peer reads, be it sent anything or not: see [`levels`].
    newest: BTreeMap<NodeId, Level>,
    /// Connected, and do not read what this worker writes.
    unable: BTreeSet<NodeId>,
    /// The ballot that the controller was last told of.
    known: Ballot,
    store: Arc<Store>,
    /// Which one that is, of those that this replica has had.
    generation: Generation,
    /// The store, as a transaction sees it.
    occ: Occ,
    /// The store, as a follower of the log sees it.
    applier: Applier,
    feed: Feed,
    lead: Lead,
    speculation: Speculation,
    replay: Replay,
    reads: Reads,
    bounded: Bounded,
    probes: Probes,
    vouching: Vouching,
    recall: Recall,
    sender: Sender,
    installer: Installer,
    figures: Figures,
    /// Frames came since the last turn.
    stirred: bool,
    gate: Gate,
    spares: Spares,
    /// What an earlier life wrote, as far as it has been handed in.
    recovering: Option<Recovering>,
    /// Up to here that life knew what is decided; nobody reads before it is installed again.
    reread: Option<EntryIndex>,
    points: Points,
}

/// What an earlier life wrote.
struct Recovering {
    /// What it leads to.
    state: Recovered,
    /// Where its records end.
    position: u64,
    points: Points,
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

impl RolisWorker {
    /// A worker with an empty log and store. Its procedures come as a leader runs them, and as a follower does.
    pub fn new(
        id: StreamId,
        (shared, marks): (Arc<Shared>, Arc<Marks>),
        store: Arc<Store>,
        (registry, readers): (Registry<Occ>, Registry<SnapshotTx>),
        counters: Arc<Counters>,
    ) -> RolisWorker {
        let options = shared.options.clone();
        let me = Voter { node: options.node, incarnation: options.incarnation };
        let mut occ = Occ::new(store.clone(), shared.clock.clone());
        occ.set_tables(store.schema().tables_at(options.levels.oldest));
        let log = LogContext { id, me, level: options.levels.oldest, shared, counters };
        let context = Context { log, marks };
        RolisWorker {
            stream: Stream::new(me, EntryIndex::NONE, stream_options(&options)),
            mode: Mode::Following,
            peers: BTreeMap::new(),
            newest: BTreeMap::new(),
            unable: BTreeSet::new(),
            known: Ballot::default(),
            occ,
            applier: Applier::new(store.clone()),
            feed: Feed::default(),
            lead: Lead::new(&context, registry),
            speculation: Speculation::default(),
            replay: Replay::default(),
            reads: Reads::new(readers),
            bounded: Bounded::default(),
            probes: Probes::default(),
            vouching: Vouching::default(),
            recall: Recall::default(),
            sender: Sender::default(),
            installer: Installer::default(),
            figures: Figures::default(),
            stirred: false,
            gate: Gate::default(),
            spares: Spares::default(),
            recovering: None,
            reread: None,
            points: Points::default(),
            context,
            store,
            generation: Generation::default(),
        }
    }

    /// Takes what the other workers commit into this worker's stream.
    pub fn with_funnel(mut self, funnel: Arc<Funnel>) -> RolisWorker {
        self.feed = Feed::of_all(Entrance::new(funnel, self.context.id.0.into()));
        self
    }

    /// What an earlier life wrote, as far as it has been handed in.
    fn recovering(&mut self) -> &mut Recovering {
        let (shared, at) = (&self.context.shared, usize::from(self.context.id.0));
        self.recovering.get_or_insert_with(|| {
            let resumed = shared.resumed();
            let begin = resumed.map(|resumed| (resumed.positions[at].0, resumed.contents.streams[at].point));
            let (position, point) = begin.unwrap_or_default();
            let points = Points::starting_at(position, point);
            Recovering { state: Recovered::begin(point), position, points }
        })
    }

    /// Above every timestamp in the log.
    fn high(&self) -> Timestamp {
        let last = CheckedEntry::held(&self.stream, self.stream.last());
        let closed = last.map(|entry| entry.header().closed_ts).unwrap_or_default();
        closed.max(self.replay.floor()).max(self.context.marks.watermark.closed(self.context.id)).next()
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

    fn deliver_to_stream(&mut self, now: Nanos, sender: Voter, frame: (Message, Bytes)) {
        let (message, body) = frame;
        if self.context.shared.uncleared.load(Ordering::Relaxed) {
            // As if it were lost: whoever sent it asks again.
            return;
        }
        if let Some(index) = carried_entry(&message)
            && !self.can_take(now, sender, &body, index)
        {
            return;
        }
        let leads = message.of_leader();
        self.watch_disk(now);
        self.stream.deliver(now, sender, message, own_entry(body));
        // Under the ballot that this stream follows: a leader of the past is no leader.
        if let Some(ballot) = leads.filter(|ballot| *ballot == self.stream.promised()) {
            self.context.pulse().hear_leader(ballot.epoch, now);
        }
    }

    /// What is accepted waits for the disk if that is too far behind.
    fn watch_disk(&mut self, now: Nanos) {
        self.stream.wait_for_disk(self.gate.is_behind(now, self.context.options().disk_window));
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

    fn deliver_probe(&mut self, sender: Voter, message: ProbeMessage) {
        match message {
            ProbeMessage::Vouch { asked, upto, log } => {
                self.probes.answered(asked, upto, log);
                self.context.marks.proven.vouched(asked, upto);
            }
            ProbeMessage::Probe { asked } => {
                let Mode::Leading(ballot) = self.mode else { return };
                let Some(mark) = self.context.marks.watermark.mark_in(ballot.epoch) else { return };
                if self.lead.prove_lead(&self.context) {
                    self.vouching.take(sender, asked, ballot, mark, &self.stream);
                }
            }
        }
    }

    /// Hands out what the stream has to say; when to do so again with what spares are not sent yet.
    fn hand_out_frames(&mut self, now: Nanos, out: &mut Outbox) -> Option<Nanos> {
        let busy = matches!(self.mode, Mode::Leading(_)) && self.lead.has_many();
        let RolisWorker { context, gate, spares, stream, unable, .. } = self;
        if stream.has_output() {
            spares.choose(busy, stream);
        }
        let mut send = |(after, to, frame)| gate.send(after, to, frame, out);
        for envelope in stream.drain() {
            if unable.contains(&envelope.to) {
                continue;
            }
            // A spare's word is needed as little as its acknowledgement.
            let may_wait = matches!(envelope.message, Message::Accept { .. } | Message::Confirm { .. });
            let to = Endpoint { node: envelope.to, worker: context.id.0 };
            let head = Head::Stream(envelope.message).encode();
            spares.send(now, may_wait, (envelope.after, to, Frame { head, body: envelope.entry }), &mut send);
        }
        spares.flush(now, busy, send)
    }

    /// Whether so much waits for this node's disk that nothing more is taken: a leader's own disk may be the slowest, and what waits for it
    /// is bounded, too. If that lasts the controller makes way ([`Health`](highwater_log_host::members::health::Health)).
    fn is_held_by_disk(&self) -> bool {
        self.gate.unsynced_bytes() >= self.context.options().max_in_flight_bytes as u64
    }

    /// Refers a client to whoever leads. If that is this node the command to open the epoch is in this worker's mailbox, and is looked for in
    /// its next turn.
    fn refer(&self) -> Refusal {
        let refusal = self.context.refer();
        let opens = matches!(self.mode, Mode::TakingOver(_)) && self.context.is_led_here();
        if opens { Refusal::Busy } else { refusal }
    }

    /// Shows the controller that this worker is at work, and whether its stream moves.
    fn show_pulse(&mut self, now: Nanos, next: Next, out: &mut Outbox) {
        let leads = matches!(self.mode, Mode::Leading(_));
        let still_since = self.lead.still_since(now, leads, &self.stream);
        self.stirred = false;
        let pulse = self.context.pulse();
        pulse.still_since(still_since);
        // What the controller reads a moment too early it reads with its next heartbeat.
        out.wake_controller |= still_since != NEVER && self.context.shared.rests.load(Ordering::Relaxed);
        pulse.waiting_bytes(if leads { self.stream.undecided_bytes() } else { 0 });
        pulse.unsynced(self.gate.unsynced_since(), if leads { self.gate.unsynced_bytes() } else { 0 });
        pulse.turned(now, next);
    }
}

impl Worker for RolisWorker {
    fn ready(&self) -> Result<(), Refusal> {
        match self.mode {
            // Before anything that may last: who is refused can ask elsewhere.
            Mode::Leading(_) if self.context.has_no_quorum() => Err(Refusal::NoQuorum),
            Mode::Leading(_) if self.is_held_by_disk() => Err(Refusal::Busy),
            Mode::Leading(_) => self.lead.admits(&self.context, &self.occ),
            _ => Err(self.refer()),
        }
    }

    fn waits_for_leader(&self) -> bool {
        !matches!(self.mode, Mode::Leading(_)) && self.refer() == Refusal::Busy
    }

    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        ABILITIES.admit(&request)?;
        self.ready()?;
        hooks::takes();
        let stream = (&self.stream, self.replay.scan());
        self.lead.submit(now, request, &self.context, (&mut self.occ, &self.feed), stream)
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.lead.pending_bytes()
    }

    fn released_up_to(&self) -> Option<Timestamp> {
        Some(self.context.marks.watermark.mark())
    }

    fn submit_snapshot(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        ABILITIES.admit(&request)?;
        match self.mode {
            Mode::Leading(_) => self.submit(now, request),
            // The strawman's other workers know no store while they follow: no snapshots there.
            Mode::Parked => Err(self.context.refer()),
            // What is recorded of it is in the latest state.
            _ if request.session.is_some() => Err(self.context.refer()),
            _ if self.feed.is_shared() || !self.context.marks.has_snapshots(&self.context.shared) => {
                Err(self.context.refer())
            }
            _ if self.context.shared.retires.load(Ordering::Relaxed) => Err(self.context.refer()),
            _ => {
                match request.freshness {
                    Some(freshness) => self.bounded.submit(now, request, freshness)?,
                    None => self.reads.submit(now, request, Timestamp::ZERO)?,
                }
                Ok(Taken::Placed)
            }
        }
    }

    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation, levels: Levels) {
        self.newest.insert(peer, levels.newest);
        if levels.newest < self.context.level {
            return self.have_done_with(now, peer);
        }
        self.unable.remove(&peer);
        self.peers.insert(peer, incarnation);
        self.sender.peer_changed(peer);
        self.installer.peer_changed(peer);
        self.probes.peer_changed(peer);
        self.vouching.peer_changed(peer);
        self.spares.peer_changed(peer);
        self.stream.peer_up(now, Voter { node: peer, incarnation });
    }

    fn peer_down(&mut self, _now: Nanos, peer: NodeId) {
        self.newest.remove(&peer);
        self.unable.remove(&peer);
        self.peers.remove(&peer);
        self.sender.peer_changed(peer);
        self.installer.peer_changed(peer);
        self.probes.peer_changed(peer);
        self.vouching.peer_changed(peer);
        self.gate.peer_down(peer);
        self.spares.peer_changed(peer);
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
            Ok(Head::Probe(message)) => self.deliver_probe(sender, message),
            // A peer of the same format version sends what we can read; anything else is noise on the wire.
            Err(_) => {}
        }
    }

    fn synced(&mut self, _now: Nanos, position: LogPosition) {
        let changes = self.gate.synced(position);
        self.stream.synced(changes);
    }

    fn recover(&mut self, record: Bytes) -> Result<(), String> {
        let id = self.context.id;
        let change = Change::decode(&record);
        if let Ok(Change::Appended(entry)) = &change {
            self.recover_level(entry)?;
        }
        let recovering = self.recovering();
        recovering.position += record.len() as u64;
        let applied = change.and_then(|change| recovering.state.apply(change));
        recovering.points.note_recovered(recovering.position, &recovering.state);
        applied.map_err(|why| format!("{id}: a record that does not fit: {why:?}"))
    }

    fn recovered(&mut self) -> Result<(), String> {
        let resumed = self.context.shared.resumed();
        if self.recovering.is_none() && resumed.is_none() {
            return Ok(());
        }
        self.recovering();
        let Recovering { mut state, position, points } =
            self.recovering.take().expect("it was just looked at");
        let at = usize::from(self.context.id.0);
        let start = resumed.as_ref().map(|resumed| resumed.contents.streams[at]);
        if let Some(start) = start {
            let known = state.know_decided(start.decided);
            known.map_err(|why| format!("{}: {}", self.context.id, why.0))?;
        }
        let context = &self.context;
        self.stream = Stream::recover(context.me, state, stream_options(context.options()));
        self.known = self.stream.promised();
        self.gate = Gate::starting_at(position);
        self.points = points;
        self.points.begin(position, &self.stream);
        let mut past = past(&self.stream);
        if let Some(resumed) = &resumed {
            past.holds = true;
            past.members =
                past.members.into_iter().chain([resumed.contents.members.clone()]).max_by_key(|m| m.epoch);
            self.stream.know_members(resumed.contents.members.clone());
            let (epoch, start) = (resumed.contents.epoch, resumed.contents.streams[at].start);
            if begins_too_late(&self.stream, epoch, start) {
                return Err(format!("{}: the checkpoint goes on behind the end of its epoch", context.id));
            }
            self.replay = Replay::starting_at(start, resumed.floor);
        }
        // What an earlier life had copied is lost if there is no checkpoint of it: the log begins behind it.
        past.lost_store = self.stream.tail().first > self.replay.scan();
        if past.lost_store {
            self.mode = Mode::Parked;
        } else if self.stream.decided() > self.replay.applied() {
            self.reread = Some(self.stream.decided());
            context.shared.rereads.fetch_add(1, Ordering::SeqCst);
        }
        context.shared.recovered(past);
        hooks::restarted();
        Ok(())
    }

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        let mut turn = Turn { now, out, again: false };
        self.watch_level(now);
        self.watch_disk(now);
        self.gate.open(&self.context, &mut turn);
        // Taken out first: the workers count their references to what they share on one line.
        let commands = self.context.shared.commands[self.context.id.0 as usize].take();
        // Of several promises that are asked for only the last is given: each looks through what is not decided.
        let last_fence = commands.iter().rposition(|command| matches!(command, Command::Fence(_)));
        for (at, command) in commands.into_iter().enumerate() {
            let superseded = matches!(command, Command::Fence(_)) && last_fence > Some(at);
            if !superseded {
                self.command(command, &mut turn);
            }
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
        if self.reread.take_if(|upto| *upto <= self.replay.applied()).is_some() {
            self.context.shared.rereads.fetch_sub(1, Ordering::SeqCst);
        }
        let reading = self.turn_reading(&mut turn);
        self.turn_vouching(&mut turn);
        let recalling =
            if Recall::is_due(&self.context) { self.turn_recalling(&mut turn) } else { Next::Idle };
        let copying = self.turn_copying(&mut turn);
        let close = |position| self.lead.close_up_to(position);
        let settling = self.points.turn(&self.context, &mut self.stream, &mut self.gate, close, &mut turn);
        if self.gate.write(now, &mut self.stream, turn.out) {
            self.points.note(self.gate.written(), &self.stream);
        }
        self.watch_level_late(&mut turn);
        let mut spares_at = None;
        if hooks::sends_later() {
            turn.again = true;
        } else {
            spares_at = self.hand_out_frames(now, turn.out);
        }
        let next = if turn.again { Next::Now } else { next };
        let next = spares_at.map_or(next, |at| next.sooner(Next::At(at)));
        let closed = || self.context.marks.watermark.closed(self.context.id);
        let figures = self.figures.refresh(now, &self.context, &self.stream, self.replay.applied(), closed);
        let next = next.sooner(copying).sooner(settling).sooner(reading).sooner(recalling).sooner(figures);
        let next = stream_at.map_or(next, |at| next.sooner(Next::At(at)));
        self.show_pulse(now, next, turn.out);
        next
    }

    fn describe(&self) -> String {
        format!("{} {:?} {:?} {}", self.context.id, self.mode, self.replay, self.stream.describe())
    }
}

/// What a recovered stream knows that its controller may not.
fn past(stream: &Stream) -> Past {
    let tail = stream.tail();
    let entries = (tail.first.0..=tail.decided.0).rev().map(EntryIndex);
    let held = entries.map_while(|index| CheckedEntry::held(stream, index));
    let change = held.into_iter().find(|entry| entry.header().kind == EntryKind::EpochChange);
    let holds = tail.last > EntryIndex::NONE;
    let members = change.map(|entry| entry.members());
    Past { promised: stream.promised(), members, holds, lost_store: false }
}

fn stream_options(options: &Options) -> StreamOptions {
    StreamOptions {
        window_bytes: options.max_in_flight_bytes as u64,
        backlog_bytes: options.backlog_bytes(),
        durability: options.durability,
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
