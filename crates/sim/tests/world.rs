//! The world itself: everything that it does wrong at once, and still the same twice; and each of its faults by itself.
//!
//! `SEEDS=1 FIRST=7 TRACE=1 cargo test -p highwater-sim --test simulated world::everything -- --nocapture` tells one seed's events.

use crate::common::{Lists, MS, small, tiny};
use highwater_core::NodeId;
use highwater_engines::EngineKind;
use highwater_seam::Nanos;
use highwater_seam::observer::EPOCHS;
use highwater_sim::network::{Channel, Datagrams, Faults};
use highwater_sim::{Buggify, Interleaving};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

/// A world in which everything is on.
fn hard(seed: u64) -> Lists {
    let (nodes, workers) = (if seed.is_multiple_of(4) { 5 } else { 3 }, 1 + (seed % 4) as u16);
    let tune = if seed.is_multiple_of(3) { tiny } else { small };
    let mut lists = Lists::prepared(seed, nodes, workers, tune, |world| {
        if number("TRACE", 0) > 0 {
            world.on_event(|line| println!("{line}"));
        }
        for id in world.ids() {
            let (rate, offset) = (world.random.between(700_000, 1_300_000), world.random.below(1 << 40));
            let ahead = world.random.below(1 << 40);
            let clock = world.clock(id);
            clock.leap(0, offset);
            clock.set_rate(0, rate);
            clock.follow_time(ahead);
        }
        world.interleave(Interleaving { one_in: 10, long_one_in: 100, longest: 5 * MS });
        let rate = |name| match name {
            "StepDown" => 500,
            "AskEarly" => 300,
            "SkipPreVote" => 1500,
            "TrimEarly" => 3000,
            "RefuseCopy" => 4,
            "SmallChunk" => 2,
            _ => 20,
        };
        let sites = EngineKind::Rolis.sites().iter();
        world.buggify(sites.fold(Buggify::default(), |all, site| all.with(*site, rate(site.name()))));
        let datagrams = (seed % 2 == 1).then_some(Datagrams { lost: 20, repeated: 20, reordered: true });
        let (late, patience) = (Some(20 * MS), Some(100 * MS));
        world.network.faults = Faults { truncate: true, late, patience, datagrams };
    });
    lists.wait_for(5000 * MS, "a leader", |lists| lists.world.leader().is_some());
    for _ in 0..300 {
        lists.load();
        let length = lists.world.random.between(MS / 10, MS);
        lists.run(length);
        if lists.world.random.one_in(15) {
            befall(&mut lists, nodes, workers);
        }
    }
    lists
}

fn befall(lists: &mut Lists, nodes: u8, workers: u16) {
    let whole = lists.whole();
    let world = &mut lists.world;
    let a = NodeId(world.random.below(nodes.into()) as u8);
    let b = NodeId((a.0 + 1 + world.random.below(u64::from(nodes) - 1) as u8) % nodes);
    let worker = Channel::Worker(world.random.below(workers.into()) as u16);
    let length = world.random.between(MS, 60 * MS);
    let now = world.now;
    match world.random.below(11) {
        0 => world.break_links(a, b),
        1 => world.flap_links(a, b, 2 * MS, length),
        2 => world.network.clog(a, b, now + length),
        3 => world.network.slow_down(a, b, 30),
        4 => world.pause(a, length),
        5 => world.starve(a, worker, 100),
        6 => world.slow_down(a, 20),
        7 => {
            world.clock(a).leap(now, length);
            world.clock(b).leap_commits(1 << 30);
            world.clock(b).stall_commits(now, length);
        }
        8 => world.network.cut(a, b),
        9 if whole => {
            world.kill(a);
            world.start(a);
        }
        10 if whole => {
            world.vanish(a, length);
            world.run_until(now + length / 2);
            world.start(a);
        }
        _ => {
            world.network.heal();
            world.ids().for_each(|id| world.slow_down(id, 1));
        }
    }
}

#[test]
fn everything_at_once_loses_nothing() {
    let (runs, first) = (number("SEEDS", 40), number("FIRST", 1));
    let (mut committed, mut interruptions) = (0, 0);
    let sites = EngineKind::Rolis.sites();
    let mut chosen = vec![0; sites.len()];
    let mut simulated: Nanos = 0;
    for seed in first..first + runs {
        let ended = std::panic::catch_unwind(|| {
            let mut lists = hard(seed);
            lists.verify();
            lists
        });
        assert!(ended.is_ok(), "seed {seed} failed");
        let lists = ended.expect("just checked");
        committed += lists.all_acknowledged();
        interruptions += lists.world.interruptions();
        sites.iter().zip(&mut chosen).for_each(|(site, chosen)| *chosen += lists.world.chosen(*site));
        simulated += lists.world.now;
    }
    println!("{committed} acknowledged, {interruptions} interruptions, {} ms simulated", simulated / MS);
    for (site, chosen) in sites.iter().zip(chosen) {
        println!("{site:?}: {chosen}");
        assert!(chosen > 0 || runs < 40, "{site:?} never happened");
    }
    assert!(committed as u64 > 20 * runs && interruptions > 100 * runs);
}

#[test]
fn a_seed_gives_the_same_run_to_the_last_byte() {
    for seed in [4, 7] {
        let [one, two] = [(); 2].map(|()| {
            let lists = hard(seed);
            (lists.world.trace_hash(), lists.world.now, lists.all_acknowledged(), lists.world.interruptions())
        });
        assert_eq!(one, two);
        assert_ne!(one.0, hard(seed + 4).world.trace_hash());
    }
}

/// A node that dies while its workers stand in the middle of transactions, their locks held.
#[test]
fn nodes_die_in_the_middle_of_transactions() {
    for seed in 0..10 {
        let mut lists = Lists::prepared(seed, 3, 3, small, |world| {
            world.interleave(Interleaving { one_in: 2, long_one_in: 4, longest: 20 * MS });
        });
        for _ in 0..30 {
            lists.load();
            lists.run(MS / 2);
        }
        if lists.whole() {
            let leader = lists.world.leader().unwrap();
            lists.world.kill(leader);
        }
        lists.verify();
    }
}

/// Nobody tells that a machine has vanished: a leader is missed by its silence alone.
#[test]
fn a_leader_that_vanishes_without_a_word_is_replaced() {
    let mut lists = Lists::start(11, 3, 2, small);
    let old = lists.world.leader().unwrap();
    lists.world.vanish(old, 5000 * MS);
    lists.run(20 * MS);
    assert_eq!(lists.world.leader(), None, "it is not missed yet");
    lists.wait_for(300 * MS, "another leader", |lists| lists.world.leader().is_some());
    lists.verify();
}

/// With a bridge of one node between two halves some leader gets a majority; with all links of a leader one-way it does
/// not keep its lead for ever.
#[test]
fn a_bridge_leaves_a_leader_and_a_mute_leader_is_replaced() {
    let mut lists = Lists::start(12, 5, 2, small);
    let ids: Vec<NodeId> = lists.world.ids().collect();
    lists.world.network.bridge(&ids[..3], &ids[2..], NodeId(2));
    lists.run(1000 * MS);
    lists.wait_for(2000 * MS, "a leader", |lists| lists.world.leader().is_some());
    lists.world.network.heal();
    lists.run(500 * MS);
    let mute = lists.world.leader().unwrap();
    lists.world.network.mute(mute, ids);
    lists.wait_for(1000 * MS, "another leader", |lists| {
        lists.world.ids().any(|id| id != mute && lists.world.status(id).is_some_and(|status| status.leads()))
    });
    lists.verify();
}

#[test]
fn reports_show_the_last_events_of_each_node() {
    let mut lists = Lists::start(13, 3, 1, small);
    lists.ask(lists.world.leader().unwrap(), 0, &[], &[1]).unwrap();
    lists.run(5 * MS);
    let leader = lists.world.leader().unwrap();
    let events = lists.world.events(leader).join("\n");
    for what in ["request 1", "Accepted", "1 replies", "HeartbeatReply"] {
        assert!(events.contains(what), "{what} in\n{events}");
    }
    let seen = lists.world.observe();
    assert!(seen.count("entries decided") > 0 && seen.count(EPOCHS) == 1, "{seen:?}");
    assert!(seen.most.log_bytes > 0, "{seen:?}");
}
