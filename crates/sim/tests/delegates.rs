//! Whole runs with clients that coordinate their transactions themselves: they crash, their connections break, messages are lost, late and repeated.
//!
//! `FROM=1000 SEEDS=500` in the environment look at other seeds, and more.

use std::collections::BTreeMap;

use highwater_engines::EngineKind;
use highwater_sim::{Plan, run};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

fn sweep(engine: EngineKind, first: u64, count: u64, disks: bool) -> BTreeMap<&'static str, u64> {
    let mut marks = BTreeMap::new();
    let first = number("FROM", first);
    for seed in first..first + number("SEEDS", count) {
        let mut plan = Plan::draw_for(engine, seed);
        if plan.is_long() || plan.load.sizes.memory > 0 {
            continue;
        }
        plan.load.delegates = plan.load.delegates.max(4);
        plan.disks = disks;
        match run(&plan) {
            Ok(summary) => {
                summary.marks.into_iter().for_each(|(what, count)| *marks.entry(what).or_default() += count);
            }
            Err(failure) => panic!("{engine:?}, {failure}\n{}", failure.story),
        }
    }
    marks
}

#[test]
fn clients_that_coordinate_pass_a_short_sweep() {
    let marks = sweep(EngineKind::Meerkat, 1, 40, false);
    for (what, least) in [
        ("commits by coordinating clients", 2000),
        ("conflicts of coordinating clients", 1),
        ("crashes of coordinating clients", 40),
        ("broken connections of coordinating clients", 40),
        ("unknown outcomes of coordinating clients", 1),
    ] {
        let count = marks.get(what).copied().unwrap_or_default();
        assert!(count >= least, "only {count} {what}: {marks:#?}");
    }
}

#[test]
fn with_disks_and_in_real_time_they_do_as_well() {
    sweep(EngineKind::Meerkat, 100, 15, true);
    sweep(EngineKind::MeerkatStrict, 200, 10, false);
}

/// Messages of their own, too: what a client's process did not see yet is in the trace.
#[test]
fn a_seed_with_them_gives_one_trace() {
    for seed in [3, 14, 15] {
        let mut plan = Plan::draw_for(EngineKind::Meerkat, seed);
        plan.load.delegates = 4;
        let trace = || run(&plan).map(|summary| (summary.trace, summary.acknowledged)).ok();
        assert_eq!(trace(), trace());
    }
}
