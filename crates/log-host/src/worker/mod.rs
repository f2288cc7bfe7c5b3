//! One worker of a replica that keeps logs: it serves stream *i*, whatever its entries mean.
//!
//! A stream has one life, and this folder has it: promises, takeovers, the opening of an epoch, records on a disk, copies of the state, levels. What entries
//! mean, how requests become entries, and how those get into a store is the [policy](policy::Policy)'s, the engine's part of a worker.
//!
//! | where | what |
//! |---|---|
//! | `policy` | what an engine writes of a worker |
//! | here | joins the parts: it knows what the worker does with its stream at the moment (`Mode`) |
//! | `commands` | what the controller has a worker do |
//! | `turns` | a turn, by what the worker does with its stream; and what it does beside that |
//! | `delivery` | what peers send, and are sent |
//! | `opening` | a new leader's worker until its epoch opens |
//! | `recovery` | going on from a disk |
//! | `donor` | where a copy of this worker's part of the state goes on in the log |
//! | `levels` | the worker and the level in use |
//! | `entries` | entries that need no check any more |
//! | `spares`, `figures` | frames that may wait; figures for `status` |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::{Stream, StreamOptions, Voter};
use highwater_core::{
    Ballot, EntryIndex, Generation, Incarnation, Level, Levels, NodeId, StreamId, Timestamp,
};
use highwater_kit::copy::{Installer, Sender};
use highwater_seam::options::Options;
use highwater_seam::{
    Counters, Endpoint, Frame, LogPosition, Nanos, Next, Outbox, Refusal, Request, Taken, Worker,
};
use highwater_store::Store;

use crate::context::{Context, Turn, With};
use crate::disk::gate::Gate;
use crate::disk::points::Points;
use crate::disk::recall::Recall;
use crate::hooks;
use crate::messages::{Command, Report};
use crate::probes::{Probes, Vouching};
use crate::progress::Progress;
use crate::pulse::NEVER;
use crate::shared::Shared;
use crate::wire::Head;

use entries::CheckedEntry;
use figures::Figures;
use opening::Opening;
use policy::Policy;
use recovery::Recovering;
use spares::Spares;

mod commands;
mod delivery;
mod donor;
pub mod entries;
mod figures;
mod levels;
mod opening;
pub mod policy;
mod recovery;
mod spares;
mod turns;

/// Worker *i* of a replica: the host's part of it, and the engine's.
pub struct LogWorker<P: Policy> {
    context: With<P::Marks>,
    policy: P,
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
    probes: Probes,
    vouching: Vouching,
    recall: Recall,
    sender: Sender,
    installer: Installer,
    figures: Figures,
    /// Frames came since the last turn.
    stirred: bool,
    /// The controller knows that the leader no longer keeps what this stream lacks.
    told_too_far: bool,
    gate: Gate,
    spares: Spares,
    /// The records of an earlier life, as far as they have been handed in.
    recovering: Option<Recovering>,
    /// Up to here that life knew what is decided; nobody reads before it is installed again.
    reread: Option<EntryIndex>,
    points: Points,
}

/// The present part of a worker in its stream.
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

impl<P: Policy> LogWorker<P> {
    /// A worker with an empty log and this store. `policy` makes the engine's part of it.
    pub fn new(
        id: StreamId,
        (shared, marks): (Arc<Shared>, Arc<P::Marks>),
        store: Arc<Store>,
        counters: Arc<Counters>,
        policy: impl FnOnce(&With<P::Marks>) -> P,
    ) -> LogWorker<P> {
        let options = shared.options.clone();
        let me = Voter { node: options.node, incarnation: options.incarnation };
        let log = Context { id, me, level: options.levels.oldest, shared, counters };
        let context = With { log, marks };
        LogWorker {
            stream: Stream::new(me, EntryIndex::NONE, stream_options(&options)),
            mode: Mode::Following,
            peers: BTreeMap::new(),
            newest: BTreeMap::new(),
            unable: BTreeSet::new(),
            known: Ballot::default(),
            policy: policy(&context),
            probes: Probes::default(),
            vouching: Vouching::default(),
            recall: Recall::default(),
            sender: Sender::default(),
            installer: Installer::default(),
            figures: Figures::default(),
            stirred: false,
            told_too_far: false,
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

    /// Above every timestamp in the log.
    fn high(&self) -> Timestamp {
        let last = CheckedEntry::held(&self.stream, self.stream.last());
        let closed = last.map(|entry| entry.header().closed_ts).unwrap_or_default();
        let (_, floor) = self.policy.cursor().begun;
        closed.max(floor).max(self.policy.closed(&self.context)).next()
    }

    /// A frame's sender, if its connection is up.
    fn peer(&self, from: NodeId) -> Option<Voter> {
        self.peers.get(&from).map(|incarnation| Voter { node: from, incarnation: *incarnation })
    }

    /// Whether this worker may send its part of the store: a leader may (see [`Donor`](donor::Donor)); anybody else only if no worker of this
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

    /// Tells the policy what a new leader has overruled.
    #[inline]
    fn tell_replaced(&mut self) {
        if let Some(first) = self.stream.take_replaced() {
            self.policy.replaced(first, &self.context);
        }
    }

    /// Whether so much waits for this node's disk that nothing more is taken: a leader's own disk may be the slowest, and what waits for it
    /// is bounded, too. If that lasts the controller makes way ([`Health`](crate::members::health::Health)).
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
        let still_since = self.policy.still_since(now, leads, &self.stream);
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

impl<P: Policy> Worker for LogWorker<P> {
    fn ready(&self) -> Result<(), Refusal> {
        match self.mode {
            // Before anything that may last: who is refused can ask elsewhere.
            Mode::Leading(_) if self.context.has_no_quorum() => Err(Refusal::NoQuorum),
            Mode::Leading(_) if self.is_held_by_disk() => Err(Refusal::Busy),
            Mode::Leading(_) => self.policy.admits(&self.context),
            _ => Err(self.refer()),
        }
    }

    fn waits_for_leader(&self) -> bool {
        !matches!(self.mode, Mode::Leading(_)) && self.refer() == Refusal::Busy
    }

    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        P::ABILITIES.admit(&request)?;
        self.ready()?;
        hooks::takes();
        self.policy.submit(now, request, &self.context, &self.stream)
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.policy.reply_bytes()
    }

    fn released_up_to(&self) -> Option<Timestamp> {
        Some(self.context.marks.mark())
    }

    fn submit_snapshot(&mut self, now: Nanos, request: Request<'_>) -> Result<Taken, Refusal> {
        P::ABILITIES.admit(&request)?;
        match self.mode {
            Mode::Leading(_) => self.submit(now, request),
            Mode::Parked => Err(self.context.refer()),
            // What is recorded of it is in the latest state.
            _ if request.session.is_some() => Err(self.context.refer()),
            _ if self.context.shared.retires.load(Ordering::Relaxed) => Err(self.context.refer()),
            _ => self.policy.submit_snapshot(now, request, &self.context),
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
        if !std::mem::replace(&mut self.stirred, true) && !self.policy.is_busy() {
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
        self.take_record(record)
    }

    fn recovered(&mut self) -> Result<(), String> {
        self.records_taken()
    }

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        let mut turn = Turn { now, out, again: false };
        self.tell_replaced();
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
        self.tell_replaced();
        if !matches!(self.mode, Mode::Parked) {
            self.policy.look(&self.context, &mut self.stream, &mut turn);
            let cursor = self.policy.cursor();
            debug_assert!(cursor.apply <= cursor.scan, "only what was looked at is in the store: {cursor:?}");
        }
        let next = match self.mode {
            Mode::Leading(ballot) => self.turn_leading(ballot, &mut turn),
            Mode::TakingOver(_) => self.turn_taking_over(&mut turn),
            Mode::Following => self.turn_following(&mut turn),
            Mode::Parked => Next::Idle,
        };
        if self.reread.take_if(|upto| *upto <= self.policy.cursor().applied()).is_some() {
            self.context.shared.rereads.fetch_sub(1, Ordering::SeqCst);
        }
        let reading = self.turn_reading(&mut turn);
        self.turn_vouching(&mut turn);
        let recalling =
            if Recall::is_due(&self.context) { self.turn_recalling(&mut turn) } else { Next::Idle };
        let copying = self.turn_copying(&mut turn);
        let close = |position| self.policy.close_up_to(position);
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
        let applied = self.policy.cursor().applied();
        let closed = || self.policy.closed(&self.context);
        let figures = self.figures.refresh(now, &self.context, &self.stream, applied, closed);
        let next = next.sooner(copying).sooner(settling).sooner(reading).sooner(recalling).sooner(figures);
        let next = stream_at.map_or(next, |at| next.sooner(Next::At(at)));
        self.show_pulse(now, next, turn.out);
        next
    }

    fn describe(&self) -> String {
        let (id, mode) = (self.context.id, &self.mode);
        format!("{id} {mode:?} {} {}", self.policy.describe(), self.stream.describe())
    }
}

fn stream_options(options: &Options) -> StreamOptions {
    StreamOptions {
        window_bytes: options.max_in_flight_bytes as u64,
        backlog_bytes: options.backlog_bytes(),
        durability: options.durability,
        ..StreamOptions::default()
    }
}
