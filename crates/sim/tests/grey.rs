//! Grey failures: one part of one node hangs, is slow, or comes and goes, while its process lives. Nothing acknowledged is lost, and service
//! is back within what `docs/guarantees.md` says, with the product's own timeouts.

use highwater_core::{Durability, NodeId};
use highwater_seam::{Nanos, Options};
use highwater_sim::World;
use highwater_sim::network::Channel;

use crate::common::library::ListLibrary;
use crate::common::{Lists, MS};

/// For how long each is watched.
const LENGTH: Nanos = 3000 * MS;
/// A part that comes and goes: away for so long, then there for so long, each longer than anybody needs to be sure.
const AWAY: Nanos = 1400 * MS;
const THERE: Nanos = 600 * MS;

/// The product's own, but for what may wait for a disk: a simulated load is little.
fn with_disks(options: &mut Options) {
    options.durability = Durability::Sync;
    options.max_in_flight_bytes = 16 << 10;
    options.max_entry_bytes = 4 << 10;
}

/// A clock of commits goes back by so much.
const BACK: u64 = 1 << 40;

type Act = fn(&mut World<ListLibrary>, NodeId, NodeId);

/// A part of a node; what is done to it, and how it is undone. The second node is another one.
struct Part {
    name: &'static str,
    hangs: Act,
    slows: Act,
    heals: Act,
    /// How long nobody may be served, in ms, if it is the leader's: if it hangs, is slow, comes and goes. A sync of a simulated disk takes 60 ms now
    /// and then.
    bounds: [u64; 3],
}

fn nothing(_: &mut World<ListLibrary>, _: NodeId, _: NodeId) {}

fn cut(world: &mut World<ListLibrary>, from: NodeId, to: NodeId) {
    world.network.cut_both(from, to);
}

fn heal(world: &mut World<ListLibrary>, _: NodeId, _: NodeId) {
    world.network.heal();
}

fn lag(world: &mut World<ListLibrary>, from: NodeId, to: NodeId) {
    world.network.slow_down(from, to, 100);
    world.network.slow_down(to, from, 100);
}

fn all_but(world: &World<ListLibrary>, node: NodeId) -> Vec<NodeId> {
    world.ids().filter(|id| *id != node).collect()
}

const PARTS: &[Part] = &[
    Part {
        name: "disk",
        hangs: |world, node, _| world.hang_disk(node, true),
        slows: |world, node, _| world.slow_disk(node, 100 * MS),
        heals: |world, node, _| {
            world.hang_disk(node, false);
            world.slow_disk(node, 0);
        },
        bounds: [1050, 300, 1050],
    },
    Part {
        name: "checkpoint thread",
        hangs: |world, node, _| world.hang_checkpoints(node, true),
        slows: nothing,
        heals: |world, node, _| world.hang_checkpoints(node, false),
        bounds: [150, 150, 150],
    },
    Part {
        name: "one worker",
        hangs: |world, node, _| world.stick(node, Channel::Worker(0), true),
        slows: |world, node, _| world.starve(node, Channel::Worker(0), 100),
        heals: |world, node, _| {
            world.stick(node, Channel::Worker(0), false);
            world.starve(node, Channel::Worker(0), 1);
        },
        bounds: [750, 150, 750],
    },
    Part {
        name: "control thread",
        hangs: |world, node, _| world.stick(node, Channel::Control, true),
        slows: |world, node, _| world.starve(node, Channel::Control, 100),
        heals: |world, node, _| {
            world.stick(node, Channel::Control, false);
            world.starve(node, Channel::Control, 1);
        },
        bounds: [150, 150, 150],
    },
    Part { name: "link to one follower", hangs: cut, slows: lag, heals: heal, bounds: [150, 150, 150] },
    Part {
        name: "links to both followers",
        hangs: |world, node, _| all_but(world, node).into_iter().for_each(|other| cut(world, node, other)),
        slows: |world, node, _| all_but(world, node).into_iter().for_each(|other| lag(world, node, other)),
        heals: heal,
        bounds: [300, 250, 300],
    },
    Part {
        name: "clock of commits",
        hangs: |world, node, _| world.clock(node).set_back_commits(BACK),
        slows: |world, node, _| {
            let now = world.now;
            world.clock(node).stall_commits(now, LENGTH);
        },
        heals: |world, node, _| {
            let now = world.now;
            world.clock(node).stall_commits(now, 0);
            world.clock(node).leap_commits(BACK);
        },
        bounds: [300, 150, 300],
    },
    Part {
        name: "all threads",
        hangs: |world, node, _| world.pause(node, AWAY),
        slows: |world, node, _| world.slow_down(node, 100),
        heals: |world, node, _| world.slow_down(node, 1),
        bounds: [300, 150, 300],
    },
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Hangs,
    Slows,
    ComesAndGoes,
}

/// The longest time in which nobody was acknowledged, under load; and how many outcomes were unknown.
fn gap(seed: u64, part: &Part, how: How, at_leader: bool) -> (Nanos, u64) {
    let mut lists = Lists::prepared(seed, 3, 2, with_disks, |world| {
        world.ids().for_each(|id| world.clock(id).follow_time(1 << 45));
    });
    for _ in 0..100 {
        lists.load();
        lists.run(MS / 2);
    }
    let leader = lists.world.leader().expect("somebody leads");
    let others = all_but(&lists.world, leader);
    let (victim, other) = if at_leader { (leader, others[0]) } else { (others[0], others[1]) };
    let (began, mut served, mut gap) = (lists.world.now, lists.world.now, 0);
    let (mut acknowledged, mut is_away) = (lists.all_acknowledged(), false);
    while lists.world.now < began + LENGTH {
        let since = (lists.world.now - began) % (AWAY + THERE);
        let away = how != How::ComesAndGoes || since < AWAY;
        if away != std::mem::replace(&mut is_away, away) {
            let act = match (away, how) {
                (true, How::Slows) => part.slows,
                (true, _) => part.hangs,
                (false, _) => part.heals,
            };
            act(&mut lists.world, victim, other);
        }
        lists.load();
        lists.run(MS);
        if lists.all_acknowledged() > acknowledged {
            acknowledged = lists.all_acknowledged();
            gap = gap.max(lists.world.now - served);
            served = lists.world.now;
        }
    }
    gap = gap.max(lists.world.now - served);
    (part.heals)(&mut lists.world, victim, other);
    lists.run(2000 * MS);
    lists.verify();
    (gap, lists.outcomes.get("unknown").copied().unwrap_or_default())
}

#[test]
fn service_is_back_in_time_whichever_part_fails_and_however() {
    let mut late = Vec::new();
    for part in PARTS {
        for (how, bound) in [How::Hangs, How::Slows, How::ComesAndGoes].into_iter().zip(part.bounds) {
            let gaps: Vec<(Nanos, u64)> = (1..=2).map(|seed| gap(seed, part, how, true)).collect();
            let longest = gaps.iter().map(|(gap, _)| gap / MS).max().unwrap_or_default();
            let unknown: u64 = gaps.iter().map(|(_, unknown)| unknown).sum();
            println!(
                "{} of the leader, {how:?}: {longest} ms, {unknown} unknown, bound {bound} ms",
                part.name
            );
            if longest > bound {
                late.push((part.name, how, longest, bound));
            }
        }
    }
    assert!(late.is_empty(), "nobody is served for longer than is said: {late:?}");
}

/// The others are a majority, and one of them leads.
#[test]
fn no_part_of_a_follower_costs_service() {
    const BOUND: u64 = 150;
    let mut late = Vec::new();
    for part in PARTS.iter().filter(|part| !part.name.starts_with("link")) {
        for how in [How::Hangs, How::Slows, How::ComesAndGoes] {
            let (gap, unknown) = gap(4, part, how, false);
            println!("{} of a follower, {how:?}: {} ms, {unknown} unknown", part.name, gap / MS);
            if gap / MS > BOUND {
                late.push((part.name, how, gap / MS));
            }
        }
    }
    assert!(late.is_empty(), "nobody is served for longer than {BOUND} ms: {late:?}");
}
