//! Whether this replica's disk is the newest that there was, by the word of others; and what this one knows of theirs.
//!
//! See [`witness`](highwater_kit::witness). A replica that comes back with its disk tells its starts; whoever votes says whether that disk can be what became of
//! the one that it met. A copy that is older lacks votes, promises and outcomes on which others count: its node begins another life, as a
//! learner that copies the state.
//!
//! *Invariant*: a replica that comes back with its disk promises nothing, accepts nothing, begins no epoch and gives no copies before it is
//! cleared: a majority, itself among them, of those who vote in the newest epoch that it was told of knows nothing against its disk.
//!
//! *Who may speak.* Voters only: their stores are complete, so they were there when this replica was heard, or got the state from somebody who
//! had. A donor tells with its grant what it heard of all disks ([`Control::CopyGrant`]), and a learner votes after its copy. Before the first epoch
//! everybody may speak: it begins when all are there.

use highwater_consensus::Voter;
use highwater_core::{Epoch, Incarnation, NodeId};
use highwater_kit::witness::{DiskWord, Heard, Met, Witness};
use highwater_seam::Nanos;

use super::MeerkatController;
use super::disk::After;
use crate::control::{Control, Standing};
use crate::hooks;
use crate::journal::Kept;

/// A node tells how its disk is once in so many timeouts.
const TELL_EVERY: u64 = 4;

/// Evidence on disks.
#[derive(Default)]
pub(super) struct Evidence {
    witness: Witness,
    /// The newest epoch that somebody told who spoke for this node's disk, and who votes in it.
    electorate: Option<(Epoch, Vec<(NodeId, Incarnation)>)>,
    /// This node's disk is older than what it told.
    stale: bool,
    tell_at: Nanos,
}

impl Evidence {
    /// Whether the host is to set this disk aside.
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// All that was heard of others' disks.
    pub fn met(&self) -> Vec<Met> {
        self.witness.met().collect()
    }

    /// Notes of an earlier process of this node.
    pub fn recall(&mut self, met: Vec<Met>) {
        met.into_iter().for_each(|met| _ = self.witness.learn(met));
    }
}

fn voter((node, incarnation): (NodeId, Incarnation)) -> Voter {
    Voter { node, incarnation }
}

impl MeerkatController {
    /// Whether this replica may take part: nothing is known against its disk, by a majority's word, if it came back with one.
    pub(super) fn is_cleared(&self) -> bool {
        let cleared = self.evidence.witness.is_cleared() && !self.evidence.stale;
        cleared || hooks::trusts_any_disk()
    }

    /// There is something on the disk that an earlier process wrote.
    pub(super) fn be_judged(&mut self) {
        self.evidence.witness.come_back();
        self.clear(None);
    }

    /// Tells a node how this one's disk is, if it has one.
    pub(super) fn tell_disk(&mut self, peer: NodeId) {
        if let Some(word) = DiskWord::of(&self.keeping.disk) {
            self.send(peer, Control::Disk(word));
        }
    }

    /// The same to everybody, now and then.
    pub(super) fn tell_disk_now_and_then(&mut self, now: Nanos) {
        if now < self.evidence.tell_at {
            return;
        }
        let every = if self.is_cleared() { TELL_EVERY * self.timeout() } else { self.timeout() / 2 };
        self.evidence.tell_at = now + every;
        self.others().for_each(|node| self.tell_disk(node));
    }

    /// A node says how its disk is.
    pub(super) fn on_disk(&mut self, from: NodeId, word: &DiskWord) {
        let Some(life) = self.life_of(from) else { return };
        let who = voter((from, life));
        let heard = self.evidence.witness.hear(who, word);
        match heard {
            Heard::News => self.note_met(who),
            Heard::Known => {}
            Heard::Stale => self.note(format!(
                "{from}'s disk is older than what it told before: it was restored from a copy"
            )),
        }
        let stale = heard == Heard::Stale;
        if stale || self.may_speak() {
            let start = word.starts.newest().map_or(0, |start| start.number);
            let voters = self.members.as_ref().map(|members| members.voters.clone()).unwrap_or_default();
            self.send(from, Control::Judged { start, stale, epoch: self.epoch, voters });
        }
    }

    fn may_speak(&self) -> bool {
        let unborn = matches!(self.standing, Standing::Unborn | Standing::Bearing);
        self.is_voter() || self.epoch == Epoch(0) && unborn
    }

    /// Notes down what was heard of a disk, once this node has a part in the cluster.
    fn note_met(&mut self, who: Voter) {
        if !self.has_a_part() {
            return;
        }
        if let Some(met) = self.evidence.witness.met_of(who) {
            self.keep_on_disk(Kept::Met(met), After::Nothing);
        }
    }

    /// Whoever gives this node the state has heard this of others' disks.
    pub(super) fn learn_met(&mut self, met: Vec<Met>) {
        for met in met {
            let own = met.voter == voter((self.me, self.life));
            if !own && self.evidence.witness.learn(met) {
                self.note_met(met.voter);
            }
        }
    }

    /// A node says what it knows of this one's disk.
    pub(super) fn on_judged(
        &mut self,
        now: Nanos,
        from: NodeId,
        (start, stale): (u64, bool),
        (epoch, voters): (Epoch, Vec<(NodeId, Incarnation)>),
    ) {
        let Some(life) = self.life_of(from).filter(|_| start == self.keeping.disk.start()) else { return };
        if stale && !self.evidence.stale && !hooks::trusts_any_disk() {
            self.evidence.stale = true;
            self.note(format!(
                "this disk is older than what {from} was told of it: it was restored from a copy. This node begins another life"
            ));
        }
        if stale {
            return;
        }
        if self.evidence.electorate.as_ref().is_none_or(|(known, _)| *known < epoch) {
            self.evidence.electorate = Some((epoch, voters));
        }
        if self.clear(Some(voter((from, life)))) {
            self.stirred = now;
            self.promise();
        }
    }

    /// A node knows nothing against this one's disk. Whether that makes the majority; of fewer voters than that all of them are asked for.
    fn clear(&mut self, by: Option<Voter>) -> bool {
        let me = voter((self.me, self.life));
        let (others, known) = match self.electorate() {
            Some(voters) => (voters, true),
            // Whoever is there may speak.
            None => (self.others().filter_map(|node| Some((node, self.life_of(node)?))).collect(), false),
        };
        let others: Vec<Voter> = others.into_iter().map(voter).filter(|one| *one != me).collect();
        let majority = self.shared.quorums.majority as usize;
        let needed = if known { majority.min(1 + others.len()) } else { majority };
        let reached = |clears: &dyn Fn(Voter) -> bool| {
            1 + others.into_iter().filter(|one| clears(*one)).count() >= needed
        };
        self.evidence.witness.clear(me, by, reached)
    }

    /// The voters of the newest epoch that this node knows of, if it knows of one.
    fn electorate(&self) -> Option<Vec<(NodeId, Incarnation)>> {
        let told = self.evidence.electorate.as_ref().filter(|(told, _)| *told > self.epoch);
        let own = || self.members.as_ref().map(|members| members.voters.clone());
        told.map(|(_, voters)| voters.clone()).or_else(own)
    }
}
