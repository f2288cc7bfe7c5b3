//! Whole runs, each drawn from one seed; see `highwater sim` for many.

use highwater_sim::{Plan, run};

#[test]
fn a_short_sweep() {
    let mut acknowledged = 0;
    for seed in 1..=60 {
        match run(&Plan::draw(seed)) {
            Ok(summary) => acknowledged += summary.acknowledged,
            Err(failure) => panic!("{failure}\n{}", failure.story),
        }
    }
    assert!(acknowledged > 60 * 100, "only {acknowledged} acknowledged: the faults leave no room for work");
}

#[test]
fn a_seed_gives_one_trace() {
    for seed in [3, 14, 15] {
        let trace = || run(&Plan::draw(seed)).map(|summary| (summary.trace, summary.acknowledged)).ok();
        assert_eq!(trace(), trace());
    }
}

/// Three workers of a deposed leader roll back one after the other. One that had rolled back collected its tombstone, whose
/// timestamp the new epoch's marks had passed, while another still held the before-image of that record: it was
/// restored into a record that no index knew. Acknowledged data was gone on that node, and on all that copied from it.
#[test]
fn a_tombstone_stays_until_all_workers_have_rolled_back() {
    let plan = Plan::parse(include_str!("plans/tombstone_before_roll_back.json")).expect("a saved plan");
    if let Err(failure) = run(&plan) {
        panic!("{failure}\n{}", failure.story);
    }
}
