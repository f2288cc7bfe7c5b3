//! Bytes that take time, threads that get no turn, controllers that are interrupted: each by itself.

use crate::common::{Lists, MS, small};
use highwater_core::NodeId;
use highwater_sim::network::{Channel, Wire};
use highwater_sim::world::Costs;
use highwater_sim::{Interleaving, NodeClock};

/// How long an answer to one transaction takes; from here on nothing else is asked.
fn answered_within(lists: &mut Lists, worker: u16, appends: &[u8]) -> u64 {
    let leader = lists.world.leader().expect("somebody leads");
    let asked = lists.world.now;
    let token = lists.ask(leader, worker, &[], appends).expect("it is taken");
    lists.wait_for(2000 * MS, "an answer", |lists| lists.acknowledged(token));
    lists.world.now - asked
}

/// A list grows to some kilobytes; then links are narrow. Its next entry takes its time on the workers' connections, the
/// heartbeats on the controllers' do not wait for it: the leader stays.
#[test]
fn a_large_entry_waits_for_its_wire_and_heartbeats_do_not() {
    let mut lists = Lists::start(1, 3, 1, small);
    for _ in 0..800 {
        answered_within(&mut lists, 0, &[0]);
    }
    let usual = answered_within(&mut lists, 0, &[0]);
    assert!(usual < 5 * MS, "{usual}");
    let leaders = lists.said("leading");
    // 3,200 bytes of list: 80 ms, almost three times the shortest election timeout.
    lists.world.network.wire = Some(Wire { bytes_per_ms: 40, backlog_bytes: 1 << 20 });
    lists.run(20 * MS);
    let narrow = answered_within(&mut lists, 0, &[0]);
    assert!(narrow > 75 * MS, "{narrow}");
    assert_eq!(lists.said("leading"), leaders, "nobody missed the leader");
    lists.world.network.wire = None;
    lists.verify();
}

/// On a connection on which too much waits nothing more is sent: it breaks, and what was lost is sent again.
#[test]
fn a_connection_that_overflows_breaks() {
    let mut lists = Lists::prepared(2, 3, 2, small, |world| {
        world.network.wire = Some(Wire { bytes_per_ms: 100, backlog_bytes: 500 });
    });
    for _ in 0..300 {
        lists.load();
        lists.run(MS / 2);
    }
    assert!(lists.world.marks["connections that overflow"] > 0);
    lists.world.network.wire = None;
    lists.verify();
}

/// A step costs: a transaction of many steps keeps the next one on its worker waiting, and nobody else.
#[test]
fn a_long_turn_starves_its_own_thread_only() {
    let mut lists = Lists::start(3, 3, 2, small);
    lists.run(20 * MS);
    lists.world.costs = Costs { step: MS / 2, kib: 0 };
    let all: Vec<u8> = (0..6).collect();
    let leader = lists.world.leader().unwrap();
    lists.ask(leader, 0, &all, &all).unwrap();
    lists.run(MS / 10);
    let (other, same) = (lists.ask(leader, 1, &[], &[]).unwrap(), lists.ask(leader, 0, &[], &[]).unwrap());
    lists.run(MS);
    let waiting = lists.world.marks.get("turns of more than 1 ms").copied().unwrap_or_default();
    assert!(waiting > 0 && !lists.acknowledged(same), "{}", lists.story());
    lists.world.costs = Costs::default();
    lists.wait_for(200 * MS, "answers", |lists| lists.acknowledged(same) && lists.acknowledged(other));
    lists.verify();
}

/// One worker of a follower gets no turn: the others go on, so does the cluster; then it catches up.
#[test]
fn a_stuck_worker_of_a_follower_stops_nobody() {
    let mut lists = Lists::start(4, 3, 2, small);
    let follower = lists.world.ids().find(|id| Some(*id) != lists.world.leader()).unwrap();
    lists.world.stick(follower, Channel::Worker(1), true);
    lists.run(10 * MS);
    let held = |lists: &Lists| lists.world.status(follower).unwrap().figure("accepted").to_vec();
    let before = held(&lists);
    for _ in 0..20 {
        answered_within(&mut lists, 0, &[0]);
        answered_within(&mut lists, 1, &[1]);
    }
    lists.run(20 * MS);
    let after = held(&lists);
    assert!(after[0] > before[0] && after[1] == before[1], "{before:?} {after:?}");
    assert!(!lists.world.is_well(follower));
    lists.world.stick(follower, Channel::Worker(1), false);
    lists.verify();
}

/// A leader whose controller gets no turn sends no heartbeat: the others go on without it.
#[test]
fn a_leader_with_a_stuck_controller_is_replaced() {
    let mut lists = Lists::start(5, 3, 2, small);
    let old = lists.world.leader().unwrap();
    lists.world.stick(old, Channel::Control, true);
    lists.wait_for(1000 * MS, "another leader", |lists| {
        let leads = |id: NodeId| lists.world.status(id).is_some_and(|status| status.leads());
        lists.world.ids().any(|id| id != old && leads(id))
    });
    assert_eq!(lists.world.status(old).unwrap().role, "leader", "it does not know");
    lists.world.stick(old, Channel::Control, false);
    lists.verify();
}

/// A node dies, and one worker comes to a stop, in the middle of turns of controllers and workers; nothing is lost.
#[test]
fn controllers_are_interrupted_between_their_steps() {
    for seed in 0..10 {
        let mut lists = Lists::prepared(seed, 3, 3, small, |world| {
            world.interleave(Interleaving { one_in: 2, long_one_in: 10, longest: 20 * MS });
            world.interleave_controllers(true);
        });
        let stuck = NodeId((seed % 3) as u8);
        for round in 0..60 {
            lists.load();
            lists.run(MS / 2);
            if round == 20 {
                lists.world.stick(stuck, Channel::Worker(0), true);
            }
            if round == 50 {
                lists.world.stick(stuck, Channel::Worker(0), false);
            }
        }
        lists.world.finish_control_turns();
        if lists.whole() {
            let leader = lists.world.leader().unwrap();
            lists.world.kill(leader);
        }
        lists.verify();
        assert!(lists.world.controllers_interrupted() > 20, "{}", lists.world.controllers_interrupted());
    }
}

/// The same seed, the same run, whatever is switched on.
#[test]
fn runs_stay_the_same_twice() {
    let run = || {
        let mut lists = Lists::prepared(9, 3, 2, small, |world| {
            world.interleave(Interleaving { one_in: 3, long_one_in: 10, longest: 5 * MS });
            world.interleave_controllers(true);
            world.costs = Costs { step: 200, kib: 20_000 };
            world.network.wire = Some(Wire { bytes_per_ms: 1000, backlog_bytes: 4000 });
            for id in world.ids() {
                let clock: &mut NodeClock = world.clock(id);
                clock.follow_time(1 << 30);
            }
        });
        for _ in 0..100 {
            lists.load();
            lists.run(MS / 2);
        }
        (lists.world.trace_hash(), lists.all_acknowledged(), lists.world.marks.clone())
    };
    assert_eq!(run(), run());
}
