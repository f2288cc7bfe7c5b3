//! `highwater demo`: the whole product in half a minute.
//!
//! Three replica processes run TPC-C; the leader is killed with SIGKILL, another takes over, the victim comes back as a
//! learner and becomes a voter, all under load. Then everything is checked: consistency conditions 1-12 on every
//! replica, equal digests, that no acknowledged transaction is missing, and that counters incremented under sessions are exact.
//!
//! Where nobody leads, every replica runs TPC-C, and one of them is killed beside the others, which go on.
//!
//! Three threads: one plays the acts, the *sampler* asks the replicas, and the main thread draws what both
//! wrote into the [`scene`].

mod args;
mod plain;
mod scene;
mod verdict;
#[cfg(feature = "tui")]
mod view;

use std::thread;
use std::time::{Duration, Instant};

use highwater_node::admin::protocol::StatusReport;

use crate::audit::{Acknowledged, Generators};
use crate::counting::{self, Counts, Team};
use crate::failure::{Failure, Result};
use crate::fleet::{Fleet, FleetSpec};
use crate::load::LoadSpec;
use crate::numbers::{Spread, bar, bytes};
use crate::workload::tpcc;
use crate::{failover, load, verify};
pub use args::DemoArgs;
use scene::{Phase, SAMPLE_EVERY, Sampler, SharedScene};
use verdict::Verdict;

/// Every n-th request writes an audit row.
const AUDIT_EVERY: u32 = 10;
/// When the leader dies, as a share of the load's time.
const KILL_AT: f64 = 0.4;
/// When it is started again.
const RESTART_AT: f64 = 0.6;
/// Clients that count under sessions, beside the load.
const COUNTERS: u64 = 3;
/// Transactions per second, if nobody says otherwise: what two cores do beside three replicas.
const RATE: f64 = 20_000.0;
/// Unreleased transactions of a worker.
const IN_FLIGHT: u32 = 200;
/// The same where nobody leads: the rows of a warehouse are written by all, and what conflicts is put off.
const LEADERLESS: (f64, u32) = (500.0, 4);
/// How long all replicas run together in the end, at least.
const WHOLE: Duration = Duration::from_secs(1);

/// Runs the demo.
pub fn run(args: &DemoArgs) -> Result<()> {
    let spec = FleetSpec::of(args.engine, args.replicas, args.workers, &[], args.keep);
    let began = Instant::now();
    let fleet = Fleet::start(&spec)?;
    let scene = SharedScene::new(fleet.len());
    scene.event(format!(
        "started {} replica processes, logs in {}",
        fleet.len(),
        fleet.directory().display()
    ));
    let sampler =
        Sampler::start((0..fleet.len()).map(|node| fleet.admin_address(node)).collect(), scene.clone());
    let playing = {
        let (scene, args) = (scene.clone(), args.clone());
        thread::spawn(move || {
            let outcome = play_and_finish(fleet, &args, &scene);
            scene.lock().over = true;
            outcome
        })
    };
    show(args, &scene)?;
    let outcome = playing.join().map_err(|_| Failure::negative("the demo broke; see the panic above"))?;
    drop(sampler);
    let verdict = outcome?;
    print!("\n{verdict}");
    println!("{:.0} s in all", began.elapsed().as_secs_f64());
    Ok(())
}

/// Shows the play until it is over: drawn on a terminal, in builds that can draw; line by line elsewhere.
fn show(args: &DemoArgs, scene: &SharedScene) -> Result<()> {
    #[cfg(feature = "tui")]
    if !args.plain && std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        view::show(scene)?;
        plain::print_events(scene, 0);
        return Ok(());
    }
    #[cfg(not(feature = "tui"))]
    let _ = args.plain;
    plain::show(scene);
    Ok(())
}

/// Plays the acts and takes the fleet down. A verdict that is negative is a failure too.
fn play_and_finish(mut fleet: Fleet, args: &DemoArgs, scene: &SharedScene) -> Result<Verdict> {
    let outcome = play(&mut fleet, args, scene).and_then(|verdict| match verdict.trouble() {
        None => Ok(verdict),
        Some(trouble) => {
            scene.event(format!("the verdict is negative\n{verdict}"));
            Err(Failure::negative(trouble))
        }
    });
    fleet.finish(outcome)
}

fn play(fleet: &mut Fleet, args: &DemoArgs, scene: &SharedScene) -> Result<Verdict> {
    let workload = tpcc(args.warehouses, false, args.scale);
    let leaderless = fleet.engine().abilities().leaderless;
    let leader = fleet.wait_for_leader()?;
    scene.event(match leaderless {
        true => "every replica takes transactions, none leads".into(),
        false => format!("replica {leader} leads"),
    });

    scene.enter(Phase::Loading);
    let mut admin = fleet.admin(leader)?;
    let loading = Instant::now();
    admin
        .load(&workload, |done, total| {
            let share = total.filter(|total| *total > 0).map(|total| done as f64 / total as f64);
            let far = share
                .map_or(format!("{done} requests"), |share| format!("{} {:.0} %", bar(share), share * 100.0));
            scene.lock().progress = Some(format!("loading TPC-C: {far}"));
        })
        .map_err(|error| admin.failure(error))?;
    scene.event(format!(
        "loaded {} warehouse(s) of TPC-C in {:.1} s",
        args.warehouses,
        loading.elapsed().as_secs_f64()
    ));

    let spec = LoadSpec {
        workload: workload.clone(),
        workers: args.workers,
        in_flight: args.in_flight.unwrap_or(if leaderless { LEADERLESS.1 } else { IN_FLIGHT }),
        rate: Some(args.rate.unwrap_or(if leaderless { LEADERLESS.0 } else { RATE }))
            .filter(|rate| *rate > 0.0),
        seed: 1,
        audit_every: AUDIT_EVERY,
    };
    let (mut acknowledged, mut generators) = (Acknowledged::default(), Generators::default());
    let spec = spec.shared_by(fleet);
    spec.start_everywhere(fleet, leader, &mut generators)?;
    let team = Team::start(COUNTERS, &fleet.doors(), 1);
    scene.enter(Phase::Running);
    let running = Instant::now();
    wait_until(running, args.seconds as f64 * KILL_AT);
    let tps_before = median_tps(scene, running.elapsed());

    let leader = fleet.wait_for_leader()?;
    scene.enter(Phase::Killed);
    let which = if leaderless { "which clients ask as well as any" } else { "which leads" };
    scene.event(format!("kill -9 of replica {leader}, {which}"));
    load::collect_acknowledged(fleet, &mut acknowledged);
    spec.prepare_kill(fleet, leader, &mut generators)?;
    let failover = failover::kill_leader(fleet, leader, &mut acknowledged)?;
    scene.enter(Phase::Carrying);
    let gap_ms = failover.gap_ms;
    scene.event(match leaderless {
        true => format!("the others go on: {gap_ms:.0} ms without a release at most"),
        false => format!("replica {} leads: {gap_ms:.0} ms without a release", failover.successor),
    });
    wait_until(running, args.seconds as f64 * RESTART_AT);

    scene.enter(Phase::Rejoining);
    scene.event(format!("replica {} is started again, without its memory", failover.victim));
    let mut role = String::new();
    let rejoin = failover::rejoin(fleet, failover.victim, failover.successor, |status| {
        tell(scene, status, &mut role)
    })?;
    scene.event(format!(
        "replica {} votes again after {:.2} s, with {}",
        failover.victim,
        rejoin.seconds,
        bytes(rejoin.store_bytes)
    ));
    spec.start_on(fleet, failover.victim, &mut generators)?;
    scene.enter(Phase::Whole);
    let whole = Instant::now();
    wait_until(running, args.seconds as f64);
    wait_until(whole, WHOLE.as_secs_f64());
    let tps_after = median_tps(scene, whole.elapsed());

    scene.enter(Phase::Converging);
    load::stop_everywhere(fleet, &mut acknowledged)?;
    let counted = team.stop().map_err(Failure::negative)?;
    let miscounted = counting::verify(&fleet.doors(), &counted).err();
    scene.event("the load stopped");
    let converged = verify::converge(fleet)?;
    scene.event("all replicas applied all that was decided");
    scene.enter(Phase::Checking);
    let findings = verify::examine(fleet, &workload, &acknowledged)?;
    let released = scene.lock().released_total;
    Ok(Verdict {
        replicas: fleet.len(),
        leaderless,
        released,
        tps_before,
        tps_after,
        failover,
        rejoin,
        converge_ms: converged.as_secs_f64() * 1e3,
        findings,
        counts: Counts::of(&counted),
        miscounted,
    })
}

/// Tells when a coming replica's role changes.
fn tell(scene: &SharedScene, status: &StatusReport, role: &mut String) {
    if *role != status.role {
        role.clone_from(&status.role);
        scene.event(format!("replica {} is a {role}", status.node));
    }
}

fn wait_until(since: Instant, seconds: f64) {
    thread::sleep(Duration::from_secs_f64(seconds).saturating_sub(since.elapsed()));
}

/// Median over the samples of the last while, per second.
fn median_tps(scene: &SharedScene, window: Duration) -> f64 {
    let wanted = (window.as_secs_f64() / SAMPLE_EVERY.as_secs_f64()) as usize;
    let scene = scene.lock();
    let samples = scene.released.iter().rev().take(wanted).map(|&released| released as f64);
    Spread::of(samples).median / SAMPLE_EVERY.as_secs_f64()
}
