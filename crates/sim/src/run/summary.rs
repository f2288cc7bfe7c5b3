//! What a good run did.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_seam::Nanos;

/// What a good run did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The seed of its plan.
    pub seed: u64,
    /// Transactions that clients asked for.
    pub asked: u64,
    /// Transactions that were acknowledged.
    pub acknowledged: u64,
    /// Those of them that only read, on a replica's snapshot.
    pub snapshot_reads: u64,
    /// Those of them that asked for freshness.
    pub fresh_reads: u64,
    /// Epochs that were opened after the first.
    pub failovers: u64,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// How often things happened that are neither faults nor requests.
    pub marks: BTreeMap<&'static str, u64>,
    /// How requests ended: committed, unknown, conflict, refused, given up.
    pub outcomes: BTreeMap<&'static str, u64>,
    /// Virtual time, in ns.
    pub simulated: Nanos,
    /// Equal for equal runs.
    pub trace: u64,
    /// Wall-clock time that the run took on its thread, judging included.
    pub took: Duration,
}
