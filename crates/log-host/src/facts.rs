//! The facts of its logs, and of who leads, that a replica tells an observer of all nodes. Told by `hooks`, compared by the engine's rules.

use bytes::Bytes;
use highwater_consensus::Voter;
use highwater_core::{EntryIndex, Epoch, Level, StreamId};

/// An event on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFact {
    /// This entry is decided.
    Decided {
        stream: StreamId,
        /// The place in it.
        index: EntryIndex,
        entry: Bytes,
    },
    /// This node was elected, and begins to take over.
    TakesOver(Epoch),
    /// It was elected by all voters, because too few of them remember everything: what was decided last may be lost.
    Loses(Epoch),
    /// This node opens the epoch.
    Leads(Epoch),
    /// The leader gives its lead up.
    GivesUp,
    /// A worker that leads takes a request.
    Takes,
    /// The leader has told another one to stand, and says that everything it executed is released.
    HandsOver,
    /// It leads on instead.
    TakesBack,
    /// A leader loses its lead with so many replies that nobody can give.
    LeavesUnknown(usize),
    /// A node in this life is connected, and says that it reads up to this level.
    HearsLevels(Voter, Level),
    /// This leader of these voters raises the level in use.
    Raises(Level, Vec<Voter>),
    /// An entry arrived of a level above what this node said that it reads.
    Unreadable(Level),
}
