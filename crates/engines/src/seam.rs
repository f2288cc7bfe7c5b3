//! The types of the seam between an engine and its host.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use highwater_core::{EntryIndex, Epoch, Incarnation, NodeId, Outcome, ProcedureId, Timestamp};
use highwater_store::Store;

use crate::memory::MemoryStatus;

/// Nanoseconds on the host's monotonic clock. For timeouts and latencies, never for the order of commits.
pub type Nanos = u64;

/// Names a request between its submission and its reply; chosen by the host, returned untouched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// A transaction to run.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Comes back with the reply.
    pub token: Token,
    /// The code to run.
    pub procedure: ProcedureId,
    /// Its arguments; copied if they must outlive the call.
    pub args: &'a [u8],
}

/// Why a request was not even tried. Nothing was done; no reply will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another replica leads, or an election is going on (`None`).
    NotLeader {
        /// Whom to ask instead.
        leader: Option<NodeId>,
    },
    /// This replica leads, but has not heard from a majority for a while, or its workers stand still.
    NoQuorum,
    /// Too much is in flight; ask again after the next turn. The host should stop reading from clients meanwhile.
    Busy,
}

/// One message between same-numbered workers of two replicas. Opaque to the host.
#[derive(Clone, Debug, Default)]
pub struct Frame {
    /// Small; encoded by the engine. The host's framing adds a checksum over it.
    pub head: Bytes,
    /// Log entries or state chunks, passed by reference count and never copied by the engine. Carries its own
    /// checksums inside.
    pub body: Bytes,
}

/// A turn hands replies out until they have so many bytes, and asks for another turn: what one turn holds is bounded by
/// this and one reply.
pub(crate) const RELEASE_BYTES: usize = 1 << 20;

/// A reply that may leave the house.
#[derive(Clone, Copy, Debug)]
pub struct Released {
    /// Which request.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome,
    /// Where its reply stands in [`Outbox::reply_bytes`].
    pub start: usize,
    /// Length of its reply in bytes.
    pub len: usize,
}

/// What a worker's turn hands out. The host empties it after each turn and reuses it.
#[derive(Debug, Default)]
pub struct Outbox {
    /// To the worker of the same number on that node, in order.
    pub frames: Vec<(NodeId, Frame)>,
    /// In the order of release; the bytes stand in `reply_bytes`.
    pub replies: Vec<Released>,
    /// The replies' content.
    pub reply_bytes: Vec<u8>,
    /// Other workers of this replica may be able to go on.
    pub wake_workers: bool,
    /// The controller has a report waiting.
    pub wake_controller: bool,
}

impl Outbox {
    /// Adds a reply.
    #[inline]
    pub fn reply(&mut self, token: Token, outcome: Outcome, bytes: &[u8]) {
        let start = self.reply_bytes.len();
        self.reply_bytes.extend_from_slice(bytes);
        self.replies.push(Released { token, outcome, start, len: bytes.len() });
    }

    /// The content of a reply.
    #[inline]
    pub fn content(&self, reply: &Released) -> &[u8] {
        &self.reply_bytes[reply.start..][..reply.len]
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.replies.clear();
        self.reply_bytes.clear();
        // A turn may have released one reply of any size.
        self.reply_bytes.shrink_to(2 * RELEASE_BYTES);
        self.wake_workers = false;
        self.wake_controller = false;
    }
}

/// When to give the next turn, if nothing arrives before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// At once: there is more to do.
    Now,
    /// Not later than this.
    At(Nanos),
    /// When something arrives or somebody wakes it.
    Idle,
}

/// One core's share of a replica.
pub trait Worker: Send {
    /// Whether [`submit`](Worker::submit) would take a request now.
    fn ready(&self) -> Result<(), Refusal>;

    /// Runs a transaction to its speculative commit. The reply comes out of a later turn, once released.
    fn submit(&mut self, now: Nanos, request: Request<'_>) -> Result<(), Refusal>;

    /// Bytes of replies that are executed and not released. What a [`submit`](Worker::submit) adds to it is the length of
    /// that request's reply, unless it was put off: so a host knows what it will have to hold before it is released.
    fn unreleased_reply_bytes(&self) -> usize {
        0
    }

    /// Runs a transaction that only reads on a snapshot of this replica's store: on a follower without asking anybody.
    /// Serializable: the reads of one request are of one moment, which may be past; moments never go back on one replica.
    /// A write ends it with [`Outcome::BadRequest`]. The reply comes out of a later turn, or [`Outcome::Conflict`] if the
    /// replica's role or store changes before: nothing was done, ask again.
    ///
    /// A leader, and an engine without snapshots, runs it as any other transaction, which may write.
    fn submit_snapshot(&mut self, now: Nanos, request: Request<'_>) -> Result<(), Refusal> {
        self.submit(now, request)
    }

    /// The connection to the same-numbered worker of `peer` is up (again); frames sent before may be lost.
    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation);

    /// The connection to `peer` is lost.
    fn peer_down(&mut self, now: Nanos, peer: NodeId);

    /// Takes a frame from `peer`.
    fn deliver(&mut self, now: Nanos, from: NodeId, frame: Frame);

    /// Does what can be done now: seals and hands out entries, applies, releases.
    fn turn(&mut self, now: Nanos, out: &mut Outbox) -> Next;

    /// The worker's state in words, for failure reports.
    fn describe(&self) -> String;
}

/// What a controller's turn hands out.
#[derive(Debug, Default)]
pub struct ControlOutbox {
    /// To the controller of that node. May be lost, and may be reordered over a reconnection.
    pub messages: Vec<(NodeId, Bytes)>,
    /// Commands wait for the workers.
    pub wake_workers: bool,
    /// Things that an operator would want to read in the log, in order.
    pub events: Vec<String>,
}

/// The part of a replica that decides who leads and who belongs.
pub trait Controller: Send {
    /// The control connection to `peer` is up (again).
    fn peer_up(&mut self, now: Nanos, peer: NodeId, incarnation: Incarnation);

    /// The control connection to `peer` is lost. `refused`: its machine answers but nothing listens there, so the
    /// process is surely dead.
    fn peer_down(&mut self, now: Nanos, peer: NodeId, refused: bool);

    /// Takes a message from `peer`'s controller.
    fn deliver(&mut self, now: Nanos, from: NodeId, message: Bytes);

    /// Does what can be done now: heartbeats, elections, epoch changes, admissions.
    fn turn(&mut self, now: Nanos, out: &mut ControlOutbox) -> Next;

    /// A consistent-enough picture for people and reports.
    fn status(&self, now: Nanos) -> Status;

    /// What the replica may use and uses. Cheap.
    fn memory(&self) -> MemoryStatus;

    /// The store in use. Another one once this replica copies the state: because it lost its memory, or fell behind what the
    /// leader keeps. A deposed leader keeps its store and rolls back.
    fn store(&self) -> Arc<Store>;
}

/// What a replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Waits for the first meeting of all members, or to be told of a living cluster.
    Starting,
    /// Copies the state; does not vote.
    Learner,
    /// Votes and applies.
    Follower,
    /// Asks for promises or completes a takeover.
    Candidate,
    /// Executes transactions.
    Leader,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Role::Starting => "starting",
            Role::Learner => "learner",
            Role::Follower => "follower",
            Role::Candidate => "candidate",
            Role::Leader => "leader",
        })
    }
}

/// A replica's state, for `highwater status`, the demo and tests.
#[derive(Clone, Debug)]
pub struct Status {
    /// This node.
    pub node: NodeId,
    /// This life of its memory.
    pub incarnation: Incarnation,
    /// What it does.
    pub role: Role,
    /// The epoch it is in.
    pub epoch: Epoch,
    /// Who leads that epoch, as far as it has heard lately.
    pub leader: Option<NodeId>,
    /// How long ago it heard a leader that vouched for itself, whoever it was; `None` on a leader, or if it never did.
    pub leader_heard_ago: Option<Nanos>,
    /// Every transaction at or below is released (leader) or may be applied (follower).
    pub mark: Timestamp,
    /// One per stream.
    pub streams: Vec<StreamStatus>,
    /// The voters of the epoch, and how far each follows (the leader knows; others list them without lag).
    pub members: Vec<Member>,
    /// Progress of a state copy, if one is under way: bytes received so far.
    pub copying_bytes: Option<u64>,
    /// Whom it asked for the copy, once it has asked.
    pub copying_from: Option<NodeId>,
    /// Why it cannot serve, in words, if it cannot.
    pub trouble: Option<String>,
}

/// One stream's progress on one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Last entry that this replica holds.
    pub accepted: EntryIndex,
    /// Last entry that it knows to be decided.
    pub decided: EntryIndex,
    /// Last entry that is installed in its store completely.
    pub applied: EntryIndex,
    /// No decided transaction of this epoch is missing at or below.
    pub closed: Timestamp,
    /// Bytes of log kept.
    pub log_bytes: u64,
}

/// One voter or learner as the leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Who.
    pub node: NodeId,
    /// Which life of it is admitted.
    pub incarnation: Incarnation,
    /// Whether it votes.
    pub voter: bool,
    /// Entries that it has not acknowledged, over all streams; on the leader only.
    pub lag_entries: Option<u64>,
    /// How long ago it was last heard, in nanoseconds; on the leader only, `None` also if it never was.
    pub heard_ago: Option<Nanos>,
}

/// Counts kept by one worker: written by its owner only, read by anyone. One cache-line pair each, so that counting
/// shares nothing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Counters {
    /// Transactions committed in the store (speculatively on a leader).
    pub executed: AtomicU64,
    /// Replies released with [`Outcome::Committed`].
    pub committed: AtomicU64,
    /// Replies released with [`Outcome::RolledBack`] or [`Outcome::BadRequest`].
    pub rolled_back: AtomicU64,
    /// Attempts that ended in a conflict (each retry counts).
    pub conflicts: AtomicU64,
    /// Transactions applied from the log.
    pub applied: AtomicU64,
    /// Transactions that read a snapshot here.
    pub snapshot_reads: AtomicU64,
    /// Entries sealed.
    pub entries: AtomicU64,
    /// Bytes of the entries sealed, headers included.
    pub log_bytes: AtomicU64,
}

impl Counters {
    /// Adds to a counter that only this thread writes.
    #[inline]
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }
}

/// Which engine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// Speculate, replicate through one stream per worker, release below the watermark.
    Rolis,
    /// The same store, no replication: the denominator of every ratio.
    Silo,
    /// One shared stream for all workers: the paper's figure 2.
    Strawman,
}

impl EngineKind {
    /// Every engine.
    pub const ALL: [EngineKind; 3] = [EngineKind::Rolis, EngineKind::Silo, EngineKind::Strawman];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Rolis => "rolis",
            EngineKind::Silo => "silo",
            EngineKind::Strawman => "strawman",
        }
    }
}

impl std::str::FromStr for EngineKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        EngineKind::ALL
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| format!("unknown engine {name:?}; known are rolis, silo, strawman"))
    }
}

/// A whole replica, ready to be stepped.
pub struct Replica {
    /// Decides who leads.
    pub controller: Box<dyn Controller>,
    /// One per core; worker i owns stream i.
    pub workers: Vec<Box<dyn Worker>>,
    /// One per worker.
    pub counters: Vec<Arc<Counters>>,
    /// Names of the registered procedures; the position is the [`ProcedureId`].
    pub procedures: Vec<&'static str>,
}
