//! A whole run, drawn from one seed: swarm testing.
//!
//! Each seed switches kinds of faults, kinds of work and sizes in or out, so that different seeds put stress on different
//! corners instead of all looking like the average. The plan says everything: it can be saved, changed and run again, and
//! a failing one is [shrunk](crate::shrink) by leaving things out of it.

use highwater_engines::{EngineKind, Nanos, Options};
use serde::{Deserialize, Serialize};

use crate::faults::{self, Scheduled};
use crate::random::Random;

const US: Nanos = 1_000;
const MS: Nanos = 1_000_000;

/// A run, before it is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Where it was drawn from; the run's own chance (delays, schedules, what clients ask) follows from it, too.
    pub seed: u64,
    /// Which engine, by name.
    pub engine: String,
    /// How many replicas.
    pub replicas: u8,
    /// How many workers each.
    pub workers: u16,
    /// The engine's settings.
    pub settings: Settings,
    /// What clients ask for.
    pub load: Load,
    /// A frame takes at least this long, in ns.
    pub delay_ns: Nanos,
    /// And up to so much more; one in a hundred up to twenty times so much.
    pub delay_spread_ns: Nanos,
    /// Virtual time under faults, in ns, from the first leader on.
    pub length_ns: Nanos,
    /// In the second stage this many replicas stay away at first: the others must get on alone. Less than half.
    pub absent: u8,
    /// What goes wrong, and when; times count from the first leader.
    pub faults: Vec<Scheduled>,
}

/// The part of the engine's options that a plan draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)] // The fields are those of `highwater_engines::Options`.
pub struct Settings {
    pub heartbeat: Nanos,
    pub election_timeout: Nanos,
    pub max_entry_bytes: usize,
    pub batch_delay: Nanos,
    pub pipeline_entries: usize,
    pub max_in_flight_bytes: usize,
    pub max_in_flight_requests: usize,
    pub log_retain_bytes: usize,
    pub max_attempts: u32,
}

/// What clients ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Each has one open transaction at most.
    pub clients: u16,
    /// All together start this many; fewer if they have to wait.
    pub transactions: u32,
    /// How many keys of a kind are in use at a time; few make conflicts.
    pub keys: u32,
    /// A key is left for a fresh one after so many appends.
    pub appends_per_key: u32,
    /// Operations per transaction, at most.
    pub operations: u32,
    /// Of a hundred operations on lists, rows and registers, how many only read.
    pub read_percent: u8,
    /// A client that hears nothing for this long, in ns, gives its request up: outcome unknown.
    pub patience_ns: Nanos,
    /// How the kinds of work are weighed.
    pub mix: Mix,
    /// Which workers have work.
    pub workers: Busy,
    /// One in so many requests goes to any replica instead of the leader; 0 for none.
    pub astray: u16,
}

/// Weights; 0 leaves a kind out. See [`library`](crate::library) for what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Mix {
    pub lists: u8,
    pub rows: u8,
    pub registers: u8,
    pub toggles: u8,
    pub bank: u8,
    pub audit: u8,
}

impl Mix {
    /// In the order of the fields.
    pub fn weights(&self) -> [u8; 6] {
        [self.lists, self.rows, self.registers, self.toggles, self.bank, self.audit]
    }
}

/// Which workers have work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Busy {
    /// Any, at every request.
    Any,
    /// Each client has its own.
    Home,
    /// A few for a while, then others: streams fall silent and wake.
    Few,
}

impl Plan {
    /// The plan of a seed, for the default engine.
    pub fn draw(seed: u64) -> Plan {
        Plan::draw_for(EngineKind::Rolis, seed)
    }

    /// The plan of a seed, for an engine.
    pub fn draw_for(engine: EngineKind, seed: u64) -> Plan {
        // Seeds in a row must not give generators in a row.
        let mut random = Random::new(Random::new(seed).bits());
        let random = &mut random;
        let replicas: u8 = pick(random, &[3, 3, 3, 3, 4, 5, 5, 5, 6, 7]);
        let workers = 1 + random.below(4) as u16;
        let settings = Settings::draw(random);
        let length_ns = settings.election_timeout * random.between(10, 40);
        let length_ns = length_ns.clamp(300 * MS, 2500 * MS);
        // Delays that make elections fail all the time test nothing else.
        let delay_ns = pick(random, &[5 * US, 20 * US, 50 * US, 200 * US]);
        let spread = pick(random, &[5 * US, 50 * US, 100 * US, 500 * US, 2 * MS]);
        let delay_spread_ns = spread.min(settings.election_timeout / 40);
        let load = Load::draw(random);
        let absent = random.below(u64::from(replicas.div_ceil(2))) as u8;
        let faults = faults::draw(random, replicas, workers, length_ns, settings.election_timeout);
        let engine = engine.name().to_string();
        Plan {
            seed,
            engine,
            replicas,
            workers,
            settings,
            load,
            delay_ns,
            delay_spread_ns,
            length_ns,
            absent,
            faults,
        }
    }

    /// Its engine.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn engine(&self) -> Result<EngineKind, String> {
        self.engine.parse()
    }

    /// A saved plan.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn parse(text: &str) -> Result<Plan, String> {
        let plan: Plan = serde_json::from_str(text).map_err(|error| error.to_string())?;
        plan.engine()?;
        let check = |good: bool, what: &str| if good { Ok(()) } else { Err(what.to_string()) };
        check((1..=7).contains(&plan.replicas), "replicas must be 1 to 7")?;
        check((1..=16).contains(&plan.workers), "workers must be 1 to 16")?;
        check(plan.absent < plan.replicas.div_ceil(2), "absent must be less than half of the replicas")?;
        check(plan.load.clients > 0 && plan.load.keys > 0, "clients and keys must be above 0")?;
        check(plan.load.operations > 0, "operations must be above 0")?;
        check(plan.load.appends_per_key > 0, "appends per key must be above 0")?;
        check(plan.load.mix.weights().iter().any(|weight| *weight > 0), "the mix must hold something")?;
        Ok(plan)
    }

    /// As [`parse`](Plan::parse) reads it.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plans have nothing that JSON lacks")
    }
}

impl Settings {
    fn draw(random: &mut Random) -> Settings {
        let heartbeat = pick(random, &[2 * MS, 5 * MS, 5 * MS, 10 * MS]);
        let max_entry_bytes = pick(random, &[1 << 10, 1 << 10, 4 << 10, 64 << 10]);
        let max_in_flight_bytes = max_entry_bytes * pick(random, &[1, 2, 8, 32]);
        Settings {
            heartbeat,
            election_timeout: heartbeat * random.between(4, 9),
            max_entry_bytes,
            batch_delay: pick(random, &[0, 100 * US, 1000 * US]),
            pipeline_entries: pick(random, &[1, 2, 4, 16]),
            max_in_flight_bytes,
            max_in_flight_requests: pick(random, &[4, 64, 20_000]),
            log_retain_bytes: max_in_flight_bytes * pick(random, &[1, 1, 4, 64]),
            max_attempts: pick(random, &[1, 10, 100]),
        }
    }

    /// Puts these settings into an engine's options.
    pub fn apply(&self, options: &mut Options) {
        options.heartbeat = self.heartbeat;
        options.election_timeout = self.election_timeout;
        options.max_entry_bytes = self.max_entry_bytes;
        options.batch_delay = self.batch_delay;
        options.pipeline_entries = self.pipeline_entries;
        options.max_in_flight_bytes = self.max_in_flight_bytes;
        options.max_in_flight_requests = self.max_in_flight_requests;
        options.log_retain_bytes = self.log_retain_bytes;
        options.max_attempts = self.max_attempts;
    }
}

impl Load {
    fn draw(random: &mut Random) -> Load {
        Load {
            clients: pick(random, &[2, 8, 16, 32]),
            transactions: pick(random, &[200, 600, 1200, 2400]),
            keys: pick(random, &[2, 6, 12, 24]),
            appends_per_key: pick(random, &[32, 64, 128]),
            operations: pick(random, &[1, 2, 4, 8]),
            read_percent: pick(random, &[10, 50, 50, 90]),
            patience_ns: pick(random, &[50 * MS, 200 * MS, 1000 * MS]),
            mix: Mix::draw(random),
            workers: pick(random, &[Busy::Any, Busy::Any, Busy::Home, Busy::Few]),
            astray: pick(random, &[0, 20, 100]),
        }
    }
}

impl Mix {
    fn draw(random: &mut Random) -> Mix {
        let mut weight = |one_in: u64| if random.one_in(one_in) { 0 } else { 1 + random.below(4) as u8 };
        let drawn = Mix {
            lists: weight(4),
            rows: weight(3),
            registers: weight(3),
            toggles: weight(3),
            bank: weight(3),
            audit: weight(3),
        };
        if drawn == Mix::default() { Mix { lists: 1, ..drawn } } else { drawn }
    }
}

/// One of these.
pub(crate) fn pick<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_plan_and_each_plan_is_valid() {
        for seed in 0..500 {
            let plan = Plan::draw(seed);
            assert_eq!(plan, Plan::draw(seed));
            assert_eq!(Plan::parse(&plan.to_json()).as_ref(), Ok(&plan));
            let mut options = Options::new(
                highwater_core::NodeId(0),
                plan.replicas,
                plan.workers,
                highwater_core::Incarnation(1),
            );
            plan.settings.apply(&mut options);
            assert_eq!(options.validate(), Ok(()), "seed {seed}");
        }
    }

    #[test]
    fn a_swarm_has_every_kind_in_and_out() {
        let plans: Vec<Plan> = (0..200).map(Plan::draw).collect();
        for kind in faults::KINDS {
            let with =
                plans.iter().filter(|plan| plan.faults.iter().any(|at| at.fault.kind() == *kind)).count();
            assert!((20..200).contains(&with), "{kind} is in {with} of 200 plans");
        }
        for replicas in 3..=7 {
            assert!(plans.iter().any(|plan| plan.replicas == replicas));
        }
        for weight in 0..6 {
            let with = plans.iter().filter(|plan| plan.load.mix.weights()[weight] > 0).count();
            assert!((50..200).contains(&with), "kind of work {weight} is in {with} plans");
        }
    }

    #[test]
    fn a_plan_that_makes_no_sense_is_refused() {
        let mut plan = Plan::draw(1);
        plan.absent = plan.replicas;
        assert!(Plan::parse(&plan.to_json()).is_err_and(|error| error.contains("absent")));
        assert!(Plan::parse("{}").is_err());
    }
}
