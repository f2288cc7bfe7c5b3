//! The state that the workers and the controller of one replica share: a few atomics, what positions mean, and mailboxes for changes of
//! epoch. Nothing here is touched by a transaction but plain loads.

use std::sync::Arc;

use highwater_consensus::{Members, Voter};
use highwater_core::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use highwater_core::{Ballot, Clock, EntryIndex, Level, NodeId, Timestamp};
use highwater_seam::mailbox::Mailbox;
use highwater_seam::memory::Account;
use highwater_seam::options::Options;
use highwater_seam::padded::Padded;

use crate::disk::checkpoint::Resumed;
use crate::messages::{Command, Report};
use crate::progress::Progress;
use crate::pulse::Pulse;
use crate::readable::{beyond, name};

/// One per replica.
pub struct Shared {
    /// Settings.
    pub options: Options,
    /// Source of commit timestamps.
    pub clock: Arc<Clock>,
    /// The meaning of positions of the logs: the engine says it.
    pub progress: Arc<dyn Progress>,
    /// What the store may grow to.
    pub account: Account,
    /// Controller to worker.
    pub commands: Vec<Mailbox<Command>>,
    /// Workers to controller.
    pub reports: Mailbox<Report>,
    /// The leader cannot vouch for itself: it has not heard from a quorum for a while, a worker stands still, or it has given the lead up.
    pub no_quorum: AtomicBool,
    /// The leader rests: whoever has something to wait for wakes its controller.
    pub rests: AtomicBool,
    /// The lead is being handed over: who does not lead lets requests wait, until there is somebody to refer them to.
    pub holds_requests: AtomicBool,
    /// The process is about to end: who reads here is referred to another replica.
    pub retires: AtomicBool,
    /// So many disks are about to be full that no majority could keep what is written: the leader refuses what writes.
    pub disk_full: AtomicBool,
    /// This process came back with its disk, and nobody has said yet that the disk is as new as it should be: streams take nothing in.
    pub uncleared: AtomicBool,
    /// This node's voter may have accepted more than it knows of: see `recall`.
    pub forgets: AtomicBool,
    /// Workers that have not installed again what they knew to be decided before the process ended. Until there are none, nobody reads
    /// here: moments of long ago would be shown, from an empty store on.
    pub rereads: AtomicU32,
    /// This replica's store came as a copy, or is about to, and is on no disk yet: it ends with the process.
    pub store_is_volatile: AtomicBool,
    /// The level in use: see [`Raising`](crate::members::raising::Raising).
    level: AtomicU32,
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
    /// What streams had before the process ended, if they had disks.
    past: Mutex<Past>,
    /// What this replica goes on from, until its records are handed in.
    resumed: Mutex<Option<Arc<Resumed>>>,
    /// What each worker shows of itself.
    pub pulses: Vec<Pulse>,
    /// For reports; each worker writes its own.
    pub(crate) stream_status: Vec<Padded<Mutex<StreamStatus>>>,
    /// Entries by which each peer lags, per worker; for reports.
    pub(crate) lags: Vec<Padded<Mutex<Lags>>>,
}

/// By how many entries each peer lags.
pub type Lags = Vec<(Voter, u64)>;

/// What a disk says that streams had.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// The highest ballot that was promised.
    pub promised: Ballot,
    /// The newest membership whose change was known to be decided.
    pub members: Option<Members>,
    /// There are entries, or a checkpoint.
    pub holds: bool,
    /// The log begins behind what is in the store.
    pub lost_store: bool,
}

/// One stream's figures, as its worker publishes it.
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
    pub fn new(options: Options, clock: Arc<Clock>, account: Account, progress: Arc<dyn Progress>) -> Shared {
        let workers = options.workers as usize;
        Shared {
            clock,
            account,
            progress,
            commands: (0..workers).map(|_| Mailbox::default()).collect(),
            reports: Mailbox::default(),
            no_quorum: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            holds_requests: AtomicBool::new(false),
            retires: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            uncleared: AtomicBool::new(false),
            forgets: AtomicBool::new(options.forgets),
            rereads: AtomicU32::new(0),
            store_is_volatile: AtomicBool::new(false),
            level: AtomicU32::new(options.levels.oldest.0.into()),
            leader: AtomicU32::new(0),
            serving_copies: AtomicU32::new(0),
            receiving_copy: AtomicBool::new(false),
            speculating: AtomicU32::new(0),
            copied_bytes: AtomicU64::new(0),
            past: Mutex::default(),
            resumed: Mutex::default(),
            pulses: (0..workers).map(|_| Pulse::default()).collect(),
            stream_status: (0..workers).map(|_| Padded::default()).collect(),
            lags: (0..workers).map(|_| Padded::default()).collect(),
            options,
        }
    }

    /// Who leads, as far as the controller knows.
    #[inline]
    pub fn leader(&self) -> Option<NodeId> {
        self.leader.load(Ordering::Relaxed).checked_sub(1).map(|node| NodeId(node as u8))
    }

    pub fn set_leader(&self, leader: Option<NodeId>) {
        let word = leader.map_or(0, |node| u32::from(node.0) + 1);
        // Stored only if it changed: workers read what lies beside it with every request.
        if self.leader.load(Ordering::Relaxed) != word {
            self.leader.store(word, Ordering::Relaxed);
        }
    }

    /// Sets whether the leader rests; stored only if it changed, as above.
    pub fn set_rests(&self, rests: bool) {
        if self.rests.load(Ordering::Relaxed) != rests {
            self.rests.store(rests, Ordering::Relaxed);
        }
    }

    /// The level in use.
    #[inline]
    pub fn level(&self) -> Level {
        // Acquire; pairs with the Release in `raise`: who sees what an entry brought sees its level.
        Level(self.level.load(Ordering::Acquire) as u8)
    }

    /// Raises the level in use, if it is lower; whether it was.
    ///
    /// # Panics
    /// If this replica could not read what it allows.
    pub fn raise(&self, level: Level) -> bool {
        assert!(
            level <= self.options.levels.newest,
            "{level} is in use, and this build reads {}",
            self.options.levels
        );
        self.level.fetch_max(level.0.into(), Ordering::Release) < level.0.into()
    }

    /// This level is on this replica's disk.
    ///
    /// # Errors
    /// In words, if this build does not read it.
    pub fn raise_by_disk(&self, level: Level) -> Result<(), String> {
        let levels = self.options.levels;
        if level > levels.newest {
            return Err(format!("the disk holds what was written at {}, {}", name(level), beyond(levels)));
        }
        self.raise(level);
        Ok(())
    }

    /// Whether the store holds nothing whose fate is open.
    #[inline]
    pub fn is_certain(&self) -> bool {
        // Acquire; pairs with the Release in an engine's roll-back: who sees no speculation left sees it rolled back.
        self.speculating.load(Ordering::SeqCst) == 0
    }

    /// Whether the store holds what this replica knew to be decided before its process ended, and nothing whose fate is open.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.rereads.load(Ordering::SeqCst) == 0 && self.is_certain()
    }

    /// A worker's stream comes from a disk.
    pub fn recovered(&self, of_stream: Past) {
        let mut past = self.past.lock().expect("nobody panics here");
        past.promised = past.promised.max(of_stream.promised);
        past.holds |= of_stream.holds;
        past.lost_store |= of_stream.lost_store;
        let known = past.members.take().into_iter().chain(of_stream.members);
        past.members = known.max_by_key(|members| members.epoch);
    }

    /// The store was loaded from a checkpoint (`Some`); or all records are handed in.
    pub fn resume(&self, from: Option<Resumed>) {
        *self.resumed.lock().expect("nobody panics here") = from.map(Arc::new);
    }

    /// The checkpoint from which this replica goes on, while its records are handed in.
    pub fn resumed(&self) -> Option<Arc<Resumed>> {
        self.resumed.lock().expect("nobody panics here").clone()
    }

    /// What all streams together had before the process ended.
    pub fn past(&self) -> Past {
        self.past.lock().expect("nobody panics here").clone()
    }
}
