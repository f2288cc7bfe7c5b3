//! Replicas with disks: who comes back is who it was, and everybody may come back at once.

use highwater_core::NodeId;
use highwater_engines::EngineKind;
use highwater_seam::{Options, Refusal, Token};
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
    for kind in ["fill_disk", "slow_disk", "fail_sync", "hung_disk"] {
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
    start_on(EngineKind::Rolis)
}

fn start_on(engine: EngineKind) -> Lists {
    let mut lists = Lists::on(engine, 3, 3, 2, durable, |_| {});
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

/// Load while the disk of `hung` answers nothing, until so long after it began to: the longest time in which nobody was acknowledged.
fn gap_while_hung(lists: &mut Lists, hung: NodeId, length: u64) -> u64 {
    lists.world.hang_disk(hung, true);
    let (began, mut served, mut gap) = (lists.world.now, lists.world.now, 0);
    let mut acknowledged = lists.all_acknowledged();
    while lists.world.now < began + length {
        lists.load();
        lists.run(MS / 2);
        if lists.all_acknowledged() > acknowledged {
            acknowledged = lists.all_acknowledged();
            gap = gap.max(lists.world.now - served);
            served = lists.world.now;
        }
    }
    gap.max(lists.world.now - served)
}

/// A leader whose disk answered nothing took requests until no more may wait for a disk, then none at all, for as long as the disk hung;
/// it went on saying that it leads, for it heard a majority, and nothing in its streams stood still.
#[test]
fn a_leader_whose_disk_hangs_makes_way_and_is_not_elected_again() {
    const TIMEOUT: u64 = 30 * MS;
    for (seed, tune) in
        (1..=8).map(|seed| (seed, if seed % 2 == 0 { durable } else { behind as fn(&mut Options) }))
    {
        let mut lists = Lists::start(seed, 3, 2, tune);
        let hung = lists.world.leader().expect("somebody leads");
        for _ in 0..50 {
            lists.load();
            lists.run(MS / 2);
        }
        let gap = gap_while_hung(&mut lists, hung, 100 * TIMEOUT);
        // Eight timeouts until it is sure, and some milliseconds for the hand-over.
        let story = lists.story();
        assert!(gap < 10 * TIMEOUT, "seed {seed}: nobody is served for {} ms\n{story}", gap / MS);
        let leader = lists.world.leader().expect("somebody leads");
        assert_ne!(leader, hung, "seed {seed}\n{story}");
        assert_eq!(lists.said("handing the lead of"), 1, "seed {seed}\n{story}");
        assert_eq!(lists.outcomes.get("unknown"), None, "seed {seed}: what was taken was decided\n{story}");
        let trouble = lists.world.status(hung).and_then(|status| status.trouble).unwrap_or_default();
        assert!(trouble.contains("nothing has got to this node's disk"), "seed {seed}: {trouble}");
        // Nor when the new leader is gone: a majority without that disk there is none, and nobody leads on one that answers nothing.
        lists.world.kill(leader);
        lists.run(40 * TIMEOUT);
        assert_eq!(lists.world.leader(), None, "seed {seed}\n{}", lists.story());
        lists.world.hang_disk(hung, false);
        lists.wait_for(2000 * MS, "a leader", |lists| lists.world.leader().is_some());
        lists.world.start(leader);
        lists.wait_for(5000 * MS, "all have everything", |lists| lists.world.converged().is_ok());
        lists.verify();
    }
}

fn behind(options: &mut Options) {
    small(options);
    options.durability = highwater_core::Durability::Async;
    options.disk_window = 10 * MS;
}

/// The others are a majority: nothing is to be noticed but by who looks at that node.
#[test]
fn a_follower_whose_disk_hangs_costs_nothing() {
    for seed in 1..=4 {
        let mut lists = start_with(seed);
        let leader = lists.world.leader().expect("somebody leads");
        let hung = lists.world.ids().find(|id| *id != leader).expect("there are three");
        let gap = gap_while_hung(&mut lists, hung, 3000 * MS);
        assert!(gap < 100 * MS, "nobody is served for {} ms\n{}", gap / MS, lists.story());
        assert_eq!(lists.world.leader(), Some(leader), "seed {seed}\n{}", lists.story());
        lists.world.hang_disk(hung, false);
        lists.wait_for(5000 * MS, "all have everything", |lists| lists.world.converged().is_ok());
        lists.verify();
    }
}

fn start_with(seed: u64) -> Lists {
    Lists::start(seed, 3, 2, durable)
}

/// The leader's disk answers nothing for a while, again and again, each time too briefly to be sure; and then for longer.
#[test]
fn disks_that_hang_again_and_again_leave_service() {
    const TIMEOUT: u64 = 30 * MS;
    for seed in 1..=4 {
        let mut lists = start_with(seed);
        for round in 0..6 {
            let Some(hung) = lists.world.leader() else { panic!("nobody leads\n{}", lists.story()) };
            let length = [4, 6, 20][round % 3] * TIMEOUT;
            let gap = gap_while_hung(&mut lists, hung, length);
            assert!(
                gap < 11 * TIMEOUT,
                "seed {seed}: nobody is served for {} ms\n{}",
                gap / MS,
                lists.story()
            );
            lists.world.hang_disk(hung, false);
            for _ in 0..60 {
                lists.load();
                lists.run(MS / 2);
            }
        }
        lists.wait_for(5000 * MS, "all have everything", |lists| lists.world.converged().is_ok());
        lists.verify();
    }
}

/// Nobody else can lead: whoever asks is told so at once, and need not wait for as long as the disk takes.
#[test]
fn a_leader_whose_disk_hangs_and_who_has_no_heir_refuses() {
    let mut lists = Lists::start(1, 1, 2, durable);
    let leader = lists.world.leader().expect("it leads");
    gap_while_hung(&mut lists, leader, 600 * MS);
    let procedure = lists.world.procedure("list.step");
    for worker in 0..2 {
        let refusal = lists.world.submit(leader, worker, Token(1 << 40), procedure, &[0; 5]);
        assert_eq!(refusal, Err(Refusal::NoQuorum), "{}", lists.story());
    }
    lists.world.hang_disk(leader, false);
    done(&mut lists, "an append", &[], &[2]);
    lists.verify();
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
    let engines = [EngineKind::Rolis, EngineKind::Meerkat, EngineKind::MeerkatStrict];
    for (engine, unheard) in
        engines.into_iter().flat_map(|engine| [0, 1, 40].map(|unheard| (engine, unheard)))
    {
        let mut lists = start_on(engine);
        let (victim, life) = copied(&mut lists);
        assert!(lists.world.has_older_disk(victim, 100 * MS), "{}", lists.story());
        lists.world.restore_older(victim, unheard);
        begins_another_life(&mut lists, victim, life);
        assert!(lists.said("it was restored from a copy") > 0, "{engine}");
    }
}

/// Nothing of the journal is there, and all of the identity.
#[test]
fn a_disk_whose_files_have_lost_their_names_is_known_by_its_own_word_and_its_node_begins_another_life() {
    let mut lists = start();
    let (victim, life) = copied(&mut lists);
    lists.world.lose_names(victim);
    begins_another_life(&mut lists, victim, life);
    assert_eq!(lists.said("it was restored from a copy"), 0, "nobody else had to say so");
}
