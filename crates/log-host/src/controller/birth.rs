//! How a replica comes to know who belongs: the first meeting, and what it learns and writes of memberships.

use bytes::Bytes;
use highwater_consensus::{Members, Voter};
use highwater_core::Epoch;
use highwater_seam::Nanos;

use super::LogController;
use crate::control::ControlMessage;

/// What a controller writes: a membership that is decided.
fn record(members: &Members) -> Bytes {
    let mut bytes = Vec::new();
    members.encode(&mut bytes);
    bytes.into()
}

impl LogController {
    pub(super) fn on_hello(&mut self, now: Nanos, from: Voter, born: bool) {
        if self.birth.hear(from, born, self.election.members(), &mut self.desk) {
            self.try_genesis(now);
        }
    }

    /// If all nodes have met and none knows of a membership, the first one declares it.
    pub(super) fn try_genesis(&mut self, now: Nanos) {
        if self.election.members().is_none()
            && let Some(members) = self.birth.first_members(&self.desk)
        {
            self.on_genesis(now, members);
            self.election.campaign(now);
        }
    }

    pub(super) fn on_genesis(&mut self, now: Nanos, members: Members) {
        // Who holds data is no newborn, even if it does not know its membership any more: a leader will tell.
        let newborn = !self.birth.has_a_past() || members.epoch > Epoch(0);
        if newborn && self.election.members().is_none() && members.contains(self.desk.me) {
            self.desk.note(match members.epoch {
                Epoch(0) => format!("all {} nodes have met: the cluster is born", members.voters().len()),
                epoch => format!("the cluster was born without a word to this node, which votes in {epoch}"),
            });
            // Whoever knows tells all: who declared it may die before the last one hears of it.
            let me = self.desk.me.node;
            for voter in members.voters().iter().filter(|voter| voter.node != me) {
                self.desk.send(voter.node, ControlMessage::Genesis(members.clone()));
            }
            self.learn_members(now, members);
        }
    }

    /// Greets, while no membership is known; says when it wants to be called again.
    pub(super) fn greet(&mut self, now: Nanos) -> Option<Nanos> {
        if self.election.members().is_some() {
            return None;
        }
        if self.birth.greet(now, &mut self.desk) {
            self.try_genesis(now);
        }
        Some(self.birth.next_at())
    }

    /// A membership is decided.
    pub(super) fn learn_members(&mut self, now: Nanos, members: Members) {
        let (newborn, removed) = (self.election.members().is_none(), self.was_removed());
        self.election.set_members(now, members);
        if self.was_removed() && !removed {
            self.note_removal();
        }
        self.birth.end();
        match self.election.votes() {
            // Also where the election has learned it before, from a heartbeat.
            true => self.be_born(),
            false if newborn && !self.was_removed() => self.want_store(now),
            false => {}
        }
        self.refresh_eligibility();
    }

    /// This replica votes: without a checkpoint or a copy its log is all that there ever was.
    pub(super) fn be_born(&mut self) {
        if self.desk.shared.resumed().is_none() && self.receiver.born() {
            self.desk.shared.progress.store_is_complete();
        }
    }

    /// A learner without a store: it copies one.
    pub(super) fn want_store(&mut self, now: Nanos) {
        self.desk.note("this node has lost its memory: it copies the state and asks to vote again");
        self.receiver.want(now);
        self.watch_store();
    }

    pub(super) fn refresh_eligibility(&mut self) {
        let able = self.receiver.store_is_complete()
            && self.health.stuck(&self.desk.shared).is_none()
            && self.clock_stands.is_none()
            && !self.handing.retires();
        let eligible = self.election.votes() && able && !self.told_removed;
        self.election.set_eligible(eligible);
    }

    /// Writes the membership that the election knows, from wherever, unless it is written.
    pub(super) fn remember_members(&mut self) {
        self.watch_loss();
        let Some(members) = self.election.members().filter(|_| !self.stale) else { return };
        if self.written.is_none_or(|written| written < members.epoch) {
            self.written = Some(members.epoch);
            self.desk.write(|| record(members));
        }
    }
}
