//! Handing the lead over: what the stages of [`HandOver`] mean for the rest of the replica, as the one that leads and as the one
//! that is told to. And when requests wait because somebody is about to lead.

use std::sync::atomic::Ordering;

use highwater_consensus::{Quorums, Standing, Voter};
use highwater_core::{Epoch, NodeId};
use highwater_seam::{Handover, Nanos};

use super::LogController;
use crate::control::ControlMessage;
use crate::hooks;
use crate::members::handover::{HandOverMessage, Reason, Step, Word};
use crate::messages::Command;

/// Between a promise and the first heartbeat of whoever wins with it lie round trips, and syncs; for this part of a timeout they are waited for.
const AWAITED: u64 = 4;

impl LogController {
    // ---- the leader ----

    /// See [`Controller::hand_over`](highwater_seam::Controller::hand_over).
    pub(super) fn begin_hand_over(&mut self, now: Nanos, to: Option<NodeId>) -> Result<(), String> {
        let me = self.desk.me.node;
        let Some(ballot) = self.leadership.leading() else {
            let leader = self.known_leader(now).map_or("nobody known".into(), |leader| leader.to_string());
            return Err(format!("{me} does not lead: {leader} does"));
        };
        if self.handing.is_under_way() {
            return Err("the lead is being handed over already".into());
        }
        if self.admission.is_under_way() {
            return Err("a change of membership is under way".into());
        }
        let heirs = self.heirs(to)?;
        self.handing.ask(now, ballot.epoch, &heirs, self.desk.timeouts(1));
        heirs.into_iter().for_each(|node| self.say(node, ballot.epoch, Word::CouldYou));
        Ok(())
    }

    /// Who might lead instead: whoever is wanted, or any voter that is connected.
    fn heirs(&self, wanted: Option<NodeId>) -> Result<Vec<NodeId>, String> {
        let (me, members) = (self.desk.me, self.election.members().expect("a leader knows the membership"));
        if wanted == Some(me.node) {
            return Err(format!("{} leads already", me.node));
        }
        let is_wanted = |voter: &&Voter| **voter != me && wanted.is_none_or(|node| node == voter.node);
        let voters: Vec<Voter> = members.voters().iter().filter(is_wanted).copied().collect();
        let here: Vec<NodeId> =
            voters.iter().filter(|voter| self.desk.is_here(**voter)).map(|voter| voter.node).collect();
        match (wanted, voters.is_empty(), here.is_empty()) {
            (_, _, false) => Ok(here),
            (Some(node), true, _) => Err(format!("{node} is no voter")),
            (Some(node), false, _) => Err(format!("{node} is not connected")),
            (None, true, _) => Err(format!("{} is the only voter", me.node)),
            (None, false, _) => Err("no other voter is connected".into()),
        }
    }

    /// Moves a hand-over on; says when it wants to be called again.
    pub(super) fn turn_handing_over(&mut self, now: Nanos) -> Option<Nanos> {
        let retries = if self.leads() { self.try_to_retire(now) } else { None };
        let next = loop {
            match self.handing.step(now, self.desk.workers(), self.desk.timeouts(1)) {
                Some(step) => {
                    if let Some(next) = self.take_step(step) {
                        break Some(next);
                    }
                }
                None => break None,
            }
        };
        let waits = self.hold_requests(now);
        [retries, next, waits].into_iter().flatten().min()
    }

    /// Has requests wait while somebody is about to lead; when to look again, if so.
    ///
    /// Invariant: every reason has an end in time, and workers hear of it before they are told to lead no more.
    pub(super) fn hold_requests(&mut self, now: Nanos) -> Option<Nanos> {
        let waits =
            [self.handing.inherits_until(now), self.admission.holds_until(now), self.awaits_leader(now)];
        let waits = waits.into_iter().flatten().max();
        let holds = self.handing.holds_requests(now) || waits.is_some();
        // Release; pairs with the Acquire in `Context::refer`.
        if holds != self.desk.shared.holds_requests.swap(holds, Ordering::Release) {
            self.desk.wake_workers();
        }
        waits
    }

    /// Somebody else wins the next epoch: requests wait for a moment instead of being told that nobody leads, if somebody did until now.
    pub(super) fn await_leader(&mut self, now: Nanos) {
        if self.desk.shared.leader().is_some() {
            self.awaits_leader = now + self.desk.timeouts(1) / AWAITED;
        }
    }

    fn awaits_leader(&self, now: Nanos) -> Option<Nanos> {
        let unknown = self.known_leader(now).is_none();
        Some(self.awaits_leader).filter(|until| unknown && now < *until)
    }

    /// Does what comes next; until when to wait then, if so.
    fn take_step(&mut self, step: Step) -> Option<Nanos> {
        match step {
            Step::Wait(until) => return Some(until),
            Step::Quiet => {
                self.quiesce();
                if hooks::stands_unreleased() {
                    self.desk.streams().for_each(|stream| self.handing.quiesced(stream));
                }
            }
            Step::Stand(target) => {
                let epoch = self.leadership.leading().expect("only a leader hands over").epoch;
                self.desk.note(format!("handing the lead of {epoch} over to {target}"));
                hooks::hands_over();
                self.say(target, epoch, Word::Stand);
            }
            Step::Resume(why) => {
                self.desk.note(format!("going on to lead: {why}"));
                hooks::takes_back();
                self.desk.command_all(|_| Command::Resume);
            }
            Step::GiveUp(why) => self.desk.note(format!("going on to lead: {why}")),
            Step::Refer => {}
        }
        None
    }

    /// Has every worker let all that it executed be released, and take no more.
    pub(super) fn quiesce(&mut self) {
        self.quiets += 1;
        let round = self.quiets;
        self.desk.command_all(|_| Command::Quiesce(round));
    }

    /// The lead is lost; `elected`: to somebody who stands.
    pub(super) fn hand_over_ends(&mut self, now: Nanos, elected: bool) {
        let was_under_way = self.handing.is_under_way();
        self.handing.deposed(now, elected, self.desk.timeouts(1));
        self.note_its_end(now, was_under_way);
    }

    /// Says it in the log, if a hand-over that was under way has succeeded.
    fn note_its_end(&mut self, now: Nanos, was_under_way: bool) {
        if was_under_way
            && !self.handing.is_under_way()
            && let Handover::Done { to, pause } = self.handing.status(now, false)
        {
            self.desk.note(format!("{to} leads now: requests waited for {:.1} ms", pause as f64 / 1e6));
        }
    }

    // ---- a node that is about to end ----

    pub(super) fn begin_to_retire(&mut self, now: Nanos) {
        if !self.handing.retires() {
            self.handing.retire(now, self.desk.timeouts(1));
            self.desk.shared.retires.store(true, Ordering::Relaxed);
            self.refresh_eligibility();
        }
    }

    fn try_to_retire(&mut self, now: Nanos) -> Option<Nanos> {
        let (tries, next) = self.handing.tries(now, self.desk.timeouts(1));
        if tries
            && !self.admission.is_under_way()
            && let Err(why) = self.begin_hand_over(now, None)
        {
            self.desk.note(format!("nobody takes the lead: {why}"));
            self.handing.give_hope_up(why);
        }
        next
    }

    /// See [`Controller::handover`](highwater_seam::Controller::handover).
    pub(super) fn hand_over_status(&self, now: Nanos) -> Handover {
        self.handing.status(now, self.leads())
    }

    // ---- messages ----

    pub(super) fn on_hand_over(&mut self, now: Nanos, from: Voter, message: HandOverMessage) {
        let HandOverMessage { epoch, word } = message;
        match word {
            Word::CouldYou => {
                let held = self.streams().iter().map(|stream| stream.accepted.0).sum();
                let answer = self.why_not(now, from.node, epoch).map_or(Word::ICould { held }, Word::ICannot);
                self.say(from.node, epoch, answer);
            }
            Word::Stand => self.stand(now, from.node, epoch),
            Word::ICould { .. } | Word::ICannot(_) => self.handing.answered(now, from.node, message),
            Word::IServe if self.handing.is_under_way() => {
                self.handing.answered(now, from.node, message);
                self.note_its_end(now, true);
            }
            Word::IServe => {}
        }
    }

    /// Stands for election at once, if it may: the leader of `epoch` asked for it.
    fn stand(&mut self, now: Nanos, of: NodeId, epoch: Epoch) {
        if let Some(why) = self.why_not(now, of, epoch) {
            return self.say(of, epoch, Word::ICannot(why));
        }
        self.desk.note(format!("{of} hands the lead of {epoch} over to this node"));
        self.election.campaign(now);
        if self.election.standing() == Standing::Preparing {
            self.handing.inherit(now, of, epoch, self.desk.timeouts(1));
        }
    }

    /// Why this node cannot take the lead of `epoch` from `leader`, if it cannot.
    fn why_not(&self, now: Nanos, leader: NodeId, epoch: Epoch) -> Option<Reason> {
        let promised = self.election.promised();
        let follows = promised.epoch == epoch && self.election.leader(now) == Some(leader);
        let Some(members) = self.election.members() else { return Some(Reason::Learns) };
        let majority = Quorums::of(members.clone()).reached(|voter| self.desk.is_here(voter));
        let reasons = [
            (self.handing.retires(), Reason::Ends),
            (!self.election.votes(), Reason::Learns),
            (!self.receiver.store_is_complete(), Reason::Copies),
            (self.clock_stands.is_some(), Reason::ClockStands),
            (self.health.stuck(&self.desk.shared).is_some(), Reason::Stuck),
            (!majority, Reason::Alone),
            (!follows, Reason::FollowsNot),
        ];
        reasons.into_iter().find(|(is_so, _)| *is_so).map(|(_, why)| why)
    }

    /// This node leads. If it was told to stand, the one that told it wants to know.
    pub(super) fn tell_who_handed_over(&mut self) {
        if let Some((of, epoch)) = self.handing.inherited() {
            self.say(of, epoch, Word::IServe);
        }
    }

    fn say(&mut self, to: NodeId, epoch: Epoch, word: Word) {
        self.desk.send(to, ControlMessage::HandOver(HandOverMessage { epoch, word }));
    }
}
