//! A worker's turn, by what it does with its stream; and what it does beside that.

use bytes::Bytes;
use highwater_core::Ballot;
use highwater_seam::{Endpoint, Frame, Next};

use crate::context::Turn;
use crate::messages::Report;
use crate::progress::Progress;
use crate::wire::Head;

use super::donor::Donor;
use super::policy::{Asking, Policy};
use super::{LogWorker, Mode};

/// How much a new leader installs in one turn, in bytes of log.
const TAKEOVER_BYTES: u32 = 4 << 20;

impl<P: Policy> LogWorker<P> {
    pub(super) fn turn_following(&mut self, turn: &mut Turn<'_>) -> Next {
        self.report_too_far(turn);
        if self.stream.has_output() && !self.policy.cursor().caught_up() {
            // Acknowledge first: the leader waits for it.
            return Next::Now;
        }
        self.policy.follow(&self.context, &mut self.stream, turn)
    }

    /// Tells the controller, once, that the leader no longer keeps what this stream lacks, with this store.
    fn report_too_far(&mut self, turn: &mut Turn<'_>) {
        if self.stream.too_far().is_some() && !self.told_too_far {
            self.told_too_far = true;
            turn.report(&self.context, Report::TooFar { stream: self.context.id, store: self.generation });
        }
    }

    pub(super) fn turn_taking_over(&mut self, turn: &mut Turn<'_>) -> Next {
        let Mode::TakingOver(opening) = &mut self.mode else { unreachable!("the caller looked") };
        let ballot = opening.ballot();
        if !self.stream.is_leading(ballot) {
            return Next::Idle;
        }
        if opening.start(&self.context, &mut self.stream) {
            self.policy.look(&self.context, &mut self.stream, turn);
        }
        let applying = self.policy.apply(TAKEOVER_BYTES, &self.context, &mut self.stream, turn);
        let cursor = self.policy.cursor();
        let caught_up = cursor.caught_up() && cursor.scan > self.stream.decided();
        if let Mode::TakingOver(opening) = &mut self.mode {
            let entered = self.context.marks.epoch() == ballot.epoch;
            opening.report_ready((entered, caught_up), &self.context, &mut self.stream, turn);
        }
        // Nobody wakes a worker for what holds it back: it looks again, as one that follows does.
        self.policy.next(applying, turn.now)
    }

    pub(super) fn turn_leading(&mut self, ballot: Ballot, turn: &mut Turn<'_>) -> Next {
        self.policy.lead(ballot, &self.context, &mut self.stream, turn)
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
        sent.waits_for.into_iter().for_each(|position| self.policy.close_up_to(position));
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
        let store = only_appliers_write.then_some(&self.store);
        let asking = Asking { probes: &mut self.probes, peers: &self.peers, context: &self.context };
        self.policy.read(store, asking, &self.context, turn)
    }

    /// Tells who asked what was acknowledged before, once that is sure.
    pub(super) fn turn_vouching(&mut self, turn: &mut Turn<'_>) {
        if self.vouching.is_empty() {
            return;
        }
        let leads = if let Mode::Leading(ballot) = self.mode { Some(ballot) } else { None };
        let answers: Vec<_> = self.vouching.answers(leads, &self.stream).collect();
        turn.out
            .frames
            .extend(answers.into_iter().map(|(node, answer)| self.context.probe_frame(node, answer)));
    }

    /// Finds out whether this stream has caught up with what an earlier process accepted.
    pub(super) fn turn_recalling(&mut self, turn: &mut Turn<'_>) -> Next {
        let leader = self.context.shared.leader().filter(|leader| self.peers.contains_key(leader));
        let asked = (&mut self.probes, leader);
        let (probe, next) = self.recall.turn(&self.context, &self.stream, asked, turn);
        turn.out.frames.extend(probe.map(|(node, probe)| self.context.probe_frame(node, probe)));
        next
    }
}
