//! Newtypes for everything that is counted or compared, each with only the operations that make sense.

use std::fmt;

/// One process with a full copy of the data. Small and dense: the position in the cluster's node list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeId(pub u8);

/// One life of a node's memory. A process that lost its memory comes back under another incarnation, so that
/// nobody mistakes it for the voter it was. Compared for equality only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Incarnation(pub u64);

/// One consensus log, fed by the worker of the same number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StreamId(pub u16);

/// A leader's term, one for all streams. 0 is "before any leader".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// The Paxos ballot of an epoch: totally ordered, and owned by one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ballot {
    /// The term.
    pub epoch: Epoch,
    /// The candidate; breaks ties between two candidates of one epoch.
    pub node: NodeId,
}

/// Position of an entry in its stream, counted from 1. 0 means "none yet".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryIndex(pub u64);

/// A commit timestamp: 62 bits, unique order of conflicting commits, monotonic across epochs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub u64);

/// Nanoseconds on the host's monotonic clock. For timeouts and latencies, never for the order of commits: that is
/// [`Timestamp`]'s.
pub type Nanos = u64;

/// A table. Dense: the position in the [`Schema`](crate::Schema).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TableId(pub u8);

/// A registered procedure. Dense: the position in the [`Registry`](crate::Registry).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProcedureId(pub u16);

impl Ballot {
    /// A ballot for `node` in the epoch after the one of `self`.
    pub fn next_for(self, node: NodeId) -> Ballot {
        Ballot { epoch: self.epoch.next(), node }
    }
}

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl EntryIndex {
    /// Before the first entry.
    pub const NONE: EntryIndex = EntryIndex(0);

    /// The index after this one.
    pub fn next(self) -> EntryIndex {
        EntryIndex(self.0 + 1)
    }
}

impl Timestamp {
    /// Below every commit.
    pub const ZERO: Timestamp = Timestamp(0);
    /// The largest timestamp that 62 bits hold; above every commit.
    pub const MAX: Timestamp = Timestamp((1 << 62) - 1);

    /// The next larger timestamp. For bounds; never to stamp a commit (see the clock's rule).
    pub fn next(self) -> Timestamp {
        assert!(self < Timestamp::MAX, "timestamps are exhausted");
        Timestamp(self.0 + 1)
    }
}

macro_rules! display {
    ($($name:ident => $format:literal),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }
    )*};
}
display!(NodeId => "n{}", Incarnation => "#{:x}", StreamId => "s{}", Epoch => "e{}", EntryIndex => "i{}",
         Timestamp => "t{}", TableId => "table{}", ProcedureId => "proc{}");

impl fmt::Display for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.node)
    }
}
impl fmt::Debug for Ballot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
