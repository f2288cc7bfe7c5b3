//! What the controller tells the workers of a replica, and they it.

use std::sync::Arc;

use highwater_consensus::{Members, Plan, Tail};
use highwater_core::{Ballot, EntryIndex, Epoch, Generation, Level, NodeId, StreamId, Timestamp};
use highwater_kit::copy::CopyName;
use highwater_seam::LogPosition;
use highwater_store::Store;

use crate::disk::checkpoint::{Located, Settling};

/// The first entry of a new epoch.
#[derive(Clone, Debug)]
pub struct EpochStart {
    /// Its voters; `members.epoch` is the new epoch.
    pub members: Members,
    /// Above every timestamp in any older log, and below every one of the new epoch.
    pub base: Timestamp,
}

/// How a worker goes on from a copied state.
pub struct Restart {
    /// The new store, still empty.
    pub store: Arc<Store>,
    /// Which one that is, of those that this replica has had.
    pub generation: Generation,
    /// First entry that the copied state may lack.
    pub start: EntryIndex,
    /// Everything at or below is in the copied state.
    pub floor: Timestamp,
    /// Where the state comes from.
    pub donor: NodeId,
    /// Names the copy.
    pub copy: u64,
    /// Whom to follow.
    pub leader: Ballot,
}

/// From the controller to a worker.
pub enum Command {
    /// Promise this ballot, stop leading under any lower one, report the stream's tail.
    Fence(Ballot),
    /// This leader is at work: follow it.
    Follow(Ballot),
    /// Lead the stream under this plan and start the epoch in it.
    TakeOver {
        /// What to adopt, and who accepts.
        plan: Plan,
        start: EpochStart,
    },
    /// All streams have changed the epoch and everything older is applied: execute transactions.
    Open {
        /// The ballot under which this node leads.
        ballot: Ballot,
        /// Who decides from now on.
        members: Members,
    },
    /// Take no more requests, seal everything, report under this number when all of it is released.
    Quiesce(u64),
    /// Take requests again.
    Resume,
    /// Stop looking at the log and at positions; report under this name when done. The store is about to be replaced.
    Park(Generation),
    /// Go on from a copied state that is about to arrive.
    Restart(Restart),
    /// A receiver wants to start from this floor: find the first entry that it needs.
    Locate {
        /// Who asked for which copy.
        copy: CopyName,
        /// The epoch in which it will begin.
        epoch: Epoch,
        /// Everything at or below will be in the copied state.
        floor: Timestamp,
    },
    /// This copy is not given any more: let go of it, whether it was asked for or not, and report.
    EndCopy(CopyName),
    /// A checkpoint begins at this floor: find the first entry that it lacks, and where recovery would begin.
    CheckpointFrom {
        number: u64,
        /// The epoch of its floor.
        epoch: Epoch,
        /// Everything at or below will be in it.
        floor: Timestamp,
    },
    /// A checkpoint is scanned: report when that is settled, and known after a crash.
    CheckpointSettle(Settling),
    /// A checkpoint is published that begins at this position of the records.
    CheckpointPublished(LogPosition),
}

/// From a worker to the controller.
#[derive(Debug)]
pub enum Report {
    /// The answer to [`Command::Fence`].
    Fenced {
        /// The promised ballot.
        ballot: Ballot,
        stream: StreamId,
        /// Where its log stands.
        tail: Tail,
        /// Changes of epoch in the log that are not known to be decided in all streams, and whether they are in this one.
        pending: Vec<(Members, bool)>,
        /// Above every timestamp in the log.
        high: Timestamp,
    },
    /// The stream met a ballot that the controller may not know.
    Met(Ballot),
    /// This stream's takeover cannot succeed here.
    TakeOverFailed(Ballot),
    /// The epoch has changed and this stream's older entries are applied.
    Ready {
        /// Under which ballot.
        ballot: Ballot,
        stream: StreamId,
    },
    /// The epoch changed.
    Entered(Epoch),
    /// The clock does not come to exceed what was read from it before: a leader needs a better one.
    ClockStands {
        /// What it has to exceed.
        least: Timestamp,
    },
    /// The answer to [`Command::Quiesce`], with its number: what was asked before somebody took requests again counts no more.
    Quiesced(StreamId, u64),
    /// The answer to [`Command::Park`].
    Parked {
        /// Which of them.
        parking: Generation,
        stream: StreamId,
        /// The newest membership that the stream knows to be decided everywhere, which may stand for changes that it skipped.
        members: Option<Members>,
    },
    /// The leader no longer keeps what this stream lacks.
    TooFar {
        stream: StreamId,
        /// The store that lacks it.
        store: Generation,
    },
    /// The answer to [`Command::Locate`].
    Located {
        /// Who asked for which copy.
        copy: CopyName,
        stream: StreamId,
        /// First entry that the receiver needs; `None` if it is no longer kept.
        start: Option<EntryIndex>,
    },
    /// The answer to [`Command::EndCopy`].
    CopyEnded {
        /// The copy, and its receiver.
        copy: CopyName,
        stream: StreamId,
    },
    /// The answer to [`Command::CheckpointFrom`].
    CheckpointFrom {
        number: u64,
        stream: StreamId,
        /// Where the log goes on; `None`: that is no longer kept, or this replica's store is no state at the moment.
        located: Option<Located>,
    },
    /// The answer to [`Command::CheckpointSettle`].
    CheckpointSettled {
        number: u64,
        stream: StreamId,
        /// How far it is known to be decided; `None`: what was scanned may have been taken back.
        decided: Option<EntryIndex>,
    },
    /// This worker's part of the copy has arrived.
    Copied {
        /// Names the copy.
        copy: u64,
        /// Which part.
        stream: StreamId,
        /// The store is complete once everything at or below this is applied.
        complete_at: Timestamp,
    },
    /// This worker cannot go on sending its part.
    CopyRefused(CopyName),
    /// This stream has caught up with what an earlier process may have accepted: see [`recall`](crate::disk::recall).
    Recalled(StreamId),
    /// A peer sent an entry of a level that this build does not read.
    Unreadable(NodeId, Level),
    /// Nothing came from the donor for too long, or the connection is lost.
    CopyStalled {
        /// Names the copy.
        copy: u64,
    },
}
