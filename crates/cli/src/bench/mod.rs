//! `highwater bench`: measures engines on workloads, failover, and replay.
//!
//! Replicas are processes of their own; the load runs inside the leader's workers, as in the papers, so the CPU time
//! of the leader's process holds everything: generator, execution, network. A figure that takes the generator out
//! would flatter us; its share is reported beside. With `--clients remote` it comes over RESP from this process ([`remote`]): then the
//! leader's process has sockets and protocol to pay for, and no generator.

pub mod args;
mod compare;
mod failover;
mod instructions;
mod neighbours;
mod redis;
mod remote;
mod replay;
mod report;
mod run;
mod workloads;

use highwater_node::admin::protocol::WorkloadSpec;

use crate::failure::Result;
use crate::numbers::{Spread, short};
use crate::progress::Progress;
use crate::report_file::{check_writable, write_json};
use crate::workload::complete;
use args::{BenchArgs, BenchCommand, RunArgs};
use report::{BenchReport, RunReport, verdict};

/// Runs `highwater bench`.
pub fn run(args: BenchArgs) -> Result<()> {
    match args.what {
        BenchCommand::Tpcc { run, workload } => workload_bench(&run, workload.spec(run.workers)),
        BenchCommand::Ycsb { run, workload } => workload_bench(&run, workload.spec()),
        BenchCommand::Bank { run, workload } => workload_bench(&run, workload.spec()),
        BenchCommand::YcsbT { run, workload } => workload_bench(&run, workload.spec("ycsb-t", run.workers)),
        BenchCommand::Retwis { run, workload } => workload_bench(&run, workload.spec("retwis", run.workers)),
        BenchCommand::Failover(args) => failover::run(&args),
        BenchCommand::Replay(args) => replay::run(&args),
        BenchCommand::Redis(args) => redis::run(&args),
    }
}

fn workload_bench(args: &RunArgs, workload: WorkloadSpec) -> Result<()> {
    let workload = complete(workload, &args.options)?;
    if args.compare {
        return compare::run(args, &workload);
    }
    let runs = args.runs.unwrap_or(1);
    args.json.as_deref().map_or(Ok(()), check_writable)?;
    let mut progress = Progress::new();
    let mut reports = Vec::new();
    for number in 1..=runs {
        let report = run::run_once(args.engine, args, &workload, None, &mut progress)?;
        title(&report, number, runs);
        println!("{report}");
        reports.push(report);
    }
    let report = BenchReport::of(reports);
    if runs > 1 {
        println!("{runs} runs, median [smallest .. largest]");
        for (name, Spread { min, median, max }) in &report.spread {
            println!("  {name:<38}{} [{} .. {}]", short(*median), short(*min), short(*max));
        }
    }
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    verdict(&report.runs)
}

fn title(report: &RunReport, number: u32, runs: u32) {
    let options: Vec<_> = report.config.workload_options.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let which = if runs > 1 { format!("  run {number} of {runs}") } else { String::new() };
    println!(
        "{} {}  {}  {} replica(s) x {} worker(s), {} in flight {}, durability {}, machine load {:.2}{which}",
        report.workload,
        options.join(" "),
        report.engine,
        report.replicas,
        report.workers,
        report.config.in_flight,
        if report.config.remote.is_some() { "per connection" } else { "per worker" },
        report.config.durability,
        report.config.machine.load_average_before,
    );
}
