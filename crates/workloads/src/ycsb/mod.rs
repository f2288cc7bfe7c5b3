//! YCSB++, as in the Rolis paper: a million integer keys, transactions of four reads or of four read-modify-writes, half
//! and half.
//!
//! A row is a counter (u64) and filler up to the configured size; a read-modify-write increments the counter. The
//! default size is the counter alone, 8 bytes, because the paper's prototype writes rows of about that size to its log.
//! The keys of one transaction are distinct.
//!
//! What can be checked without knowing what ran: every key is there, and the sum of all counters is a multiple of the
//! operations per transaction, because each transaction adds exactly that many. (As long as only this configuration
//! ran.) Who knows how many read-modify-writes committed asks [`Ycsb::check_increments`].

mod procedures;

use std::sync::Arc;

use highwater_core::{Procedure, Registry, Transaction, View};

use crate::bytes::Sink;
use crate::choice::Chooser;
pub use crate::choice::Distribution;
use crate::random::{Rng, mix};
use crate::tables::YCSB;
use crate::workload::{Check, Findings, Generator, Requests, Workload};
pub use procedures::{Load, MAX_OPS, MAX_VALUE_BYTES, MIN_VALUE_BYTES, Read, ReadModifyWrite};

/// Registers this module's procedures.
pub fn register<T: Transaction>(registry: &mut Registry<T>) {
    registry.register::<Load>();
    registry.register::<Read>();
    registry.register::<ReadModifyWrite>();
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How many keys, at least `ops`.
    pub keys: u64,
    /// Size of a row, [`MIN_VALUE_BYTES`] to [`MAX_VALUE_BYTES`].
    pub value_bytes: usize,
    /// Share of transactions that only read.
    pub read_fraction: f64,
    /// Keys of a transaction, 1 to [`MAX_OPS`].
    pub ops: usize,
    /// How keys are chosen.
    pub distribution: Distribution,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            keys: 1_000_000,
            value_bytes: MIN_VALUE_BYTES,
            read_fraction: 0.5,
            ops: 4,
            distribution: Distribution::Uniform,
        }
    }
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Ycsb {
    config: Config,
    chooser: Arc<Chooser>,
}

impl Ycsb {
    /// The workload of a valid configuration.
    pub fn new(config: Config) -> Ycsb {
        Ycsb { config, chooser: Arc::new(Chooser::new(config.keys, config.distribution)) }
    }

    /// Whether the counters add up to `committed` read-modify-write transactions.
    pub fn check_increments(&self, view: &dyn View, committed: u64) -> Check {
        let (mut finding, expected) =
            (Findings::new("ycsb-increments"), u128::from(committed) * self.config.ops as u128);
        let sum = survey(view).sum;
        finding.expect(sum == expected, || {
            format!("the counters' sum is {sum}, {committed} transactions add {expected}")
        });
        finding.finish()
    }
}

impl Workload for Ycsb {
    fn name(&self) -> &'static str {
        "ycsb"
    }

    fn load(&self, part: usize, parts: usize) -> Requests {
        assert!(part < parts, "loader {part} of {parts}");
        let config = self.config;
        let at_once = ((256 << 10) / config.value_bytes as u64).clamp(1, 1000);
        let chunks = (0..config.keys).step_by(at_once as usize).skip(part).step_by(parts);
        Box::new(chunks.map(move |first| {
            let mut args = Vec::new();
            args.put_u64(first);
            args.put_u32(at_once.min(config.keys - first) as u32);
            args.put_u32(config.value_bytes as u32);
            (Load::NAME, args)
        }))
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Box<dyn Generator> {
        Box::new(YcsbGenerator {
            rng: Rng::new(mix(seed ^ mix(worker as u64 + 1))),
            config: self.config,
            chooser: self.chooser.clone(),
        })
    }

    fn kinds(&self) -> &'static [&'static str] {
        &[Read::NAME, ReadModifyWrite::NAME]
    }

    fn check(&self, view: &dyn View) -> Vec<Check> {
        let survey = survey(view);
        let mut rows = Findings::new("ycsb-rows");
        let (keys, size, ops) = (self.config.keys, self.config.value_bytes, self.config.ops as u128);
        rows.expect(survey.rows == keys, || format!("{} keys, {keys} were loaded", survey.rows));
        rows.expect(survey.sizes.iter().all(|found| *found == size), || {
            format!("rows of {:?} bytes, expected {size}", survey.sizes)
        });
        let mut atomic = Findings::new("ycsb-atomic");
        atomic.expect(survey.sum.is_multiple_of(ops), || {
            format!(
                "the counters' sum {} is no multiple of {ops}: a transaction is there in part",
                survey.sum
            )
        });
        vec![rows.finish(), atomic.finish()]
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        let distribution = match self.config.distribution {
            Distribution::Uniform => "uniform".to_owned(),
            Distribution::Zipfian { theta } => format!("zipfian({theta})"),
        };
        vec![
            ("keys", self.config.keys.to_string()),
            ("value_bytes", self.config.value_bytes.to_string()),
            ("read_fraction", self.config.read_fraction.to_string()),
            ("ops", self.config.ops.to_string()),
            ("distribution", distribution),
        ]
    }
}

/// What stands in the table.
#[derive(Default)]
struct Survey {
    rows: u64,
    sum: u128,
    sizes: std::collections::BTreeSet<usize>,
}

fn survey(view: &dyn View) -> Survey {
    let mut survey = Survey::default();
    view.for_each(YCSB, &mut |_, row| {
        survey.rows += 1;
        survey.sizes.insert(row.len());
        let counter = row.first_chunk().map_or(0, |counter| u64::from_le_bytes(*counter));
        survey.sum += u128::from(counter);
    });
    survey
}

struct YcsbGenerator {
    rng: Rng,
    config: Config,
    chooser: Arc<Chooser>,
}

impl Generator for YcsbGenerator {
    fn next(&mut self, args: &mut Vec<u8>) -> usize {
        args.clear();
        let kind = usize::from(self.rng.unit() >= self.config.read_fraction);
        let mut keys = [0; MAX_OPS];
        let keys = &mut keys[..self.config.ops];
        self.chooser.distinct(&mut self.rng, keys);
        keys.iter().for_each(|key| args.put_u64(*key));
        kind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Runner;

    fn small(distribution: Distribution, value_bytes: usize) -> Ycsb {
        Ycsb::new(Config { keys: 1500, value_bytes, distribution, ..Config::default() })
    }

    #[test]
    fn a_mix_keeps_the_conditions_and_counts_every_increment() {
        for (distribution, size) in [(Distribution::Uniform, 8), (Distribution::Zipfian { theta: 0.99 }, 100)]
        {
            let ycsb = small(distribution, size);
            let mut runner = Runner::loaded(&ycsb);
            let outcomes = runner.run_mix(&ycsb, 5, 3000);
            let committed = outcomes[&("ycsb.rmw", "committed")] as u64;
            assert!((1400..1600).contains(&committed), "{outcomes:?}");
            assert_eq!(outcomes.len(), 2, "{outcomes:?}");
            assert!(runner.failing(&ycsb).is_empty());
            assert!(ycsb.check_increments(runner.view(), committed).passed());
            assert!(!ycsb.check_increments(runner.view(), committed + 1).passed());
        }
    }

    #[test]
    fn partial_transactions_and_lost_rows_are_noticed() {
        let ycsb = small(Distribution::Uniform, 8);
        let mut runner = Runner::loaded(&ycsb);
        runner.tables_mut().corrupt(YCSB, 7, |row| row[0] += 1);
        assert_eq!(runner.failing(&ycsb), ["ycsb-atomic"]);
        let mut runner = Runner::loaded(&ycsb);
        runner.tables_mut().remove(YCSB, 7);
        assert_eq!(runner.failing(&ycsb), ["ycsb-rows"]);
    }

    #[test]
    fn keys_of_a_transaction_are_distinct_and_hot_ones_are_hot() {
        let ycsb = small(Distribution::Zipfian { theta: 0.99 }, 8);
        let mut generator = ycsb.generator(0, 1, 9);
        let (mut args, mut counts) = (Vec::new(), vec![0u32; 1500]);
        for _ in 0..10_000 {
            generator.next(&mut args);
            let mut keys: Vec<_> =
                args.chunks(8).map(|key| u64::from_le_bytes(key.try_into().unwrap())).collect();
            keys.iter().for_each(|key| counts[*key as usize] += 1);
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), 4);
        }
        counts.sort_unstable();
        assert!(counts[1499] > 4000 && counts[750] < 40, "hottest {}, median {}", counts[1499], counts[750]);
    }

    #[test]
    fn parts_of_the_load_are_disjoint_and_complete() {
        let ycsb = small(Distribution::Uniform, 8);
        for parts in [1, 2, 5] {
            let requests: Vec<_> = (0..parts).flat_map(|part| ycsb.load(part, parts)).collect();
            let mut unique = requests.clone();
            unique.sort();
            unique.dedup();
            assert_eq!((requests.len(), unique.len()), (2, 2));
        }
    }
}
