//! What a worker hands out: frames, replies, writes and wake-ups.

use std::fmt;

use bytes::Bytes;
use highwater_core::{NodeId, Outcome, TableId, Timestamp};

use super::request::{ClientId, Token};

/// One worker of one node: where a frame comes from, or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The node.
    pub node: NodeId,
    /// The worker's number there.
    pub worker: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker {} of {}", self.worker, self.node)
    }
}

/// One message between workers of two replicas. Opaque to the host.
///
/// Frames of one worker to one other arrive in the order in which they were handed out, each at most once. They travel over
/// the connection between the sender's number and the same number on the other node:
///
/// - To the worker of that number they are lost only with the connection, which both hear of by
///   [`Worker::peer_down`](super::Worker::peer_down) and [`Worker::peer_up`](super::Worker::peer_up).
/// - To a worker of *another number* they are handed over inside the receiving process. They are lost as well if the
///   addressed worker's own connection to the sender's node is not up when they get there, or is up to another life of that
///   node: so whoever sent a frame lives the life that `peer_up` told last. Of the sender's connection the addressed worker
///   hears nothing, and the sender nothing of the addressed worker's; who depends on such frames acknowledges them.
///
/// Among frames of different pairs there is no order.
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
pub const RELEASE_BYTES: usize = 1 << 20;

/// A reply that may leave the house.
#[derive(Clone, Copy, Debug)]
pub struct Released {
    /// Which request.
    pub token: Token,
    /// How it ended.
    pub outcome: Outcome,
    /// When in the one order of transactions: its timestamp, or its snapshot's. Whoever reads with
    /// [`Since`](super::Freshness::Since) this sees all that it saw, and what it wrote. [`Timestamp::ZERO`]: nothing was done, nobody
    /// knows, or the engine keeps no [`freshness`](crate::Abilities::freshness).
    pub at: Timestamp,
    /// Where its reply stands in [`Outbox::reply_bytes`].
    pub start: usize,
    /// Length of its reply in bytes.
    pub len: usize,
}

/// How far a writer's log on disk goes: the number of bytes that it handed out to be written, from the birth of the log on, over all
/// lives of its process: what was [recovered](super::Worker::recover) counts, what was lost with the power does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition(pub u64);

/// What a worker's turn hands out. The host empties it after each turn and reuses it.
#[derive(Debug, Default)]
pub struct Outbox {
    /// To workers of other nodes; see [`Frame`] for what becomes of them.
    pub frames: Vec<(Endpoint, Frame)>,
    /// To be appended to this worker's log on disk, in order; [`Worker::synced`](super::Worker::synced) says how much of it
    /// is safe. A host without a disk panics if there are any: they must not seem to be safe.
    pub writes: Vec<Bytes>,
    /// In the order of release; the bytes stand in `reply_bytes`.
    pub replies: Vec<Released>,
    /// The replies' content.
    pub reply_bytes: Vec<u8>,
    /// To clients that coordinate their transactions themselves, in order; to those that are gone it is lost.
    pub to_clients: Vec<(ClientId, Bytes)>,
    /// Rows that took effect here, by table and key, deleted ones among them; while [`Worker::tell_writes`](super::Worker::tell_writes) wants them.
    pub written: Vec<(TableId, Box<[u8]>)>,
    /// Other workers of this replica may be able to go on.
    pub wake_workers: bool,
    /// The controller has a report waiting.
    pub wake_controller: bool,
}

impl Outbox {
    /// Adds a reply that speaks of no moment.
    #[inline]
    pub fn reply(&mut self, token: Token, outcome: Outcome, bytes: &[u8]) {
        self.reply_at(token, outcome, Timestamp::ZERO, bytes);
    }

    /// Adds a reply about what was at [`at`](Released::at).
    #[inline]
    pub fn reply_at(&mut self, token: Token, outcome: Outcome, at: Timestamp, bytes: &[u8]) {
        let start = self.reply_bytes.len();
        self.reply_bytes.extend_from_slice(bytes);
        self.replies.push(Released { token, outcome, at, start, len: bytes.len() });
    }

    /// The content of a reply.
    #[inline]
    pub fn content(&self, reply: &Released) -> &[u8] {
        &self.reply_bytes[reply.start..][..reply.len]
    }

    /// For a host without a disk.
    ///
    /// # Panics
    /// If there is anything to write.
    #[inline]
    pub fn expect_no_writes(&self) {
        assert!(self.writes.is_empty(), "the engine writes to a disk, and this host has none");
    }

    /// Forgets everything; keeps the memory.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.writes.clear();
        self.to_clients.clear();
        self.replies.clear();
        self.written.clear();
        self.reply_bytes.clear();
        // A turn may have released one reply of any size.
        self.reply_bytes.shrink_to(2 * RELEASE_BYTES);
        self.wake_workers = false;
        self.wake_controller = false;
    }
}
