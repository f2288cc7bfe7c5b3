//! `highwater torture`: real replica processes, real clients, real faults, and the checker's verdict.
//!
//! The *director* strikes and heals the cluster as the seed's [`schedule`] says; client processes run lists and a bank over
//! RESP, on whoever leads and on any replica's snapshots, or where nobody leads each on a replica that it keeps to, and write down what
//! they saw; others count under sessions, and must come out exact; the [`network`] lies between the replicas. When the time is over, all is healed, the clients end, every key is read once more, and the history goes
//! through the same checker as the simulator's.

mod args;
mod ballast;
pub mod client;
mod clients;
mod director;
mod events;
mod fates;
mod faults;
pub mod guest;
mod guests;
mod judge;
mod latency;
mod limits;
mod losses;
mod network;
pub mod node;
mod notary;
mod report;
mod schedule;
mod watch;

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use highwater_checker::Level;
use highwater_node::config::Config;
use highwater_workloads::random::{Rng, mix};

use crate::counting::{self, Counts};
use crate::disks;
use crate::failure::{Failure, Result};
use crate::fleet::{Fleet, FleetSpec, without_locks};
use crate::machine::monotonic_ns;
use crate::verify;
pub use args::{NodeArgs, TortureArgs};
pub use client::ClientArgs;
use client::session::Asks;
use clients::{Clients, ClientsSpec};
use director::Director;
use faults::Faults;
pub use guest::GuestArgs;
use guests::House;
use limits::Limits;
use losses::Allowance;
use network::Network;
pub use network::pump::{ProxyArgs, run as proxy};
use notary::Notary;
use report::Report;
use schedule::{FaultKind, Schedule};
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
    let faults = with_disks(args.kinds()?)?;
    look_ahead(args)?;
    let proxied = faults.iter().any(|fault| fault.needs_proxy());
    let mut network = Network::set_up(args.means, usize::from(args.replicas), proxied, &mut rng)?;
    let faults = possible(faults, &network)?;
    let limits = Limits::of(args, &faults);
    let mut spec = FleetSpec::of(args.engine, args.replicas, args.workers, &limits.set, args.keep);
    spec.own = snapshot_ages(args.replicas, &mut rng);
    spec.disk_mb = faults.contains(&FaultKind::DiskFull).then_some(args.disk_mb);
    let names: Vec<_> = faults.iter().map(|fault| fault.name()).collect();
    println!(
        "seed {seed}: {} replicas of {}, {} worker(s), {} clients, {} s of {}; links: {}",
        args.replicas,
        args.engine,
        args.workers,
        args.clients,
        args.seconds,
        names.join(","),
        network.describe()
    );
    let mut layout = network.layout();
    layout.commands.iter_mut().for_each(|command| command.extend_from_slice(&limits.flags));
    let mut fleet = Fleet::start_as(&spec, layout)?;
    let outcome = torture(args, seed, &faults, &limits, &mut fleet, &mut network);
    let outcome = outcome.map_err(|failure| failure.hint(format!("seed {seed}")));
    if args.history.is_none() && (args.keep || outcome.is_err()) {
        eprintln!("highwater: the history is in {}", fleet.directory().join("history").display());
    }
    fleet.finish(outcome)
}

fn torture(
    args: &TortureArgs,
    seed: u64,
    faults: &[FaultKind],
    limits: &Limits,
    fleet: &mut Fleet,
    network: &mut Network,
) -> Result<()> {
    let directory = args.history.clone().unwrap_or_else(|| fleet.directory().join("history"));
    use_directory(&directory)?;
    let abilities = args.engine.abilities();
    let level = if abilities.real_time { Level::Strict } else { Level::Serializable };
    let watch =
        Watch::start((0..fleet.len()).map(|node| fleet.admin_address(node)).collect(), abilities.leaderless);
    fleet.wait_for_leader()?;
    let clients = u64::from(args.clients);
    // More write history: who opens the accounts, and who reads everything in the end, there and on each replica.
    let of = clients + 2 + u64::from(args.replicas);
    let notary = |number| Notary { number, of, directory: &directory };
    let doors = network.doors();
    notary(clients).open_accounts(&doors, fleet)?;

    // Who counts relies on what it was told.
    let may_lose = args.may_lose(faults);
    let spec = ClientsSpec {
        engine: args.engine,
        doors: doors.clone(),
        clients,
        of,
        rate: args.rate,
        seed,
        counters: !may_lose,
        history: directory.clone(),
    };
    let mut load = Clients::start(&spec, fleet.directory())?;
    let began = monotonic_ns();
    let house = House {
        engine: args.engine,
        doors: doors.clone(),
        memory_mb: args.memory_mb,
        logs: fleet.directory().to_path_buf(),
    };
    let mut director = Director::new(Faults::new(fleet, network, &watch, house), &watch, &mut load);
    let mut schedule = Schedule::new(seed, faults, usize::from(args.replicas));
    let outcome = director.play(&mut schedule, Duration::from_secs(args.seconds));
    let Director { faults: Faults { events, guestbook, .. }, unrest, .. } = director;
    let counts = events::count_by_kind(&events);
    let crashes = events.iter().filter(|event| may_lose && event.kind == FaultKind::KillAll);
    let allowance =
        Allowance { crashes: crashes.map(|event| event.from_ns).collect(), window: window(args)? };
    events::write(&directory, &events)?;
    outcome?;
    std::thread::sleep(LAST_REST);
    let ended = monotonic_ns();
    let mut tally = load.stop()?;
    tally.trouble.extend(guestbook.trouble);

    println!("the load stopped; reading every key once more");
    let (failovers, by_followers) = (watch.failovers(), watch.snapshot_reads());
    let resident_bytes = watch.resident_bytes();
    tally.trouble.extend(limits.exceeded(resident_bytes));
    drop(watch);
    notary(clients + 1).read_everything(Asks::Leader, &doors, &tally.generations)?;
    tally.trouble.extend(counting::verify(&doors, &tally.counted).err());
    let digests = verify::digests(fleet)?;
    if abilities.snapshots || abilities.leaderless {
        std::thread::sleep(oldest_snapshot(args)?);
        for (door, number) in doors.chunks(1).zip(clients + 2..) {
            notary(number).read_everything(Asks::Present, door, &tally.generations)?;
        }
    }
    let verdict = judge::judge(&directory, level, &allowance)?;
    tally.trouble.extend(verdict.trouble);
    // What nobody struck lives.
    fleet.none_died()?;
    let commits: Vec<u64> = verdict.committed.iter().map(|(_, told)| *told).collect();
    let report = Report {
        seed,
        engine: args.engine.name(),
        level: level.name(),
        leaderless: abilities.leaderless,
        seconds: (ended - began) as f64 / 1e9,
        replicas: args.replicas,
        workers: args.workers,
        clients: args.clients,
        links: network.describe(),
        transactions: tally.transactions,
        counts: Counts::of(&tally.counted),
        snapshots: tally.snapshots,
        bounded: tally.bounded,
        by_followers,
        reads_snapshots: abilities.snapshots,
        missed: faults.iter().copied().filter(|kind| !counts.contains_key(kind)).collect(),
        faults: counts,
        guests: guestbook.counts,
        leader_changes: events::leader_changes(&events),
        latency: latency::by_kind(&verdict.committed, &events, &unrest),
        resident_bytes,
        failovers,
        gaps: report::Gaps::of(&commits, (began, ended), &events, &unrest),
        digests,
        checked: verdict.checked,
        checked_snapshots: verdict.snapshots,
        check_seconds: verdict.seconds,
        anomalies: verdict.anomalies,
        window_ms: may_lose.then_some(allowance.window.as_millis() as u64),
        losses: verdict.losses,
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
    any_left(able)
}

/// The kinds that this machine can do, in a mount namespace of this run's own if disks are to be full.
fn with_disks(mut faults: Vec<FaultKind>) -> Result<Vec<FaultKind>> {
    if faults.contains(&FaultKind::DiskFull)
        && let Err(why) = disks::enter()
    {
        eprintln!(
            "highwater: left out because this machine lets nobody mount a small disk ({why}): disk-full"
        );
        faults.retain(|fault| *fault != FaultKind::DiskFull);
    }
    any_left(faults)
}

fn any_left(faults: Vec<FaultKind>) -> Result<Vec<FaultKind>> {
    if faults.is_empty() {
        return Err(Failure::usage(
            "no fault is left to be tried: name others, or be root and use --means namespaces",
        ));
    }
    Ok(faults)
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
    (0..replicas)
        .map(|node| vec![("engines.rolis.snapshot_age_us".to_string(), age(node).to_string())])
        .collect()
}

/// How old a snapshot may be where nothing is written any more: after so long it shows the present.
fn oldest_snapshot(args: &TortureArgs) -> Result<Duration> {
    let config = Config::load(None, [], &without_locks(&args.set)).map_err(Failure::usage)?;
    let set = config.engines.get("rolis").and_then(|own| own.get("snapshot_age_us").copied());
    let ages = SNAPSHOT_AGES_US.into_iter().chain(set);
    Ok(Duration::from_micros(ages.max().expect("there are some")))
}

/// How much a crash of all replicas may take with `async`: what a disk may be behind; without a leader also what a replica may not have
/// heard of yet.
fn window(args: &TortureArgs) -> Result<Duration> {
    let config = Config::load(None, [], &without_locks(&args.set)).map_err(Failure::usage)?;
    let unheard = if args.engine.abilities().leaderless { config.timeouts.election_timeout_ms } else { 0 };
    Ok(Duration::from_millis(config.storage.async_window_ms + unheard))
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    mix(now.as_nanos() as u64 ^ u64::from(std::process::id())) % 1_000_000_000
}
