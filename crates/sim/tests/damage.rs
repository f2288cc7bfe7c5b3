//! Bytes that are not what was written, files that cannot be opened, and starts that end early: steps of whole runs, told one by one.

use highwater_core::{Incarnation, NodeId};
use highwater_seam::Options;
use highwater_sim::faults::{Lack, Part, Step};
use highwater_sim::{Plan, Summary, run};

use crate::common::{Lists, MS, number, small};

fn durable(options: &mut Options) {
    small(options);
    options.durability = highwater_core::Durability::Sync;
}

/// A cluster with disks and something on them, and a follower.
fn start(seed: u64) -> (Lists, NodeId) {
    let mut lists = Lists::start(seed, 3, 2, durable);
    work(&mut lists, 200);
    let leader = lists.world.leader().expect("somebody leads");
    let follower = lists.world.ids().find(|id| *id != leader).expect("there are three");
    (lists, follower)
}

fn work(lists: &mut Lists, rounds: u64) {
    for _ in 0..rounds {
        lists.load();
        lists.run(MS / 2);
    }
}

fn life(lists: &Lists, node: NodeId) -> Incarnation {
    lists.world.status(node).expect("it is up").incarnation
}

/// It is down for a moment, and everybody votes with all there is in the end.
fn restart(lists: &mut Lists, node: NodeId) {
    lists.world.kill(node);
    lists.run(10 * MS);
    lists.world.start(node);
    lists.wait_for(5000 * MS, "it votes again", Lists::whole);
    lists.wait_for(5000 * MS, "all have everything", |lists| lists.world.converged().is_ok());
}

#[test]
fn a_node_with_a_damaged_journal_does_not_start_on_it_and_copies_the_state_as_a_new_life() {
    for seed in 1..=4 {
        let (mut lists, node) = start(seed);
        let before = life(&lists, node);
        assert!(lists.world.rot(node, Part::Journal), "there is a journal");
        work(&mut lists, 4);
        assert_eq!(life(&lists, node), before, "it runs on what it has read");
        assert!(!lists.world.disk_leads(node));
        restart(&mut lists, node);
        assert_eq!(lists.said("the journal is damaged in the middle"), 1, "seed {seed}\n{}", lists.story());
        assert_ne!(life(&lists, node), before, "seed {seed}\n{}", lists.story());
        assert!(lists.world.disk_leads(node));
        lists.verify();
    }
}

/// A checkpoint that stays damaged is passed by each start, until another one is published; and the one before is kept as long.
#[test]
fn damaged_checkpoints_stay_and_the_start_goes_on_from_what_is_whole() {
    let (mut passed, mut moved) = (0, 0);
    for seed in 1..=12 {
        let (mut lists, node) = start(seed);
        for newest in [1, 4] {
            work(&mut lists, 100);
            let before = life(&lists, node);
            if !lists.world.rot(node, Part::Checkpoints(newest)) {
                continue;
            }
            let (leads, said) = (lists.world.disk_leads(node), lists.said("does not start"));
            restart(&mut lists, node);
            // Whatever it begins from, it is who it was unless its folder was moved away.
            let goes_on = lists.said("does not start") == said;
            assert_eq!(life(&lists, node) == before, goes_on, "seed {seed}\n{}", lists.story());
            assert!(goes_on || !leads, "seed {seed}: it could have gone on\n{}", lists.story());
            passed += u64::from(goes_on);
            moved += u64::from(!goes_on);
        }
        lists.verify();
    }
    assert!(passed > 0 && moved > 0, "{passed} went on, {moved} copied");
}

#[test]
fn a_start_may_end_between_any_two_of_its_steps_and_the_node_is_who_it_was() {
    for (seed, step) in (1..).zip(Step::ALL) {
        let (mut lists, node) = start(seed);
        let before = life(&lists, node);
        lists.world.end_starts(node, [step, step]);
        lists.world.kill(node);
        lists.world.start(node);
        assert_eq!(lists.world.is_up(node), step == Step::Runs);
        work(&mut lists, 20);
        lists.wait_for(5000 * MS, "it votes again", Lists::whole);
        assert_eq!(lists.world.marks["starts that ended early"], 2);
        assert_eq!(life(&lists, node), before, "{step:?}\n{}", lists.story());
        lists.verify();
    }
}

/// A life whose journal is lost is over, however often the start in which that is found out ends early.
#[test]
fn a_start_that_ends_early_does_not_bring_back_a_life_that_is_over() {
    for (seed, step) in (1..).zip(Step::ALL) {
        let (mut lists, node) = start(seed);
        let before = life(&lists, node);
        lists.world.lose_names(node);
        lists.world.end_starts(node, [step, step]);
        lists.world.start(node);
        lists.run(100 * MS);
        lists.wait_for(5000 * MS, "it votes again", Lists::whole);
        assert_ne!(life(&lists, node), before, "{step:?}\n{}", lists.story());
        lists.verify();
    }
}

/// Without descriptors or room the journal waits, and a leader makes way for one that has them; a disk that says no ends the process.
#[test]
fn a_leader_that_cannot_open_files_makes_way_and_comes_back() {
    for (seed, lack) in (1..).zip([Lack::Descriptors, Lack::Room, Lack::Broken]) {
        let (mut lists, _) = start(seed);
        let leader = lists.world.leader().expect("somebody leads");
        let before = life(&lists, leader);
        lists.world.fail_open(leader, Some(lack));
        let deadline = lists.world.now + 3000 * MS;
        while lists.world.leader().is_none_or(|other| other == leader) {
            work(&mut lists, 1);
            assert!(lists.world.now < deadline, "{lack:?}: nobody else leads\n{}", lists.story());
        }
        assert_eq!(lists.world.is_up(leader), lack != Lack::Broken);
        work(&mut lists, 100);
        if lack == Lack::Broken {
            lists.world.start(leader);
            lists.run(50 * MS);
            assert!(!lists.world.is_up(leader), "it cannot start");
        }
        lists.world.fail_open(leader, None);
        lists.wait_for(5000 * MS, "it is back", Lists::whole);
        lists.wait_for(5000 * MS, "all have everything", |lists| lists.world.converged().is_ok());
        assert_eq!(life(&lists, leader), before, "{lack:?}\n{}", lists.story());
        lists.verify();
    }
}

/// All that these draws are for does happen in whole runs, and nothing fails.
#[test]
fn a_short_sweep_with_troubled_disks() {
    let (first, seeds) = (number("FIRST", 1000), number("SEEDS", 60));
    let one = |seed| match run(&Plan::draw(seed).with_disks()) {
        Ok(summary) => summary,
        Err(failure) => panic!("{failure}\n{}", failure.story),
    };
    let runs: Vec<Summary> = (first..first + seeds).map(one).collect();
    let done = |kind: &str| -> u64 { runs.iter().filter_map(|run| run.faults.get(kind)).sum() };
    for kind in ["rot_journal", "rot_checkpoints", "fail_open", "end_starts", "hand_over", "fill_disk"] {
        assert!(done(kind) > 0, "{kind}: {} times only", done(kind));
    }
    let marked = |what: &str| -> u64 { runs.iter().filter_map(|run| run.marks.get(what)).sum() };
    for what in ["damaged disks that led nowhere", "starts that ended early", "syncs that waited for a file"]
    {
        assert!(marked(what) > 0, "{what}: {} times only", marked(what));
    }
}
