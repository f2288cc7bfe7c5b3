//! What is asked of a history, and the answer.

use std::collections::BTreeMap;
use std::fmt;

/// The isolation level that a history is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Some serial order explains all values.
    Serializable,
    /// And it agrees with each client's own order, snapshot reads included.
    Session,
    /// And what ended before something else began comes before it. Snapshot reads need only be serializable.
    Strict,
}

impl Level {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Level::Serializable => "serializable",
            Level::Session => "session",
            Level::Strict => "strict",
        }
    }
}

/// Guarantees for a client's snapshot reads, beyond the level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// Of two reading transactions of one client, one of them a snapshot read, the second sees at least what the first saw.
    pub monotonic_reads: bool,
    /// A snapshot read sees at least what its client wrote before it.
    pub read_your_writes: bool,
}

/// What to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The level for all transactions; see there for snapshot reads.
    pub level: Level,
    /// What snapshot reads promise besides.
    pub sessions: Sessions,
    /// How many anomalies of one kind are explained; all are counted.
    pub explain: usize,
}

impl Options {
    /// Strict serializability, snapshot reads serializable.
    pub fn strict() -> Options {
        Options { level: Level::Strict, sessions: Sessions::default(), explain: 8 }
    }

    /// Serializability.
    pub fn serializable() -> Options {
        Options { level: Level::Serializable, ..Options::strict() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::strict()
    }
}

/// What went wrong: Adya's phenomena, and what the inference rests on.
///
/// A cycle has the suffix `Process` if it needs some client's own order, and `Realtime` if it needs the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnomalyKind {
    /// The record itself is impossible: clients that overlap with themselves, ends before beginnings.
    BrokenHistory,
    /// Two transactions wrote the same value to one key, so reads of it prove nothing.
    DuplicateWrite,
    /// A read returned what nobody wrote.
    GarbageRead,
    /// A list came back with an element twice.
    DuplicateElements,
    /// Two reads of one list, neither of which is the beginning of the other.
    IncompatibleOrder,
    /// A transaction contradicts its own earlier operations.
    Internal,
    /// A read of what an aborted transaction wrote.
    G1a,
    /// A read of what a transaction wrote and overwrote itself, or half of what it appended.
    G1b,
    /// Two transactions read the same version of a key and both replaced it.
    LostUpdate,
    /// A cycle of overwrites.
    G0,
    /// A cycle of overwrites in some client's order.
    G0Process,
    /// A cycle of overwrites and real time.
    G0Realtime,
    /// A cycle of overwrites and reads of what was written.
    G1c,
    /// The same, with some client's order.
    G1cProcess,
    /// The same, with real time.
    G1cRealtime,
    /// A cycle with exactly one read of what was then overwritten.
    GSingle,
    /// The same, with some client's order.
    GSingleProcess,
    /// The same, with real time; among them every stale read.
    GSingleRealtime,
    /// A cycle with more than one read of what was then overwritten: write skew, and worse.
    G2,
    /// The same, with some client's order.
    G2Process,
    /// The same, with real time.
    G2Realtime,
}

impl AnomalyKind {
    /// The name in the literature.
    pub fn name(self) -> &'static str {
        match self {
            AnomalyKind::BrokenHistory => "broken-history",
            AnomalyKind::DuplicateWrite => "duplicate-write",
            AnomalyKind::GarbageRead => "garbage-read",
            AnomalyKind::DuplicateElements => "duplicate-elements",
            AnomalyKind::IncompatibleOrder => "incompatible-order",
            AnomalyKind::Internal => "internal",
            AnomalyKind::G1a => "G1a",
            AnomalyKind::G1b => "G1b",
            AnomalyKind::LostUpdate => "lost-update",
            AnomalyKind::G0 => "G0",
            AnomalyKind::G0Process => "G0-process",
            AnomalyKind::G0Realtime => "G0-realtime",
            AnomalyKind::G1c => "G1c",
            AnomalyKind::G1cProcess => "G1c-process",
            AnomalyKind::G1cRealtime => "G1c-realtime",
            AnomalyKind::GSingle => "G-single",
            AnomalyKind::GSingleProcess => "G-single-process",
            AnomalyKind::GSingleRealtime => "G-single-realtime",
            AnomalyKind::G2 => "G2-item",
            AnomalyKind::G2Process => "G2-item-process",
            AnomalyKind::G2Realtime => "G2-item-realtime",
        }
    }
}

impl AnomalyKind {
    /// What it is, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            AnomalyKind::BrokenHistory => "the record cannot be true",
            AnomalyKind::DuplicateWrite => "the load sent one value to one key twice",
            AnomalyKind::GarbageRead => "a read of what nobody wrote",
            AnomalyKind::DuplicateElements => "a list with an element twice",
            AnomalyKind::IncompatibleOrder => "reads of one list that do not begin alike",
            AnomalyKind::Internal => "a transaction that contradicts itself",
            AnomalyKind::G1a => "a read of what an aborted transaction wrote",
            AnomalyKind::G1b => "a read from the middle of a transaction",
            AnomalyKind::LostUpdate => "transactions that went on from the same version",
            AnomalyKind::G0 => "a cycle of overwrites",
            AnomalyKind::G0Process => "overwrites against a client's order",
            AnomalyKind::G0Realtime => "overwrites against real time",
            AnomalyKind::G1c => "a cycle of overwrites and reads",
            AnomalyKind::G1cProcess => "reads or overwrites against a client's order",
            AnomalyKind::G1cRealtime => "reads or overwrites against real time",
            AnomalyKind::GSingle => "a transaction seen in part",
            AnomalyKind::GSingleProcess => "a read older than its client allows",
            AnomalyKind::GSingleRealtime => "a stale read, or a write that vanished",
            AnomalyKind::G2 => "write skew: reads of what the others then overwrote",
            AnomalyKind::G2Process => "write skew with a client's order",
            AnomalyKind::G2Realtime => "write skew with real time",
        }
    }
}

impl fmt::Display for AnomalyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One anomaly, explained.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    pub kind: AnomalyKind,
    /// Sentences: the transactions with their clients, times and operations, and why this cannot be.
    pub text: String,
    /// The transactions involved, as indexes into the history; a cycle's in its order.
    pub txns: Vec<usize>,
}

/// How much was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions.
    pub txns: usize,
    /// Those told committed.
    pub ok: usize,
    /// Those told not applied.
    pub fail: usize,
    /// Those with unknown outcome.
    pub info: usize,
    /// Those with unknown outcome that a read proves committed.
    pub info_seen: usize,
    /// Committed snapshot reads.
    pub snap: usize,
    /// Operations.
    pub ops: usize,
    pub keys: usize,
    /// Overwrites: dependencies from one version's writer to the next one's.
    pub ww: usize,
    /// Dependencies from a writer to a reader of what it wrote.
    pub wr: usize,
    /// Dependencies from a reader to the writer of the next version.
    pub rw: usize,
    /// Edges of some client's order.
    pub process: usize,
    /// Edges of real time, those to and from instants included.
    pub realtime: usize,
    /// Strongly connected components of more than one transaction: each holds a cycle.
    pub knots: usize,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What was asked.
    pub level: Level,
    /// The anomalies explained, gravest evidence first: at most [`Options::explain`] of a kind.
    pub anomalies: Vec<Anomaly>,
    /// How many there are of each kind, explained or not. Of cycles, one a knot and kind is counted.
    pub found: BTreeMap<AnomalyKind, usize>,
    /// How much was looked at.
    pub counts: Counts,
}

impl Verdict {
    /// True if nothing was found that the level forbids.
    pub fn passed(&self) -> bool {
        self.found.is_empty()
    }

    /// True if an anomaly of this kind was found.
    pub fn has(&self, kind: AnomalyKind) -> bool {
        self.found.contains_key(&kind)
    }
}
