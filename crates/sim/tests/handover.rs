//! The lead is handed over: nobody waits for a timeout, and nobody is left with a request of unknown outcome.

use crate::common::{Lists, MS, number, small};
use highwater_core::NodeId;
use highwater_seam::{Handover, Nanos, Options, Refusal};

/// No hand-over takes longer among machines that are well: a third of an election timeout.
const LONGEST: Nanos = 10 * MS;

/// Simulated disks need 60 ms for one sync in a hundred, so heartbeats are those of a configuration for disks.
fn with_disks(options: &mut Options) {
    small(options);
    options.durability = highwater_core::Durability::Sync;
    options.heartbeat = 20 * MS;
    options.election_timeout = 240 * MS;
}

/// Load until a hand-over or retirement of `node` has ended; how.
fn wait(lists: &mut Lists, node: NodeId) -> Handover {
    let deadline = lists.world.now + 1000 * MS;
    while lists.world.handover(node) == Handover::UnderWay {
        assert!(lists.world.now < deadline, "it ends within a second\n{}", lists.story());
        lists.load();
        lists.run(MS / 4);
    }
    lists.world.handover(node)
}

fn work(lists: &mut Lists, rounds: u64) {
    for _ in 0..rounds {
        lists.load();
        lists.run(MS / 2);
    }
}

/// Hands the lead over, to `to` or to anybody; how long requests waited.
fn hand_over(lists: &mut Lists, to: Option<NodeId>) -> Nanos {
    let leader = lists.world.leader().expect("somebody leads");
    lists.world.hand_over(leader, to).unwrap_or_else(|why| panic!("{why}\n{}", lists.story()));
    let Handover::Done { to: heir, pause } = wait(lists, leader) else {
        panic!("{:?}\n{}", lists.world.handover(leader), lists.story())
    };
    assert!(to.is_none_or(|to| to == heir), "{heir} leads, not {to:?}");
    assert_eq!(lists.world.leader(), Some(heir), "{}", lists.story());
    pause
}

/// Again and again under load, in many small clusters: no outcome is unknown, and the pause is short.
#[test]
fn a_lead_is_handed_over_without_a_doubt() {
    let (first, seeds) = (number("FIRST", 0), number("SEEDS", 60));
    let mut longest = 0;
    for seed in first..first + seeds {
        let (nodes, workers) = (2 + (seed % 4) as u8, 1 + (seed % 3) as u16);
        let tune = if seed % 2 == 0 { small } else { with_disks };
        let mut lists = Lists::start(seed, nodes, workers, tune);
        for round in 0..4 {
            work(&mut lists, 20);
            let leader = lists.world.leader().expect("somebody leads").0;
            let next = NodeId((leader + 1 + (round % (nodes - 1))) % nodes);
            let to = (round % 2 == 0).then_some(next);
            let pause = hand_over(&mut lists, to);
            longest = longest.max(pause);
            // A few syncs follow each other: promises, and the beginning of the epoch.
            let most = if seed % 2 == 0 { LONGEST } else { LONGEST + 4 * 60 * MS };
            assert!(pause <= most, "seed {seed}: requests waited for {} us", pause / 1000);
        }
        assert!(!lists.outcomes.contains_key("unknown"), "seed {seed}: {:?}", lists.outcomes);
        lists.verify();
    }
    println!("the longest pause was {:.2} ms", longest as f64 / MS as f64);
}

/// All replicas are restarted, one by one, under load.
#[test]
fn a_rolling_restart_fails_no_request() {
    for seed in 0..number("SEEDS", 20) {
        let mut lists = Lists::start(seed, 3, 1 + (seed % 3) as u16, with_disks);
        for node in lists.world.ids().collect::<Vec<_>>() {
            work(&mut lists, 20);
            let led = lists.world.leader() == Some(node);
            lists.world.retire(node);
            let ended = wait(&mut lists, node);
            assert_eq!(matches!(ended, Handover::Done { .. }), led, "{ended:?}\n{}", lists.story());
            assert_ne!(lists.world.leader(), Some(node));
            lists.world.kill(node);
            work(&mut lists, 20);
            lists.world.start(node);
            lists.wait_for(3000 * MS, "it votes again", Lists::whole);
        }
        assert!(!lists.outcomes.contains_key("unknown"), "seed {seed}: {:?}", lists.outcomes);
        lists.verify();
    }
}

/// What an operator may ask in vain; the leader serves on.
#[test]
fn what_cannot_be_handed_over_stays() {
    let mut lists = Lists::start(1, 3, 2, small);
    let leader = lists.world.leader().expect("somebody leads");
    let others: Vec<NodeId> = lists.world.ids().filter(|id| *id != leader).collect();
    let refused = |lists: &mut Lists, node, to| lists.world.hand_over(node, to).unwrap_err();
    assert!(refused(&mut lists, others[0], None).contains("does not lead"));
    assert!(refused(&mut lists, leader, Some(leader)).contains("leads already"));
    assert!(refused(&mut lists, leader, Some(NodeId(9))).contains("no voter"));
    lists.world.kill(others[0]);
    lists.run(MS);
    assert!(refused(&mut lists, leader, Some(others[0])).contains("not connected"));
    // The other one hears the leader, and cannot make itself heard.
    lists.world.network.cut(others[1], leader);
    lists.world.hand_over(leader, None).expect("it asks");
    let ended = wait(&mut lists, leader);
    assert!(matches!(&ended, Handover::Failed(why) if why.contains("does not answer")), "{ended:?}");
    lists.world.network.heal();
    lists.world.start(others[0]);
    work(&mut lists, 50);
    assert!(!lists.outcomes.contains_key("unknown"), "{:?}", lists.outcomes);
    lists.verify();
}

/// All nodes are asked to end at once: none waits for another that ends, too.
#[test]
fn who_ends_last_does_not_wait() {
    let mut lists = Lists::start(1, 3, 1, small);
    lists.world.ids().for_each(|id| lists.world.retire(id));
    lists.run(5 * MS);
    for id in lists.world.ids() {
        assert_ne!(lists.world.handover(id), Handover::UnderWay, "{id}\n{}", lists.story());
    }
}

/// Whoever asks a worker of a node now and is told that nobody leads.
fn told_that_nobody_leads(lists: &Lists) -> Option<(NodeId, u16)> {
    let workers = lists.workers;
    let mut all = lists.world.ids().flat_map(|id| (0..workers).map(move |worker| (id, worker)));
    all.find(|(id, worker)| lists.world.ready(*id, *worker) == Some(Err(Refusal::NotServing { ask: None })))
}

/// Those who promise the heir know nobody for a moment, and told their clients that nobody leads.
#[test]
fn nobody_is_told_that_nobody_leads_while_the_lead_is_handed_over() {
    for seed in 0..20 {
        let mut lists = Lists::start(seed, 3 + (seed % 2) as u8, 2, small);
        for _ in 0..4 {
            work(&mut lists, 20);
            let leader = lists.world.leader().expect("somebody leads");
            lists.world.hand_over(leader, None).expect("it can be");
            let until = lists.world.now + 15 * MS;
            while lists.world.now < until {
                lists.run(MS / 50);
                let told = told_that_nobody_leads(&lists);
                assert_eq!(told, None, "seed {seed}\n{}", lists.story());
            }
            lists.wait_for(500 * MS, "somebody leads", |lists| lists.world.leader().is_some());
        }
        lists.verify();
    }
}

/// A change of membership is a change of epoch on purpose. Requests were refused in between, and clients that had waited for data for
/// hours were told to go.
#[test]
fn a_change_of_membership_refuses_nobody() {
    for seed in 0..12 {
        let mut lists = Lists::start(seed, 3, 2, small);
        work(&mut lists, 20);
        let leader = lists.world.leader().expect("somebody leads");
        let back = lists.world.ids().find(|id| *id != leader).expect("there are three");
        lists.world.kill(back);
        lists.run(5 * MS);
        lists.world.start(back);
        let deadline = lists.world.now + 3000 * MS;
        while lists.said("leading ") < 2 {
            assert!(lists.world.now < deadline, "it votes again\n{}", lists.story());
            lists.load();
            lists.run(MS / 50);
            for worker in 0..2 {
                let ready = lists.world.ready(leader, worker);
                let refused = matches!(ready, Some(Err(Refusal::NotServing { .. } | Refusal::NoQuorum)));
                assert!(!refused, "seed {seed}: {ready:?}\n{}", lists.story());
            }
        }
        lists.verify();
    }
}

/// A change of membership whose election does not end is no reason to wait for ever.
#[test]
fn requests_wait_for_a_change_of_membership_for_a_while_only() {
    let mut lists = Lists::start(1, 3, 2, small);
    work(&mut lists, 20);
    let leader = lists.world.leader().expect("somebody leads");
    let others: Vec<NodeId> = lists.world.ids().filter(|id| *id != leader).collect();
    lists.world.kill(others[0]);
    lists.run(5 * MS);
    lists.world.start(others[0]);
    let deadline = lists.world.now + 3000 * MS;
    while lists.said("won ") < 2 && lists.world.ready(leader, 0) != Some(Err(Refusal::Busy)) {
        assert!(lists.world.now < deadline, "it votes again\n{}", lists.story());
        lists.run(MS / 100);
    }
    // Nobody hears it any more.
    others.iter().for_each(|other| lists.world.network.cut_both(leader, *other));
    lists.run(200 * MS);
    let ready = lists.world.ready(leader, 0);
    assert!(!matches!(ready, Some(Ok(()) | Err(Refusal::Busy))), "{ready:?}\n{}", lists.story());
    lists.world.network.heal();
    lists.verify();
}
