//! Whole runs, each drawn from one seed; see `highwater sim` for many.

use highwater_engines::EngineKind;
use highwater_sim::{Plan, Summary, run};

fn sweep(engine: EngineKind, seeds: u64) -> Vec<Summary> {
    let one = |seed| match run(&Plan::draw_for(engine, seed)) {
        Ok(summary) => summary,
        Err(failure) => panic!("{engine:?}, {failure}\n{}", failure.story),
    };
    (1..=seeds).map(one).collect()
}

#[test]
fn a_short_sweep() {
    let runs = sweep(EngineKind::Rolis, 60);
    let sum = |count: fn(&Summary) -> u64| runs.iter().map(count).sum::<u64>();
    let fresh = sum(|run| run.fresh_reads);
    assert!(fresh > 60 * 5, "only {fresh} reads of the asked freshness");
    let (acknowledged, snapshots) = (sum(|run| run.acknowledged), sum(|run| run.snapshot_reads));
    assert!(acknowledged > 60 * 100, "only {acknowledged} acknowledged: the faults leave no room for work");
    assert!(snapshots > 60 * 10, "only {snapshots} reads on snapshots");
    // What has no other witness does happen.
    let mut marks = std::collections::BTreeMap::<&str, u64>::new();
    runs.iter().flat_map(|run| &run.marks).for_each(|(what, count)| *marks.entry(what).or_default() += count);
    for what in [
        "arrivals that wait for a busy thread",
        "frames that occupy or wait for their wire for more than 1 ms",
        "turns of more than 1 ms",
        "interruptions of workers",
        "interruptions of controllers",
        "majorities that served beside faults that last",
        "runs with blobs of 64 KiB",
        "runs with faults from birth on",
        "changes of membership",
    ] {
        assert!(marks.contains_key(what), "none of the {what}: {marks:#?}");
    }
}

#[test]
fn the_strawman_passes_a_short_sweep() {
    let acknowledged: u64 = sweep(EngineKind::Strawman, 20).iter().map(|run| run.acknowledged).sum();
    assert!(acknowledged > 20 * 100, "only {acknowledged} acknowledged: the faults leave no room for work");
}

#[test]
fn the_leaderless_pass_a_short_sweep() {
    for engine in [EngineKind::Meerkat, EngineKind::MeerkatStrict] {
        let acknowledged: u64 = sweep(engine, 20).iter().map(|run| run.acknowledged).sum();
        assert!(
            acknowledged > 20 * 50,
            "only {acknowledged} acknowledged: the faults leave no room for work"
        );
        for seed in 1..=20 {
            if let Err(failure) = run(&Plan::draw_for(engine, seed).with_disks()) {
                panic!("{engine}, {failure}\n{}", failure.story);
            }
        }
    }
}

#[test]
fn a_seed_gives_one_trace() {
    for seed in [3, 14, 15] {
        let trace = || run(&Plan::draw(seed)).map(|summary| (summary.trace, summary.acknowledged)).ok();
        assert_eq!(trace(), trace());
    }
}
