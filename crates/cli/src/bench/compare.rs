//! `highwater bench WORKLOAD --compare`: what replication costs, measured so that a noisy machine does not decide.
//!
//! Silo and Rolis run alternately; each round gives one ratio of transactions per leader CPU-second, and the median of
//! the ratios is the result. Odd rounds start with Silo and even ones with Rolis, so that a drift of the machine
//! favours neither.

use highwater_engines::EngineKind;
use highwater_node::admin::protocol::WorkloadSpec;
use serde::Serialize;

use super::args::RunArgs;
use super::report::{RunReport, verdict};
use super::run::run_once;
use crate::failure::Result;
use crate::numbers::{Spread, ratio, short};
use crate::progress::Progress;
use crate::report_file::{check_writable, write_json};

/// Rounds if nobody says otherwise.
const ROUNDS: u32 = 3;

#[derive(Debug, Serialize)]
struct CompareReport {
    /// Rolis over Silo, transactions per leader CPU-second, per round.
    ratio: Spread,
    /// A follower's CPU time per applied transaction over the leader's per released one, per round.
    apply_over_execute: Spread,
    silo: Vec<RunReport>,
    rolis: Vec<RunReport>,
}

/// Runs the rounds and prints the ratio.
pub fn run(args: &RunArgs, workload: &WorkloadSpec) -> Result<()> {
    args.json.as_deref().map_or(Ok(()), check_writable)?;
    let rounds = args.runs.unwrap_or(ROUNDS);
    let mut progress = Progress::new();
    let (mut silo, mut rolis) = (Vec::new(), Vec::new());
    println!("round      silo     rolis   ratio  (transactions per leader CPU-second)");
    for round in 1..=rounds {
        let silo_first = round % 2 == 1;
        if silo_first {
            silo.push(run_once(EngineKind::Silo, args, workload, &mut progress)?);
        }
        rolis.push(run_once(EngineKind::Rolis, args, workload, &mut progress)?);
        if !silo_first {
            silo.push(run_once(EngineKind::Silo, args, workload, &mut progress)?);
        }
        let (base, ours) = (per_cpu(silo.last()), per_cpu(rolis.last()));
        let ratio = ratio(ours, base).unwrap_or(0.0);
        println!("{round:>5}  {:>8}  {:>8}  {ratio:>6.3}", short(base), short(ours));
    }
    let ratios = silo.iter().zip(&rolis).filter_map(|(base, ours)| {
        ratio(ours.transactions_per_leader_cpu_second, base.transactions_per_leader_cpu_second)
    });
    let applies = rolis
        .iter()
        .filter_map(|run| ratio(run.apply_cpu_us_per_transaction?, run.execute_cpu_us_per_transaction));
    let report =
        CompareReport { ratio: Spread::of(ratios), apply_over_execute: Spread::of(applies), silo, rolis };
    if let Some(path) = &args.json {
        write_json(path, &report)?;
    }
    print_summary(&report);
    verdict(&report.silo)?;
    verdict(&report.rolis)
}

fn print_summary(report: &CompareReport) {
    let show = |name: &str, spread: Spread| {
        let Spread { min, median, max } = spread;
        println!("{name:<38}{median:.3} [{min:.3} .. {max:.3}]");
    };
    println!();
    show("rolis over silo, per CPU-second", report.ratio);
    show("apply over execute, per transaction", report.apply_over_execute);
    if let (Some(silo), Some(rolis)) = (report.silo.last(), report.rolis.last()) {
        println!("\nlast silo run\n{silo}\nlast rolis run\n{rolis}");
    }
}

fn per_cpu(run: Option<&RunReport>) -> f64 {
    run.map_or(0.0, |run| run.transactions_per_leader_cpu_second)
}
