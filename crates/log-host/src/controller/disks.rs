//! Disks that are low, disks that hang, and disks that are older than they should be.
//!
//! *Low.* The leader refuses what writes before a majority's disks are full, so that elections and reads, which write a
//! little, go on.
//!
//! Invariant: while a voter without whom there is no majority says that its disk is low, nothing new is executed that writes.
//!
//! *Hung.* A disk that answers nothing costs its node's vote, and nothing else before the memory for what waits is used up. Then a leader makes
//! way. Nobody elects it again meanwhile: its own promise would have to be on that disk.
//!
//! *Stale.* [`Witness`](highwater_kit::witness::Witness) has the reasons.
//!
//! *Behind.* With [`Durability::Async`](highwater_core::Durability::Async) a voter forgets with a crash, and its promises count only with
//! those of all voters until it has caught up ([`recall`](crate::disk::recall)). An epoch that was won so may have lost what was decided
//! last; what a node holds that had no vote, before or then, is worth nothing.

use std::sync::atomic::Ordering;

use highwater_consensus::{Members, Quorums, Voter};
use highwater_core::{NodeId, StreamId};
use highwater_kit::witness::{DiskWord, Heard};
use highwater_seam::Nanos;

use super::LogController;
use crate::control::ControlMessage;
use crate::hooks;

/// A leader whose disk is low makes way after so many timeouts: as a rule the others' disks fill up at the same time, and then nothing is
/// gained by it.
const MAKE_WAY_AFTER: u64 = 8;
/// If the lead comes back to it, it leads on for so many.
const MAKE_WAY_AGAIN: u64 = 256;

impl LogController {
    /// Looks at everybody's disk: refuses what writes, takes it again, or makes way for a node with room.
    pub(super) fn watch_disks(&mut self, now: Nanos) {
        let needed = if self.leads() { self.low_and_needed() } else { Vec::new() };
        let low = needed.contains(&self.desk.me.node);
        self.disk_room.low_since = if low { self.disk_room.low_since.or(Some(now)) } else { None };
        let make_way_at = self.disk_room.low_since.map(|since| since + self.desk.timeouts(MAKE_WAY_AFTER));
        let due = make_way_at.is_some_and(|at| now >= at.max(self.disk_room.make_way_at));
        if due && self.others_have_room() {
            self.disk_room.make_way_at = now + self.desk.timeouts(MAKE_WAY_AGAIN);
            return self
                .abandon(now, "its disk is about to be full, and those of a majority of others are not");
        }
        if needed == self.disk_room.refusing {
            return;
        }
        if self.leads() {
            self.desk.note(match &needed[..] {
                [] => "the disks have room: this leader takes writes again".into(),
                nodes => format!(
                    "the disk of {} is about to be full: what writes is refused",
                    super::describe::list(nodes)
                ),
            });
        }
        self.desk.shared.disk_full.store(!needed.is_empty(), Ordering::Relaxed);
        self.disk_room.refusing = needed;
    }

    /// A leader that takes nothing more because its disk hangs hands its lead over: the others have decided what it took, so all of it is
    /// released, and nobody's outcome is unknown. Once in a lead: where nobody takes it over, it refuses what it cannot serve, and whoever can
    /// is elected.
    pub(super) fn leave_hung_disk(&mut self, now: Nanos) {
        let Some(ballot) = self.leadership.leading() else { return };
        let Some(hung) = self.health.held_by_disk(&self.desk.shared) else { return };
        let tried = self.disk_room.left_in == Some(ballot.epoch);
        if tried || !self.election.quorum_heard(now, self.desk.silence()) {
            return;
        }
        self.disk_room.left_in = Some(ballot.epoch);
        self.desk.note(format!(
            "nothing has got to this node's disk for {} ms, and so much waits for it that nothing more is taken: another node shall lead",
            hung / 1_000_000
        ));
        if let Err(why) = self.begin_hand_over(now, None) {
            self.desk.note(format!("nobody takes the lead: {why}"));
        }
    }

    /// For an operator, in words: this node's disk hangs. One that has no room is another matter.
    pub(super) fn what_hangs(&self) -> Option<String> {
        let hung = self.health.disk_hangs(&self.desk.shared).filter(|_| !self.disk_room.low)?;
        Some(format!(
            "nothing has got to this node's disk for {} ms, though something waits",
            hung / 1_000_000
        ))
    }

    /// Whose disks are low, of those who are here, if the rest of them is no majority; this node's, if its disk is.
    fn low_and_needed(&self) -> Vec<NodeId> {
        if self.disk_room.low {
            return vec![self.desk.me.node];
        }
        if self.majority_has_room(true) {
            return Vec::new();
        }
        let voters = self.election.members().map(|members| members.voters().to_vec()).unwrap_or_default();
        let low = |voter: &Voter| self.desk.is_here(*voter) && self.ledger.disk_is_low(*voter);
        voters.into_iter().filter(low).map(|voter| voter.node).collect()
    }

    fn others_have_room(&self) -> bool {
        self.majority_has_room(false)
    }

    /// Whether those who are here and have room are a majority; `with_me`: this node is one of them.
    fn majority_has_room(&self, with_me: bool) -> bool {
        let Some(members) = self.election.members() else { return false };
        let has_room = |voter: Voter| match voter == self.desk.me {
            true => with_me,
            false => self.desk.is_here(voter) && !self.ledger.disk_is_low(voter),
        };
        Quorums::of(members.clone()).reached(has_room)
    }

    /// For an operator, in words: the disks that keep this node from taking writes, or its own.
    pub(super) fn what_is_full(&self) -> Option<String> {
        match &self.disk_room.refusing[..] {
            [] => self.disk_room.low.then(|| "this node's disk is about to be full".into()),
            nodes => Some(format!(
                "the disk of {} is about to be full: what writes is refused, reads go on",
                super::describe::list(nodes)
            )),
        }
    }

    // ---- stale disks ----

    /// Tells a node how this one's disk is, if it has one.
    pub(super) fn tell_disk(&mut self, peer: NodeId) {
        if let Some(word) = DiskWord::of(&self.disk) {
            if self.short_words.contains(&peer) {
                self.desk.send(peer, ControlMessage::DiskInShort(word.clone()));
            }
            self.desk.send(peer, ControlMessage::Disk(word));
            // Whose word is wanted may have been let in without having heard of it.
            if !self.witness.is_cleared() {
                self.tell_members(peer);
            }
        }
    }

    fn tell_members(&mut self, peer: NodeId) {
        if let Some(members) = self.election.members().cloned() {
            self.desk.send(peer, ControlMessage::Membership(members));
        }
    }

    /// A node says how its disk is.
    pub(super) fn on_disk(&mut self, from: Voter, word: &DiskWord) {
        let heard = self.witness.hear(from, word);
        match heard {
            Heard::News => self.desk.write(|| self.witness.record(from)),
            Heard::Known => {}
            Heard::Stale => self.desk.note(format!(
                "{}'s disk is older than what it told before: it was restored from a copy",
                from.node
            )),
        }
        // Who is no voter in this life may know too little. A node that goes on to ask was cleared, or has not heard the answer.
        if heard == Heard::Stale || self.election.votes() {
            let (start, stale) =
                (word.starts.newest().map_or(0, |start| start.number), heard == Heard::Stale);
            self.desk.send(from.node, ControlMessage::DiskJudged { start, stale });
            // It may ask those who were removed meanwhile, and wait for them for ever.
            self.tell_members(from.node);
        }
    }

    /// A node says what it knows of this one's disk.
    pub(super) fn on_disk_judged(&mut self, from: Voter, start: u64, stale: bool) {
        if start != self.disk.start() {
            return;
        }
        if stale && !self.stale {
            self.stale = true;
            self.desk.note(format!(
                "this disk is older than what {} was told of it: it was restored from a copy. This node begins another life",
                from.node
            ));
        }
        if !stale {
            self.clear(Some(from));
        }
    }

    /// A voter knows nothing against this node's disk.
    fn clear(&mut self, by: Option<Voter>) {
        let members = self.election.members();
        let reached = |clears: &dyn Fn(Voter) -> bool| {
            members.is_some_and(|members| Quorums::of(members.clone()).reached(clears))
        };
        self.witness.clear(self.desk.me, by, reached);
    }

    // ---- disks that are behind ----

    /// A stream has caught up with what it may have forgotten.
    pub(super) fn on_recalled(&mut self, stream: StreamId) {
        self.recalled.insert(stream);
        if self.recalled.len() >= self.desk.workers() && self.election.forgets() {
            self.desk.note("caught up with all that this node may have forgotten in its crash");
            self.remember_all();
        }
    }

    /// This voter knows of all that it accepted.
    pub(super) fn remember_all(&mut self) {
        self.election.set_forgets(false);
        self.desk.shared.forgets.store(false, Ordering::Relaxed);
    }

    /// This node won with the promises of all voters, for a majority forgets.
    pub(super) fn after_loss(&mut self, members: &Members) -> Members {
        hooks::loses(members.epoch);
        let window = self.desk.shared.options.disk_window / 1_000_000;
        self.desk.note(format!(
            "a majority crashed before everything was on disk: the cluster goes on from the best of all its disks. What was acknowledged \
             within {window} ms of the oldest write that is on none of them may be lost"
        ));
        members.in_epoch_after_loss(members.epoch)
    }

    /// The cluster lost something, if its newest membership says so and that is news. A node that had no vote before may have it still:
    /// what it holds is worth nothing, and nothing more is to be written to it.
    pub(super) fn watch_loss(&mut self) {
        let Some(members) = self.election.members() else { return };
        let before = self.examined.as_ref();
        if before.is_some_and(|before| before.epoch >= members.epoch) {
            return;
        }
        // Who votes in the epoch that was won so has promised for it, though it may not have known before that it was to vote.
        // Who is removed by it has no part in the cluster any more, but the change may need its voice to the end.
        let (me, removed) = (self.desk.me, members.has_removed(self.desk.me.node));
        let voted = |before: &Members| removed || before.contains(me) || members.contains(me);
        let lost = before.is_some_and(|before| members.after_loss() > before.after_loss() && !voted(before));
        if lost && !self.stale {
            self.stale = true;
            self.desk.note(format!(
                "the cluster lost what was acknowledged last before {}, and this node, which had no vote, may have it still. It begins \
                 another life",
                members.after_loss()
            ));
        }
        self.examined = Some(members.clone());
    }

    /// Whether this node may promise and vote. One that does not know its membership hears of it in heartbeats.
    pub(super) fn may_vote(&self) -> bool {
        !self.stale && (self.witness.is_cleared() || self.election.members().is_none())
    }

    /// Lets the streams take part as soon as nothing is known against the disk.
    pub(super) fn watch_clearance(&mut self) {
        if !self.desk.shared.uncleared.load(Ordering::Relaxed) || self.stale {
            return;
        }
        self.clear(None);
        if self.witness.is_cleared() {
            self.desk.shared.uncleared.store(false, Ordering::Relaxed);
        }
    }
}
