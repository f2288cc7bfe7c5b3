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
fn a_seed_gives_one_trace() {
    for seed in [3, 14, 15] {
        let trace = || run(&Plan::draw(seed)).map(|summary| (summary.trace, summary.acknowledged)).ok();
        assert_eq!(trace(), trace());
    }
}

fn passes(plan: &str) {
    let plan = Plan::parse(plan).expect("a saved plan");
    if let Err(failure) = run(&plan) {
        panic!("{failure}\n{}", failure.story);
    }
}

/// The first leader died before one voter had heard that the cluster existed. The third one needed its vote, and nobody told
/// it: it waited for the first membership for ever. Whoever learns of it tells all now.
#[test]
fn the_first_leader_dies_before_all_know_of_the_cluster() {
    passes(include_str!("plans/leader_dies_at_birth.json"));
}

/// Three workers of a deposed leader roll back one after the other. One that had rolled back collected its tombstone, whose
/// timestamp the new epoch's marks had passed, while another still held the before-image of that record: it was
/// restored into a record that no index knew. Acknowledged data was gone on that node, and on all that copied from it.
#[test]
fn a_tombstone_stays_until_all_workers_have_rolled_back() {
    passes(include_str!("plans/tombstone_before_roll_back.json"));
}

/// All followers waited for copies of the state, with full backlogs: nobody took what would have moved the mark. No copy
/// could begin at the mark: of the streams that went on without transactions the leader kept only what was above it.
#[test]
fn copies_begin_at_a_mark_that_stands_still() {
    passes(include_str!("plans/copies_above_the_mark.json"));
}

/// A follower with a full backlog refused an entry and asked for what came behind it; the leader sent all of it again, the
/// refused entry first, each time: more and more for ever.
#[test]
fn what_follows_a_refused_entry_is_not_asked_for() {
    passes(include_str!("plans/refused_entries_asked_for.json"));
}

/// A cluster whose data took a little of the slack refused to give a copy to a replica that had fallen behind.
#[test]
fn a_cluster_filled_to_the_brim_takes_a_replica_back() {
    passes(include_str!("plans/full_cluster_takes_back.json"));
}

/// A leader's clock went back, and it read a chunk of its store for a copy: by the clock the mark had passed what was in it. What
/// another worker had committed and nobody had decided left with it; the leader rolled it back, its receiver kept it and showed it.
#[test]
fn a_copy_holds_nothing_above_the_mark_though_the_clock_goes_back() {
    passes(include_str!("plans/copy_of_a_clock_that_went_back.json"));
}

/// (Of the simulator, not of the product.) A starved worker of a leader handed out a value of 16 MiB in a turn that lasted for
/// seconds beyond the starvation; convergence was asked for before that turn was over.
#[test]
fn a_turn_that_was_begun_starved_is_waited_for() {
    passes(include_str!("plans/turn_of_a_starved_thread.json"));
}
