//! What the threads of a replica share. On the path of a transaction only marks, in lines of their own, and what a worker says of
//! itself: each writes its own cell.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use highwater_core::{Clock, Durability, Epoch, Incarnation, NodeId, Timestamp};
use highwater_kit::copy::CopyName;
use highwater_kit::validation::marks::Marks;
use highwater_kit::validation::quorum::Quorums;
use highwater_kit::validation::record::Told;
use highwater_kit::validation::stamps::Layout;
use highwater_seam::mailbox::Mailbox;
use highwater_seam::options::Options;
use highwater_seam::padded::Padded;
use highwater_seam::{LogPosition, Nanos};
use highwater_store::Store;

use super::change::{Change, Members};
use super::journal::{Kept, Remembered};

/// From the controller to a worker.
pub enum Command {
    /// Take part in the epoch no more, and tell all records.
    Pause(Epoch),
    /// An epoch begins.
    Begin(Arc<Begin>),
    /// What this node coordinated is unknown to it, and its store is no good.
    Forget,
    /// A copy of this store is about to be granted.
    Announce(CopyName),
    /// To be kept, by the first worker; its number is reported when it may be counted on.
    Keep(u64, Kept),
    /// A checkpoint of this number begins: what is needed with it is written anew.
    CheckpointFrom {
        number: u64,
        /// The first worker writes what the controller keeps, too.
        kept: Arc<Vec<Kept>>,
    },
    /// The scan of this checkpoint has met nothing that is later: once all of that is over everywhere, and written, is it on disk?
    CheckpointSettle(u64, Timestamp),
    /// This worker's part of a copy comes from there.
    Expect {
        /// From whom.
        donor: NodeId,
        copy: u64,
    },
}

/// An epoch, as the workers of a replica begin it.
pub struct Begin {
    /// What was decided.
    pub change: Arc<Change>,
    /// The store to go on with, and its marks: another one if what there was is no good.
    pub store: Arc<Store>,
    /// See [`store`](Begin::store).
    pub marks: Arc<Marks>,
    /// The store is another one: this replica takes part as a learner from here on.
    pub afresh: bool,
    /// A replica that comes back has another change follow at once. What it wrote of this epoch may have to be left out with that one.
    pub more: bool,
}

/// From a worker to the controller.
pub enum Report {
    /// It has paused; its records.
    Paused {
        worker: u16,
        epoch: Epoch,
        /// What it knows of transactions.
        records: Vec<Told>,
        /// Above all timestamps that it has seen.
        latest: Timestamp,
    },
    /// It has installed everything that the change of epoch decided.
    Begun(Epoch),
    /// What it was to keep may be counted on, up to this number.
    Kept(u64),
    /// With this checkpoint nothing is needed that was written up to here.
    CheckpointFrom {
        worker: u16,
        /// Which checkpoint.
        number: u64,
        /// Where.
        position: LogPosition,
    },
    /// It is on disk.
    CheckpointSettled {
        worker: u16,
        /// Which checkpoint.
        number: u64,
    },
    /// Its part of a copy is installed.
    Copied { worker: u16, copy: u64 },
    /// A copy cannot go on.
    Stalled(u64),
}

/// What a worker says of itself. Other workers look at the first two in each of their turns, the controller now and then at the rest: what is
/// counted for each transaction is in no line that another worker looks at.
#[derive(Default)]
#[repr(align(128))]
pub struct Cell {
    /// Since when its oldest transaction under way has been here; [`Nanos::MAX`]: there is none.
    pub oldest: Padded<AtomicU64>,
    /// Everything at or below is over at every replica, for the transactions of its number.
    pub closed: Padded<AtomicU64>,
    /// Transactions under way here: records, own ones, outcomes that somebody has not heard.
    pub busy: AtomicU64,
    /// Transactions that were decided here, committed or not.
    pub decided: AtomicU64,
    /// Own transactions that were decided without a second round.
    pub fast: AtomicU64,
    /// The others.
    pub slow: AtomicU64,
    /// Attempts of own transactions that were decided, and not to commit.
    pub aborted: AtomicU64,
    /// Transactions that were found invalid here for what was in the way.
    pub in_the_way: AtomicU64,
    /// And for the time at which they came.
    pub too_late: AtomicU64,
    /// Bytes of records and outcomes.
    pub bytes: AtomicU64,
    /// Who keeps it from forgetting outcomes, and holds too many up: node id plus 1.
    pub laggard: AtomicU32,
    /// A transaction cannot be settled without a change of epoch.
    pub stuck: AtomicBool,
    /// Bytes of a copied state that came.
    pub copied: AtomicU64,
    /// Where its records begin that are handed in, of a replica that comes back.
    pub resumed: AtomicU64,
    /// Not later than what it has written of is this.
    pub written: AtomicU64,
    /// Up to here it has noted down that all is over everywhere.
    pub noted: AtomicU64,
    /// Tombstones that it made wait until everything at or below is over everywhere; 0: none do.
    pub graves: AtomicU64,
}

/// One per replica.
pub struct Shared {
    pub options: Options,
    pub clock: Arc<Clock>,
    pub layout: Layout,
    pub quorums: Quorums,
    /// Timestamps agree with real time: see [`strict`](super::strict).
    pub strict: bool,
    /// Controller to worker.
    pub commands: Vec<Mailbox<Command>>,
    /// Workers to controller.
    pub reports: Mailbox<Report>,
    pub cells: Vec<Cell>,
    /// The epoch in which this replica takes part; 0: none. Set when all workers have installed what came before it.
    open: AtomicU64,
    /// What committed in earlier epochs is at or below, and installed when the epoch opens.
    pub base: AtomicU64,
    /// It has not heard from a majority for a while.
    pub no_quorum: AtomicBool,
    /// A node that serves, as far as is known: node id plus 1.
    serving: AtomicU32,
    /// What it installs may yet be older than a tombstone: none is unlinked.
    pub keeps_tombstones: AtomicBool,
    /// A checkpoint is being scanned: the same.
    pub scanning: AtomicBool,
    /// What writes is refused: the disks of so many are about to be full that nothing more may become durable.
    pub disk_full: AtomicBool,
    /// What the controller finds when it comes back.
    pub remembered: Mutex<Remembered>,
    /// What this replica may make its store grow by, all workers together, until that is looked at again.
    pub room: AtomicU64,
}

impl Shared {
    /// Of a fresh replica.
    pub fn new(options: Options, clock: Arc<Clock>, strict: bool) -> Shared {
        let workers = options.workers;
        Shared {
            layout: Layout::new(workers),
            quorums: if strict { Quorums::of(options.nodes).unanimous() } else { Quorums::of(options.nodes) },
            commands: (0..workers).map(|_| Mailbox::default()).collect(),
            reports: Mailbox::default(),
            cells: (0..workers).map(|_| Cell::default()).collect(),
            open: AtomicU64::new(0),
            base: AtomicU64::new(0),
            no_quorum: AtomicBool::new(false),
            serving: AtomicU32::new(0),
            keeps_tombstones: AtomicBool::new(false),
            scanning: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            remembered: Mutex::default(),
            room: AtomicU64::new(u64::MAX),
            strict,
            options,
            clock,
        }
    }

    /// The epoch in which this replica takes part, if it does.
    #[inline]
    pub fn open_epoch(&self) -> Option<Epoch> {
        // Acquire; pairs with the Release in `set_open`: what came before the epoch is installed by all workers.
        let epoch = self.open.load(Ordering::Acquire);
        (epoch != 0).then_some(Epoch(epoch))
    }

    /// All workers have installed what came before this epoch; or this replica pauses.
    pub fn set_open(&self, epoch: Option<Epoch>) {
        // Release; pairs with the Acquire in `open_epoch`.
        self.open.store(epoch.map_or(0, |epoch| epoch.0), Ordering::Release);
    }

    /// A node that serves, as far as is known.
    pub fn serving(&self) -> Option<NodeId> {
        (self.serving.load(Ordering::Relaxed) as u8).checked_sub(1).map(NodeId)
    }

    pub fn set_serving(&self, node: Option<NodeId>) {
        self.serving.store(node.map_or(0, |node| u32::from(node.0) + 1), Ordering::Relaxed);
    }

    /// Since when the oldest transaction under way has been at this replica.
    pub fn oldest_pending(&self) -> Nanos {
        let all = self.cells.iter().map(|cell| cell.oldest.load(Ordering::SeqCst));
        all.min().unwrap_or(Nanos::MAX)
    }

    /// Whether no tombstone may be unlinked, however old it is.
    pub fn keeps_all_tombstones(&self) -> bool {
        self.keeps_tombstones.load(Ordering::SeqCst) || self.scanning.load(Ordering::SeqCst)
    }

    /// What committed at or below is installed here, of a voter that works in an epoch.
    pub fn installed(&self) -> Timestamp {
        // Written before the epoch is open; whoever asks has seen that it is (`open_epoch`).
        self.closed().max(Timestamp(self.base.load(Ordering::Relaxed)))
    }

    /// Everything at or below is over at every replica.
    pub fn closed(&self) -> Timestamp {
        // Acquire; pairs with the Release in `trim`: what is closed is installed.
        Timestamp(self.cells.iter().map(|cell| cell.closed.load(Ordering::Acquire)).min().unwrap_or(0))
    }

    /// What the clock shows, which was seen to show `shown` before: if it went back since, it is moved there again. Each thread looks for
    /// itself: what another one saw is not known here.
    pub fn hold_clock(&self, shown: Timestamp) -> Timestamp {
        let shows = self.clock.now();
        if shows >= shown {
            return shows;
        }
        self.clock.advance_past(shown);
        shown
    }

    /// Whether a worker has yet to note down how far all is over everywhere, for the sake of what any of them wrote.
    pub fn owes_notes(&self) -> bool {
        let written = self.cells.iter().map(|cell| cell.written.load(Ordering::Relaxed)).max();
        let noted = self.cells.iter().map(|cell| cell.noted.load(Ordering::Relaxed)).min();
        self.options.durability == Durability::Async && noted < written
    }

    /// Up to here somebody at this replica waits for everything to be over everywhere, and by what is known here it is not: for notes on its disk, or to
    /// unlink tombstones. Workers of a number that nobody asks for anything sleep, and say how far they are if they are asked.
    pub fn awaited(&self) -> Option<Timestamp> {
        self.awaited_up_to(Timestamp::MAX)
    }

    /// The same, of what is not later than that.
    pub fn awaited_up_to(&self, upto: Timestamp) -> Option<Timestamp> {
        let latest = |figure: fn(&Cell) -> &AtomicU64| {
            let all = self.cells.iter().map(|cell| figure(cell).load(Ordering::Relaxed));
            all.filter(|ts| *ts <= upto.0).max().unwrap_or(0)
        };
        let notes = if self.owes_notes() { latest(|cell| &cell.written) } else { 0 };
        let graves = latest(|cell| &cell.graves);
        let graves = if self.closed().0 < graves { graves } else { 0 };
        Some(Timestamp(notes.max(graves))).filter(|latest| *latest > Timestamp::ZERO)
    }

    /// The sum of a figure over all workers.
    pub fn sum(&self, figure: impl Fn(&Cell) -> &AtomicU64) -> u64 {
        self.cells.iter().map(|cell| figure(cell).load(Ordering::Relaxed)).sum()
    }
}

/// A worker's view of an epoch.
pub struct Seat {
    pub epoch: Epoch,
    /// Who belongs.
    pub members: Members,
    /// This node has a vote.
    pub votes: bool,
}

impl Seat {
    /// Whether a life of a node votes.
    pub fn is_voter(&self, node: NodeId, life: Incarnation) -> bool {
        self.members.voters.contains(&(node, life))
    }

    /// Whether a life of a node belongs.
    pub fn belongs(&self, node: NodeId, life: Incarnation) -> bool {
        self.is_voter(node, life) || self.members.learners.contains(&(node, life))
    }

    /// All nodes that belong, but `me`.
    pub fn others(&self, me: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let all = self.members.voters.iter().chain(&self.members.learners);
        all.map(|(node, _)| *node).filter(move |node| *node != me)
    }
}
