//! A worker's turn, by what it does with its stream; and what it does beside that.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_core::{Ballot, NodeId};
use highwater_seam::{Endpoint, Frame, Nanos, Next};

use crate::context::{Turn, recheck};
use crate::follow::apply::Applying;
use crate::follow::locate::Donor;
use crate::hooks;
use crate::reads::bounded::{PATIENCE, RECHECK};
use highwater_log_host::messages::Report;
use highwater_log_host::probes::ProbeMessage;
use highwater_log_host::wire::Head;

use super::{Mode, RolisWorker};

/// How much a new leader installs in one turn, in bytes of log.
const TAKEOVER_BYTES: u32 = 4 << 20;

impl RolisWorker {
    pub(super) fn turn_following(&mut self, turn: &mut Turn<'_>) -> Next {
        self.replay.report_too_far(&self.context, &self.stream, self.generation, turn);
        if self.stream.has_output() && !self.replay.caught_up() {
            // Acknowledge first: the leader waits for it.
            return Next::Now;
        }
        let parts = (&self.speculation, &mut self.applier);
        let next = self.replay.turn(&self.context, &mut self.stream, parts, turn);
        self.collect_garbage(false, turn);
        next
    }

    pub(super) fn turn_taking_over(&mut self, turn: &mut Turn<'_>) -> Next {
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
        // Nobody wakes a worker for what holds it back: it looks again, as one that follows does.
        self.replay.next(applying, turn.now)
    }

    pub(super) fn turn_leading(&mut self, ballot: Ballot, turn: &mut Turn<'_>) -> Next {
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
    pub(super) fn look_at_decided(&mut self, turn: &mut Turn<'_>) {
        let parts = (&mut self.speculation, &mut self.occ);
        let moved = self.replay.look(&self.context, &mut self.stream, parts, turn);
        if moved && (self.feed.is_shared() || self.context.marks.watermark.others_wait(self.context.id)) {
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
        let watermark = &self.context.marks.watermark;
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
    pub(super) fn turn_copying(&mut self, turn: &mut Turn<'_>) -> Next {
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
        let donor = Donor { context: &self.context, leads: matches!(self.mode, Mode::Leading(_)) };
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

    pub(super) fn turn_reading(&mut self, turn: &mut Turn<'_>) -> Next {
        let only_appliers_write = matches!(self.mode, Mode::Following | Mode::TakingOver(_));
        let bounded =
            if self.bounded.is_empty() { Next::Idle } else { self.turn_bounded(only_appliers_write, turn) };
        let proving = self.turn_proving(turn);
        let store = only_appliers_write.then_some(&self.store);
        self.reads.turn(store, &self.context, turn).sooner(bounded).sooner(proving)
    }

    /// Reads with a bound: asks the leader for what they lack, and hands over those that may run. `shows`: there are snapshots.
    fn turn_bounded(&mut self, shows: bool, turn: &mut Turn<'_>) -> Next {
        let (context, shared) = (&self.context, &self.context.shared);
        if !shows || !context.marks.has_snapshots(shared) {
            self.bounded.refuse(turn.out);
            return Next::Idle;
        }
        let next = self.bounded.turn(turn.now, context, &self.probes, &mut self.reads, turn.out);
        let leader = shared.leader().filter(|leader| self.peers.contains_key(leader));
        let again_after = context.options().election_timeout / 2;
        if self.bounded.wants_proof()
            && let Some((node, probe)) = self.probes.ask(turn.now, leader, again_after)
        {
            turn.out.frames.push(self.probe_frame(node, probe));
        }
        next
    }

    /// The first worker's: somebody wants to know how fresh this replica is. Asks the leader, as a reader would.
    #[inline]
    fn turn_proving(&mut self, turn: &mut Turn<'_>) -> Next {
        match self.context.marks.proven.wanted() {
            Some(since) if self.context.id.0 == 0 => self.prove(since, turn),
            _ => Next::Idle,
        }
    }

    fn prove(&mut self, since: Nanos, turn: &mut Turn<'_>) -> Next {
        let (shared, marks) = (&self.context.shared, &self.context.marks);
        let timeout = self.context.options().election_timeout;
        let known = marks.proven.since(marks.watermark.applied_floor());
        let gives_up = since + PATIENCE * timeout;
        if known >= Some(since) || turn.now >= gives_up || !marks.has_snapshots(shared) {
            marks.proven.satisfied(since);
            turn.out.wake_controller = true;
            return Next::Idle;
        }
        let leader = shared.leader().filter(|leader| self.peers.contains_key(leader));
        if self.probes.proof(since).is_none()
            && let Some((node, probe)) = self.probes.ask(turn.now, leader, timeout / 2)
        {
            turn.out.frames.push(self.probe_frame(node, probe));
        }
        recheck(turn.now, since, RECHECK).sooner(Next::At(gives_up))
    }

    /// Tells who asked what was acknowledged before, once that is sure.
    pub(super) fn turn_vouching(&mut self, turn: &mut Turn<'_>) {
        if self.vouching.is_empty() {
            return;
        }
        let leads = if let Mode::Leading(ballot) = self.mode { Some(ballot) } else { None };
        let answers: Vec<_> = self.vouching.answers(leads, &self.stream).collect();
        turn.out.frames.extend(answers.into_iter().map(|(node, answer)| self.probe_frame(node, answer)));
    }

    /// Finds out whether this stream has caught up with what an earlier process accepted.
    pub(super) fn turn_recalling(&mut self, turn: &mut Turn<'_>) -> Next {
        let leader = self.context.shared.leader().filter(|leader| self.peers.contains_key(leader));
        let asked = (&mut self.probes, leader);
        let (probe, next) = self.recall.turn(&self.context, &self.stream, asked, turn);
        turn.out.frames.extend(probe.map(|(node, probe)| self.probe_frame(node, probe)));
        next
    }

    fn probe_frame(&self, node: NodeId, message: ProbeMessage) -> (Endpoint, Frame) {
        let head = Head::Probe(message).encode();
        (Endpoint { node, worker: self.context.id.0 }, Frame { head, body: Bytes::new() })
    }
}
