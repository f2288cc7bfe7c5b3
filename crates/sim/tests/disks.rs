//! Replicas with disks: who comes back is who it was, and everybody may come back at once.

use highwater_sim::{Plan, Summary, run};

/// Whole runs in which processes are killed without regard to majorities, and power fails everywhere.
#[test]
fn a_short_sweep_with_disks() {
    let one = |seed| match run(&Plan::draw(seed).with_disks()) {
        Ok(summary) => summary,
        Err(failure) => panic!("{failure}\n{}", failure.story),
    };
    let runs: Vec<Summary> = (1..=60).map(one).collect();
    let acknowledged: u64 = runs.iter().map(|run| run.acknowledged).sum();
    assert!(acknowledged > 60 * 100, "only {acknowledged} acknowledged: the faults leave no room for work");
    let cuts: u64 = runs.iter().filter_map(|run| run.faults.get("power_cut")).sum();
    assert!(cuts > 20, "power failed {cuts} times only");
    let wiped: u64 = runs.iter().filter_map(|run| run.faults.get("wipe")).sum();
    assert!(wiped > 10, "{wiped} disks were lost only");
}
