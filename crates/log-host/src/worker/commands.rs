//! What the controller has a worker do: promise, follow, take over, open, park, go on from a copy.

use highwater_consensus::Members;
use highwater_core::log::EntryKind;
use highwater_core::{Ballot, EntryIndex, Epoch, Generation, Timestamp};
use highwater_kit::copy::{Installer, Sender};
use highwater_seam::Outbox;

use crate::context::Turn;
use crate::hooks;
use crate::messages::{Command, Report, Restart};
use crate::progress::Progress;

use super::donor::{begins_too_late, locate};
use super::entries::CheckedEntry;
use super::opening::Opening;
use super::policy::Policy;
use super::{LogWorker, Mode};

impl<P: Policy> LogWorker<P> {
    pub(super) fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
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
            Command::Quiesce(round) => self.policy.quiesce(Some(round)),
            Command::Resume => self.policy.quiesce(None),
            Command::Park(parking) => self.park(parking, turn),
            Command::Restart(restart) => self.restart(restart, turn),
            Command::Locate { copy, epoch, floor } => {
                let start = self.locate(epoch, floor);
                if start.is_some() {
                    self.sender.announce(copy);
                } else {
                    // With an entry above what was trimmed the next question has an answer, even if nobody asks for more.
                    self.policy.close_up_to(self.high());
                }
                let located = Report::Located { copy, stream: self.context.id, start };
                // The receiver's log will begin there, and say that all before is decided: this disk has to know that first. And others may
                // have dropped what they had of it: if this process ends before they have their copies, its disk is all there is.
                self.stream.record_decided();
                self.gate.report(self.stream.changes_made(), located, &self.context, turn);
            }
            Command::EndCopy(copy) => {
                self.sender.end(copy);
                turn.report(&self.context, Report::CopyEnded { copy, stream: self.context.id });
            }
            Command::CheckpointFrom { number, epoch, floor } => {
                let start = self.locate(epoch, floor);
                let found = start.and_then(|start| Some((start, self.points.before(start)?)));
                let located = found.map(|(start, (position, point))| (start, position, point));
                if located.is_none() {
                    self.policy.close_up_to(self.high());
                }
                let stream = self.context.id;
                turn.report(&self.context, Report::CheckpointFrom { number, stream, located });
            }
            Command::CheckpointSettle(settling) => self.points.settle(settling),
            Command::CheckpointPublished(position) => self.points.published(position),
        }
    }

    /// Where a copy of this replica's store with this floor, of this epoch, goes on, if there can be one.
    fn locate(&self, epoch: Epoch, floor: Timestamp) -> Option<EntryIndex> {
        if self.may_send() { locate(&self.stream, self.policy.cursor().begun, (epoch, floor)) } else { None }
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
        let pending = self.pending_changes();
        let high = self.high();
        let report = Report::Fenced { ballot, stream: self.context.id, tail, pending, high };
        self.gate.report(self.stream.changes_made(), report, &self.context, turn);
    }

    /// The epoch is open: everything older is applied on all workers.
    fn open(&mut self, ballot: Ballot) {
        let entered = self.context.marks.epoch();
        assert_eq!(entered, ballot.epoch, "an epoch opens after every stream has entered it");
        assert!(self.policy.cursor().caught_up(), "an epoch opens after everything older is applied");
        self.mode = Mode::Leading(ballot);
        hooks::leads(ballot.epoch);
        self.policy.begin(ballot.epoch, &self.context, &self.store);
    }

    /// Changes of epoch in the log that this replica has not entered; whether each is decided here.
    fn pending_changes(&self) -> Vec<(Members, bool)> {
        let tail = self.stream.tail();
        let entered = self.context.marks.epoch();
        let change = |index: u64| {
            let entry = CheckedEntry::held(&self.stream, EntryIndex(index))?;
            let header = entry.header();
            let new = header.kind == EntryKind::EpochChange && header.epoch > entered;
            new.then(|| (entry.members(), index <= tail.decided.0))
        };
        (self.policy.cursor().scan.max(tail.first).0..=tail.last.0).filter_map(change).collect()
    }

    /// Ends leading, if it was: what is speculative is left to the final mark.
    pub(super) fn stop_leading(&mut self, out: &mut Outbox) {
        match self.mode {
            Mode::Leading(_) => {
                self.policy.end(&self.context, out);
                // The receivers would wait for a mark that this epoch may never reach.
                self.sender.refuse_all();
                self.mode = Mode::Following;
            }
            Mode::TakingOver(_) => self.mode = Mode::Following,
            Mode::Following | Mode::Parked => {}
        }
    }

    /// The store is about to be replaced.
    fn park(&mut self, parking: Generation, turn: &mut Turn<'_>) {
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
        turn.report(&self.context, Report::Parked { parking, stream: self.context.id, members });
    }

    /// Goes on from a copied state that is about to arrive.
    fn restart(&mut self, restart: Restart, turn: &mut Turn<'_>) {
        let Restart { store, generation, start, floor, donor, copy, leader } = restart;
        let tail = self.stream.tail();
        // No stream leaves the copy's epoch before all have begun there. A donor of an older build may be wrong about its end.
        let late = begins_too_late(&self.stream, self.context.marks.epoch(), start);
        if start < tail.first || late {
            // The donor's log reaches further back than ours: its floor is too old for what we kept.
            return turn.report(&self.context, Report::CopyStalled { copy });
        }
        self.policy.adopt(&store, (start, floor), &self.context);
        (self.store, self.generation, self.told_too_far) = (store, generation, false);
        if start > tail.last.next() || self.stream.too_far().is_some() {
            let base = EntryIndex(start.0 - 1).max(tail.decided);
            self.stream.restart_after(base);
        }
        self.context.marks.members().into_iter().for_each(|members| self.stream.know_members(members));
        if self.stream.tail().first > start {
            return turn.report(&self.context, Report::CopyStalled { copy });
        }
        self.mode = Mode::Following;
        self.sender = Sender::default();
        self.installer = Installer::expect(turn.now, donor, copy, self.store.clone());
        self.stream.follow(turn.now, leader);
    }
}
