//! The receiver's controller: what a replica without a good store goes through until it has one.

use std::collections::BTreeSet;

use highwater_core::{Generation, NodeId, StreamId, Timestamp};
use highwater_seam::Nanos;

/// A replica's way to a store. It knows what comes next; the engine does it.
pub struct Receiver {
    stage: Stage,
    /// Had a store that was valid once, or has one.
    had_store: bool,
    /// Has copied one.
    copied: bool,
    /// How often the workers were told to let go of the store: names the last time.
    parkings: Generation,
    /// Donors asked since the store was lost.
    asked: u32,
    random: u64,
}

enum Stage {
    /// Nobody has said yet that this replica votes, or does not. If it does, its empty store is what the empty log says. If not, it is
    /// nothing: the log may begin behind a state that all others have.
    Unborn,
    /// The store is complete.
    Complete,
    /// A copy is needed; not before `at`.
    Wanted {
        at: Nanos,
    },
    /// Waits for the workers to let go of the old store.
    Parking {
        parking: Generation,
        parked: BTreeSet<StreamId>,
    },
    Asking {
        donor: NodeId,
        copy: u64,
        deadline: Nanos,
    },
    /// Parts arrive.
    Arriving {
        donor: NodeId,
        copy: u64,
        arrived: BTreeSet<StreamId>,
        complete_at: Timestamp,
    },
    /// All parts are here; the log has to be applied up to `complete_at`.
    CatchingUp {
        complete_at: Timestamp,
    },
}

/// What a receiver waits for, or what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the store is complete.
    Complete,
    /// For somebody else's word.
    Wait,
    /// For this time.
    WaitUntil(Nanos),
    /// Have the workers let go of the store, once there is somebody to follow.
    Park,
    /// The donor does not answer: ask again.
    AskAgain,
    /// Look whether the log is applied up to here.
    CatchUp(Timestamp),
}

/// How long a donor may take to answer.
const ASK_PATIENCE: Nanos = 1_000_000_000;
/// Pause before another attempt.
pub const RETRY_AFTER: Nanos = 50_000_000;

impl Receiver {
    /// A replica that does not know yet what its empty store is.
    pub fn new(seed: u64) -> Receiver {
        let (stage, parkings) = (Stage::Unborn, Generation::default());
        Receiver { stage, had_store: false, copied: false, parkings, asked: 0, random: seed | 1 }
    }

    /// This replica votes, and its log goes back to the birth of the cluster. Whether its store is complete by that.
    pub fn born(&mut self) -> bool {
        let unborn = matches!(self.stage, Stage::Unborn);
        if unborn {
            self.stage = Stage::Complete;
        }
        unborn
    }

    /// The store is no good: get another.
    pub fn want(&mut self, now: Nanos) {
        self.asked = 0;
        (self.had_store, self.copied) = (true, true);
        self.stage = Stage::Wanted { at: now };
    }

    /// The store comes from a checkpoint: it is complete once the log is applied up to here.
    pub fn resume(&mut self, complete_at: Timestamp) {
        self.had_store = true;
        self.stage = Stage::CatchingUp { complete_at };
    }

    /// Whether this process has copied a state, or needs to.
    pub fn has_copied(&self) -> bool {
        self.copied
    }

    /// Whether a copy is needed, or on its way. One whose store came from a checkpoint needs none: what it lacks is in its own log.
    pub fn copies(&self) -> bool {
        self.copied && !self.store_is_complete()
    }

    /// Tries again, not before `at`.
    pub fn retry(&mut self, at: Nanos) {
        self.stage = Stage::Wanted { at };
    }

    /// Whether the store is a state that existed.
    pub fn store_is_complete(&self) -> bool {
        matches!(self.stage, Stage::Complete)
    }

    /// Whether this replica asked for a store in its life, or has had one.
    pub fn had_store(&self) -> bool {
        self.had_store
    }

    /// A node that has nothing yet must not pull the log from its beginning.
    pub fn must_not_follow(&self) -> bool {
        matches!(self.stage, Stage::Wanted { .. } | Stage::Parking { .. } | Stage::Asking { .. })
    }

    /// Whom this node asked for a copy, while there is one.
    pub fn donor(&self) -> Option<NodeId> {
        self.copy().map(|(donor, _)| donor)
    }

    /// The copy that was asked for or arrives, and from whom.
    fn copy(&self) -> Option<(NodeId, u64)> {
        match self.stage {
            Stage::Asking { donor, copy, .. } | Stage::Arriving { donor, copy, .. } => Some((donor, copy)),
            _ => None,
        }
    }

    /// What the store lacks to be complete, in words; `copied` bytes have arrived.
    pub fn what_is_missing(&self, copied: u64) -> Option<String> {
        Some(match &self.stage {
            Stage::Unborn | Stage::Complete => return None,
            Stage::Wanted { .. } | Stage::Parking { .. } => "needs the state: waits for a donor".into(),
            Stage::Asking { donor, .. } => format!("needs the state: asked {donor} for a copy"),
            Stage::Arriving { donor, .. } => {
                format!("copies the state from {donor}: {copied} bytes so far")
            }
            Stage::CatchingUp { .. } if self.copied => {
                "has copied the state, and catches up with the log".into()
            }
            Stage::CatchingUp { .. } => "has loaded a checkpoint, and applies the log behind it".into(),
        })
    }

    /// What comes next.
    pub fn step(&self, now: Nanos) -> Step {
        match self.stage {
            Stage::Complete => Step::Complete,
            Stage::Wanted { at } if now < at => Step::WaitUntil(at),
            Stage::Wanted { .. } => Step::Park,
            Stage::Unborn | Stage::Parking { .. } | Stage::Arriving { .. } => Step::Wait,
            Stage::Asking { deadline, .. } if now >= deadline => Step::AskAgain,
            Stage::Asking { deadline, .. } => Step::WaitUntil(deadline),
            Stage::CatchingUp { complete_at } => Step::CatchUp(complete_at),
        }
    }

    /// The workers are told to let go of the store: the name under which they answer.
    pub fn park(&mut self) -> Generation {
        let parking = self.parkings.advance();
        self.stage = Stage::Parking { parking, parked: BTreeSet::new() };
        parking
    }

    /// Whether answers to this are waited for. What a worker answered earlier says nothing: it has had a copied store to work with since.
    pub fn is_parking(&self, name: Generation) -> bool {
        matches!(self.stage, Stage::Parking { parking, .. } if parking == name)
    }

    /// One of them has; whether all `parts` have now.
    pub fn parked(&mut self, name: Generation, part: StreamId, parts: usize) -> bool {
        match &mut self.stage {
            Stage::Parking { parking, parked } if *parking == name => {
                parked.insert(part);
                parked.len() == parts
            }
            _ => false,
        }
    }

    /// Chooses a donor: a follower, since the leader has enough to do; but the leader every other time, since the followers'
    /// stores may be incomplete.
    pub fn choose(&mut self, leader: Option<NodeId>, followers: &[NodeId]) -> Option<NodeId> {
        self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let random = self.random >> 33;
        let leaders_turn = self.asked % 2 == 1;
        self.asked += 1;
        match followers.len() {
            0 => leader,
            _ if leaders_turn => leader,
            n => Some(followers[random as usize % n]),
        }
    }

    /// Asks `donor`; the name of the copy. `life`: of this replica's memory.
    pub fn ask(&mut self, now: Nanos, donor: NodeId, life: u64) -> u64 {
        let copy = (life << 20) ^ self.random;
        self.stage = Stage::Asking { donor, copy, deadline: now + ASK_PATIENCE };
        copy
    }

    /// Whether this is the copy that was asked for.
    pub fn asked_for(&self, from: NodeId, name: u64) -> bool {
        matches!(self.stage, Stage::Asking { donor, copy, .. } if (donor, copy) == (from, name))
    }

    /// It is granted: its parts are on their way.
    pub fn granted(&mut self, donor: NodeId, copy: u64) {
        self.stage = Stage::Arriving { donor, copy, arrived: BTreeSet::new(), complete_at: Timestamp::ZERO };
    }

    /// A part is here, complete at a position. Whose copy is here whole now, if it is.
    pub fn arrived(&mut self, name: u64, part: StreamId, at: Timestamp, parts: usize) -> Option<NodeId> {
        let Stage::Arriving { donor, copy, arrived, complete_at } = &mut self.stage else { return None };
        if *copy != name {
            return None;
        }
        arrived.insert(part);
        *complete_at = (*complete_at).max(at);
        if arrived.len() < parts {
            return None;
        }
        let (donor, complete_at) = (*donor, *complete_at);
        self.stage = Stage::CatchingUp { complete_at };
        Some(donor)
    }

    /// The log is applied as far as the copy asks for.
    pub fn complete(&mut self) {
        self.stage = Stage::Complete;
    }

    /// Whether this copy is asked for or arriving.
    pub fn is_about(&self, name: u64) -> bool {
        self.copy().is_some_and(|(_, copy)| copy == name)
    }

    /// The donor, and the copy, that has to hear that it is over if this replica gives up.
    pub fn to_give_up(&self) -> Option<(NodeId, u64)> {
        self.copy()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that answers late let go of an earlier store: it may be at work with the next one.
    #[test]
    fn who_let_go_of_the_store_before_has_not_let_go_of_this_one() {
        let mut receiver = Receiver::new(1);
        receiver.want(0);
        let before = receiver.park();
        assert!(!receiver.parked(before, StreamId(0), 2) && receiver.parked(before, StreamId(1), 2));
        receiver.retry(10);
        let parking = receiver.park();
        assert!(receiver.is_parking(parking) && !receiver.is_parking(before));
        assert!(!receiver.parked(before, StreamId(0), 2) && !receiver.parked(before, StreamId(1), 2));
        assert!(!receiver.parked(parking, StreamId(0), 2), "one of two");
        assert!(receiver.parked(parking, StreamId(1), 2));
    }
}
