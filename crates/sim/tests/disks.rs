//! Replicas with disks: who comes back is who it was, and everybody may come back at once.

use highwater_core::NodeId;
use highwater_engines::Options;
use highwater_sim::{Plan, Summary, run};

use crate::common::{Lists, MS, small};

/// Whole runs in which processes are killed without regard to majorities, and power fails everywhere.
#[test]
fn a_short_sweep_with_disks() {
    let one = |seed| match run(&Plan::draw(seed).with_disks()) {
        Ok(summary) => summary,
        Err(failure) => panic!("{failure}\n{}", failure.story),
    };
    let runs: Vec<Summary> = (1..=75).map(one).collect();
    let acknowledged: u64 = runs.iter().map(|run| run.acknowledged).sum();
    assert!(acknowledged > 75 * 100, "only {acknowledged} acknowledged: the faults leave no room for work");
    let cuts: u64 = runs.iter().filter_map(|run| run.faults.get("power_cut")).sum();
    assert!(cuts > 20, "power failed {cuts} times only");
    for kind in ["fill_disk", "slow_disk", "fail_sync"] {
        let done: u64 = runs.iter().filter_map(|run| run.faults.get(kind)).sum();
        assert!(done > 10, "{kind}: {done} times only");
    }
    let done = |kinds: [&str; 2]| -> u64 {
        runs.iter().flat_map(|run| kinds.iter().filter_map(|kind| run.faults.get(*kind))).sum()
    };
    let restored = done(["restore_disk", "restore_unheard"]);
    assert!(restored > 0, "older copies took a disk's place {restored} times only");
    let lost = done(["wipe", "lose_names"]);
    assert!(lost > 10, "{lost} disks were lost only");
    assert!(done(["lose_names"; 2]) > 0, "no names were lost");
}

fn durable(options: &mut Options) {
    small(options);
    options.durability = highwater_core::Durability::Sync;
}

/// A cluster with disks, with a little written.
fn start() -> Lists {
    let mut lists = Lists::start(3, 3, 2, durable);
    let leader = lists.world.leader().expect("it was waited for");
    let token = lists.ask(leader, 0, &[], &[1]).expect("it is taken");
    lists.wait_for(500 * MS, "a first append", |lists| lists.acknowledged(token));
    lists
}

/// Asks the leader, whoever it is, until it is done.
fn done(lists: &mut Lists, what: &str, reads: &[u8], appends: &[u8]) -> NodeId {
    let deadline = lists.world.now + 5000 * MS;
    loop {
        if let Some(leader) = lists.world.leader()
            && let Some(token) = lists.ask(leader, 0, reads, appends)
        {
            lists.run(60 * MS);
            if lists.acknowledged(token) {
                return leader;
            }
        } else {
            lists.run(5 * MS);
        }
        assert!(lists.world.now < deadline, "{what}\n{}", lists.story());
    }
}

#[test]
fn when_all_disks_are_about_to_be_full_writes_are_refused_and_reads_go_on_until_there_is_room() {
    let mut lists = start();
    let leader = lists.world.leader().expect("somebody leads");
    let epoch = lists.world.status(leader).map(|status| status.epoch);
    lists.world.ids().for_each(|id| lists.world.fill_disk(id, Some(1 << 20)));
    lists.run(200 * MS);
    for round in 0..20 {
        let write = lists.ask(leader, 0, &[], &[2]).expect("it is taken, and refused later");
        let read = lists.ask(leader, 1, &[1, 2], &[]).expect("it is taken");
        lists.run(100 * MS);
        assert!(!lists.acknowledged(write) && lists.acknowledged(read), "round {round}\n{}", lists.story());
    }
    assert_eq!(lists.outcomes["other"], 20, "each write was told why");
    let status = lists.world.status(leader).expect("it is up");
    assert_eq!((lists.world.leader(), Some(status.epoch)), (Some(leader), epoch), "{}", lists.story());
    assert!(status.trouble.is_some_and(|trouble| trouble.contains("is about to be full")));
    lists.world.ids().for_each(|id| lists.world.fill_disk(id, None));
    done(&mut lists, "room again, and no write", &[], &[2]);
}

#[test]
fn a_leader_whose_disk_alone_is_about_to_be_full_makes_way() {
    let mut lists = start();
    let full = lists.world.leader().expect("somebody leads");
    lists.world.fill_disk(full, Some(64 << 10));
    lists.wait_for(2000 * MS, "another leader", |lists| {
        lists.world.leader().is_some_and(|leader| leader != full)
    });
    let leader = done(&mut lists, "writes at the new leader", &[], &[2]);
    assert_ne!(leader, full);
    // What that disk has room for is used up, and it goes on when it has room.
    for _ in 0..40 {
        done(&mut lists, "writes beside a full disk", &[], &[3]);
    }
    lists.world.fill_disk(full, None);
    lists.wait_for(5000 * MS, "all have everything", |lists| lists.world.converged().is_ok());
}

/// Its workers went on under its old ballot: writes were taken on the low disk again for a second, the traffic of its streams kept the
/// others from standing, and now and then it was elected once more.
#[test]
fn a_leader_that_gives_the_lead_up_takes_nothing_more_and_keeps_nobody_from_it() {
    const TIMEOUT: u64 = 30 * MS;
    for seed in 1..=10 {
        let mut lists = Lists::start(seed, 3, 2, durable);
        let full = lists.world.leader().expect("somebody leads");
        lists.world.fill_disk(full, Some(64 << 10));
        // Reads go on meanwhile, and their streams vouch for who leads.
        let gave_up = |lists: &Lists| lists.said("giving up the lead: its disk") > 0;
        let deadline = lists.world.now + 2000 * MS;
        while !gave_up(&lists) {
            (0..2).for_each(|worker| _ = lists.ask(full, worker, &[1], &[]));
            lists.run(MS / 2);
            assert!(lists.world.now < deadline, "it keeps the lead\n{}", lists.story());
        }
        let began = lists.world.now;
        // A turn of each worker may have been under way.
        lists.run(MS / 10);
        while lists.world.leader().is_none() {
            for worker in 0..2 {
                let taken = lists.ask(full, worker, &[1], &[2]);
                assert_eq!(taken, None, "seed {seed}: taken without the lead\n{}", lists.story());
            }
            lists.run(MS / 2);
            let took = lists.world.now - began;
            assert!(took < 6 * TIMEOUT, "seed {seed}: nobody leads for {} ms\n{}", took / MS, lists.story());
        }
        assert_ne!(lists.world.leader(), Some(full), "seed {seed}\n{}", lists.story());
        done(&mut lists, "writes at the new leader", &[], &[2]);
    }
}

/// Several election timeouts for each sync, from the start, and leaders that die.
#[test]
fn disks_slower_than_timeouts_have_leaders_and_serve() {
    let mut lists = Lists::prepared(5, 3, 2, durable, |world| {
        world.ids().for_each(|id| world.slow_disk(id, 150 * MS));
    });
    for _ in 0..3 {
        let slow = |lists: &Lists| lists.world.leader();
        lists.wait_for(20_000 * MS, "a leader", |lists| slow(lists).is_some());
        let leader = slow(&lists).expect("it was waited for");
        let token = lists.ask(leader, 0, &[1], &[2]).expect("it is taken");
        lists.wait_for(10_000 * MS, "an append", |lists| lists.acknowledged(token));
        lists.world.kill(leader);
        lists.wait_for(20_000 * MS, "another leader", |lists| {
            lists.world.leader().is_some_and(|other| other != leader)
        });
        lists.world.start(leader);
        lists.run(1000 * MS);
    }
}

/// A follower, its life, and something that was acknowledged since its second start, from before which there is a copy of its disk.
fn copied(lists: &mut Lists) -> (NodeId, highwater_core::Incarnation) {
    let leader = lists.world.leader().expect("somebody leads");
    let victim = lists.world.ids().find(|id| *id != leader).expect("there are three");
    let life = lists.world.status(victim).expect("it is up").incarnation;
    lists.world.kill(victim);
    lists.run(50 * MS);
    lists.world.start(victim);
    lists.wait_for(3000 * MS, "it is back", |lists| lists.world.converged().is_ok());
    assert_eq!(lists.world.status(victim).expect("it is up").incarnation, life);
    done(lists, "an append", &[], &[4]);
    lists.run(500 * MS);
    (victim, life)
}

/// It starts, and is a voter again, in another life.
fn begins_another_life(lists: &mut Lists, victim: NodeId, life: highwater_core::Incarnation) {
    lists.run(50 * MS);
    lists.world.start(victim);
    lists
        .wait_for(5000 * MS, "it is a voter again, with everything", |lists| lists.world.converged().is_ok());
    assert_ne!(lists.world.status(victim).expect("it is up").incarnation, life, "{}", lists.story());
}

#[test]
fn a_disk_that_was_replaced_by_an_older_copy_is_recognised_and_its_node_begins_another_life() {
    // Started often while nobody hears of it, it has caught up with the count of its starts, and with the bytes.
    for unheard in [0, 1, 40] {
        let mut lists = start();
        let (victim, life) = copied(&mut lists);
        assert!(lists.world.has_older_disk(victim, 100 * MS), "{}", lists.story());
        lists.world.restore_older(victim, unheard);
        begins_another_life(&mut lists, victim, life);
        assert!(lists.said("it was restored from a copy") > 0);
    }
}

/// Of the journal nothing is there, of the identity everything.
#[test]
fn a_disk_whose_files_have_lost_their_names_is_known_by_its_own_word_and_its_node_begins_another_life() {
    let mut lists = start();
    let (victim, life) = copied(&mut lists);
    lists.world.lose_names(victim);
    begins_another_life(&mut lists, victim, life);
    assert_eq!(lists.said("it was restored from a copy"), 0, "nobody else had to say so");
}
