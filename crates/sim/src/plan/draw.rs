//! How plans are drawn.

use std::collections::BTreeMap;

use highwater_core::hooks::Frequency;
use highwater_engines::EngineKind;
use highwater_seam::Nanos;

use super::{
    Busy, Interleaved, Load, Machines, Mix, Plan, Settings, Sizes, Transport, kinds, shows_snapshots,
};
use crate::faults;
use crate::units::{MS, US};
use highwater_core::Random;

impl Plan {
    /// The plan of a seed, for an engine.
    pub fn draw_for(engine: EngineKind, seed: u64) -> Plan {
        // Seeds in a row must not give generators in a row.
        let mut random = Random::new(Random::new(seed).bits());
        let random = &mut random;
        let replicas: u8 = random.pick(&[3, 3, 3, 3, 4, 4, 5, 5, 6, 7]);
        let workers = 1 + random.below(4) as u16;
        let mut settings = Settings::draw(random);
        let length_ns = settings.election_timeout * random.between(10, 40);
        let length_ns = length_ns.clamp(300 * MS, 2500 * MS);
        // Delays that make elections fail all the time test nothing else.
        let delay_ns = random.pick(&[5 * US, 20 * US, 50 * US, 200 * US]);
        let spread = random.pick(&[5 * US, 50 * US, 100 * US, 500 * US, 2 * MS]);
        let delay_spread_ns = spread.min(settings.election_timeout / 40);
        let mut load = Load::draw(random);
        let transport = Transport::draw(random, settings.election_timeout);
        let interleaving = Interleaved::draw(random, settings.election_timeout);
        let choices = draw_choices(engine, random);
        let clocks = draw_clocks(random, replicas);
        let absent = random.below(u64::from(replicas.div_ceil(2))) as u8;
        let mut faults =
            faults::draw::passing(random, replicas, workers, length_ns, settings.election_timeout);
        if random.one_in(4) {
            faults.extend(faults::draw::lasting(random, replicas, workers, length_ns));
            faults.sort_by_key(|fault| fault.at_ns);
        }
        // Long snapshots outlive changes of the lead.
        let percent = random.pick(&[0, 0, 10, 40]);
        load.snapshot_percent = if shows_snapshots(engine) { percent } else { 0 };
        settings.snapshot_age = random.pick(&[0, 0, 3 * MS, 300 * MS]);
        load.sizes = Sizes::draw(random);
        load.mix.blobs = if load.sizes.largest > 0 { 1 + random.below(4) as u8 } else { 0 };
        let largest = load.sizes.largest_transaction(load.operations);
        let machines = Machines::draw(random, settings.election_timeout, largest);
        let (long, birth, full) = (random.one_in(100), random.one_in(6), random.one_in(50));
        let engine = engine.name().to_string();
        let mut plan = Plan {
            seed,
            engine,
            replicas,
            newcomers: 0,
            workers,
            settings,
            load,
            machines,
            delay_ns,
            delay_spread_ns,
            transport,
            interleaving,
            choices,
            clocks,
            length_ns,
            absent,
            disks: false,
            behind: false,
            from_birth: false,
            levels: Vec::new(),
            redis: None,
            faults,
        };
        if full {
            kinds::fill_up(&mut plan, random);
        }
        if long {
            kinds::lengthen(&mut plan, random);
        } else if birth {
            kinds::at_birth(&mut plan, random);
        }
        plan.settings.long_request_bytes = random.pick(&[None, None, Some(1), Some(64), Some(1000)]);
        // Who is refused for want of memory would repeat it for ever.
        let counters = random.pick(&[0, 0, 4, 12]);
        plan.load.counters = if plan.load.sizes.memory == 0 { counters } else { 0 };
        let fresh = random.pick(&[0, 50, 100]);
        plan.load.fresh_percent = if plan.load.snapshot_percent > 0 { fresh } else { 0 };
        if random.one_in(4) && plan.engine().is_ok_and(|engine| engine.abilities().members) {
            kinds::move_members(&mut plan, random);
        }
        if random.one_in(4) && plan.engine().is_ok_and(|engine| engine.abilities().members) {
            kinds::mix_builds(&mut plan, random);
        }
        if plan.engine().is_ok_and(|engine| engine.abilities().client_coordinators) {
            let delegates = random.pick(&[0, 2, 6]);
            // In runs of hours, and where memory ends, nothing is learnt of them.
            let quick = !long && plan.load.sizes.memory == 0;
            plan.load.delegates = if quick { delegates } else { 0 };
        }
        if plan.engine().is_ok_and(|engine| !engine.abilities().fails_over) {
            kinds::spare_all(&mut plan);
        }
        // From chance of their own, so that plans keep what else they have.
        let pipelines = Random::new(seed ^ 0x919e).pick(&[0, 0, 2, 4]);
        plan.load.pipelines = if long { 0 } else { pipelines };
        plan.hand_leads_over();
        plan
    }
}

impl Settings {
    fn draw(random: &mut Random) -> Settings {
        let heartbeat = random.pick(&[2 * MS, 5 * MS, 5 * MS, 10 * MS]);
        let max_entry_bytes = random.pick(&[1 << 10, 1 << 10, 4 << 10, 64 << 10]);
        let max_in_flight_bytes = max_entry_bytes * random.pick(&[1, 2, 8, 32]);
        Settings {
            heartbeat,
            election_timeout: heartbeat * random.between(4, 9),
            max_entry_bytes,
            batch_delay: random.pick(&[0, 100 * US, 1000 * US]),
            pipeline_entries: random.pick(&[1, 2, 4, 16]),
            max_in_flight_bytes,
            max_in_flight_requests: random.pick(&[4, 64, 20_000]),
            log_retain_bytes: max_in_flight_bytes * random.pick(&[1, 1, 4, 64]),
            max_attempts: random.pick(&[1, 10, 100]),
            snapshot_age: 0,
            long_request_bytes: None,
        }
    }
}

impl Load {
    fn draw(random: &mut Random) -> Load {
        Load {
            clients: random.pick(&[2, 8, 16, 32]),
            transactions: random.pick(&[200, 600, 1200, 2400]),
            keys: random.pick(&[2, 6, 12, 24]),
            appends_per_key: random.pick(&[32, 64, 128]),
            operations: random.pick(&[1, 2, 4, 8]),
            read_percent: random.pick(&[10, 50, 50, 90]),
            patience_ns: random.pick(&[50 * MS, 200 * MS, 1000 * MS]),
            mix: Mix::draw(random),
            workers: random.pick(&[Busy::Any, Busy::Any, Busy::Home, Busy::Few]),
            astray: random.pick(&[0, 20, 100]),
            snapshot_percent: 0,
            fresh_percent: 0,
            sizes: Sizes::default(),
            counters: 0,
            delegates: 0,
            pipelines: 0,
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
            ..Mix::default()
        };
        if drawn == Mix::default() { Mix { lists: 1, ..drawn } } else { drawn }
    }
}

impl Transport {
    fn draw(random: &mut Random, timeout: Nanos) -> Transport {
        let truncate = random.one_in(2);
        let late_ns = random.one_in(2).then(|| random.between(MS, 2 * timeout));
        let patience_ns = random.one_in(2).then(|| random.between(timeout, 5 * timeout));
        let datagrams = random.one_in(4);
        let rate =
            |random: &mut Random| if datagrams && random.one_in(2) { random.between(1, 50) } else { 0 };
        let (lost, repeated) = (rate(random), rate(random));
        Transport { truncate, late_ns, patience_ns, lost, repeated, reordered: datagrams && random.one_in(2) }
    }
}

impl Interleaved {
    fn draw(random: &mut Random, timeout: Nanos) -> Option<Interleaved> {
        if random.one_in(3) {
            return None;
        }
        let one_in = random.pick(&[3, 10, 50, 200]);
        let long_one_in = random.pick(&[0, 20, 200]);
        let (longest_ns, controllers) = (random.between(US, timeout), random.one_in(2));
        Some(Interleaved { one_in, long_one_in, longest_ns, controllers })
    }
}

/// Which of the engine's rare choices are in, and how rare each is.
fn draw_choices(engine: EngineKind, random: &mut Random) -> BTreeMap<String, u64> {
    if random.one_in(3) {
        return BTreeMap::new();
    }
    let mut choices = BTreeMap::new();
    for site in engine.sites() {
        let rate = match site.frequency() {
            Frequency::Seldom => random.pick(&[50, 300, 1000]),
            Frequency::Often => random.pick(&[2, 5]),
            Frequency::Usual => random.pick(&[3, 20, 200]),
        };
        if random.one_in(4) {
            choices.insert(site.name().to_string(), rate);
        }
    }
    choices
}

fn draw_clocks(random: &mut Random, replicas: u8) -> Vec<(u64, Option<u64>)> {
    let (rates, follow) = (random.one_in(2), random.one_in(2));
    let clock = |_| {
        let rate = if rates { random.between(800_000, 1_250_000) } else { 1_000_000 };
        (rate, follow.then(|| random.below(1 << 40)))
    };
    (0..replicas).map(clock).collect()
}
