//! A whole run, drawn from one seed: swarm testing.
//!
//! Each seed switches kinds of faults, kinds of work and sizes in or out, so that different seeds put stress on different
//! corners instead of all looking like the average. The plan says everything: it can be saved, changed and run again, and
//! a failing one is [shrunk](crate::shrink) by leaving things out of it.
//!
//! | file | what |
//! |---|---|
//! | [`mod`](self) | what a plan says, how it is saved, and what it sets in engine and network |
//! | `draw` | how plans are drawn |
//! | `kinds` | kinds of plans that are not the average with something more |
//! | `load` | what clients ask for |
//! | `machines` | what bytes cost, and how large blobs are |
//! | `redis` | guests that speak Redis's protocol |

mod draw;
mod kinds;
mod load;
mod machines;
mod redis;

use std::collections::BTreeMap;

use highwater_core::hooks::Site;
use highwater_core::level::REHEARSED;
use highwater_core::{Durability, Incarnation, NodeId};
use highwater_engines::EngineKind;
use highwater_seam::options::MIN_TRANSACTION_BYTES;
use highwater_seam::{Nanos, Options};
use serde::{Deserialize, Serialize};

use crate::faults::{Fault, Scheduled};
use crate::network::{self, Datagrams, Network, Wire};
use crate::stage::{Buggify, Interleaving};
use crate::units::MS;
#[cfg(feature = "planted")]
pub(crate) use kinds::{fill_up, found_anew};
pub use load::{Busy, Load, Mix};
pub use machines::{Machines, Sizes};
pub use redis::Redis;

/// A set of them is a byte.
const MOST_NODES: u8 = 8;

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
    /// How many nodes may be added, beside them: numbers go on behind theirs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub newcomers: u8,
    /// How many workers each.
    pub workers: u16,
    /// The engine's settings.
    pub settings: Settings,
    /// What clients ask for.
    pub load: Load,
    /// What bytes cost.
    #[serde(default)]
    pub machines: Machines,
    /// A frame takes at least this long, in ns.
    pub delay_ns: Nanos,
    /// And up to so much more; one in a hundred up to twenty times so much.
    pub delay_spread_ns: Nanos,
    /// What the transport does to frames.
    pub transport: Transport,
    /// Whether workers are interrupted in the middle of their turns, and how.
    pub interleaving: Option<Interleaved>,
    /// Rare but legal choices of the product, by the name of their [`Site`]: once in so many times.
    pub choices: BTreeMap<String, u64>,
    /// Per node: the rate of its clock in millionths, and whether its commits read a counter that follows time, so far
    /// ahead.
    pub clocks: Vec<(u64, Option<u64>)>,
    /// Virtual time under faults, in ns.
    pub length_ns: Nanos,
    /// In the second stage this many replicas stay away at first: the others must get on alone. Less than half.
    pub absent: u8,
    /// Replicas have disks: who comes back is who it was, and power may fail everywhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disks: bool,
    /// What is accepted does not wait for them (`async`): who comes back from a crash may have forgotten the last of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
    /// Times count from the start, not from the first leader on.
    #[serde(default)]
    pub from_birth: bool,
    /// Per node: the newest level that its first build speaks. Nothing: the first one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<u8>,
    /// Guests that speak Redis's protocol: in a house that has a door for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<Redis>,
    /// What goes wrong, and when.
    pub faults: Vec<Scheduled>,
}

fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// The part of the engine's options that a plan draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    #[serde(default)]
    pub snapshot_age: Nanos,
    /// As the engine has it by itself, if nothing is said.
    #[serde(default)]
    pub long_request_bytes: Option<usize>,
}

/// What the transport does to frames; see [`network::Faults`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// A broken connection delivers a part of what was under way.
    pub truncate: bool,
    /// Control messages of a broken connection may arrive so late, in ns.
    pub late_ns: Option<Nanos>,
    /// A frame under way for so long, in ns, breaks its connection.
    pub patience_ns: Option<Nanos>,
    /// Frames of streams, in thousandths: lost.
    pub lost: u64,
    /// In thousandths: repeated.
    pub repeated: u64,
    /// Whether they overtake each other.
    pub reordered: bool,
}

/// How workers are interrupted; see [`Interleaving`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interleaved {
    pub one_in: u64,
    pub long_one_in: u64,
    pub longest_ns: Nanos,
    /// Whether controllers are interrupted, too.
    #[serde(default)]
    pub controllers: bool,
}

impl Plan {
    /// The plan of a seed, for the default engine.
    pub fn draw(seed: u64) -> Plan {
        Plan::draw_for(EngineKind::Rolis, seed)
    }

    /// How many nodes there may be.
    pub fn nodes(&self) -> u8 {
        self.replicas.saturating_add(self.newcomers)
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
        let engine = plan.engine()?;
        if plan.disks && !engine.abilities().durable {
            return Err(format!("{engine} keeps nothing on disks"));
        }
        if plan.behind && !engine.abilities().disks_behind {
            return Err(format!("{engine} does not go on from disks that are behind"));
        }
        if plan.behind && !plan.disks {
            return Err("without disks none can be behind: disks must be true".into());
        }
        let check = |good: bool, what: &str| if good { Ok(()) } else { Err(what.to_string()) };
        check((1..=7).contains(&plan.replicas), "replicas must be 1 to 7")?;
        check((1..=16).contains(&plan.workers), "workers must be 1 to 16")?;
        check(plan.absent < plan.replicas.div_ceil(2), "absent must be less than half of the replicas")?;
        check(plan.nodes() <= MOST_NODES, "replicas and newcomers must be 8 at most")?;
        let fits = plan.faults.iter().all(|fault| fault.fault.fits(plan.nodes()));
        check(fits, "faults name nodes that do not exist, or a node and itself")?;
        check(plan.choices.keys().all(|name| plan.site(name).is_some()), "choices name unknown sites")?;
        let known = |level: &u8| (1..=REHEARSED.0).contains(level);
        check(plan.levels.iter().all(known), "levels must be ones that this build can play")?;
        check(plan.clocks.iter().all(|(rate, _)| *rate > 0), "clocks must move")?;
        check(plan.load.clients > 0 && plan.load.keys > 0, "clients and keys must be above 0")?;
        check(plan.load.operations > 0, "operations must be above 0")?;
        check(plan.load.appends_per_key > 0, "appends per key must be above 0")?;
        check(plan.load.mix.weights().iter().any(|weight| *weight > 0), "the mix must hold something")?;
        let limit = highwater_core::limits::MAX_VALUE_BYTES;
        check(plan.load.sizes.largest as usize <= limit, "blobs must be no larger than values may be")?;
        let coordinate = plan.load.delegates == 0 || engine.abilities().client_coordinators;
        check(coordinate, "this engine's clients do not coordinate: delegates must be 0")?;
        check(plan.load.snapshot_percent <= 100, "the percentage of snapshot reads must be at most 100")?;
        check(plan.load.fresh_percent <= 100, "the percentage of fresh reads must be at most 100")?;
        let shown = plan.load.snapshot_percent == 0 || shows_snapshots(plan.engine()?);
        check(shown, "this engine's followers show no snapshots: their percentage must be 0")?;
        plan.redis.map_or(Ok(()), |redis| redis.check(engine))?;
        let mut options = Options::new(NodeId(0), plan.replicas, plan.workers, Incarnation(1));
        plan.settings.apply(&mut options);
        options.validate()?;
        options.own.check(engine.settings())?;
        Ok(plan)
    }

    /// The engine's options, but for what differs between nodes.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new(NodeId(0), self.replicas, self.workers, Incarnation(1));
        options.max_transaction_bytes = MIN_TRANSACTION_BYTES;
        self.tune(&mut options);
        options
    }

    /// Puts what it wants into an engine's options.
    pub(crate) fn tune(&self, options: &mut Options) {
        self.settings.apply(options);
        options.durability = match (self.disks, self.behind) {
            (false, _) => Durability::Memory,
            (true, false) => Durability::Sync,
            (true, true) => Durability::Async,
        };
        options.disk_window = DISK_WINDOW;
        options.max_transaction_bytes = options.max_transaction_bytes.max(self.load.largest_transaction());
        if self.load.sizes.memory > 0 {
            options.memory_bytes = options.memory_for(self.load.sizes.memory);
        }
    }

    /// The network, as the plan wants it.
    pub(crate) fn network(&self, network: &mut Network) {
        network.delay = (self.delay_ns, self.delay_spread_ns);
        network.tail = (100, 20 * self.delay_spread_ns);
        let Transport { truncate, late_ns, patience_ns, lost, repeated, reordered } = self.transport;
        let datagrams = Datagrams { lost, repeated, reordered };
        let datagrams = (datagrams != Datagrams::default()).then_some(datagrams);
        network.faults = network::Faults { truncate, late: late_ns, patience: patience_ns, datagrams };
        // As in a node: a connection bears what the engine may have under way.
        let least = self.options().most_queued_bytes() as u64;
        network.wire =
            self.machines.wire().map(|wire| Wire { backlog_bytes: wire.backlog_bytes.max(least), ..wire });
        // In long runs nobody looks every other millisecond.
        network.retry = network.retry.max(self.settings.election_timeout / 50);
    }

    /// The interruptions, if there are any.
    pub(crate) fn interleaving(&self) -> Option<Interleaving> {
        self.interleaving.map(|Interleaved { one_in, long_one_in, longest_ns, .. }| Interleaving {
            one_in,
            long_one_in,
            longest: longest_ns,
        })
    }

    /// The rates of rare choices.
    pub(crate) fn buggify(&self) -> Buggify {
        let sites = self.choices.iter().filter_map(|(name, rate)| Some((self.site(name)?, *rate)));
        sites.fold(Buggify::default(), |all, (site, rate)| all.with(site, rate))
    }

    /// The rare choice of a name, if the engine has it.
    pub(crate) fn site(&self, name: &str) -> Option<Site> {
        self.engine().ok()?.sites().iter().copied().find(|site| site.name() == name)
    }

    /// Whether a majority may crash at once, and what was acknowledged last may be lost.
    pub(crate) fn may_lose(&self) -> bool {
        self.behind && self.faults.iter().any(|at| at.fault == Fault::PowerCut)
    }

    /// As [`parse`](Plan::parse) reads it.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plans have nothing that JSON lacks")
    }
}

impl Settings {
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
        // Engines' own: to others they say nothing.
        options.own.set("snapshot_age_us", self.snapshot_age / 1000);
        if let Some(bytes) = self.long_request_bytes {
            options.own.set("long_request_bytes", bytes as u64);
        }
    }
}

/// With `async`: most syncs are faster, and some are not.
const DISK_WINDOW: Nanos = 10 * MS;

/// Whether an engine's followers show snapshots.
fn shows_snapshots(engine: EngineKind) -> bool {
    engine.abilities().snapshots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults;

    #[test]
    fn a_seed_has_one_plan_and_each_plan_is_valid() {
        for seed in 0..500 {
            let plan = Plan::draw(seed);
            assert_eq!(plan, Plan::draw(seed));
            assert_eq!(Plan::parse(&plan.to_json()).as_ref(), Ok(&plan), "seed {seed}");
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
        for weight in 0..7 {
            let with = plans.iter().filter(|plan| plan.load.mix.weights()[weight] > 0).count();
            assert!((50..200).contains(&with), "kind of work {weight} is in {with} plans");
        }
        let some = |what: &str, count: usize, of: std::ops::Range<usize>| {
            assert!(of.contains(&count), "{what} in {count} of 200 plans");
        };
        let count = |is: &dyn Fn(&Plan) -> bool| plans.iter().filter(|plan| is(plan)).count();
        some("wires", count(&|plan| plan.machines.bytes_per_ms > 0), 50..150);
        some("costs", count(&|plan| plan.machines.kib_ns > 0), 50..150);
        some("blobs", count(&|plan| plan.load.sizes.largest > 0), 50..150);
        some("large blobs", count(&|plan| plan.load.sizes.largest >= 64 << 10), 20..80);
        some("faults from birth on", count(&|plan| plan.from_birth), 15..60);
        assert!((0..2000).map(Plan::draw).any(|plan| plan.is_long()));
        let full = (0..2000).map(Plan::draw).filter(|plan| plan.load.sizes.memory > 0);
        some("little memory (of 2000)", full.count(), 15..100);
        let lasts = |plan: &Plan| plan.faults.iter().any(|fault| fault.for_ns == faults::LASTING);
        some("faults that last", count(&lasts), 25..100);
        let controllers = |plan: &Plan| plan.interleaving.is_some_and(|how| how.controllers);
        some("interrupted controllers", count(&controllers), 30..120);
        let moves = |plan: &Plan| plan.faults.iter().any(|fault| fault.fault.is_order());
        some("orders of operators", count(&moves), 25..100);
        some("an even number", count(&|plan| plan.replicas.is_multiple_of(2)), 30..100);
        let limits = (0..2000).map(Plan::draw).filter(|plan| plan.load.sizes.largest >= 16 << 20);
        some("values at the limit (of 2000)", limits.count(), 2..40);
    }

    #[test]
    fn a_plan_that_makes_no_sense_is_refused() {
        let mut plan = Plan::draw(1);
        plan.absent = plan.replicas;
        assert!(Plan::parse(&plan.to_json()).is_err_and(|error| error.contains("absent")));
        assert!(Plan::parse("{}").is_err());
        let mut plan = Plan::draw_for(EngineKind::Strawman, 1);
        plan.load.snapshot_percent = 10;
        assert!(Plan::parse(&plan.to_json()).is_err_and(|error| error.contains("snapshots")));
        let mut plan = Plan::draw(1);
        plan.settings.log_retain_bytes = 1;
        assert!(Plan::parse(&plan.to_json()).is_err_and(|error| error.contains("log retain bytes")));
    }
}
