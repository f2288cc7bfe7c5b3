//! Replicas whose disks are behind what they accept (`async`): who comes back from a crash may have forgotten the last of it.

use highwater_core::{Durability, NodeId};
use highwater_engines::EngineKind;
use highwater_seam::Options;
use highwater_sim::{Plan, Summary, run};

use crate::common::{Lists, MS, small};

/// Whole runs: in half of them nobody who is needed crashes, and nothing may be lost; in the others the power fails everywhere, and what
/// was acknowledged before the oldest record that a crash took must be there.
#[test]
fn a_short_sweep_with_disks_that_are_behind() {
    let one = |seed| match run(&Plan::draw(seed).with_disks_behind()) {
        Ok(summary) => summary,
        Err(failure) => panic!("{failure}\n{}", failure.story),
    };
    let runs: Vec<Summary> = (1..=75).map(one).collect();
    let acknowledged: u64 = runs.iter().map(|run| run.acknowledged).sum();
    assert!(acknowledged > 75 * 100, "only {acknowledged} acknowledged: the faults leave no room for work");
    let losses: u64 = runs.iter().filter_map(|run| run.marks.get("epochs won after a loss")).sum();
    assert!(losses > 10, "all voters had to promise {losses} times only");
}

/// The same without a leader.
/// Once: `meerkat`, `async`, with clients that coordinate, while both were built: one that had read before a power cut of
/// all, and read on after it, committed a total that never was: versions that a cut had left out looked like such as are
/// on their way. What a client proposes it has read in one epoch.
#[test]
fn the_leaderless_pass_a_short_sweep_with_disks_that_are_behind() {
    for engine in [EngineKind::Meerkat, EngineKind::MeerkatStrict] {
        let one = |seed| match run(&Plan::draw_for(engine, seed).with_disks_behind()) {
            Ok(summary) => summary,
            Err(failure) => panic!("{engine}, {failure}\n{}", failure.story),
        };
        let runs: Vec<Summary> = (1..=25).map(one).collect();
        let losses: u64 = runs.iter().filter_map(|run| run.marks.get("epochs won after a loss")).sum();
        assert!(losses > 5, "{engine}: disks were cut {losses} times only");
    }
}

/// One of three is gone for good, and everything is written down without it: what was acknowledged long before the other two lose their
/// power is there, though the one that is gone never heard of it.
#[test]
fn who_is_gone_holds_up_no_cut() {
    let mut lists = Lists::on(EngineKind::Meerkat, 5, 3, 2, behind, |_| {});
    let [first, second, gone] = [NodeId(0), NodeId(1), NodeId(2)];
    let begin = lists.ask(first, 0, &[], &[1]).expect("it is taken");
    lists.wait_for(500 * MS, "a first append", |lists| lists.acknowledged(begin));
    lists.world.vanish(gone, 100_000 * MS);
    lists.run(2000 * MS);
    let token = lists.ask(first, 0, &[], &[7]).expect("it is taken");
    lists.wait_for(500 * MS, "an append without it", |lists| lists.acknowledged(token));
    lists.run(500 * MS);
    let counted = [first, second].map(|id| lists.list(id, 7).len());
    assert_eq!(counted, [1, 1], "{}", lists.story());
    lists.world.cut_power();
    lists.world.ids().for_each(|id| lists.world.start(id));
    lists.wait_for(5000 * MS, "all are back", |lists| lists.world.converged().is_ok());
    assert!(lists.said("goes on from what disks have") > 0, "{}", lists.story());
    assert!(lists.world.ids().all(|id| lists.list(id, 7).len() == 1), "{}", lists.story());
}

fn behind(options: &mut Options) {
    small(options);
    options.durability = Durability::Async;
    options.disk_window = 50 * MS;
}

/// A cluster with a little written, all of it on disk.
fn start() -> Lists {
    let mut lists = Lists::start(3, 3, 2, behind);
    let leader = lists.world.leader().expect("it was waited for");
    let token = lists.ask(leader, 0, &[], &[1]).expect("it is taken");
    lists.wait_for(500 * MS, "a first append", |lists| lists.acknowledged(token));
    lists.run(500 * MS);
    lists
}

fn forgets(lists: &Lists, id: NodeId) -> bool {
    lists.world.status(id).is_some_and(|status| status.forgets)
}

fn cut_off(lists: &mut Lists, away: NodeId) {
    for other in lists.world.ids().filter(|id| *id != away).collect::<Vec<_>>() {
        lists.world.network.cut(away, other);
        lists.world.network.cut(other, away);
    }
}

#[test]
fn a_reply_does_not_wait_for_disks_unless_they_are_further_behind_than_they_may_be() {
    let mut lists = start();
    let leader = lists.world.leader().expect("somebody leads");
    lists.world.ids().for_each(|id| lists.world.slow_disk(id, 120 * MS));
    let soon = lists.ask(leader, 0, &[], &[2]).expect("it is taken");
    lists.wait_for(20 * MS, "a reply without any disk", |lists| lists.acknowledged(soon));
    lists.run(60 * MS);
    let late = lists.ask(leader, 0, &[], &[2]).expect("it is taken");
    lists.run(40 * MS);
    assert!(!lists.acknowledged(late), "the disks are 0.1 s behind\n{}", lists.story());
    lists.wait_for(400 * MS, "their syncs", |lists| lists.acknowledged(late));
}

#[test]
fn who_may_have_forgotten_helps_nobody_to_lead_before_it_has_caught_up() {
    let mut lists = start();
    let leader = lists.world.leader().expect("somebody leads");
    let (away, voter) = match lists.world.ids().filter(|id| *id != leader).collect::<Vec<_>>()[..] {
        [away, voter] => (away, voter),
        _ => unreachable!("there are three"),
    };
    // What is decided is on no disk, and one of the two voters that accepted it crashes.
    cut_off(&mut lists, away);
    lists.world.ids().for_each(|id| lists.world.slow_disk(id, 3000 * MS));
    let token = lists.ask(leader, 0, &[], &[7]).expect("it is taken");
    lists.wait_for(40 * MS, "an append", |lists| lists.acknowledged(token));
    cut_off(&mut lists, leader);
    lists.world.kill(voter);
    lists.world.ids().for_each(|id| lists.world.slow_disk(id, 0));
    lists.world.start(voter);
    lists.world.network.heal();
    cut_off(&mut lists, leader);
    lists.run(3000 * MS);
    assert!(forgets(&lists, voter), "{}", lists.story());
    let leads = |id| lists.world.status(id).is_some_and(|status| status.leads());
    assert!(!leads(away) && !leads(voter), "neither knows what was acknowledged\n{}", lists.story());
    lists.world.network.heal();
    lists.wait_for(3000 * MS, "all are back", |lists| lists.world.converged().is_ok());
    assert!(
        lists.world.ids().all(|id| !forgets(&lists, id) && lists.list(id, 7).len() == 1),
        "{}",
        lists.story()
    );
}

#[test]
fn when_the_power_failed_everywhere_all_have_to_be_back_and_then_what_any_disk_has_is_there() {
    let mut lists = start();
    let leader = lists.world.leader().expect("somebody leads");
    // Two lose their last records; the third has them.
    let keeper = lists.world.ids().find(|id| *id != leader).expect("there are three");
    for id in lists.world.ids().filter(|id| *id != keeper).collect::<Vec<_>>() {
        lists.world.slow_disk(id, 3000 * MS);
    }
    let token = lists.ask(leader, 0, &[], &[5]).expect("it is taken");
    lists.wait_for(40 * MS, "an append", |lists| lists.acknowledged(token));
    lists.run(200 * MS);
    lists.world.cut_power();
    lists.world.ids().for_each(|id| lists.world.slow_disk(id, 0));
    for id in lists.world.ids().filter(|id| *id != keeper).collect::<Vec<_>>() {
        lists.world.start(id);
    }
    lists.run(3000 * MS);
    assert_eq!(lists.world.leader(), None, "a majority is not enough\n{}", lists.story());
    let words = lists.world.status(leader).and_then(|status| status.trouble).unwrap_or_default();
    assert!(words.contains("all voters have to be here"), "{words}");
    lists.world.start(keeper);
    lists.wait_for(5000 * MS, "all are back", |lists| lists.world.converged().is_ok());
    assert!(lists.world.ids().all(|id| lists.list(id, 5).len() == 1), "{}", lists.story());
    assert_eq!(lists.said("goes on from the best of all its disks"), 1);
}
