//! `highwater bench failover`: kill -9 of the leader under load, again and again, in one cluster. Where nobody leads all replicas run the
//! load, and one of them is killed.
//!
//! Each round: the load runs, the leader dies, a successor takes over (its load was waiting), the victim is started
//! again and becomes a voter under load. In the end all replicas must hold the same data, every consistency condition
//! must hold, and every audit row that a process had reported as released must be there.

use std::thread;
use std::time::Duration;

use highwater_node::admin::protocol::WorkloadSpec;
use serde::Serialize;

use super::args::FailoverArgs;
use crate::audit::{Acknowledged, Generators};
use crate::failover::{self, Failover, Rejoin};
use crate::failure::{Failure, Result};
use crate::fleet::{Fleet, FleetSpec};
use crate::load::{self, LoadSpec};
use crate::machine::Machine;
use crate::numbers::{Spread, bytes};
use crate::progress::Progress;
use crate::report_file::{check_writable, write_json};
use crate::verify::{self, Findings};
use crate::workload::{complete, tpcc};

#[derive(Debug, Serialize)]
struct FailoverReport {
    workload: String,
    engine: &'static str,
    replicas: usize,
    workers: u16,
    /// Every kill.
    rounds: Vec<Round>,
    /// From the last release before a kill to the first one after, in milliseconds. Where nobody leads: the longest time without one.
    gap_ms: Spread,
    /// From the signal to the first release after, in milliseconds.
    from_kill_ms: Spread,
    /// From the start of the killed process to being a voter again, in seconds.
    rejoin_seconds: Spread,
    /// Longest time without a release while a replica rejoined, in milliseconds.
    rejoin_gap_ms: Spread,
    checks: Findings,
    machine: Machine,
    command: String,
}

#[derive(Debug, Serialize)]
struct Round {
    // By the name that reports have had from the start.
    #[serde(rename = "strike")]
    failover: Failover,
    rejoin: Rejoin,
}

/// Runs the rounds and prints the figures.
pub fn run(args: &FailoverArgs) -> Result<()> {
    args.json.as_deref().map_or(Ok(()), check_writable)?;
    let mut machine = Machine::look();
    let workload = workload(args)?;
    let spec = FleetSpec::of(args.engine, args.replicas, args.workers, &args.set, args.keep);
    let mut fleet = Fleet::start(&spec)?;
    let mut progress = Progress::new();
    let mut rounds = Vec::new();
    let outcome = rounds_and_checks(&mut fleet, args, &workload, &mut rounds, &mut progress);
    progress.clear();
    let checks = fleet.finish(outcome)?;
    machine.look_again();
    let spread = |figure: fn(&Round) -> f64| Spread::of(rounds.iter().map(figure));
    let report = FailoverReport {
        workload: args.workload.clone(),
        engine: args.engine.name(),
        replicas: usize::from(args.replicas),
        workers: args.workers,
        gap_ms: spread(|round| round.failover.gap_ms),
        from_kill_ms: spread(|round| round.failover.from_kill_ms),
        rejoin_seconds: spread(|round| round.rejoin.seconds),
        rejoin_gap_ms: spread(|round| round.rejoin.longest_gap_ms),
        rounds,
        checks,
        machine,
        command: crate::output::command_line(),
    };
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    print_summary(&report);
    report.checks.trouble().map_or(Ok(()), |trouble| Err(Failure::negative(trouble)))
}

fn workload(args: &FailoverArgs) -> Result<WorkloadSpec> {
    let spec = match args.workload.as_str() {
        "tpcc" => tpcc(args.warehouses.unwrap_or(u32::from(args.workers)), false, 1.0),
        other => WorkloadSpec { name: other.to_string(), options: Vec::new() },
    };
    complete(spec, &args.options)
}

fn rounds_and_checks(
    fleet: &mut Fleet,
    args: &FailoverArgs,
    workload: &WorkloadSpec,
    rounds: &mut Vec<Round>,
    progress: &mut Progress,
) -> Result<Findings> {
    let mut leader = fleet.wait_for_leader()?;
    let mut admin = fleet.admin(leader)?;
    progress.step("loading");
    admin
        .load(workload, |done, total| progress.count("loading", done, total))
        .map_err(|error| admin.failure(error))?;
    let spec = LoadSpec {
        workload: workload.clone(),
        workers: args.workers,
        in_flight: args.in_flight,
        rate: args.rate,
        seed: 1,
        audit_every: args.audit_every,
    };
    let (mut acknowledged, mut generators) = (Acknowledged::default(), Generators::default());
    let spec = spec.shared_by(fleet);
    spec.start_everywhere(fleet, leader, &mut generators)?;
    progress.clear();
    let column = if args.engine.abilities().leaderless { "  goes on" } else { "successor" };
    println!("round  killed  {column}    gap ms  from kill ms  rejoin s  gap while rejoining ms");
    for number in 1..=args.runs {
        progress.step(&format!("round {number}: load"));
        thread::sleep(Duration::from_secs_f64(args.seconds));
        leader = fleet.wait_for_leader()?;
        load::collect_acknowledged(fleet, &mut acknowledged);
        spec.prepare_kill(fleet, leader, &mut generators)?;
        let failover = failover::kill_leader(fleet, leader, &mut acknowledged)?;
        leader = failover.successor;
        progress.step(&format!("round {number}: replica {} comes back", failover.victim));
        let rejoin = failover::rejoin(fleet, failover.victim, leader, |_| {})?;
        spec.start_on(fleet, failover.victim, &mut generators)?;
        progress.clear();
        let Failover { victim, successor, gap_ms, from_kill_ms } = failover;
        let Rejoin { seconds, longest_gap_ms, .. } = rejoin;
        println!(
            "{number:>5}  {victim:>6}  {successor:>9}  {gap_ms:>8.1}  {from_kill_ms:>12.1}  {seconds:>8.2}  {longest_gap_ms:>8.0}"
        );
        rounds.push(Round { failover, rejoin });
    }
    thread::sleep(Duration::from_secs_f64(args.seconds));
    progress.step("stopping");
    load::stop_everywhere(fleet, &mut acknowledged)?;
    progress.step("waiting for convergence");
    verify::converge(fleet)?;
    progress.step("checking");
    verify::examine(fleet, workload, &acknowledged)
}

fn print_summary(report: &FailoverReport) {
    let show = |name: &str, spread: Spread, unit: &str| {
        let Spread { min, median, max } = spread;
        println!("{name:<28}median {median:.1} {unit}, max {max:.1} {unit}, min {min:.1} {unit}");
    };
    println!();
    show("gap in released throughput", report.gap_ms, "ms");
    show("from the kill", report.from_kill_ms, "ms");
    show("rejoin", report.rejoin_seconds, "s");
    show("longest gap while rejoining", report.rejoin_gap_ms, "ms");
    let size = report.rounds.last().map_or(0, |round| round.rejoin.store_bytes);
    println!("{:<28}{} at the last rejoin", "store", bytes(size));
    println!("{:<28}{}", "checks", report.checks);
}
