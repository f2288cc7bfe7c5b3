//! One worker: stream *i*, its share of the execution while the node leads, its share of the applying while it follows.
//!
//! This file joins the parts and dispatches: [`lead`](super::lead) executes, seals and releases; [`apply`](super::apply)
//! follows the decided log; [`reads`](super::reads) reads snapshots of it; [`copy`](super::copy) sends and receives state.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use highwater_consensus::{Members, Stream, StreamOptions, Voter};
use highwater_core::hooks::{self, Site};
use highwater_core::log::EntryKind;
use highwater_core::{Ballot, EntryIndex, Incarnation, NodeId, Registry, StreamId, Timestamp, planted};
use highwater_store::{Applier, Occ, SnapshotTx, Store};

use super::abilities::ABILITIES;
use super::apply::Replay;
use super::checked::{CheckedEntry, is_sound};
use super::copy::Copies;
use super::funnel::Funnel;
use super::lead::Lead;
use super::pulse::{NEVER, Pulse};
use super::reads::Reads;
use super::shared::{Command, EpochStart, Report, Shared, StreamStatus};
use super::wire::{Head, carried_entry};
use crate::seam::{Counters, Endpoint, Frame, Nanos, Next, Outbox, Refusal, Request, Worker};

/// Worker *i* of a Rolis replica.
pub struct RolisWorker {
    pub(super) id: StreamId,
    pub(super) me: Voter,
    pub(super) shared: Arc<Shared>,
    pub(super) counters: Arc<Counters>,
    pub(super) registry: Registry<Occ>,
    pub(super) stream: Stream,
    pub(super) store: Arc<Store>,
    pub(super) occ: Occ,
    pub(super) applier: Applier,
    pub(super) mode: Mode,
    /// The shared open entry, if all workers feed this one stream.
    pub(super) funnel: Option<Arc<Funnel>>,
    pub(super) lead: Lead,
    pub(super) replay: Replay,
    pub(super) copies: Copies,
    pub(super) reads: Reads,
    /// Which life of each peer is connected.
    pub(super) peers: BTreeMap<NodeId, Incarnation>,
    /// The ballot that the controller was last told of.
    known: Ballot,
    /// What `status` was last told, and when it may be told again.
    published: (EntryIndex, EntryIndex, EntryIndex),
    status_at: Nanos,
    /// Something was left for another turn that could have been done in this one.
    pub(super) again: bool,
    /// Frames came since the last turn.
    stirred: bool,
    /// What was decided, and what waited first for its release, when something last moved; and when that was.
    pub(super) moved: (EntryIndex, Option<Timestamp>, Nanos),
}

/// What the worker does with its stream.
#[derive(Clone, Debug)]
pub(super) enum Mode {
    /// Nothing is known yet, or the store is being replaced: keeps its promises, looks at no entry.
    Parked,
    /// Applies what is decided and safe.
    Following,
    /// Adopts the best log, then starts the epoch.
    TakingOver {
        ballot: Ballot,
        start: EpochStart,
        /// The entry that starts the epoch is proposed.
        proposed: bool,
        /// The controller knows that everything older is applied.
        reported: bool,
    },
    /// Executes transactions.
    Leading { ballot: Ballot },
}

/// How often the figures for `status` are refreshed.
const STATUS_EVERY: Nanos = 2_000_000;

impl RolisWorker {
    /// A worker with an empty log and store. Its procedures come as a leader runs them, and as a follower does.
    pub fn new(
        id: StreamId,
        shared: Arc<Shared>,
        store: Arc<Store>,
        (registry, readers): (Registry<Occ>, Registry<SnapshotTx>),
        counters: Arc<Counters>,
    ) -> RolisWorker {
        let options = &shared.options;
        let me = Voter { node: options.node, incarnation: options.incarnation };
        let stream_options = StreamOptions {
            window_bytes: options.max_in_flight_bytes as u64,
            backlog_bytes: options.backlog_bytes(),
            ..StreamOptions::default()
        };
        RolisWorker {
            id,
            me,
            stream: Stream::new(me, EntryIndex::NONE, stream_options),
            occ: Occ::new(store.clone(), shared.clock.clone()),
            applier: Applier::new(store.clone()),
            lead: Lead::new(options, id),
            replay: Replay::default(),
            copies: Copies::default(),
            reads: Reads::new(readers),
            mode: Mode::Following,
            funnel: None,
            peers: BTreeMap::new(),
            known: Ballot::default(),
            published: Default::default(),
            status_at: 0,
            again: false,
            stirred: false,
            moved: (EntryIndex::NONE, None, NEVER),
            shared,
            counters,
            registry,
            store,
        }
    }

    /// Takes what the other workers commit into this worker's stream.
    pub fn with_funnel(mut self, funnel: Arc<Funnel>) -> RolisWorker {
        self.funnel = Some(funnel);
        self
    }

    pub(super) fn report(&self, report: Report, out: &mut Outbox) {
        self.shared.reports.put(report);
        out.wake_controller = true;
    }

    fn command(&mut self, now: Nanos, command: Command, out: &mut Outbox) {
        match command {
            Command::Fence(ballot) => {
                // A stream may have met a still higher ballot by itself; the controller will hear of that one.
                if ballot >= self.stream.promised() {
                    self.stop_leading(out);
                    let unfenced = ballot.node != self.me.node && planted!(PromiseUnfenced);
                    let tail = if unfenced { self.stream.tail() } else { self.stream.promise(ballot) };
                    self.known = self.known.max(ballot);
                    let pending = self.pending_changes();
                    let high = self.high();
                    self.report(Report::Fenced { ballot, stream: self.id, tail, pending, high }, out);
                }
            }
            Command::Follow(ballot) => {
                self.known = self.known.max(ballot);
                if ballot >= self.stream.promised() {
                    self.stop_leading(out);
                    self.stream.follow(now, ballot);
                }
            }
            Command::TakeOver { plan, start } => {
                let ballot = plan.ballot;
                if ballot != self.stream.promised() {
                    return;
                }
                if self.stream.take_over(now, plan) {
                    self.mode = Mode::TakingOver { ballot, start, proposed: false, reported: false };
                } else {
                    self.report(Report::TakeOverFailed(ballot), out);
                }
            }
            Command::Open { ballot, members } => {
                if matches!(&self.mode, Mode::TakingOver { ballot: b, .. } if *b == ballot)
                    && self.stream.is_leading(ballot)
                {
                    self.stream.end_joint_quorum(members);
                    self.open(ballot);
                }
            }
            Command::Quiesce => self.lead.quiescing = true,
            Command::Resume => self.lead.quiescing = false,
            Command::Park => {
                self.stop_leading(out);
                self.mode = Mode::Parked;
                if let Some(first) = self.stream.too_far()
                    && first > self.stream.decided().next()
                {
                    // The log need not wait for the store: this vote may be the one that a new leader lacks, and until it
                    // leads nobody may be able to give a copy.
                    self.stream.restart_after(EntryIndex(first.0 - 1));
                }
                self.copies.drop_all();
                let members = self.stream.members().cloned();
                self.report(Report::Parked(self.id, members), out);
            }
            Command::Restart(restart) => self.restart(now, restart, out),
            Command::Locate { receiver, copy, floor } => {
                let start = if self.may_serve() { self.locate(floor) } else { None };
                if start.is_some() {
                    self.announce_copy(receiver, copy);
                } else {
                    // With an entry above what was trimmed the next question has an answer, even if nobody asks for more.
                    self.lead.close_up_to = self.lead.close_up_to.max(self.high());
                }
                self.report(Report::Located { receiver, copy, stream: self.id, start }, out);
            }
        }
    }

    /// Ends leading, if it was: what is speculative is left to the final mark.
    pub(super) fn stop_leading(&mut self, out: &mut Outbox) {
        match self.mode {
            Mode::Leading { .. } => {
                self.close_lead(out);
                self.mode = Mode::Following;
            }
            Mode::TakingOver { .. } => self.mode = Mode::Following,
            Mode::Following | Mode::Parked => {}
        }
    }

    /// A frame's sender, if its connection is up.
    fn sender(&self, from: NodeId) -> Option<Voter> {
        self.peers.get(&from).map(|incarnation| Voter { node: from, incarnation: *incarnation })
    }

    /// Above every timestamp in the log.
    fn high(&self) -> Timestamp {
        let last = CheckedEntry::held(&self.stream, self.stream.last());
        let closed = last.map(|entry| entry.header().closed_ts).unwrap_or_default();
        closed.max(self.replay.floor).max(self.shared.progress.closed(self.id)).next()
    }

    /// Changes of epoch in the log that this replica has not entered; whether each is decided here.
    fn pending_changes(&self) -> Vec<(Members, bool)> {
        let tail = self.stream.tail();
        let entered = self.shared.progress.epoch();
        let change = |index: u64| {
            let entry = CheckedEntry::held(&self.stream, EntryIndex(index))?;
            let header = entry.header();
            let new = header.kind == EntryKind::EpochChange && header.epoch > entered;
            new.then(|| (entry.members(), index <= tail.decided.0))
        };
        (self.replay.scan.max(tail.first).0..=tail.last.0).filter_map(change).collect()
    }

    pub(super) fn pulse(&self) -> &Pulse {
        &self.shared.pulses[self.id.0 as usize]
    }

    /// Shows the controller that this worker is at work, and whether its stream moves.
    fn show_pulse(&mut self, now: Nanos, next: Next) {
        let leads = matches!(self.mode, Mode::Leading { .. });
        let waits = leads && (self.stream.undecided() > 0 || !self.lead.pending.is_empty());
        let state = (self.stream.decided(), self.lead.pending.first());
        if !waits {
            self.moved.2 = NEVER;
        } else if self.moved.2 == NEVER || (self.moved.0, self.moved.1) != state {
            self.moved = (state.0, state.1, now);
        }
        self.stirred = false;
        self.pulse().still_since(self.moved.2);
        self.pulse().waiting_bytes(if leads { self.stream.undecided_bytes() } else { 0 });
        self.pulse().turned(now, next);
    }

    fn hand_out_frames(&mut self, out: &mut Outbox) {
        for envelope in self.stream.drain() {
            let head = Head::Stream(envelope.message).encode();
            let to = Endpoint { node: envelope.to, worker: self.id.0 };
            out.frames.push((to, Frame { head, body: envelope.entry }));
        }
    }

    /// Publishes the figures for `status` if they changed, now and then; says when it wants to be called again.
    fn refresh_status(&mut self, now: Nanos) -> Next {
        let state = (self.stream.last(), self.stream.decided(), self.replay.apply);
        if state == self.published {
            return Next::Idle;
        }
        // Legal: the figures are for people and reports.
        if now < self.status_at || hooks::buggify(Site::OldStatus) {
            return Next::At(self.status_at.max(now + 1));
        }
        self.published = state;
        self.status_at = now + STATUS_EVERY;
        let at = self.id.0 as usize;
        *self.shared.stream_status[at].lock().expect("nobody panics here") = StreamStatus {
            accepted: self.stream.last(),
            decided: self.stream.decided(),
            applied: EntryIndex(self.replay.apply.0 - 1),
            closed: self.shared.progress.closed(self.id),
            log_bytes: self.stream.log_bytes(),
        };
        *self.shared.lags[at].lock().expect("nobody panics here") = self.stream.lags();
        Next::Idle
    }
}

impl Worker for RolisWorker {
    fn ready(&self) -> Result<(), Refusal> {
        self.ready_to_lead()
    }

    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<(), Refusal> {
        ABILITIES.admit(&request)?;
        self.ready_to_lead()?;
        if self.waits_to_be_apart(now, request.args) {
            return Err(Refusal::Busy);
        }
        self.execute(now, request);
        Ok(())
    }

    fn unreleased_reply_bytes(&self) -> usize {
        self.lead.pending.bytes()
    }

    fn submit_snapshot(&mut self, now: Nanos, request: Request<'_>) -> Result<(), Refusal> {
        match self.mode {
            Mode::Leading { .. } => self.submit(now, request),
            _ => {
                ABILITIES.admit(&request)?;
                self.submit_read(now, request)
            }
        }
    }

    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation) {
        self.peers.insert(peer, incarnation);
        self.copies.peer_changed(peer);
        self.stream.peer_up(now, Voter { node: peer, incarnation });
    }

    fn peer_down(&mut self, _now: Nanos, peer: NodeId) {
        self.peers.remove(&peer);
        self.copies.peer_changed(peer);
        self.stream.peer_down(peer);
    }

    fn deliver(&mut self, now: Nanos, from: Endpoint, frame: Frame) {
        // A stream's messages do not name it: one of another stream's worker would be taken for this one's.
        let Some(sender) = self.sender(from.node).filter(|_| from.worker == self.id.0) else { return };
        let from = from.node;
        if !std::mem::replace(&mut self.stirred, true) && !self.lead.busy {
            self.pulse().stirred(now);
        }
        self.pulse().hear(from, now);
        match Head::decode(&frame.head) {
            Ok(Head::Stream(message)) => {
                if carried_entry(&message).is_none_or(|index| is_sound(&frame.body, self.id, index)) {
                    let leads = message.of_leader();
                    self.stream.deliver(now, sender, message, own_entry(frame.body));
                    // Under the ballot that this stream follows: a leader of the past is no leader.
                    if let Some(ballot) = leads.filter(|ballot| *ballot == self.stream.promised()) {
                        self.pulse().hear_leader(ballot.epoch, now);
                    }
                }
            }
            Ok(Head::CopyStart { copy }) => self.serve_copy(sender, copy),
            Ok(Head::CopyChunk { copy, seq, complete_at }) => {
                self.take_chunk(now, from, copy, seq, complete_at, frame.body);
            }
            Ok(Head::CopyAck { copy, seq }) => self.copies.acknowledged(sender, copy, seq),
            // A peer of the same format version sends what we can read; anything else is noise on the wire.
            Err(_) => {}
        }
    }

    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next {
        // Taken out first: the workers count their references to what they share on one line.
        let commands = self.shared.commands[self.id.0 as usize].take();
        for command in commands {
            self.command(now, command, out);
        }
        if self.stream.promised() > self.known {
            self.known = self.stream.promised();
            self.stop_leading(out);
            self.report(Report::Met(self.known), out);
        }
        let stream_at = self.stream.tick(now);
        if !matches!(self.mode, Mode::Parked) {
            self.look_at_decided(out);
        }
        let next = match self.mode.clone() {
            Mode::Leading { ballot } => self.turn_leading(now, ballot, out),
            Mode::TakingOver { ballot, start, proposed, reported } => {
                self.turn_taking_over(ballot, start, proposed, reported, out)
            }
            Mode::Following => self.turn_following(now, out),
            Mode::Parked => Next::Idle,
        };
        let reading = self.turn_reading(now, out);
        let copying = sooner(self.turn_copying(now, out), reading);
        // Legal: the network might as well have been slower.
        if hooks::buggify(Site::SendLater) {
            self.again = true;
        } else {
            self.hand_out_frames(out);
        }
        let next = if std::mem::take(&mut self.again) { Next::Now } else { next };
        let next = sooner(sooner(next, copying), self.refresh_status(now));
        let next = stream_at.map_or(next, |at| sooner(next, Next::At(at)));
        self.show_pulse(now, next);
        next
    }

    fn describe(&self) -> String {
        format!("{} {:?} {:?} {}", self.id, self.mode, self.replay, self.stream.describe())
    }
}

/// An entry that may be kept for long. A small one gets memory of its own: as a part of a receive buffer it would keep
/// all of that, which may be a hundred times as much.
fn own_entry(body: Bytes) -> Bytes {
    if body.len() < OWN_BELOW_BYTES { Bytes::copy_from_slice(&body) } else { body }
}

/// Entries below this size are copied out of the receive buffer.
const OWN_BELOW_BYTES: usize = 192 << 10;

/// When to look again for what has been waited for since `since`: after `least` at first, then less and less often.
pub(super) fn recheck(now: Nanos, since: Nanos, least: Nanos) -> Next {
    Next::At(now + (now.saturating_sub(since) / 8).clamp(least, LONGEST_RECHECK))
}

/// How soon to look again at the latest.
const LONGEST_RECHECK: Nanos = 20_000_000;

/// The earlier of two.
pub(super) fn sooner(a: Next, b: Next) -> Next {
    match (a, b) {
        (Next::Now, _) | (_, Next::Now) => Next::Now,
        (Next::At(a), Next::At(b)) => Next::At(a.min(b)),
        (Next::At(at), Next::Idle) | (Next::Idle, Next::At(at)) => Next::At(at),
        (Next::Idle, Next::Idle) => Next::Idle,
    }
}
