//! YCSB-T as in Meerkat's paper (EuroSys '20, section 6.2): transactions of one read-modify-write of one row, YCSB's
//! workload F made transactional. Keys and values have 64 bytes; [`row64`] tells what is in them.
//!
//! A read-modify-write counts one up in the row. What can be checked without knowing what ran: every row is there, whole
//! and under its own key. Who knows how many transactions committed asks [`YcsbT::check_increments`].

mod procedures;

use std::sync::Arc;

use highwater_core::{Procedure, Registry, Transaction, View};

use crate::bytes::Sink;
use crate::choice::{Chooser, Distribution};
use crate::random::{Rng, mix};
use crate::row64;
pub use crate::row64::Config;
use crate::tables::YCSB_T;
use crate::workload::{Check, Findings, Generator, Requests, Workload};
pub use procedures::{Load, ReadModifyWrite};

/// Registers this module's procedures.
pub fn register<T: Transaction>(registry: &mut Registry<T>) {
    registry.register::<Load>();
    registry.register::<ReadModifyWrite>();
}

/// The workload.
#[derive(Clone, Debug)]
pub struct YcsbT {
    config: Config,
    chooser: Arc<Chooser>,
}

impl YcsbT {
    /// The workload of a valid configuration.
    pub fn new(config: Config) -> YcsbT {
        let distribution = Distribution::of_coefficient(config.zipf);
        YcsbT { config, chooser: Arc::new(Chooser::new(config.keys, distribution)) }
    }

    /// Whether the counts add up to `committed` transactions: fewer are lost updates, more are some that ran twice.
    pub fn check_increments(&self, view: &dyn View, committed: u64) -> Check {
        let (mut finding, mut sum) = (Findings::new("ycsb-t-increments"), 0);
        row64::examine(view, YCSB_T, "ycsb-t-rows", self.config.keys, |row| sum += u128::from(row.count));
        finding.expect(sum == committed.into(), || {
            format!("the counts' sum is {sum}, {committed} transactions committed")
        });
        finding.finish()
    }
}

impl Workload for YcsbT {
    fn name(&self) -> &'static str {
        "ycsb-t"
    }

    fn load(&self, part: usize, parts: usize) -> Requests {
        row64::requests(Load::NAME, self.config.keys, part, parts)
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Box<dyn Generator> {
        let rng = Rng::new(mix(seed ^ mix(worker as u64 + 1)));
        Box::new(YcsbTGenerator { rng, chooser: self.chooser.clone() })
    }

    fn kinds(&self) -> &'static [&'static str] {
        &[ReadModifyWrite::NAME]
    }

    fn check(&self, view: &dyn View) -> Vec<Check> {
        vec![row64::examine(view, YCSB_T, "ycsb-t-rows", self.config.keys, |_| ())]
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        self.config.describe()
    }
}

struct YcsbTGenerator {
    rng: Rng,
    chooser: Arc<Chooser>,
}

impl Generator for YcsbTGenerator {
    fn next(&mut self, args: &mut Vec<u8>) -> usize {
        args.clear();
        args.put_u64(self.chooser.key(&mut self.rng));
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row64::{BYTES, Row, key};
    use crate::testing::Runner;

    fn small(zipf: f64) -> YcsbT {
        YcsbT::new(Config { keys: 1500, zipf })
    }

    #[test]
    fn every_transaction_is_one_read_modify_write_and_counted() {
        for zipf in [0.0, 0.6, 0.99] {
            let ycsb_t = small(zipf);
            let mut runner = Runner::loaded(&ycsb_t);
            let outcomes = runner.run_mix(&ycsb_t, 5, 3000);
            assert_eq!(outcomes, [(("ycsb-t.rmw", "committed"), 3000)].into());
            assert_eq!((runner.last.reads.len(), runner.last.writes.len()), (1, 1));
            assert_eq!(runner.last.reads, runner.last.writes);
            assert!(runner.failing(&ycsb_t).is_empty());
            assert!(ycsb_t.check_increments(runner.view(), 3000).passed());
        }
    }

    #[test]
    fn the_reply_is_the_new_row() {
        let mut runner = Runner::loaded(&small(0.0));
        for count in [1, 2] {
            let (result, reply) = runner.run("ycsb-t.rmw", &7u64.to_le_bytes());
            assert_eq!(result, Ok(()));
            assert_eq!(Row::decode(&reply), Ok(Row { count, ..Row::new(7, 0) }));
        }
    }

    #[test]
    fn lost_and_repeated_updates_are_noticed() {
        let ycsb_t = small(0.9);
        let mut runner = Runner::loaded(&ycsb_t);
        runner.run_mix(&ycsb_t, 1, 100);
        let (before, _) = (runner.view().clone(), runner.run("ycsb-t.rmw", &7u64.to_le_bytes()));
        assert!(ycsb_t.check_increments(runner.view(), 101).passed());
        let repeated = ycsb_t.check_increments(runner.view(), 100);
        assert!(repeated.result.unwrap_err().contains("sum is 101, 100 transactions"));
        *runner.tables_mut() = before;
        assert!(!ycsb_t.check_increments(runner.view(), 101).passed());
    }

    #[test]
    fn wrong_data_is_noticed() {
        let ycsb_t = small(0.0);
        let explanation = |tamper: &dyn Fn(&mut Runner)| {
            let mut runner = Runner::loaded(&ycsb_t);
            tamper(&mut runner);
            ycsb_t.check(runner.view()).remove(0).result.unwrap_err()
        };
        let missing = explanation(&|r| r.tables_mut().remove(YCSB_T, key(7)));
        assert!(missing.contains("1499 rows, 1500 were loaded"), "{missing}");
        let added = explanation(&|r| r.tables_mut().put(YCSB_T, key(1500), &Row::new(1500, 0).encode()));
        assert!(added.contains("never loaded"), "{added}");
        let strange = explanation(&|r| r.tables_mut().put(YCSB_T, [7; BYTES], &Row::new(7, 0).encode()));
        assert!(strange.contains("never loaded"), "{strange}");
        let short = explanation(&|r| r.tables_mut().corrupt(YCSB_T, key(7), |row| row.truncate(63)));
        assert!(short.contains("row 7") && short.contains("63 bytes"), "{short}");
        let mixed = explanation(&|r| r.tables_mut().corrupt(YCSB_T, key(7), |row| row[16] += 1));
        assert!(mixed.contains("not written as a whole"), "{mixed}");
        let swapped = explanation(&|r| r.tables_mut().put(YCSB_T, key(7), &Row::new(8, 0).encode()));
        assert!(swapped.contains("another one's"), "{swapped}");
    }
}
