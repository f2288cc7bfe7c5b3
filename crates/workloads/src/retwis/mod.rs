//! Retwis as in Meerkat's paper (EuroSys '20, table 2): what a small Twitter asks of its database.
//!
//! | transaction | gets | puts | share |
//! |---|---|---|---|
//! | Add User | 1 | 3 | 5 % |
//! | Follow/Unfollow | 2 | 2 | 15 % |
//! | Post Tweet | 3 | 5 | 30 % |
//! | Load Timeline | 1 to 10 | 0 | 50 % |
//!
//! Keys and values have 64 bytes ([`row64`]); the keys of one transaction are distinct. What is got by a
//! transaction that writes is put, too: read-modify-writes, which count one up. The two puts that Add User and Post Tweet
//! have beyond that are blind.
//!
//! The paper gives the numbers and no meaning, so there is nothing that could be checked. We add one rule: the two blind
//! puts go to a row and its *twin*, rows 2n and 2n + 1, and carry the same new stamp, which a read-modify-write keeps. So
//! **twins have the same stamp**, whatever ran. They would not if a transaction were there in part, if two were
//! installed in different orders, or if a read-modify-write brought back what a blind put had replaced. The price: the
//! last key is not drawn by itself, but comes with the one before it.

mod procedures;

use std::sync::Arc;

use highwater_core::{Procedure, Registry, Transaction, View};

use crate::bytes::Sink;
use crate::choice::{Chooser, Distribution};
use crate::random::{Rng, mix};
use crate::row64;
pub use crate::row64::Config;
use crate::tables::RETWIS;
use crate::workload::{Check, Findings, Generator, Requests, Workload};
pub use procedures::{AddUser, FollowUnfollow, Load, LoadTimeline, MAX_TIMELINE, PostTweet, twin};

/// Fewest rows: a timeline's are distinct.
pub const MIN_KEYS: u64 = MAX_TIMELINE as u64;
/// Of a hundred transactions, how many are of each kind, in the order of [`KINDS`].
pub const MIX: [u64; 4] = [5, 15, 30, 50];
/// The transactions, in the order of table 2.
pub const KINDS: [&str; 4] = [AddUser::NAME, FollowUnfollow::NAME, PostTweet::NAME, LoadTimeline::NAME];

const _: () = assert!(MIX[0] + MIX[1] + MIX[2] + MIX[3] == 100);

/// Registers this module's procedures.
pub fn register<T: Transaction>(registry: &mut Registry<T>) {
    registry.register::<Load>();
    registry.register::<AddUser>();
    registry.register::<FollowUnfollow>();
    registry.register::<PostTweet>();
    registry.register::<LoadTimeline>();
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Retwis {
    config: Config,
    chooser: Arc<Chooser>,
}

impl Retwis {
    /// The workload of a valid configuration: an even number of rows, at least [`MIN_KEYS`].
    pub fn new(config: Config) -> Retwis {
        let distribution = Distribution::of_coefficient(config.zipf);
        Retwis { config, chooser: Arc::new(Chooser::new(config.keys, distribution)) }
    }
}

impl Workload for Retwis {
    fn name(&self) -> &'static str {
        "retwis"
    }

    fn load(&self, part: usize, parts: usize) -> Requests {
        row64::requests(Load::NAME, self.config.keys, part, parts)
    }

    fn generator(&self, worker: usize, _workers: usize, seed: u64) -> Box<dyn Generator> {
        let rng = Rng::new(mix(seed ^ mix(worker as u64 + 1)));
        Box::new(RetwisGenerator { rng, chooser: self.chooser.clone() })
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn check(&self, view: &dyn View) -> Vec<Check> {
        // The stamps of each pair, by exclusive or: nothing is left of two that are the same.
        let mut stamps = vec![0; self.config.keys.div_ceil(2) as usize];
        let rows = row64::examine(view, RETWIS, "retwis-rows", self.config.keys, |row| {
            stamps[row.number as usize / 2] ^= row.stamp;
        });
        let mut twins = Findings::new("retwis-twins");
        for (pair, left) in stamps.iter().enumerate() {
            twins.expect(*left == 0, || {
                format!("rows {} and {} have different stamps", 2 * pair, 2 * pair + 1)
            });
        }
        vec![rows, twins.finish()]
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        self.config.describe()
    }
}

struct RetwisGenerator {
    rng: Rng,
    chooser: Arc<Chooser>,
}

impl RetwisGenerator {
    /// Arguments of a transaction that writes: the rows that it modifies; and, if it has blind puts, a row that neither is
    /// one of them nor has its twin among them, and a stamp that nobody else has.
    fn write(&mut self, modified: usize, blind: bool, args: &mut Vec<u8>) {
        let mut rows = [0; 3];
        let rows = &mut rows[..modified];
        self.chooser.distinct(&mut self.rng, rows);
        rows.iter().for_each(|row| args.put_u64(*row));
        if blind {
            let row = loop {
                let row = self.chooser.key(&mut self.rng);
                if !rows.contains(&row) && !rows.contains(&twin(row)) {
                    break row;
                }
            };
            args.put_u64(row);
            args.put_u64(self.rng.u64());
        }
    }

    fn timeline(&mut self, args: &mut Vec<u8>) {
        let mut rows = [0; MAX_TIMELINE];
        let rows = &mut rows[..self.rng.within(1, MAX_TIMELINE as u64) as usize];
        self.chooser.distinct(&mut self.rng, rows);
        rows.iter().for_each(|row| args.put_u64(*row));
    }
}

impl Generator for RetwisGenerator {
    fn next(&mut self, args: &mut Vec<u8>) -> usize {
        args.clear();
        let mut ticket = self.rng.below(100);
        let mut kind = 0;
        while ticket >= MIX[kind] {
            ticket -= MIX[kind];
            kind += 1;
        }
        match kind {
            0 => self.write(AddUser::MODIFIED, true, args),
            1 => self.write(FollowUnfollow::MODIFIED, false, args),
            2 => self.write(PostTweet::MODIFIED, true, args),
            _ => self.timeline(args),
        }
        kind
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::row64::{BYTES, Row, key};
    use crate::testing::Runner;

    fn small(zipf: f64) -> Retwis {
        Retwis::new(Config { keys: 1500, zipf })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        /// Table 2, column "workload %": 10,000 draws, and six standard deviations either way.
        #[test]
        fn the_mix_is_that_of_table_2(seed: u64, worker in 0usize..64, zipf in 0.0f64..0.99) {
            let mut generator = small(zipf).generator(worker, 64, seed);
            let (mut args, mut counts) = (Vec::new(), [0u64; 4]);
            (0..10_000).for_each(|_| counts[generator.next(&mut args)] += 1);
            for (count, percent) in counts.into_iter().zip([5, 15, 30, 50]) {
                let share = f64::from(percent) / 100.0;
                let deviation = (10_000.0 * share * (1.0 - share)).sqrt();
                prop_assert!((count as f64 - 10_000.0 * share).abs() < 6.0 * deviation, "{counts:?}");
            }
        }
    }

    /// Table 2, columns "# gets" and "# puts"; also on the smallest table, and with the hottest rows.
    #[test]
    fn gets_and_puts_are_those_of_table_2_and_of_distinct_rows() {
        for (keys, zipf) in [(MIN_KEYS, 0.99), (1500, 0.0), (1500, 0.99)] {
            let retwis = Retwis::new(Config { keys, zipf });
            let mut runner = Runner::loaded(&retwis);
            let mut generator = retwis.generator(0, 1, 3);
            let (mut args, mut lengths) = (Vec::new(), [0; MAX_TIMELINE + 1]);
            for _ in 0..4000 {
                let kind = generator.next(&mut args);
                let (result, reply) = runner.run(KINDS[kind], &args);
                assert_eq!(result, Ok(()), "{}", KINDS[kind]);
                let (gets, puts) = (runner.last.reads.len(), runner.last.writes.len());
                assert_eq!(reply.len(), gets * BYTES);
                match KINDS[kind] {
                    "retwis.add_user" => assert_eq!((gets, puts), (1, 3)),
                    "retwis.follow" => assert_eq!((gets, puts), (2, 2)),
                    "retwis.post" => assert_eq!((gets, puts), (3, 5)),
                    _ => {
                        assert_eq!(puts, 0);
                        lengths[gets] += 1;
                    }
                }
                let distinct = |keys: &[_]| BTreeSet::from_iter(keys).len();
                assert_eq!(distinct(&runner.last.reads), gets);
                assert_eq!(distinct(&runner.last.writes), puts);
            }
            assert_eq!(lengths[0], 0);
            assert!(lengths[1..].iter().all(|count| (140..260).contains(count)), "{lengths:?}");
        }
    }

    #[test]
    fn a_mix_keeps_the_conditions() {
        for zipf in [0.0, 0.6, 0.99] {
            let retwis = small(zipf);
            let mut runner = Runner::loaded(&retwis);
            let outcomes = runner.run_mix(&retwis, 5, 3000);
            assert!(outcomes.keys().all(|(_, outcome)| *outcome == "committed"), "{outcomes:?}");
            assert_eq!(outcomes.len(), 4);
            assert!(runner.failing(&retwis).is_empty());
        }
    }

    #[test]
    fn wrong_data_is_noticed() {
        let retwis = small(0.0);
        let failing = |tamper: &dyn Fn(&mut Runner)| {
            let mut runner = Runner::loaded(&retwis);
            runner.run_mix(&retwis, 1, 1000);
            tamper(&mut runner);
            runner.failing(&retwis)
        };
        let rows =
            |tamper: &dyn Fn(&mut Vec<u8>)| failing(&|r| r.tables_mut().corrupt(RETWIS, key(7), tamper));
        assert_eq!(failing(&|_| ()), [""; 0]);
        assert_eq!(rows(&|row| row.truncate(60))[0], "retwis-rows");
        assert_eq!(rows(&|row| row[0] += 1)[0], "retwis-rows");
        assert_eq!(rows(&|row| row[63] += 1)[0], "retwis-rows");
        assert_eq!(rows(&|row| row[30] += 1)[0], "retwis-rows");
        assert_eq!(
            failing(&|r| r.tables_mut().put(RETWIS, key(1500), &Row::new(0, 0).encode())),
            ["retwis-rows"]
        );
        assert_eq!(rows(&|row| row[8] ^= 1), ["retwis-twins"]);
    }

    /// Each replays what a database that loses or disorders writes would leave.
    #[test]
    fn anomalies_separate_twins() {
        let retwis = small(0.0);
        let mut add_user = Vec::new();
        [100, 7, 0x5ca1ab1e].into_iter().for_each(|word| add_user.put_u64(word));
        let stamped = |stamp| [6, 7].map(|number| Row::new(number, stamp).encode());

        let mut runner = Runner::loaded(&retwis);
        let before = runner.view().get(RETWIS, &key(6)).unwrap();
        assert_eq!(runner.run("retwis.add_user", &add_user).0, Ok(()));
        assert_eq!(runner.view().get(RETWIS, &key(6)), Some(stamped(0x5ca1ab1e)[0].to_vec()));
        assert!(runner.failing(&retwis).is_empty());
        // A transaction that is there in part; or a read-modify-write that brings back what it had read before.
        let mut partial = Runner::loaded(&retwis);
        *partial.tables_mut() = runner.view().clone();
        partial.tables_mut().put(RETWIS, key(6), &before);
        let twins = retwis.check(partial.view()).remove(1).result.unwrap_err();
        assert!(twins.contains("rows 6 and 7 have different stamps"), "{twins}");
        // Two blind transactions, installed in different orders.
        runner.tables_mut().put(RETWIS, key(6), &stamped(1)[0]);
        runner.tables_mut().put(RETWIS, key(7), &stamped(2)[1]);
        assert_eq!(runner.failing(&retwis), ["retwis-twins"]);
    }
}
