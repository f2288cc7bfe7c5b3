//! The types of the seam between an engine and its host.

mod counters;
mod status;

use std::sync::Arc;

use bytes::Bytes;
use highwater_core::{Incarnation, NodeId, Outcome, ProcedureId};
use highwater_store::Store;

use crate::memory::MemoryStatus;
pub use counters::Counters;
pub use status::{Figure, Member, Service, Status};

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
    /// This replica takes no transactions at the moment.
    NotServing {
        /// Whom to ask instead; `None`: nobody is known to.
        ask: Option<NodeId>,
    },
    /// This replica would, but has not heard from a majority for a while, or its workers stand still.
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

impl Next {
    /// The sooner of two.
    pub(crate) fn sooner(self, other: Next) -> Next {
        match (self, other) {
            (Next::Now, _) | (_, Next::Now) => Next::Now,
            (Next::At(one), Next::At(two)) => Next::At(one.min(two)),
            (Next::At(at), Next::Idle) | (Next::Idle, Next::At(at)) => Next::At(at),
            (Next::Idle, Next::Idle) => Next::Idle,
        }
    }
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
    /// Their versions, the same.
    pub versions: Vec<u32>,
}
