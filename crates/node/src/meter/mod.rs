//! What workers measure of their clients' requests: how many ended how, how long they took, which were slow.
//!
//! One [`Meter`] per worker, written by that worker only: counting is a load and a store, both relaxed, on lines that nobody
//! else writes, and whoever reads may read a little late. Only the [log of slow transactions](slow) has a lock, which is
//! taken for a slow one.

pub mod events;
pub mod histogram;
pub mod hot;
pub mod slow;

use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::Outcome;
use highwater_engines::Nanos;

use crate::resp::command::{COMMANDS, Opcode};
use crate::resp::tally::Tally;
use histogram::{Counts, Histogram, POWERS};

/// What one worker counts.
#[derive(Debug)]
#[repr(align(128))]
pub struct Meter {
    /// Clients' requests that ended, by outcome.
    outcomes: [AtomicU64; OUTCOMES.len()],
    /// From the submission of a client's request to its release.
    latency: Histogram,
    /// The same of each command, in powers of two microseconds; `MULTI` .. `EXEC` counts as `EXEC`.
    by_command: Box<[[AtomicU64; POWERS]]>,
    /// Commands taken.
    pub commands: Tally,
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
            by_command: COMMANDS.iter().map(|_| Default::default()).collect(),
            commands: Tally::default(),
            expired: AtomicU64::new(0),
            forwarded: AtomicU64::new(0),
            taken_for_others: AtomicU64::new(0),
        }
    }
}

/// Adds to a number that only this thread writes.
#[inline]
pub(crate) fn add(number: &AtomicU64, n: u64) {
    number.store(number.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Meter {
    /// A client's request ended after so long.
    #[inline]
    pub fn ended(&self, command: Opcode, outcome: Outcome, took: Nanos) {
        add(&self.outcomes[place(outcome)], 1);
        let us = took / 1000;
        self.latency.count(took);
        add(&self.by_command[usize::from(command.byte())][histogram::power(us)], 1);
    }

    /// How many ended so, in the order of [`OUTCOMES`].
    pub fn outcomes(&self) -> [u64; OUTCOMES.len()] {
        std::array::from_fn(|at| self.outcomes[at].load(Ordering::Relaxed))
    }

    /// How long they took.
    pub fn latency(&self) -> Counts {
        self.latency.counts()
    }

    /// How long those of one command took, by powers of two microseconds.
    pub fn latency_of(&self, command: Opcode) -> [u64; POWERS] {
        let counts = &self.by_command[usize::from(command.byte())];
        std::array::from_fn(|at| counts[at].load(Ordering::Relaxed))
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
        let get = Opcode::find(b"get").unwrap();
        meter.ended(get, Outcome::Committed, 3_500);
        meter.ended(get, Outcome::Unknown, 900);
        let mut expected = [0; 9];
        (expected[0], expected[8]) = (1, 1);
        assert_eq!(meter.outcomes(), expected);
        let latency = meter.latency();
        assert_eq!((latency.total(), latency.sum_ns), (2, 4_400));
        assert_eq!(meter.latency_of(get).iter().sum::<u64>(), 2);
        assert_eq!(meter.latency_of(Opcode::find(b"set").unwrap()).iter().sum::<u64>(), 0);
    }
}
