//! The controller's way to an open epoch: promises of all streams at once, then every worker takes its stream over, then
//! requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use highwater_consensus::{ElectionEvent, Members, PendingChange, Plan, Promise, Quorums, Tail, Voter};
use highwater_core::{Ballot, StreamId, Timestamp, planted};

use super::controller::{PATIENCE, RolisController};
use super::shared::{Command, EpochStart};
use crate::seam::Nanos;
use highwater_core::hooks::{self, Fact};

/// The time that a takeover gets is doubled so many times at most.
const MOST_DOUBLINGS: u32 = 2;

/// What a stream answers to a promise: its tail; changes of epoch in its log and whether each is decided there; above every
/// timestamp in it.
pub(super) type Answer = (Tail, Vec<(Members, bool)>, Timestamp);

/// Collects what the streams answer to a promise.
pub(super) struct Fence {
    pub(super) ballot: Ballot,
    pub(super) answers: BTreeMap<StreamId, Answer>,
}

/// A takeover under way.
pub(super) struct TakeOver {
    pub(super) ballot: Ballot,
    pub(super) members: Members,
    pub(super) ready: BTreeSet<StreamId>,
    pub(super) deadline: Nanos,
}

impl RolisController {
    pub(super) fn on_election_events(&mut self, now: Nanos) {
        for event in self.election.events() {
            match event {
                ElectionEvent::Fence(ballot) => self.start_fence(now, ballot),
                ElectionEvent::Follow(ballot) => self.follow(now, ballot),
                ElectionEvent::Won { ballot, promises, quorums, members } => {
                    self.take_over(now, ballot, promises, quorums, members);
                }
            }
        }
    }

    fn start_fence(&mut self, now: Nanos, ballot: Ballot) {
        if self.leading.is_some_and(|leading| leading < ballot) {
            self.end_lead(now);
            if ballot.node != self.me.node {
                self.events.push(format!("deposed by {ballot}"));
            }
        }
        self.takeover = None;
        if ballot.node != self.me.node {
            self.change = None;
        }
        self.fence = Some(Fence { ballot, answers: BTreeMap::new() });
        self.command_all(|_| Command::Fence(ballot));
    }

    pub(super) fn on_fenced(&mut self, now: Nanos, ballot: Ballot, stream: StreamId, answer: Answer) {
        let workers = self.workers();
        let Some(fence) = self.fence.as_mut().filter(|fence| fence.ballot == ballot) else { return };
        fence.answers.insert(stream, answer);
        if fence.answers.len() < workers {
            return;
        }
        let answers = self.fence.take().expect("just used").answers;
        // Read after every stream answered: a change that one of them saw decided in all is known here.
        if let Some(members) = self.shared.progress.members() {
            self.learn_members(now, members);
        }
        let Some(members) = self.election.members().cloned() else { return };
        let mut pending: Vec<PendingChange> = Vec::new();
        for (stream, (_, changes, _)) in &answers {
            for (change, decided) in changes.iter().filter(|(change, _)| change.epoch > members.epoch) {
                PendingChange::note(&mut pending, workers, stream.0 as usize, change, *decided);
            }
        }
        let above_all = answers.values().map(|(_, _, high)| *high).max().unwrap_or_default();
        let tails = answers.into_values().map(|(tail, _, _)| tail).collect();
        self.election.fenced(now, Promise { ballot, members, pending, tails, above_all });
    }

    fn follow(&mut self, now: Nanos, ballot: Ballot) {
        self.events.push(format!("following {} in {}", ballot.node, ballot.epoch));
        if let Some(members) = self.election.members().cloned() {
            // Learned from the heartbeat itself if this node knew none.
            self.learn_members(now, members);
        }
        if !self.election.votes() && self.rejoin.never_had_a_store() {
            self.rejoin.want(now);
            self.refresh_eligibility();
        }
        if self.election.votes() || !self.rejoin.must_not_follow() {
            self.command_all(|_| Command::Follow(ballot));
        }
    }

    fn take_over(
        &mut self,
        now: Nanos,
        ballot: Ballot,
        promises: BTreeMap<Voter, Promise>,
        mut quorums: Quorums,
        latest: Members,
    ) {
        let high = promises.values().map(|promise| promise.above_all).max().expect("a quorum promised");
        if !planted!(ClockNotAdvanced) {
            self.shared.clock.advance_past(high);
        }
        let base = self.shared.clock.now();
        // A newcomer that is gone again would be a voter that never answers.
        let wanted = self.change.as_ref().filter(|change| change.campaigning).map(|change| change.voter);
        let wanted = wanted.filter(|voter| self.voter(voter.node) == Some(*voter));
        let members = match wanted {
            Some(voter) => latest.with(ballot.epoch, voter),
            None => latest.in_epoch(ballot.epoch),
        };
        quorums.and(members.clone());
        self.events.push(format!("won {ballot}: taking over with {members:?}"));
        hooks::tell(|| Fact::TakesOver(ballot.epoch));
        let start = EpochStart { members: members.clone(), base };
        // Where takeovers fail, more of them help nobody, and each leaves an epoch behind.
        let patience = PATIENCE << self.given_up.min(MOST_DOUBLINGS);
        let deadline = now + patience * self.shared.options.election_timeout;
        self.takeover = Some(TakeOver { ballot, members, ready: BTreeSet::new(), deadline });
        self.command_all(|stream| {
            let of_stream = |(voter, promise): (&Voter, &Promise)| {
                promise.tails.get(stream.0 as usize).map(|tail| (*voter, *tail))
            };
            let tails = promises.iter().filter_map(of_stream).collect();
            let plan = Plan { ballot, tails, quorums: quorums.clone() };
            Command::TakeOver { plan, start: start.clone() }
        });
    }

    pub(super) fn on_ready(&mut self, now: Nanos, ballot: Ballot, stream: StreamId) {
        let workers = self.workers();
        let Some(takeover) = self.takeover.as_mut().filter(|takeover| takeover.ballot == ballot) else {
            return;
        };
        takeover.ready.insert(stream);
        if takeover.ready.len() < workers || self.election.promised() != ballot {
            return;
        }
        let members = self.takeover.take().expect("just used").members;
        self.learn_members(now, members.clone());
        self.change = None;
        self.leading = Some(ballot);
        self.shared.no_quorum.store(false, Ordering::Relaxed);
        self.given_up = 0;
        self.events.push(format!("leading {} with {members:?}", ballot.epoch));
        self.command_all(|_| Command::Open { ballot, members: members.clone() });
    }

    /// Gives a takeover or the lead up: somebody else shall try.
    pub(super) fn abandon(&mut self, now: Nanos, why: &str) {
        self.events.push(format!("giving up the lead: {why}"));
        self.takeover = None;
        self.end_lead(now);
        self.change = None;
        self.election.abandon(now);
    }

    fn end_lead(&mut self, now: Nanos) {
        if self.leading.take().is_some() {
            let quorum = self.election.quorum_heard(now, self.silence());
            self.health.lead_ends(&self.shared, quorum);
        }
    }
}
