//! `highwater bench replay`: the Rolis paper's figure 15. Applying a log against executing the transactions that wrote it.
//!
//! In this process, with no network: TPC-C's population is executed on one store and its log applied to a second one;
//! then come the measured transactions. Requests are drawn before the clock starts, and the log's buffers are touched
//! before it starts, so that neither the generator nor the page faults of a kept log count as execution: both would
//! flatter the ratio. In the end both stores must have the same digest.

mod phases;

use std::sync::Arc;

use highwater_core::{Clock, Library, Schema};
use highwater_store::Store;
use highwater_workloads::{AllWorkloads, Workload};
use serde::Serialize;

use self::phases::{Cost, Log, Requests, apply, execute};
use super::args::ReplayArgs;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::numbers::{Spread, short};
use crate::progress::Progress;
use crate::report_file::{check_writable, write_json};
use crate::workload::{effective_options, parse, tpcc};

/// What the paper's figure shows: 2.25 million transactions per second replayed, 51.5 % more than executed.
const PAPER_RATIO: f64 = 1.515;

#[derive(Debug, Serialize)]
struct ReplayReport {
    workload: &'static str,
    transactions: u64,
    workers: u16,
    rounds: Vec<Round>,
    /// CPU time per executed transaction, read-only and rolled-back ones included.
    execute_cpu_us_per_transaction: Spread,
    /// CPU time of applying per *executed* transaction: both sides divide by the same number.
    apply_cpu_us_per_transaction: Spread,
    /// Per transaction that wrote something.
    apply_cpu_us_per_logged_transaction: Spread,
    /// CPU time of applying over CPU time of executing.
    apply_over_execute: Spread,
    workload_options: std::collections::BTreeMap<String, String>,
    machine: Machine,
    command: String,
}

#[derive(Clone, Debug, Serialize)]
struct Round {
    execute: Cost,
    apply: Cost,
    log_bytes: u64,
    conflicts: u64,
}

impl Round {
    fn ratio(&self) -> f64 {
        self.apply.cpu_seconds / self.execute.cpu_seconds
    }
}

/// Runs the rounds and prints the costs.
pub fn run(args: &ReplayArgs) -> Result<()> {
    args.json.as_deref().map_or(Ok(()), check_writable)?;
    let mut machine = Machine::look();
    let spec = tpcc(args.warehouses.unwrap_or(u32::from(args.workers)), false, args.scale);
    let workload = parse(&spec)?.build();
    let mut progress = Progress::new();
    let mut rounds = Vec::new();
    println!("round   execute us      apply us   ratio  log bytes  (per executed transaction)");
    for number in 1..=args.runs {
        let round = round(args, workload.as_ref(), number, &mut progress)?;
        progress.clear();
        let per = |value: f64| value / args.transactions as f64;
        println!(
            "{number:>5}  {:>11.3}  {:>12.3}  {:>6.3}  {:>9.0}",
            per(round.execute.cpu_seconds * 1e6),
            per(round.apply.cpu_seconds * 1e6),
            round.ratio(),
            per(round.log_bytes as f64)
        );
        rounds.push(round);
    }
    machine.look_again();
    let spread = |figure: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(figure));
    let transactions = args.transactions as f64;
    let report = ReplayReport {
        workload: "tpcc",
        transactions: args.transactions,
        workers: args.workers,
        execute_cpu_us_per_transaction: spread(&|round| round.execute.cpu_seconds * 1e6 / transactions),
        apply_cpu_us_per_transaction: spread(&|round| round.apply.cpu_seconds * 1e6 / transactions),
        apply_cpu_us_per_logged_transaction: spread(&|round| {
            round.apply.cpu_seconds * 1e6 / round.apply.transactions.max(1) as f64
        }),
        apply_over_execute: spread(&Round::ratio),
        rounds,
        workload_options: effective_options(&spec)?,
        machine,
        command: crate::output::command_line(),
    };
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    print_summary(&report);
    Ok(())
}

fn round(args: &ReplayArgs, workload: &dyn Workload, seed: u32, progress: &mut Progress) -> Result<Round> {
    let workers = usize::from(args.workers);
    let schema = || Schema::new(AllWorkloads.tables());
    let (executed, applied) = (Store::new(schema()), Store::new(schema()));
    let clock = Arc::new(Clock::system());
    progress.step(&format!("round {seed}: population"));
    let population = Requests::population(workload, workers);
    let (_, log) = execute(&executed, &clock, population, Log::empty(workers));
    apply(&applied, &log)?;

    progress.step(&format!("round {seed}: drawing requests"));
    let requests = Requests::draw(workload, workers, args.transactions, u64::from(seed));
    let room = Log::with_room(workers, args.transactions);
    progress.step(&format!("round {seed}: executing"));
    let (execution, log) = execute(&executed, &clock, requests, room);
    progress.step(&format!("round {seed}: applying"));
    let apply = apply(&applied, &log)?;
    progress.step(&format!("round {seed}: comparing"));
    if executed.digest() != applied.digest() {
        return Err(Failure::negative("the applied store differs from the executed one"));
    }
    Ok(Round { execute: execution.cost, apply, log_bytes: log.bytes(), conflicts: execution.conflicts })
}

fn print_summary(report: &ReplayReport) {
    let show = |name: &str, spread: Spread, unit: &str| {
        let Spread { min, median, max } = spread;
        println!("{name:<26}{median:.3} {unit} [{min:.3} .. {max:.3}]");
    };
    println!();
    show("execute", report.execute_cpu_us_per_transaction, "us of CPU a transaction");
    show("apply", report.apply_cpu_us_per_transaction, "us of CPU a transaction");
    show("apply, writers only", report.apply_cpu_us_per_logged_transaction, "us of CPU a transaction");
    show("apply over execute", report.apply_over_execute, "");
    let wall = |cost: fn(&Round) -> &Cost| {
        Spread::of(report.rounds.iter().map(|round| report.transactions as f64 / cost(round).wall_seconds))
            .median
    };
    let (execute, apply) = (wall(|round| &round.execute), wall(|round| &round.apply));
    println!(
        "{:<26}execute {}/s, apply {}/s: {:.2}x (the paper: {PAPER_RATIO:.2}x)",
        "throughput",
        short(execute),
        short(apply),
        apply / execute
    );
}
