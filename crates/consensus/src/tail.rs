//! Where a log stands: what a promise tells of each stream, and a follower when it asks.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Ballot, EntryIndex, planted};

use crate::codec::{ballot, index, put_ballot, put_index};

/// Where an acceptor's log stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Ballot under which the log as a whole was last adopted or extended.
    pub accepted: Ballot,
    /// First entry held; older ones were trimmed (they are decided).
    pub first: EntryIndex,
    /// Last entry held.
    pub last: EntryIndex,
    /// Last entry known to be decided.
    pub decided: EntryIndex,
}

impl Tail {
    /// What a new leader compares: the log with the largest rank is the one to take over, for whatever is decided is in
    /// it. The ballot counts first: a long log of an old leader may end in entries that a later leader has overruled.
    pub fn rank(&self) -> (Ballot, EntryIndex) {
        if planted!(LongestLogWins) {
            return (Ballot::default(), self.last);
        }
        (self.accepted, self.last)
    }
}

impl Tail {
    /// Appends `accepted | first | last | decided`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_ballot(out, self.accepted);
        put_index(out, self.first);
        put_index(out, self.last);
        put_index(out, self.decided);
    }

    /// Reads what [`encode`](Tail::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Tail, Malformed> {
        let tail = Tail {
            accepted: ballot(reader)?,
            first: index(reader)?,
            last: index(reader)?,
            decided: index(reader)?,
        };
        if tail.decided > tail.last || tail.last.next() < tail.first {
            return Err(Malformed("tail"));
        }
        Ok(tail)
    }
}
