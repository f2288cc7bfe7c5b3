//! What workers measure of their clients' requests: how many ended how, how long they took, which were slow.
//!
//! One [`Meter`] per worker, written by that worker only: counting is a load and a store, both relaxed, on lines that nobody
//! else writes, and whoever reads may read a little late. Only the [log of slow transactions](slow) has a lock, which is
//! taken for a slow one.

pub mod commands;
pub mod events;
pub mod histogram;
pub mod hot;
pub mod latency;
pub mod slow;

use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::Outcome;
use highwater_seam::Nanos;

use commands::Commands;
use histogram::{Counts, Histogram};

/// What one worker counts.
#[derive(Debug)]
#[repr(align(128))]
pub struct Meter {
    /// Clients' requests that ended, by outcome.
    outcomes: [AtomicU64; OUTCOMES.len()],
    /// From the submission of a client's request to its release.
    latency: Histogram,
    /// What was counted of each command; `MULTI` .. `EXEC` ends as `EXEC`.
    pub commands: Commands,
    /// Rows of keys that expired which were removed.
    pub expired: AtomicU64,
    /// Requests of this node's clients that went to the leader.
    pub forwarded: AtomicU64,
    /// Requests of other nodes' clients that were taken here.
    pub taken_for_others: AtomicU64,
}

/// Every outcome with its name, in the order of the counts.
pub const OUTCOMES: [(Outcome, &str); 9] = [
    (Outcome::Committed, "committed"),
    (Outcome::RolledBack, "rolled_back"),
    (Outcome::BadRequest, "bad_request"),
    (Outcome::Conflict, "conflict"),
    (Outcome::TooLarge, "too_large"),
    (Outcome::OutOfMemory, "out_of_memory"),
    (Outcome::DiskFull, "disk_full"),
    (Outcome::Denied, "denied"),
    (Outcome::Unknown, "unknown"),
];

/// The place of an outcome among [`OUTCOMES`].
pub fn place(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Committed => 0,
        Outcome::RolledBack => 1,
        Outcome::BadRequest => 2,
        Outcome::Conflict => 3,
        Outcome::TooLarge => 4,
        Outcome::OutOfMemory => 5,
        Outcome::DiskFull => 6,
        Outcome::Denied => 7,
        Outcome::Unknown => 8,
    }
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            outcomes: Default::default(),
            latency: Histogram::default(),
            commands: Commands::default(),
            expired: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            taken_for_others: AtomicU64::new(0),
        }
    }
}

/// Adds to a number that only this thread writes.
#[inline]
pub fn add(number: &AtomicU64, n: u64) {
    number.store(number.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Meter {
    /// A client's request ended after so long; the command with this number asked it, and may be answered by an error.
    #[inline]
    pub fn ended(&self, command: usize, outcome: Outcome, took: Nanos, failed: bool) {
        add(&self.outcomes[place(outcome)], 1);
        self.latency.count(took);
        self.commands.ended(command, took, failed);
    }

    /// How many ended so, in the order of [`OUTCOMES`].
    pub fn outcomes(&self) -> [u64; OUTCOMES.len()] {
        std::array::from_fn(|at| self.outcomes[at].load(Ordering::Relaxed))
    }

    /// How long they took.
    pub fn latency(&self) -> Counts {
        self.latency.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_its_place() {
        for (at, (outcome, _)) in OUTCOMES.into_iter().enumerate() {
            assert_eq!(place(outcome), at, "{outcome:?}");
        }
    }

    #[test]
    fn a_request_counts_in_all_ways() {
        let meter = Meter::default();
        meter.ended(0, Outcome::Committed, 3_500, false);
        meter.ended(0, Outcome::Unknown, 900, true);
        let mut expected = [0; 9];
        (expected[0], expected[8]) = (1, 1);
        assert_eq!(meter.outcomes(), expected);
        let latency = meter.latency();
        assert_eq!((latency.total(), latency.sum_ns), (2, 4_400));
        let mut sums = [commands::CommandCounts::default(); 2];
        meter.commands.add_to(&mut sums);
        assert_eq!((sums[0].ended(), sums[0].failed, sums[1].ended()), (2, 1, 0));
    }
}
