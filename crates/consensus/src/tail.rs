//! Where a log stands: what a promise tells of each stream, and a follower when it asks.

use highwater_core::{Ballot, EntryIndex, planted, wire};

wire! {
    /// The place where an acceptor's log stands.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Tail: "tail" where Tail::is_sound {
        /// Ballot under which the log as a whole was last adopted or extended.
        pub accepted: Ballot,
        /// First entry held; older ones were trimmed (they are decided).
        pub first: EntryIndex,
        /// Last entry held.
        pub last: EntryIndex,
        /// Last entry known to be decided.
        pub decided: EntryIndex,
    }
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

    /// Its indexes are in order.
    fn is_sound(&self) -> bool {
        self.decided <= self.last && self.first <= self.last.next()
    }
}
