//! `highwater torture`: real replica processes, real clients, real faults, and the checker's verdict.
//!
//! The *director* strikes and heals the cluster as the seed's [`plan`] says; client processes run lists and a bank over
//! RESP, on whoever leads and on any replica's snapshots, and write down what they saw; the [`network`] lies between the
//! replicas. When the time is over, all is healed, the clients end, every key is read once more, and the history goes
//! through the same checker as the simulator's.

mod args;
pub mod client;
mod director;
pub mod guest;
mod guests;
mod latency;
mod load;
mod network;
mod plan;
mod report;
mod settling;
mod watch;

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use highwater_node::config::Config;
use highwater_workloads::random::{Rng, mix};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::failure::{Failure, Result};
use crate::fleet::{Fleet, FleetPlan};
use crate::machine::monotonic_ns;
pub use args::{NodeArgs, TortureArgs};
pub use client::ClientArgs;
use client::session::Asks;
use director::Director;
pub use guest::GuestArgs;
use guests::House;
use load::{Load, LoadPlan};
use network::Network;
pub use network::pump::{ProxyArgs, run as proxy};
use plan::{FaultKind, Plan};
use report::Report;
use settling::Notary;
use watch::Watch;

/// Replicas renew their snapshots for every read, which tries how they begin; all but every third one, which keeps them for
/// so long, in microseconds, which tries what they hold back.
const SNAPSHOT_AGES_US: [u64; 2] = [10_000, 100_000];
/// Health at the end, under load.
const LAST_REST: Duration = Duration::from_secs(1);

/// Runs `highwater torture`.
pub fn run(args: &TortureArgs) -> Result<()> {
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let mut rng = Rng::new(mix(seed));
    let faults = args.kinds();
    look_ahead(args)?;
    let proxied = faults.iter().any(|fault| fault.needs_proxy());
    let mut network = Network::set_up(args.means, usize::from(args.replicas), proxied, &mut rng)?;
    let faults = possible(faults, &network)?;
    let straits = Straits::of(args, &faults);
    let mut plan = FleetPlan::rolis(args.replicas, args.workers, &straits.set, args.keep);
    plan.own = snapshot_ages(args.replicas, &mut rng);
    let names: Vec<_> = faults.iter().map(|fault| fault.name()).collect();
    println!(
        "seed {seed}: {} replicas, {} worker(s), {} clients, {} s of {}; links: {}",
        args.replicas,
        args.workers,
        args.clients,
        args.seconds,
        names.join(","),
        network.describe()
    );
    let mut layout = network.layout();
    layout.commands.iter_mut().for_each(|command| command.extend_from_slice(&straits.flags));
    let mut fleet = Fleet::start_as(&plan, layout)?;
    let outcome = torture(args, seed, &faults, &straits, &mut fleet, &mut network);
    let outcome = outcome.map_err(|failure| failure.hint(format!("seed {seed}")));
    if args.history.is_none() && (args.keep || outcome.is_err()) {
        eprintln!("highwater: the history is in {}", fleet.directory().join("history").display());
    }
    fleet.finish(outcome)
}

/// Runs one replica as part of a torture: in its namespace, and never longer than its parent.
pub fn node(args: &NodeArgs) -> Result<()> {
    // The lifeline does not end a replica that is stopped.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(|error| Failure::cannot_start(format!("no signal at the parent's end: {error}")))?;
    limit(Resource::Nofile, args.descriptors)?;
    limit(Resource::As, args.address_space_mb.map(|mb| mb << 20))?;
    if let Some(path) = &args.namespace {
        enter(path)
            .map_err(|error| Failure::cannot_start(format!("cannot enter {}: {error}", path.display())))?;
    }
    crate::serve::serve(&args.serve)
}

/// Nothing that this process does lifts it again.
fn limit(resource: Resource, most: Option<u64>) -> Result<()> {
    let Some(most) = most else { return Ok(()) };
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
        .map_err(|error| Failure::cannot_start(format!("cannot set a limit: {error}")))
}

/// What the replicas have to make do with: the kinds decide.
struct Straits {
    /// Config keys.
    set: Vec<(String, String)>,
    /// Flags of `torture-node`.
    flags: Vec<String>,
    /// MiB that replicas promise not to exceed.
    budget_mb: Option<u64>,
}

/// Room for what no budget can foresee: the binary, stacks, an allocator's slack.
const SLACK_PERCENT: u64 = 25;

impl Straits {
    fn of(args: &TortureArgs, faults: &[FaultKind]) -> Straits {
        let (mut set, mut flags, mut budget_mb) = (args.set.clone(), Vec::new(), None);
        if faults.contains(&FaultKind::Storms) {
            flags.extend(["--descriptors".into(), args.descriptors.to_string()]);
        }
        if faults.contains(&FaultKind::Memory) {
            let budget = ("limits.memory_mb".to_string(), args.memory_mb.to_string());
            if Config::default_toml().lines().any(|line| line.starts_with("memory_mb")) {
                set.insert(0, budget);
                budget_mb = Some(args.memory_mb);
            } else {
                // Replicas that know no budget of their own meet the system's.
                flags.extend(["--address-space-mb".into(), (2 * args.memory_mb).to_string()]);
            }
        }
        Straits { set, flags, budget_mb }
    }

    /// What is wrong with the most memory that a replica was seen to have, if anything.
    fn exceeded(&self, resident_bytes: u64) -> Option<String> {
        let budget = self.budget_mb?;
        let (most, resident) = (budget * (100 + SLACK_PERCENT) / 100, resident_bytes >> 20);
        (resident > most)
            .then(|| format!("a replica with a budget of {budget} MiB had {resident} MiB resident"))
    }
}

/// Moves this thread, and those that it will start, into a network namespace.
fn enter(path: &Path) -> std::io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    let file = fs::File::open(path)?;
    Ok(move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network))?)
}

fn torture(
    args: &TortureArgs,
    seed: u64,
    faults: &[FaultKind],
    straits: &Straits,
    fleet: &mut Fleet,
    network: &mut Network,
) -> Result<()> {
    let directory = args.history.clone().unwrap_or_else(|| fleet.directory().join("history"));
    use_directory(&directory)?;
    let watch = Watch::start((0..fleet.len()).map(|node| fleet.admin(node)).collect());
    fleet.wait_for_leader()?;
    let clients = u64::from(args.clients);
    // More write history: who opens the accounts, and who reads everything in the end, there and on each replica.
    let of = clients + 2 + u64::from(args.replicas);
    let notary = |number| Notary { number, of, directory: &directory };
    let doors = network.doors();
    settling::open_accounts(notary(clients), &doors, fleet)?;

    let plan =
        LoadPlan { doors: doors.clone(), clients, of, rate: args.rate, seed, history: directory.clone() };
    let mut load = Load::start(&plan, fleet.directory())?;
    let began = monotonic_ns();
    let house =
        House { doors: doors.clone(), memory_mb: args.memory_mb, logs: fleet.directory().to_path_buf() };
    let mut director = Director::new(fleet, network, &watch, &mut load, house);
    let mut schedule = Plan::new(seed, faults, usize::from(args.replicas));
    let outcome = director.play(&mut schedule, Duration::from_secs(args.seconds));
    let (events, unrest) = (std::mem::take(&mut director.events), std::mem::take(&mut director.unrest));
    let guestbook = std::mem::take(&mut director.guestbook);
    let counts = report::by_kind(&events);
    settling::write_events(&directory, &events)?;
    outcome?;
    std::thread::sleep(LAST_REST);
    let ended = monotonic_ns();
    let mut tally = load.stop()?;
    tally.trouble.extend(guestbook.trouble);

    println!("the load stopped; reading every key once more");
    let (failovers, by_followers) = (watch.failovers(), watch.snapshot_reads());
    let resident_bytes = watch.resident_bytes();
    tally.trouble.extend(straits.exceeded(resident_bytes));
    drop(watch);
    settling::read_everything(notary(clients + 1), Asks::Leader, &doors, &tally.generations)?;
    let digests = settling::digests(fleet)?;
    std::thread::sleep(oldest_snapshot(args)?);
    for (door, number) in doors.chunks(1).zip(clients + 2..) {
        settling::read_everything(notary(number), Asks::SnapshotsAtRest, door, &tally.generations)?;
    }
    let verdict = settling::judge(&directory)?;
    // What nobody struck lives.
    fleet.none_died()?;
    let commits: Vec<u64> = verdict.committed.iter().map(|(_, told)| *told).collect();
    let report = Report {
        seed,
        seconds: (ended - began) as f64 / 1e9,
        replicas: args.replicas,
        workers: args.workers,
        clients: args.clients,
        links: network.describe(),
        transactions: tally.transactions,
        snapshots: tally.snapshots,
        by_followers,
        missed: faults.iter().copied().filter(|kind| !counts.contains_key(kind)).collect(),
        faults: counts,
        guests: guestbook.counts,
        leader_changes: report::leader_changes(&events),
        latency: latency::by_kind(&verdict.committed, &events, &unrest),
        resident_bytes,
        failovers,
        gaps: report::Gaps::of(&commits, (began, ended), &events, &unrest),
        digests,
        checked: verdict.checked,
        checked_snapshots: verdict.snapshots,
        check_seconds: verdict.seconds,
        anomalies: verdict.anomalies,
        trouble: tally.trouble,
        history: directory.display().to_string(),
    };
    report.publish(args.json.as_deref())
}

/// The kinds that this machine can do.
fn possible(faults: Vec<FaultKind>, network: &Network) -> Result<Vec<FaultKind>> {
    let (able, unable): (Vec<_>, Vec<_>) =
        faults.into_iter().partition(|fault| *fault != FaultKind::Clients || network.has_cables());
    for fault in unable {
        eprintln!("highwater: left out for want of network namespaces: {}", fault.name());
    }
    if able.is_empty() {
        return Err(Failure::usage(
            "no fault is left to be tried: name others, or be root and use --means namespaces",
        ));
    }
    Ok(able)
}

/// Finds what would go wrong only later.
fn look_ahead(args: &TortureArgs) -> Result<()> {
    oldest_snapshot(args)?;
    let place = args.json.as_deref().and_then(Path::parent).filter(|place| !place.as_os_str().is_empty());
    if let Some(place) = place.filter(|place| !place.is_dir()) {
        return Err(Failure::usage(format!("--json: there is no directory {}", place.display())));
    }
    args.history.as_deref().map_or(Ok(()), use_directory)
}

/// Makes sure that history can go there: an empty directory.
fn use_directory(directory: &Path) -> Result<()> {
    let cannot = |error| Failure::cannot_start(format!("cannot use {}: {error}", directory.display()));
    fs::create_dir_all(directory).map_err(cannot)?;
    if fs::read_dir(directory).map_err(cannot)?.next().is_some() {
        return Err(Failure::usage(format!("{} is not empty: name a new directory", directory.display())));
    }
    Ok(())
}

/// Each replica's own age of snapshots.
fn snapshot_ages(replicas: u8, rng: &mut Rng) -> Vec<Vec<(String, String)>> {
    let (keeps, age) = (rng.below(3) as u8, SNAPSHOT_AGES_US[rng.below(2) as usize]);
    let age = |node: u8| if node % 3 == keeps { age } else { 0 };
    (0..replicas).map(|node| vec![("limits.snapshot_age_us".to_string(), age(node).to_string())]).collect()
}

/// How old a snapshot may be where nothing is written any more: after so long it shows the present.
fn oldest_snapshot(args: &TortureArgs) -> Result<Duration> {
    let config = Config::load(None, [], &args.set).map_err(Failure::usage)?;
    let ages = SNAPSHOT_AGES_US.into_iter().chain([config.limits.snapshot_age_us]);
    Ok(Duration::from_micros(ages.max().expect("there are some")))
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    mix(now.as_nanos() as u64 ^ u64::from(std::process::id())) % 1_000_000_000
}
