//! From a promise to an open epoch, and the end of a lead. The state is `members/takeover`; what one stream does is consensus' `stream/takeover`, and its worker's `worker/opening`.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use highwater_consensus::{ElectionEvent, Members, MembersChange, Promise, Quorums, Voter};
use highwater_core::{Ballot, StreamId};
use highwater_seam::Nanos;

use super::LogController;
use crate::hooks;
use crate::members::takeover::{Fenced, plan, promise};
use crate::messages::{Command, EpochStart};

/// A takeover waits so many times for disks, one after the other, at most: what is adopted, the new epoch's start, what is decided.
const TAKEOVER_SYNCS: u64 = 6;

/// A stream that moves waits for two syncs at most: for the one under way, and its own.
const STILL_SYNCS: u64 = 3;

impl LogController {
    pub(super) fn on_election_events(&mut self, now: Nanos) {
        for event in self.election.events() {
            match event {
                ElectionEvent::Fence(ballot) => self.start_fence(now, ballot),
                ElectionEvent::Follow(ballot) => self.follow(now, ballot),
                ElectionEvent::Won { ballot, promises, quorums, members, lossy } => {
                    self.take_over(now, (ballot, lossy), promises, quorums, members);
                }
            }
        }
    }

    pub(super) fn start_fence(&mut self, now: Nanos, ballot: Ballot) {
        let foreign = ballot.node != self.desk.me.node;
        if self.leadership.leading().is_some_and(|leading| leading < ballot) {
            self.end_lead(now);
            if foreign {
                self.desk.note(format!("deposed by {ballot}"));
            }
        }
        if foreign {
            self.admission.end();
            self.await_leader(now);
        }
        self.hand_over_ends(now, foreign);
        self.leadership.fence(now, ballot);
        self.hold_requests(now);
        self.desk.command_all(|_| Command::Fence(ballot));
    }

    pub(super) fn on_fenced(&mut self, now: Nanos, ballot: Ballot, stream: StreamId, answer: Fenced) {
        let Some(answers) = self.leadership.fenced(ballot, stream, answer, self.desk.workers()) else {
            return;
        };
        // Read after every stream answered: a change that one of them saw decided in all is known here.
        if let Some(members) = self.desk.shared.progress.members() {
            self.learn_members(now, members);
        }
        let Some(members) = self.election.members().cloned() else {
            return self.election.fenced_for_nobody(ballot);
        };
        let forgets = self.election.forgets();
        self.election.fenced(now, promise(ballot, members, answers, forgets));
    }

    pub(super) fn follow(&mut self, now: Nanos, ballot: Ballot) {
        if self.stale {
            return;
        }
        self.desk.note(format!("following {} in {}", ballot.node, ballot.epoch));
        if let Some(members) = self.election.members().cloned() {
            // Learned from the heartbeat itself if this node knew none.
            self.learn_members(now, members);
        }
        if !self.election.votes() && !self.receiver.had_store() && !self.was_removed() {
            self.want_store(now);
            self.refresh_eligibility();
        }
        if self.election.votes() || !self.receiver.must_not_follow() {
            self.desk.command_all(|_| Command::Follow(ballot));
        }
    }

    pub(super) fn take_over(
        &mut self,
        now: Nanos,
        (ballot, lossy): (Ballot, bool),
        promises: BTreeMap<Voter, Promise>,
        mut quorums: Quorums,
        latest: Members,
    ) {
        let high = promises.values().map(|promise| promise.above_all).max().expect("a quorum promised");
        let base = self.desk.shared.progress.base(high);
        assert!(base > high, "an epoch begins at {base:?}, above all that its streams hold: {high:?}");
        // A newcomer that is gone again would be a voter that never answers.
        let here = |change: &&MembersChange| change.admits.is_none_or(|voter| self.desk.is_here(voter));
        let members = match self.admission.wanted().filter(here) {
            Some(change) => latest.changed(ballot.epoch, change),
            None => latest.in_epoch(ballot.epoch),
        };
        let members = if lossy { self.after_loss(&members) } else { members };
        quorums.and(members.clone());
        self.desk.note(format!("won {ballot}: taking over with {members:?}"));
        hooks::takes_over(ballot.epoch);
        let start = EpochStart { members: members.clone(), base };
        self.leadership.won(now);
        let slow_disks = self.leadership.disk_patience(self.desk.timeouts(1));
        self.health.grant(STILL_SYNCS * slow_disks);
        let deadline = now + self.desk.timeouts(self.leadership.patience()) + TAKEOVER_SYNCS * slow_disks;
        self.leadership.take_over(ballot, members, deadline);
        self.desk.command_all(|stream| plan(ballot, stream, &promises, &quorums, &start));
    }

    pub(super) fn on_ready(&mut self, now: Nanos, ballot: Ballot, stream: StreamId) {
        let ready = self.leadership.ready(ballot, stream, self.desk.workers());
        if !ready || self.election.promised() != ballot {
            return;
        }
        let members = self.leadership.open(ballot);
        self.learn_members(now, members.clone());
        self.admission.end();
        // Who leads holds all that it ever accepted, if it was decided.
        self.remember_all();
        self.desk.shared.no_quorum.store(false, Ordering::Relaxed);
        self.desk.note(format!("leading {} with {members:?}", ballot.epoch));
        self.desk.command_all(|_| Command::Open { ballot, members: members.clone() });
        self.tell_who_handed_over();
    }

    /// Gives a takeover or the lead up: somebody else shall try.
    ///
    /// The workers stay in their ballot, so that what they have executed is decided if it can be. They take nothing more: that would be
    /// answered by a leader that is none, on a disk that is full, say. Invariant: from here until this node leads again, or is fenced,
    /// no request is taken.
    pub(super) fn abandon(&mut self, now: Nanos, why: &str) {
        self.desk.note(format!("giving up the lead: {why}"));
        // Invariant: whoever gives its lead up takes nothing more before it leads again.
        self.desk.shared.no_quorum.store(hooks::stops_taking(), Ordering::Relaxed);
        hooks::gives_up();
        self.leadership.stop_taking_over();
        self.end_lead(now);
        self.admission.end();
        self.hand_over_ends(now, false);
        self.election.abandon(now);
    }

    pub(super) fn end_lead(&mut self, now: Nanos) {
        if self.leadership.end() {
            self.give_up_checkpoint(now, "the lead ends");
            let quorum = self.election.quorum_heard(now, self.desk.silence());
            self.health.lead_ends(&self.desk.shared, quorum);
        }
    }

    pub(super) fn leads(&self) -> bool {
        self.leadership.leading().is_some()
    }
}
