//! A cluster ends, with the power, and another one begins from its disks; nodes of the old one come back meanwhile. Clients go on, and
//! their history is judged as one: nothing that was acknowledged by either is lost, and the two do not mix.

use highwater_sim::faults::{Fault, Scheduled};
use highwater_sim::{Plan, run};

use crate::common::number;

/// The plan of a seed with disks; a majority of its nodes begins anew in the middle of it.
fn plan(seed: u64) -> Plan {
    let mut plan = Plan::draw(seed).with_disks();
    let (replicas, founders) = (plan.replicas, plan.replicas / 2 + 1);
    plan.newcomers = 0;
    plan.faults.retain(|fault| !fault.fault.is_order() && fault.fault.fits(replicas));
    let (at_ns, for_ns) = (plan.length_ns / 2, plan.settings.election_timeout / 4);
    plan.faults.push(Scheduled { at_ns, for_ns, fault: Fault::FoundAnew(founders) });
    plan.faults.sort_by_key(|fault| fault.at_ns);
    plan
}

#[test]
fn clusters_begin_anew_under_faults() {
    let (first, seeds) = (number("FIRST", 1), number("SEEDS", 30));
    let (mut founded, mut acknowledged) = (0, 0);
    for seed in first..first + seeds {
        let plan = plan(seed);
        if plan.is_long() {
            continue;
        }
        match run(&plan) {
            Ok(summary) => {
                founded += summary.marks.get("clusters founded anew").copied().unwrap_or_default();
                acknowledged += summary.acknowledged;
            }
            Err(failure) => panic!("{failure}\n{}", failure.story),
        }
    }
    assert!(founded > seeds / 2, "only {founded} clusters founded in {seeds} runs");
    assert!(acknowledged > seeds * 50, "only {acknowledged} acknowledged");
}
