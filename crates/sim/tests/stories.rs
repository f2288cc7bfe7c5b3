//! Stories: the papers' figures and the promises of the documentation, told with whole replicas.

use crate::common::{Lists, MS, small};
use highwater_core::NodeId;
use highwater_sim::network::Channel;

fn followers(lists: &Lists) -> Vec<NodeId> {
    lists.world.ids().filter(|id| Some(*id) != lists.world.leader()).collect()
}

/// Alice pays Bob (stream 0), Bob pays Charlie with that money (stream 1). Stream 1 is decided, stream 0 is lost with the
/// leader: neither payment was released, and neither is visible anywhere afterwards.
#[test]
fn paper_figure_3() {
    let mut lists = Lists::start(3, 3, 2, small);
    let leader = lists.world.leader().unwrap();
    lists.run(50 * MS);
    let before = lists.world.status(followers(&lists)[0]).unwrap().figure("decided")[1];
    lists.world.network.hold(Channel::Worker(0));
    let alice_pays = lists.ask(leader, 0, &[], &[0]).unwrap();
    let bob_pays = lists.ask(leader, 1, &[0], &[1]).unwrap();
    lists.run(10 * MS);
    let now = lists.world.status(followers(&lists)[0]).unwrap();
    assert!(now.figure("decided")[1] > before, "Bob's payment is decided in its stream");
    lists.world.kill(leader);
    lists.world.network.heal();
    lists.wait_for(1000 * MS, "another leader", |lists| lists.world.leader().is_some());
    lists.verify();
    assert!(!lists.acknowledged(alice_pays) && !lists.acknowledged(bob_pays), "neither was released");
    for id in lists.world.ids() {
        assert_eq!((lists.list(id, 0), lists.list(id, 1)), (vec![], vec![]), "neither is visible on {id}");
    }
}

/// Five streams; one of them misses its tail. What the others hold above its last entry is skipped on every replica, though
/// decided; what is below was released and stays.
#[test]
fn paper_figure_8_with_real_replicas() {
    let mut lists = Lists::start(8, 3, 5, small);
    let leader = lists.world.leader().unwrap();
    let kept: Vec<_> = (0..5).map(|worker| lists.ask(leader, worker, &[], &[0]).unwrap()).collect();
    lists.run(50 * MS);
    assert!(kept.iter().all(|token| lists.acknowledged(*token)));
    lists.world.network.hold(Channel::Worker(3));
    lists.ask(leader, 3, &[], &[1]).unwrap();
    let skipped: Vec<_> =
        [0, 1, 2, 4].iter().map(|worker| lists.ask(leader, *worker, &[], &[2]).unwrap()).collect();
    lists.run(10 * MS);
    assert!(!skipped.iter().any(|token| lists.acknowledged(*token)), "stream 3 holds the mark");
    lists.world.kill(leader);
    lists.world.network.heal();
    lists.wait_for(1000 * MS, "another leader", |lists| lists.world.leader().is_some());
    let now = lists.world.leader().unwrap();
    assert_eq!((lists.list(now, 0).len(), lists.list(now, 1).len(), lists.list(now, 2).len()), (5, 0, 0));
    lists.verify();
}

/// One worker of four has work. Its clients wait for a round trip or two, not for the others.
#[test]
fn silent_stream_does_not_hold_the_mark() {
    let mut lists = Lists::start(4, 3, 4, small);
    lists.run(50 * MS);
    let leader = lists.world.leader().unwrap();
    let entries = |lists: &Lists| lists.world.status(leader).unwrap().figure("accepted").to_vec();
    let before: Vec<u64> = entries(&lists);
    for _ in 0..50 {
        let token = lists.ask(leader, 0, &[1], &[0]).unwrap();
        lists.wait_for(6 * MS, "an answer", |lists| lists.acknowledged(token));
    }
    lists.run(20 * MS);
    let after: Vec<u64> = entries(&lists);
    assert_eq!(before[1..], after[1..], "the silent streams stayed silent");
    lists.verify();
}

/// When nobody asks for anything, nobody works: nothing but heartbeats is sent, and a worker takes a turn only when its
/// controller asks whether it still can.
#[test]
fn idle_cluster_goes_silent() {
    for workers in 1..=4 {
        let mut lists = Lists::start(u64::from(workers), 3, workers, small);
        for _ in 0..100 {
            lists.load();
            lists.run(MS / 2);
        }
        lists.run(300 * MS);
        let (turns, frames) = lists.world.work;
        lists.run(2000 * MS);
        let asked = 2000 / 120 + 1;
        let allowed = turns + 3 * u64::from(workers) * asked;
        assert!(lists.world.work.0 <= allowed && lists.world.work.1 == frames, "{}", lists.story());
        lists.verify();
    }
}

/// A leader that was cut off executed what nobody will hear of. Its clients are told that they cannot know; it does not
/// show what never happened, and needs no copy.
/// Once: two deposed leaders had thrown their stores away when the third node lost its memory: no complete store was
/// left. Deposed leaders roll back now.
#[test]
fn deposed_leader_rolls_back() {
    let mut lists = Lists::start(5, 3, 3, small);
    lists.run(20 * MS);
    let old = lists.world.leader().unwrap();
    for id in followers(&lists) {
        lists.world.network.cut(old, id);
        lists.world.network.cut(id, old);
    }
    let lost: Vec<_> = (0..3).map(|worker| lists.ask(old, worker, &[0], &[0, 1]).unwrap()).collect();
    lists.wait_for(1000 * MS, "another leader", |lists| lists.world.leader() != Some(old));
    lists.run(50 * MS);
    assert!(!lists.outcomes.contains_key("unknown"), "the old leader does not know yet");
    lists.world.network.heal();
    lists.verify();
    assert_eq!(lists.outcomes["unknown"], 3);
    assert!(!lists.outcomes.contains_key("conflict"));
    assert!(!lost.iter().any(|token| lists.acknowledged(*token)));
    assert_eq!(lists.said("copying the state"), 0, "a deposed leader rolls back and copies nothing");
    assert!(lists.list(old, 0).is_empty() && lists.list(old, 1).is_empty());
}

/// A node that lost its memory copies the state and is admitted again while clients are served; they are refused for the
/// change of epoch only.
#[test]
fn learner_copies_while_load_runs() {
    let mut lists = Lists::start(6, 3, 2, small);
    let victim = followers(&lists)[0];
    for round in 0..600 {
        lists.load();
        lists.run(MS / 2);
        match round {
            100 => lists.world.kill(victim),
            200 => lists.world.start(victim),
            _ => {}
        }
    }
    assert_eq!(
        lists.world.status(victim).unwrap().role,
        "follower",
        "admitted under load\n{}",
        lists.story()
    );
    // With so little log kept it may fall too far behind once more.
    assert!(lists.said("copying the state from") >= 1, "{}", lists.story());
    assert!(lists.said("has caught up") >= 1);
    assert!(lists.all_acknowledged() > 500, "{} acknowledged", lists.all_acknowledged());
    assert!(!lists.outcomes.contains_key("unknown"), "a planned change loses nothing: {:?}", lists.outcomes);
    lists.verify();
}

/// A stream stands still in the network. Another worker's replies wait for it: it claims once that the stream is closed, not with an
/// entry for each round trip.
#[test]
fn a_stream_that_stands_still_is_claimed_once() {
    let mut lists = Lists::start(5, 3, 2, small);
    let leader = lists.world.leader().unwrap();
    lists.run(50 * MS);
    lists.world.network.hold(Channel::Worker(1));
    let held = lists.ask(leader, 1, &[], &[1]).unwrap();
    lists.run(MS);
    let waits = lists.ask(leader, 0, &[], &[2]).unwrap();
    let entries = |lists: &Lists| lists.world.status(leader).unwrap().figure("accepted")[0];
    let before = entries(&lists);
    lists.run(30 * MS);
    assert!(!lists.acknowledged(waits), "the mark stands still");
    assert!(entries(&lists) <= before + 2, "{before}, then {}", entries(&lists));
    lists.world.network.heal();
    lists.wait_for(1000 * MS, "both", |lists| lists.acknowledged(held) && lists.acknowledged(waits));
}
