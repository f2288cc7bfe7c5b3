//! `highwater bench WORKLOAD --compare`: what replication costs, measured so that a noisy machine does not decide.
//!
//! Silo and Rolis run alternately; each round gives one ratio of transactions per leader CPU-second, and the median of
//! the ratios is the result. Odd rounds start with Silo and even ones with Rolis, so that a drift of the machine
//! favours neither. With `--neighbours` Silo has as much company on the machine as a leader has ([`neighbours`](super::neighbours)).

use highwater_engines::EngineKind;
use highwater_node::admin::protocol::WorkloadSpec;
use serde::Serialize;

use super::args::RunArgs;
use super::neighbours::Company;
use super::report::{RunReport, verdict};
use super::run::run_once;
use crate::failure::{Failure, Result};
use crate::numbers::{Spread, ratio, short};
use crate::progress::Progress;
use crate::report_file::{check_writable, write_json};

/// Rounds if nobody says otherwise.
const ROUNDS: u32 = 3;

#[derive(Debug, Serialize)]
struct CompareReport {
    /// Rolis over Silo, transactions per leader CPU-second, per round.
    ratio: Spread,
    /// The same by the leader's instructions in user mode, if they were counted: those of Silo over those of Rolis.
    instructions: Option<Spread>,
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
    EngineKind::Silo.built().map_err(Failure::cannot_start)?;
    let (mut silo, mut rolis) = (Vec::new(), Vec::new());
    // What followers take is not known before there were some: that run counts for nothing else.
    let mut company = match args.neighbours {
        false => None,
        true => {
            let followed = run_once(EngineKind::Rolis, args, workload, None, &mut progress)?;
            Some(Company::like_followers_of(&followed))
        }
    };
    println!("round      silo     rolis   ratio  (transactions per leader CPU-second)");
    for round in 1..=rounds {
        let silo_first = round % 2 == 1;
        if silo_first {
            silo.push(run_once(EngineKind::Silo, args, workload, company, &mut progress)?);
        }
        rolis.push(run_once(EngineKind::Rolis, args, workload, None, &mut progress)?);
        if !silo_first {
            silo.push(run_once(EngineKind::Silo, args, workload, company, &mut progress)?);
        }
        let last = silo.last().and_then(|run: &RunReport| run.neighbours.as_ref());
        company.iter_mut().for_each(|company| company.learn(last));
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
    let instructions = silo
        .iter()
        .zip(&rolis)
        .filter_map(|(base, ours)| ratio(leaders_instructions(base)?, leaders_instructions(ours)?));
    let instructions = args.instructions.then(|| Spread::of(instructions));
    let report = CompareReport {
        instructions,
        ratio: Spread::of(ratios),
        apply_over_execute: Spread::of(applies),
        silo,
        rolis,
    };
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
    if let Some(spread) = report.instructions {
        show("the same by instructions in user mode", spread);
    }
    show("apply over execute, per transaction", report.apply_over_execute);
    if let (Some(silo), Some(rolis)) = (report.silo.last(), report.rolis.last()) {
        println!("\nlast silo run\n{silo}\nlast rolis run\n{rolis}");
    }
}

fn leaders_instructions(run: &RunReport) -> Option<f64> {
    run.instructions_per_transaction.as_ref()?.first().copied()
}

fn per_cpu(run: Option<&RunReport>) -> f64 {
    run.map_or(0.0, |run| run.transactions_per_leader_cpu_second)
}
