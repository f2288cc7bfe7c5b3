//! News about state copies, and what they mean for the rest of the replica, as receiver and as donor. [`highwater_kit::copy`] has the reasons.
//!
//! Who receives: a node that lost its memory (a learner: it asks the leader for a vote when complete), and a follower that
//! fell behind what the leader keeps. The latter keeps its promises and its vote all along; only its store is replaced. A
//! deposed leader needs no copy: it rolls back what it executed and nobody will decide (docs/decisions/0001).

use std::sync::atomic::Ordering;

use highwater_consensus::{Members, Standing, Voter};
use highwater_core::{EntryIndex, Generation, NodeId, StreamId, Timestamp};
use highwater_kit::copy::{CopyName, RETRY_AFTER, Step, Terms};
use highwater_seam::Nanos;
use highwater_store::Store;

use super::LogController;
use crate::control::{ControlMessage, Granted};
use crate::messages::{Command, Restart};

/// Pause of a node that has too little memory for the data.
const TOO_SMALL_RETRY: Nanos = 1_000_000_000;
/// How often a learner says that it is ready, and a receiver looks at its progress.
const READY_EVERY: Nanos = 20_000_000;

impl LogController {
    // ---- receiver ----

    /// The leader no longer keeps what a stream lacks, with that store. A copy that has come since does not lack it.
    pub(super) fn on_too_far(&mut self, now: Nanos, stream: StreamId, store: Generation) {
        if store != self.checkpointing.store() {
            return self.desk.late("about the store before");
        }
        if !self.receiver.must_not_follow() {
            self.desk.note(format!("{stream} is too far behind the leader's log: copying the state"));
            self.lose_store(now);
        }
    }

    pub(super) fn lose_store(&mut self, now: Nanos) {
        self.leave_checkpoints(now, "the store has to be replaced");
        self.give_up_copy();
        for copy in self.donor.all() {
            self.refuse_copy(copy);
        }
        self.receiver.want(now);
        self.watch_store();
        self.refresh_eligibility();
        if self.election.standing() == Standing::Leading {
            self.abandon(now, "the store has to be replaced");
        }
    }

    pub(super) fn on_parked(
        &mut self,
        now: Nanos,
        parking: Generation,
        stream: StreamId,
        members: Option<Members>,
    ) {
        if !self.receiver.is_parking(parking) {
            self.desk.late("about a store that was let go of");
        }
        // The stream may have skipped changes of epoch that this voter had accepted: its next promise must not be without
        // them.
        members.into_iter().for_each(|members| self.learn_members(now, members));
        if self.receiver.parked(parking, stream, self.desk.workers()) {
            self.ask_donor(now);
        }
    }

    /// Asks a follower if there is one that may have a complete store, else the leader.
    fn ask_donor(&mut self, now: Nanos) {
        let leader = self.election.followed(now);
        let me = self.desk.me;
        let may = |voter: &&Voter| self.desk.peer(voter.node) == Some(**voter) && **voter != me;
        let voters = self.election.members().map(Members::voters).unwrap_or_default();
        let followers: Vec<NodeId> =
            voters.iter().filter(may).map(|voter| voter.node).filter(|node| Some(*node) != leader).collect();
        let donor = self.receiver.choose(leader, &followers);
        // The slack is for what is under way and idle, at the donor, too: a full cluster takes a replica back.
        let shares = self.desk.shared.options.shares().expect("the host validated the options");
        let budget = shares.store.saturating_add(shares.slack);
        if let Some(used) = donor.and_then(|donor| self.ledger.used_by(donor)).filter(|used| *used > budget) {
            // A copy would end in the middle, and with it this process.
            let (used, budget) = (used >> 20, budget >> 20);
            self.desk.note(format!(
                "the cluster's data, {used} MiB, do not fit into this node's {budget} MiB: raise limits.memory_mb"
            ));
            return self.receiver.retry(now + TOO_SMALL_RETRY);
        }
        match donor.filter(|donor| *donor != me.node && leader.is_some()) {
            Some(donor) => {
                let copy = self.receiver.ask(now, donor, me.incarnation.0);
                self.desk.send(donor, ControlMessage::CopyRequest { copy });
            }
            None => self.receiver.retry(now + RETRY_AFTER),
        }
    }

    pub(super) fn on_copy_grant(&mut self, now: Nanos, from: NodeId, copy: u64, granted: Granted) {
        let Granted { epoch, members, floor, starts } = granted;
        if !self.receiver.asked_for(from, copy) || starts.len() != self.desk.workers() {
            return;
        }
        self.desk.note(format!("copying the state from {from}, floor {floor}"));
        self.leave_checkpoints(now, "the store is replaced");
        self.store = Store::new(self.schema.clone());
        // Those behind the floor are in the copy, or in the log.
        self.store.lacks_deletes_until(floor);
        let shared = &self.desk.shared;
        // All workers are parked: nobody uses the cells.
        shared.progress.restart(epoch, members.clone(), floor, &starts);
        shared.receiving_copy.store(true, Ordering::SeqCst);
        shared.copied_bytes.store(0, Ordering::Relaxed);
        self.learn_members(now, members);
        let (store, generation) = (self.store.clone(), self.checkpointing.store());
        let leader = self.election.promised();
        self.desk.command_all(|stream| {
            let (store, start) = (store.clone(), starts[stream.0 as usize]);
            Command::Restart(Restart { store, generation, start, floor, donor: from, copy, leader })
        });
        self.receiver.granted(from, copy);
    }

    pub(super) fn on_copied(&mut self, copy: u64, stream: StreamId, at: Timestamp) {
        if !self.receiver.is_about(copy) {
            self.desk.late("about a copy that was given up");
        }
        if let Some(donor) = self.receiver.arrived(copy, stream, at, self.desk.workers()) {
            self.desk.send(donor, ControlMessage::CopyFinished { copy });
            self.desk.shared.receiving_copy.store(false, Ordering::SeqCst);
        }
    }

    pub(super) fn on_copy_stalled(&mut self, now: Nanos, copy: u64) {
        if !self.receiver.is_about(copy) {
            return self.desk.late("about a copy that was given up");
        }
        self.give_up_copy();
        self.receiver.retry(now + RETRY_AFTER);
    }

    /// Tells the donor, if there is one: it keeps its tombstones until it hears so.
    fn give_up_copy(&mut self) {
        if let Some((donor, copy)) = self.receiver.to_give_up() {
            self.desk.send(donor, ControlMessage::CopyFinished { copy });
        }
    }

    /// The connection to `peer` was lost or is new.
    pub(super) fn copy_peer_changed(&mut self, now: Nanos, peer: NodeId) {
        self.stop_serving(peer, None);
        if self.receiver.donor() == Some(peer) {
            self.desk.note(format!("lost {peer} while copying from it: starting over"));
            self.receiver.retry(now + RETRY_AFTER);
        }
    }

    /// Moves the copy on; says when it wants to be called again.
    pub(super) fn turn_receiving(&mut self, now: Nanos) -> Option<Nanos> {
        match self.receiver.step(now) {
            Step::Complete => self.keep_copied_state(now).or_else(|| self.ask_to_vote(now)),
            Step::Wait => None,
            Step::WaitUntil(at) => Some(at),
            Step::Park => {
                if self.election.followed(now).is_none() {
                    return Some(now + RETRY_AFTER);
                }
                let parking = self.receiver.park();
                self.desk.command_all(|_| Command::Park(parking));
                None
            }
            Step::AskAgain => {
                self.give_up_copy();
                self.receiver.retry(now);
                Some(now)
            }
            Step::CatchUp(complete_at) => {
                if self.desk.shared.progress.applied() < complete_at {
                    // What a worker waits for may be in another one's stream, and nobody else wakes it if the cluster is idle.
                    self.desk.wake_workers();
                    return Some(now + READY_EVERY / 4);
                }
                self.receiver.complete();
                self.desk.shared.progress.store_is_complete();
                self.desk.note("the state is complete");
                self.refresh_eligibility();
                Some(now)
            }
        }
    }

    /// A learner whose store is complete asks the leader for its vote, now and then.
    fn ask_to_vote(&mut self, now: Nanos) -> Option<Nanos> {
        let no_learner = self.election.votes() || self.election.members().is_none() || self.was_removed();
        if no_learner || !self.receiver.had_store() {
            return None;
        }
        if now >= self.ready_at {
            self.ready_at = now + READY_EVERY;
            if let Some(leader) = self.election.followed(now) {
                self.desk.send(leader, ControlMessage::LearnerReady);
            }
        }
        Some(self.ready_at)
    }

    // ---- donor ----

    pub(super) fn on_copy_request(&mut self, from: Voter, copy: u64) {
        let (receiver, name) = (from.node, CopyName { receiver: from.node, copy });
        // Nor from one that would lose it with its process: of those that have a state on disk too few may be left.
        if !self.receiver.store_is_complete() || self.lacks_checkpoint() || self.election.members().is_none()
        {
            return self.desk.send(receiver, ControlMessage::CopyRefuse { copy });
        }
        self.stop_serving(receiver, None);
        // First keep the tombstones, then choose the floor: none at or above it is unlinked any more.
        self.desk.shared.serving_copies.fetch_add(1, Ordering::SeqCst);
        let leading = self.leadership.leading().map(|ballot| ballot.epoch);
        let Some((epoch, floor)) = self.desk.shared.progress.copy_point(leading) else {
            self.desk.shared.serving_copies.fetch_sub(1, Ordering::SeqCst);
            return self.desk.send(receiver, ControlMessage::CopyRefuse { copy });
        };
        self.donor.begin(name, Terms { epoch, floor });
        self.desk.command_all(|_| Command::Locate { copy: name, epoch, floor });
    }

    pub(super) fn on_located(&mut self, copy: CopyName, stream: StreamId, start: Option<EntryIndex>) {
        if !self.donor.gives(copy) {
            return self.desk.late("about a copy that is not given any more");
        }
        let Some(start) = start else {
            return self.refuse_copy(copy);
        };
        let Some((terms, starts)) = self.donor.located(copy, stream, start, self.desk.workers()) else {
            return;
        };
        let known = self.desk.shared.progress.members().into_iter().chain(self.election.members().cloned());
        let Some(members) = known.max_by_key(|members| members.epoch) else { return };
        let (Terms { epoch, floor }, CopyName { receiver, copy }) = (terms, copy);
        self.desk.send(receiver, ControlMessage::CopyGrant { copy, epoch, members, floor, starts });
    }

    /// A copy cannot go on.
    pub(super) fn refuse_copy(&mut self, CopyName { receiver, copy }: CopyName) {
        self.stop_serving(receiver, Some(copy));
        self.desk.send(receiver, ControlMessage::CopyRefuse { copy });
    }

    /// A copy to `receiver` ends, one way or the other. Its receiver may not know that yet, and ask for it.
    ///
    /// Invariant: while a worker may send any of a copy, tombstones stay.
    pub(super) fn stop_serving(&mut self, receiver: NodeId, copy: Option<u64>) {
        if let Some(name) = self.donor.end(receiver, copy) {
            self.desk.command_all(|_| Command::EndCopy(name));
        }
    }

    pub(super) fn on_copy_ended(&mut self, copy: CopyName, stream: StreamId) {
        if self.donor.ended(copy, stream, self.desk.workers()) {
            self.desk.shared.serving_copies.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
