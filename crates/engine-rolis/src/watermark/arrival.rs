//! What the workers tell each other at the end of an epoch.

use std::collections::BTreeMap;

use highwater_consensus::Members;
use highwater_core::{EntryIndex, Epoch, StreamId, Timestamp};

/// A claim whose index is not decided yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenClaim {
    /// The silent stream.
    pub stream: StreamId,
    /// Must be decided for the claim to count.
    pub index: EntryIndex,
    /// Closed up to this.
    pub closed: Timestamp,
}

/// What the workers know of the end of the current epoch.
///
/// Invariant: it speaks of the epoch that the [`Watermark`](super::Watermark) is in, whenever nobody holds its lock.
#[derive(Debug, Default)]
pub struct Ends {
    /// The epoch of which it speaks.
    pub entered: Epoch,
    /// Who has, of all streams.
    pub arrivals: Vec<Option<Arrival>>,
    /// The final marks of the epochs that ended here.
    pub finals: BTreeMap<Epoch, Timestamp>,
    /// The membership of the current epoch, once an epoch was entered through a change.
    pub members: Option<Members>,
}

impl Ends {
    /// Nobody has arrived at another epoch.
    pub fn new(streams: usize) -> Ends {
        Ends { arrivals: vec![None; streams], ..Ends::default() }
    }
}

/// A worker has decided the first entry of a later epoch.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// First entries of later epochs that stand here without a transaction between them, in order. More than one if a
    /// takeover was interrupted by another one, or if this stream was silent for a whole epoch.
    pub starts: Vec<Start>,
    /// Last entry of the epoch that ends.
    pub last: EntryIndex,
    /// Claims of this stream's entries in the ending epoch that were not effective yet.
    pub claims: Vec<OpenClaim>,
}

/// The first entry of an epoch in one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub epoch: Epoch,
    /// Where the entry stands.
    pub index: EntryIndex,
    /// Above every older timestamp.
    pub base: Timestamp,
    /// The epoch's voters.
    pub members: Members,
}
