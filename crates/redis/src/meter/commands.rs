//! What is counted of each command and subcommand: how often, for how long, how it ended.

use std::sync::atomic::{AtomicU64, Ordering};

use highwater_seam::Nanos;

use super::add;
use super::histogram::{POWERS, power};
use crate::acl::ids::{MOST, Named};
use crate::command::Opcode;

/// Counts by the [number](Named::id) of a command. Written by one thread, read by anyone.
#[derive(Debug)]
pub struct Commands(Box<[Counter]>);

#[derive(Debug, Default)]
struct Counter {
    taken: AtomicU64,
    waited_us: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    latency: [AtomicU64; POWERS],
}

/// What was counted of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCounts {
    /// Taken, those inside a `MULTI` included.
    pub taken: u64,
    /// For how long clients waited for them, all together: from submission to release, and at the door for what is answered there.
    pub waited_us: u64,
    /// Not taken: a wrong number of words, or one who may not.
    pub refused: u64,
    /// Answered by an error.
    pub failed: u64,
    /// How many took how long, in powers of two microseconds.
    pub latency: [u64; POWERS],
}

impl Default for Commands {
    fn default() -> Commands {
        Commands((0..MOST).map(|_| Counter::default()).collect())
    }
}

impl Commands {
    /// One more is taken. Only the owner counts, here and below.
    #[inline]
    pub fn count(&self, named: &Named) {
        add(&self.0[named.id].taken, 1);
    }

    /// One was not taken.
    pub fn refuse(&self, named: &Named) {
        add(&self.0[named.id].refused, 1);
    }

    /// One has ended.
    #[inline]
    pub fn ended(&self, id: usize, took: Nanos, failed: bool) {
        let (counter, us) = (&self.0[id], took / 1000);
        add(&counter.waited_us, us);
        add(&counter.latency[power(us)], 1);
        if failed {
            add(&counter.failed, 1);
        }
    }

    /// How often a command was taken, with all its subcommands.
    pub fn taken(&self, opcode: Opcode) -> u64 {
        self.0[Named::family(opcode)].iter().map(|counter| counter.taken.load(Ordering::Relaxed)).sum()
    }

    /// Adds what was counted to the sums of all commands.
    pub fn add_to(&self, sums: &mut [CommandCounts]) {
        for (sum, counter) in sums.iter_mut().zip(&self.0) {
            let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
            sum.taken += load(&counter.taken);
            sum.waited_us += load(&counter.waited_us);
            sum.refused += load(&counter.refused);
            sum.failed += load(&counter.failed);
            sum.latency.iter_mut().zip(&counter.latency).for_each(|(sum, count)| *sum += load(count));
        }
    }
}

impl CommandCounts {
    /// What came since it was `before`.
    pub fn since(&self, before: &CommandCounts) -> CommandCounts {
        CommandCounts {
            taken: self.taken.saturating_sub(before.taken),
            waited_us: self.waited_us.saturating_sub(before.waited_us),
            refused: self.refused.saturating_sub(before.refused),
            failed: self.failed.saturating_sub(before.failed),
            latency: std::array::from_fn(|at| self.latency[at].saturating_sub(before.latency[at])),
        }
    }

    /// How many have ended.
    pub fn ended(&self) -> u64 {
        self.latency.iter().sum()
    }

    /// So many microseconds at most took this part of them, in percent: the upper edge of a bucket.
    pub fn percentile(&self, percent: f64) -> u64 {
        let wanted = (self.ended() as f64 * percent / 100.0).ceil() as u64;
        let mut seen = 0;
        for (power, count) in self.latency.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                return 1 << power;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_count_apart_and_together() {
        let commands = Commands::default();
        let client = Opcode::find(b"client").unwrap();
        let (id, list) = (Named::of(client, Some(b"ID")), Named::of(client, Some(b"list")));
        commands.count(&id);
        commands.count(&list);
        commands.ended(id.id, 3_500, false);
        commands.ended(list.id, 900, true);
        commands.refuse(&list);
        assert_eq!(commands.taken(client), 2);
        let mut sums = vec![CommandCounts::default(); MOST];
        commands.add_to(&mut sums);
        assert_eq!((sums[id.id].taken, sums[id.id].waited_us, sums[id.id].failed), (1, 3, 0));
        assert_eq!((sums[list.id].refused, sums[list.id].failed, sums[list.id].ended()), (1, 1, 1));
        assert_eq!(sums[id.id].since(&sums[id.id]), CommandCounts::default());
    }

    #[test]
    fn percentiles_are_edges_of_buckets() {
        let mut counts = CommandCounts::default();
        assert_eq!(counts.percentile(99.0), 0);
        (counts.latency[3], counts.latency[6]) = (99, 1);
        assert_eq!([50.0, 99.0, 99.9, 100.0].map(|percent| counts.percentile(percent)), [8, 8, 64, 64]);
    }
}
