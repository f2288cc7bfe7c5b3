//! Makes a failing plan small: leaves things out as long as it still fails in the same way.
//!
//! Faults are left out in halves, quarters and so on down to single ones (delta debugging), then kinds of chance as a
//! whole, work, clients, workers and replicas. Each step of the loop keeps the first smaller plan that fails alike. The
//! run draws from its seed as it goes, so a smaller plan is another run: it may fail in the same way or not at all.

use std::time::{Duration, Instant};

use crate::faults::Scheduled;
use crate::house::House;
use crate::plan::{Machines, Mix, Plan, Redis, Sizes, Transport};
use crate::run::{Failure, FailureKind, run_in};

/// What became of a failing plan.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest plan that failed alike, and how.
    pub failure: Box<Failure>,
    /// Runs that were tried.
    pub tried: u32,
}

/// Shrinks for at most `limit` (and the run that is under way then).
pub fn shrink<H: House>(house: &H, failure: Box<Failure>, limit: Duration) -> Shrunk {
    let deadline = Instant::now() + limit;
    let mut shrunk = Shrunk { failure, tried: 0 };
    if shrunk.failure.kind == FailureKind::Hangs {
        // Each run would cost its patience and a thread.
        return shrunk;
    }
    while let Some(smaller) = step(house, &mut shrunk, deadline) {
        shrunk.failure = smaller;
    }
    shrunk
}

fn step<H: House>(house: &H, shrunk: &mut Shrunk, deadline: Instant) -> Option<Box<Failure>> {
    for candidate in smaller(&shrunk.failure.plan) {
        if Instant::now() >= deadline {
            return None;
        }
        shrunk.tried += 1;
        if let Err(failure) = run_in(house, &candidate)
            && failure.kind == shrunk.failure.kind
        {
            return Some(failure);
        }
    }
    None
}

/// Plans with something left out, the boldest first.
fn smaller(plan: &Plan) -> Vec<Plan> {
    let mut plans: Vec<Plan> = without_faults(plan);
    let mut consider = |change: &dyn Fn(&mut Plan)| {
        let mut candidate = plan.clone();
        change(&mut candidate);
        if candidate != *plan {
            plans.push(candidate);
        }
    };
    consider(&|plan| plan.choices.clear());
    consider(&|plan| plan.interleaving = None);
    consider(&|plan| plan.transport = Transport::default());
    consider(&|plan| plan.clocks.clear());
    consider(&|plan| plan.machines = Machines::default());
    consider(&|plan| {
        plan.load.sizes = Sizes::default();
        plan.load.mix = without_kind(plan.load.mix, 6);
    });
    consider(&|plan| plan.load.sizes.largest /= 8);
    consider(&|plan| plan.from_birth = false);
    consider(&|plan| plan.interleaving.iter_mut().for_each(|how| how.controllers = false));
    consider(&|plan| plan.machines = Machines { bytes_per_ms: 0, backlog_bytes: 0, ..plan.machines });
    consider(&|plan| plan.machines = Machines { step_ns: 0, kib_ns: 0, ..plan.machines });
    consider(&|plan| plan.load.transactions = plan.load.transactions.div_ceil(2));
    consider(&|plan| plan.load.clients = plan.load.clients.div_ceil(2));
    consider(&|plan| plan.length_ns = (plan.length_ns / 2).max(1_000_000));
    consider(&|plan| plan.absent = 0);
    consider(&|plan| plan.load.operations = plan.load.operations.div_ceil(2));
    consider(&|plan| plan.load.counters /= 2);
    consider(&|plan| plan.load.delegates /= 2);
    consider(&|plan| plan.load.pipelines /= 2);
    consider(&|plan| plan.redis = None);
    for leave_out in Redis::LESS {
        consider(&|plan| plan.redis.iter_mut().for_each(leave_out));
    }
    consider(&|plan| plan.load.clients = 1);
    consider(&|plan| plan.load.transactions = 1);
    consider(&|plan| plan.load.astray = 0);
    consider(&|plan| plan.load.snapshot_percent = 0);
    consider(&|plan| plan.load.fresh_percent = 0);
    consider(&|plan| plan.workers = plan.workers.div_ceil(2));
    consider(&|plan| plan.workers = (plan.workers - 1).max(1));
    consider(&|plan| keep_replicas(plan, plan.replicas.min(3)));
    consider(&|plan| keep_replicas(plan, (plan.replicas - 1).max(3)));
    consider(&|plan| {
        plan.newcomers = plan.newcomers.saturating_sub(1);
        keep_replicas(plan, plan.replicas);
    });
    for kind in 0..7 {
        consider(&|plan| plan.load.mix = without_kind(plan.load.mix, kind));
    }
    let names: Vec<String> = plan.choices.keys().cloned().collect();
    for name in &names {
        consider(&|plan| plan.choices.retain(|known, _| known != name));
    }
    plans
}

fn without_faults(plan: &Plan) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut size = plan.faults.len();
    while size > 0 {
        for start in (0..plan.faults.len()).step_by(size) {
            let behind = (start + size).min(plan.faults.len());
            let faults: Vec<Scheduled> =
                plan.faults[..start].iter().chain(&plan.faults[behind..]).cloned().collect();
            plans.push(Plan { faults, ..plan.clone() });
        }
        size /= 2;
    }
    plans
}

fn keep_replicas(plan: &mut Plan, replicas: u8) {
    plan.replicas = replicas;
    let nodes = plan.nodes();
    plan.faults.retain(|fault| fault.fault.fits(nodes));
    plan.clocks.truncate(replicas.into());
    plan.absent = plan.absent.min(replicas.div_ceil(2) - 1);
}

fn without_kind(mix: Mix, kind: usize) -> Mix {
    let mut weights = mix.weights();
    weights[kind] = 0;
    let [lists, rows, registers, toggles, bank, audit, blobs, glances] = weights;
    if weights == [0; 8] { mix } else { Mix { lists, rows, registers, toggles, bank, audit, blobs, glances } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_smaller_plan_is_a_valid_plan_and_none_is_the_same() {
        for seed in 0..50 {
            let plan = Plan::draw(seed);
            let candidates = smaller(&plan);
            for candidate in &candidates {
                assert_ne!(*candidate, plan);
                assert_eq!(Plan::parse(&candidate.to_json()).as_ref(), Ok(candidate), "seed {seed}");
            }
            assert!(candidates.len() > plan.faults.len());
        }
    }
}
