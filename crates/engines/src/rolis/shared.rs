//! What the workers and the controller of one replica share: the watermark, a few atomics, and mailboxes for changes of
//! epoch. Nothing here is touched by a transaction but plain loads.

use std::sync::Arc;

use highwater_consensus::{Members, Plan, Tail};
use highwater_core::{Ballot, Clock, EntryIndex, Epoch, NodeId, StreamId, Timestamp};
use highwater_store::Store;

use super::mailbox::Mailbox;
use super::pulse::Pulse;
use super::snapshots::Rounds;
use super::watermark::Progress;
use crate::memory::Account;
use crate::options::Options;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};

/// One per replica.
pub struct Shared {
    /// Settings.
    pub options: Options,
    /// Source of commit timestamps.
    pub clock: Arc<Clock>,
    /// The watermark.
    pub progress: Progress,
    /// What the store may grow to.
    pub account: Account,
    /// Snapshots for followers' readers.
    pub rounds: Rounds,
    /// Controller to worker.
    pub commands: Vec<Mailbox<Command>>,
    /// Workers to controller.
    pub reports: Mailbox<Report>,
    /// The leader cannot vouch for itself: it has not heard from a quorum for a while, or a worker stands still.
    pub no_quorum: AtomicBool,
    /// Node id of the known leader plus 1; 0 if none is known.
    leader: AtomicU32,
    /// State copies that this replica serves now. While there are any, tombstones stay: the receiver may yet apply older
    /// writes.
    pub serving_copies: AtomicU32,
    /// Parts of a copied state are on their way into the store. Until all are there tombstones stay, on every worker:
    /// another worker's part may hold an older write of the same key.
    pub receiving_copy: AtomicBool,
    /// Workers that executed transactions in an epoch whose final mark they have not met: until it is 0, the store may
    /// hold what never happened.
    pub speculating: AtomicU32,
    /// Bytes of copied state received so far.
    pub copied_bytes: AtomicU64,
    /// What each worker shows of itself.
    pub pulses: Vec<Pulse>,
    /// For reports; each worker writes its own.
    pub stream_status: Vec<Mutex<StreamStatus>>,
    /// Entries by which each peer lags, per worker; for reports.
    pub lags: Vec<Mutex<Vec<(highwater_consensus::Voter, u64)>>>,
}

/// One stream's progress, as its worker publishes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// The last entry that this replica holds.
    pub accepted: EntryIndex,
    /// The last one that it knows to be decided.
    pub decided: EntryIndex,
    /// The last one that is installed in its store completely.
    pub applied: EntryIndex,
    /// No decided transaction of this epoch is missing at or below.
    pub closed: Timestamp,
    /// Bytes of log kept.
    pub log_bytes: u64,
}

impl Shared {
    /// Shared state of a fresh replica.
    pub fn new(options: Options, clock: Arc<Clock>, account: Account) -> Shared {
        let workers = options.workers as usize;
        Shared {
            clock,
            account,
            progress: Progress::new(workers),
            rounds: Rounds::default(),
            commands: (0..workers).map(|_| Mailbox::default()).collect(),
            reports: Mailbox::default(),
            no_quorum: AtomicBool::new(false),
            leader: AtomicU32::new(0),
            serving_copies: AtomicU32::new(0),
            receiving_copy: AtomicBool::new(false),
            speculating: AtomicU32::new(0),
            copied_bytes: AtomicU64::new(0),
            pulses: (0..workers).map(|_| Pulse::default()).collect(),
            stream_status: (0..workers).map(|_| Mutex::default()).collect(),
            lags: (0..workers).map(|_| Mutex::default()).collect(),
            options,
        }
    }

    /// Who leads, as far as the controller knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.leader.load(Ordering::Relaxed).checked_sub(1).map(|node| NodeId(node as u8))
    }

    /// Sets who leads.
    pub fn set_leader(&self, leader: Option<NodeId>) {
        let word = leader.map_or(0, |node| u32::from(node.0) + 1);
        // Stored only if it changed: workers read what lies beside it with every request.
        if self.leader.load(Ordering::Relaxed) != word {
            self.leader.store(word, Ordering::Relaxed);
        }
    }
}

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
        /// What to start.
        start: EpochStart,
    },
    /// All streams have changed the epoch and everything older is applied: execute transactions.
    Open {
        /// The ballot under which this node leads.
        ballot: Ballot,
        /// Who decides from now on.
        members: Members,
    },
    /// Take no more requests, seal everything, report when all of it is released.
    Quiesce,
    /// Take requests again.
    Resume,
    /// Stop looking at the log and at the watermark; report when done. The store is about to be replaced.
    Park,
    /// Go on from a copied state that is about to arrive.
    Restart(Restart),
    /// A receiver wants to start from this floor: find the first entry that it needs.
    Locate {
        /// Who asked.
        receiver: NodeId,
        /// Names the copy.
        copy: u64,
        /// Everything at or below will be in the copied state.
        floor: Timestamp,
    },
}

/// From a worker to the controller.
#[derive(Debug)]
pub enum Report {
    /// The answer to [`Command::Fence`].
    Fenced {
        /// The promised ballot.
        ballot: Ballot,
        /// Which stream.
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
        /// Which stream.
        stream: StreamId,
    },
    /// The epoch changed.
    Entered(Epoch),
    /// The clock does not come to exceed what was read from it before: a leader needs a better one.
    ClockStands {
        /// What it has to exceed.
        least: Timestamp,
    },
    /// The answer to [`Command::Quiesce`].
    Quiesced(StreamId),
    /// The answer to [`Command::Park`]; with the newest membership that the stream knows to be decided everywhere, which may
    /// stand for changes that it skipped.
    Parked(StreamId, Option<Members>),
    /// The leader no longer keeps what this stream lacks.
    TooFar(StreamId),
    /// The answer to [`Command::Locate`].
    Located {
        /// Who asked.
        receiver: NodeId,
        /// Names the copy.
        copy: u64,
        /// Which stream.
        stream: StreamId,
        /// First entry that the receiver needs; `None` if it is no longer kept.
        start: Option<EntryIndex>,
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
    CopyRefused {
        /// Who gets it.
        receiver: NodeId,
        /// Names the copy.
        copy: u64,
    },
    /// Nothing came from the donor for too long, or the connection is lost.
    CopyStalled {
        /// Names the copy.
        copy: u64,
    },
}
