//! Who belongs: newcomers are let in, members go, on an operator's word or because they lost their memory.
//!
//! Every change is one change of epoch ([`Admission`](crate::members::admission::Admission)), decided by a majority of the members
//! before *and* of those after it. What is asked for here is only what the leader is to begin: it is safe whatever becomes of the
//! leader meanwhile, and whoever asked asks again.
//!
//! - A node that came back in another life is let in for its former one, without being asked for.
//! - A stranger is let in only if an operator ordered it. It copies the state before.
//! - Nobody goes if too few voters would be left that answer and have complete stores.

use highwater_consensus::{Members, MembersChange, Quorums, Standing, Voter};
use highwater_core::limits::MAX_NODES;
use highwater_core::{NodeId, StreamId};
use highwater_seam::{MemberAnswer, MemberChange, Nanos, Roster};

use super::LogController;
use crate::control::ControlMessage;
use crate::members::handover::STAGE;
use crate::members::takeover::PATIENCE;
use crate::messages::Command;

use MemberAnswer::{Ask, Done, Refused, Waits};

impl LogController {
    // ---- an operator's word ----

    /// See [`change_members`](highwater_seam::Controller::change_members).
    pub(super) fn on_member_change(&mut self, now: Nanos, change: MemberChange) -> MemberAnswer {
        // Before it is founded; or this node has just come to it, and knows nobody yet: others may.
        let Some(members) = self.election.members().cloned() else { return Ask(None) };
        if !self.leads() {
            return Ask(self.known_leader(now));
        }
        match change {
            MemberChange::Add { node, contact } => match members.voter(node) {
                Some(voter) if members.contact(node) == contact => self.until_sound(now, voter),
                Some(_) => Refused(format!(
                    "{node} is a member already, at other addresses; `member replace {node}` moves it"
                )),
                None if members.voters().len() >= usize::from(MAX_NODES) => {
                    Refused(format!("a cluster has at most {MAX_NODES} members"))
                }
                None => self.let_in(now, &members, node, contact, None),
            },
            MemberChange::Remove { node } => self.remove(now, &members, node),
            MemberChange::Withdraw { node } => {
                self.admission.withdraw(node);
                self.enrolled.1 = false;
                Done
            }
            MemberChange::Replace { node, by, contact } if node == by => {
                let Some(voter) = members.voter(node) else { return no_member(&members, node) };
                if members.contact(node) == contact {
                    return self.until_sound(now, voter);
                }
                let moves = MembersChange { contact: Some((node, contact)), ..MembersChange::default() };
                self.begin(now, &members, moves, format!("{node} moves"))
            }
            MemberChange::Replace { node, by, contact } => {
                match (members.voter(node), members.voter(by)) {
                    (None, Some(_)) if members.has_removed(node) => Done,
                    // Two that vote do not become one by mistake.
                    (Some(_), Some(_)) => Refused(format!(
                        "{by} is a member already: name a node that is none; or `member remove {node}`, to go on without it"
                    )),
                    (None, Some(_)) => no_member(&members, node),
                    (None, None) => no_member(&members, node),
                    (Some(voter), None) if voter == self.desk.me => self.make_way(now, &members, node),
                    (Some(_), None) => self.let_in(now, &members, by, contact, Some(node)),
                }
            }
        }
    }

    fn let_in(
        &mut self,
        now: Nanos,
        members: &Members,
        node: NodeId,
        contact: bytes::Bytes,
        replaces: Option<NodeId>,
    ) -> MemberAnswer {
        if members.has_removed(node) {
            return Refused(format!(
                "{node} was removed from this cluster, and its id is not used again; give the node another id"
            ));
        }
        if self.admission.order(now, node, contact, replaces) {
            self.desk.note(format!("an operator wants {node} to vote"));
            self.enrolled.1 = false;
        }
        let Some(newcomer) = self.desk.peer(node) else {
            return Waits(format!(
                "{node} is not connected: start it, with the addresses of the members in its config"
            ));
        };
        if self.admission.is_under_way() || self.leadership.takes_over() {
            return Waits("the epoch changes".into());
        }
        if self.handing.is_under_way() || self.handing.retires() {
            return Waits("the lead is handed over".into());
        }
        Waits(match self.stores.is_complete(newcomer) {
            true => format!("{node} has caught up and asks to vote"),
            false => format!("{node} copies the state"),
        })
    }

    fn remove(&mut self, now: Nanos, members: &Members, node: NodeId) -> MemberAnswer {
        if members.has_removed(node) {
            return Done;
        }
        let Some(voter) = members.voter(node) else { return no_member(members, node) };
        let change = MembersChange { removes: Some(node), ..MembersChange::default() };
        if members.voters().len() == 1 {
            return Refused(format!("{node} is the only member: without it there is no cluster"));
        }
        if let Some(why) = self.why_too_few(now, &members.changed(members.epoch, &change)) {
            return Refused(why);
        }
        if voter == self.desk.me {
            return self.make_way(now, members, node);
        }
        self.begin(now, members, change, format!("{node} is removed"))
    }

    /// This node is to go, and leads: another has to lead first.
    fn make_way(&mut self, now: Nanos, members: &Members, node: NodeId) -> MemberAnswer {
        let change = MembersChange { removes: Some(node), ..MembersChange::default() };
        if members.voters().len() == 1 {
            return Refused(format!("{node} is the only member: add the other one first, then remove it"));
        }
        if let Some(why) = self.why_too_few(now, &members.changed(members.epoch, &change)) {
            return Refused(why);
        }
        if !self.admission.is_under_way() && !self.handing.is_under_way() {
            // Without anybody who could take the lead at once it is given up, and whoever can takes it.
            if self.begin_hand_over(now, None).is_err() {
                self.abandon(now, "an operator wants this node to go");
            }
        }
        Waits(format!("{node} leads, and makes way for another first"))
    }

    fn begin(&mut self, now: Nanos, members: &Members, change: MembersChange, what: String) -> MemberAnswer {
        let after = members.changed(members.epoch, &change);
        if let Some(why) = self.why_too_few(now, &after) {
            return Refused(why);
        }
        let handing = self.handing.is_under_way() || self.handing.retires();
        if !handing && !self.admission.is_under_way() && !self.leadership.takes_over() {
            self.desk.note(format!("{what}: changing the epoch"));
            self.change_epoch(now, change);
        }
        Waits("the epoch changes".into())
    }

    /// Why the cluster could not go on with these members, or would have too few copies.
    fn why_too_few(&self, now: Nanos, members: &Members) -> Option<String> {
        let sound = |voter: Voter| self.is_sound(now, voter);
        if Quorums::of(members.clone()).reached(sound) {
            return None;
        }
        let lacking = members.voters().iter().filter(|voter| !sound(**voter));
        let lacking: Vec<String> = lacking.map(|voter| voter.node.to_string()).collect();
        Some(format!(
            "of the {} members that there would be, {} do not answer or have no complete copy of the data, and the others are no \
             majority; bring them back first, or remove them first",
            members.voters().len(),
            lacking.join(", ")
        ))
    }

    /// The membership is as it was wanted; done, once this voter is there, too: who relies on it next may stop another.
    fn until_sound(&self, now: Nanos, voter: Voter) -> MemberAnswer {
        let node = voter.node;
        if self.is_sound(now, voter) {
            return Done;
        }
        let here = self.desk.peer(node);
        Waits(match here {
            None => format!("{node} is a member and not connected: start it at these addresses"),
            Some(life) if !self.stores.is_complete(life) => format!("{node} copies the state"),
            Some(_) => format!("{node} is a member and about to vote"),
        })
    }

    /// Whether a voter answers and has a complete store.
    fn is_sound(&self, now: Nanos, voter: Voter) -> bool {
        if voter == self.desk.me {
            return true;
        }
        let heard = self.election.heard_at(voter);
        let lately = heard.is_some_and(|at| now.saturating_sub(at) <= self.desk.silence());
        self.desk.is_here(voter) && lately && self.stores.is_complete(voter)
    }

    // ---- the change ----

    pub(super) fn on_learner_ready(&mut self, now: Nanos, from: Voter) {
        let Some(members) = self.election.members() else { return };
        let handing = self.handing.is_under_way() || self.handing.retires();
        let free =
            self.leads() && !handing && !self.admission.is_under_way() && !self.leadership.takes_over();
        if members.contains(from) || !free {
            return;
        }
        // Who gives its lead up for a change must be able to win it back.
        if self.why_too_few(now, members).is_some() {
            return;
        }
        let returns = MembersChange { admits: Some(from), ..MembersChange::default() };
        let change = match members.voter(from.node) {
            Some(_) => Some(returns),
            None => self.admission.ordered(now, from),
        };
        if let Some(change) = change {
            self.desk.note(format!("{from:?} has caught up: changing the epoch to let it vote"));
            self.change_epoch(now, change);
        }
    }

    fn change_epoch(&mut self, now: Nanos, change: MembersChange) {
        self.admission.begin(change, now + self.desk.timeouts(PATIENCE));
        self.quiesce();
    }

    pub(super) fn on_quiesced(&mut self, now: Nanos, stream: StreamId, round: u64) {
        if round != self.quiets {
            return;
        }
        self.handing.quiesced(stream);
        let holds_until = now + self.desk.timeouts(STAGE);
        if self.admission.quiesced(stream, self.desk.workers(), holds_until) {
            self.election.campaign(now);
            if self.election.standing() != Standing::Preparing {
                // A worker is stuck, say: this node may not stand now. Whoever wants the change asks again.
                self.admission.end();
                self.desk.command_all(|_| Command::Resume);
            }
        }
    }

    /// With whom the host is to speak, if that has changed.
    pub(super) fn new_roster(&mut self, now: Nanos) -> Option<Roster> {
        let (leads, members) = (self.leads(), self.election.members()?);
        let lapsed = self.admission.forget(now, leads, |node| members.voter(node).is_some());
        let (told, whole) = &self.enrolled;
        if *whole && !lapsed && told.as_ref().is_some_and(|told| told.is_like(members)) {
            return None;
        }
        let voters = members.voters().iter().map(|voter| (voter.node, members.contact(voter.node)));
        let contacts = voters.chain(self.admission.contacts()).collect();
        let removed = members.removed().iter().map(|voter| voter.node).collect();
        self.enrolled = (Some(members.clone()), true);
        Some(Roster { contacts, removed })
    }

    // ---- who was removed ----

    /// Whether this node was.
    pub(super) fn was_removed(&self) -> bool {
        let me = self.desk.me.node;
        self.told_removed || self.election.members().is_some_and(|members| members.has_removed(me))
    }

    /// Whoever was removed is told so, and has no say; but it may know of a later removal: of this node.
    pub(super) fn turns_away(&mut self, sender: Voter, message: &ControlMessage) -> bool {
        let Some(members) = self.election.members().filter(|members| members.has_removed(sender.node)) else {
            return false;
        };
        if matches!(message, ControlMessage::Membership(_)) {
            return false;
        }
        let members = members.clone();
        self.desk.send(sender.node, ControlMessage::Membership(members));
        true
    }

    pub(super) fn note_removal(&mut self) {
        self.desk.note(
            "this node was removed from the cluster: it has no part in it any more, and can be stopped",
        );
    }

    /// Decided is decided, whoever tells. Who is not cleared hears no leader, and whom it asks may not know yet that it votes.
    pub(super) fn on_membership(&mut self, now: Nanos, members: Members) {
        let at_work = self.leads() || self.leadership.takes_over();
        let removed = members.has_removed(self.desk.me.node);
        if at_work && removed {
            self.abandon(now, "this node was removed");
        }
        if removed || !at_work {
            self.learn_members(now, members);
        }
    }

    pub(super) fn on_told_removed(&mut self) {
        if !self.was_removed() {
            self.told_removed = true;
            self.note_removal();
            self.refresh_eligibility();
        }
    }
}

fn no_member(members: &Members, node: NodeId) -> MemberAnswer {
    Refused(match members.has_removed(node) {
        true => format!("{node} was removed from this cluster"),
        false => format!("{node} is no member of this cluster"),
    })
}
