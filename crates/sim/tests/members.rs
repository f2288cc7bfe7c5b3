//! Who belongs changes under load and faults: nodes are added, removed and replaced, and nothing acknowledged is lost.

use bytes::Bytes;
use highwater_core::{NodeId, Random};
use highwater_seam::{MemberAnswer, MemberChange, Nanos, Options, Service};

use crate::common::{Lists, MS, number, small};

/// Nodes that there are in all; the first three found the cluster.
const NODES: u8 = 6;

fn founders_are_three(options: &mut Options) {
    small(options);
    let own = options.node;
    options.founders =
        (0..3).map(NodeId).chain((own.0 >= 3).then_some(own)).map(|id| (id, Bytes::new())).collect();
}

fn founders_are_three_with_disks(options: &mut Options) {
    founders_are_three(options);
    options.durability = highwater_core::Durability::Sync;
    options.heartbeat = 20 * MS;
    options.election_timeout = 240 * MS;
}

fn work(lists: &mut Lists, rounds: u64) {
    for _ in 0..rounds {
        lists.load();
        lists.run(MS / 2);
    }
}

/// Asks whoever leads until it is done, under load; faults of the seed come in between.
fn change(lists: &mut Lists, random: &mut Random, what: &MemberChange, within: Nanos) {
    let deadline = lists.world.now + within;
    loop {
        let leader = lists.world.leader();
        let answer = leader.and_then(|leader| lists.world.change_members(leader, what.clone()));
        match answer {
            Some(MemberAnswer::Done) => return,
            Some(MemberAnswer::Refused(why)) if !why.contains("no majority") => {
                panic!("{what:?}: {why}\n{}", lists.story())
            }
            _ => {}
        }
        assert!(lists.world.now < deadline, "{what:?} takes too long: {answer:?}\n{}", lists.story());
        fault(lists, random);
        work(lists, 6);
    }
}

/// Now and then a connection breaks, somebody hangs or is cut off for a while.
fn fault(lists: &mut Lists, random: &mut Random) {
    let (one, other) = (NodeId(random.below(NODES.into()) as u8), NodeId(random.below(NODES.into()) as u8));
    match random.below(24) {
        0 if one != other => lists.world.break_links(one, other),
        1 => lists.world.pause(one, 20 * MS),
        2 if one != other => {
            lists.world.network.cut(one, other);
            lists.world.network.cut(other, one);
        }
        3 | 4 => lists.world.network.heal(),
        _ => {}
    }
}

/// Everybody who belongs holds everything, and has it on its disk, once the faults are over: the network's, and those of disks. Of a publication
/// that waits for a slow disk nobody can say how long it takes; here it is 20 election timeouts at most, and there may be two in turn, for
/// one of the store before cannot be taken back.
fn settle(lists: &mut Lists) {
    lists.world.network.heal();
    lists.world.publish_promptly(true);
    lists.wait_for(6000 * MS, "the members converge", |lists| lists.world.converged().is_ok());
    lists.world.publish_promptly(false);
}

fn story(seed: u64, tune: fn(&mut Options), within: Nanos) {
    let mut random = Random::new(seed ^ 0x3e3b);
    let mut lists = Lists::start(seed, NODES, 1 + (seed % 3) as u16, tune);
    let mut members: Vec<u8> = vec![0, 1, 2];
    let mut next = 3;
    while next < NODES {
        work(&mut lists, 20);
        let goes = members[random.below(members.len() as u64) as usize];
        let add = MemberChange::Add { node: NodeId(next), contact: Bytes::new() };
        match random.below(3) {
            0 => change(&mut lists, &mut random, &add, within),
            1 => {
                change(&mut lists, &mut random, &add, within);
                change(&mut lists, &mut random, &MemberChange::Remove { node: NodeId(goes) }, within);
                members.retain(|id| *id != goes);
            }
            _ => {
                let replace =
                    MemberChange::Replace { node: NodeId(goes), by: NodeId(next), contact: Bytes::new() };
                change(&mut lists, &mut random, &replace, within);
                members.retain(|id| *id != goes);
            }
        }
        members.push(next);
        next += 1;
    }
    settle(&mut lists);
    lists.wait_for(6000 * MS, "who was removed knows it", |lists| {
        lists.world.belonging().count() == members.len()
    });
    let belonging: Vec<u8> = lists.world.belonging().map(|id| id.0).collect();
    members.sort_unstable();
    assert_eq!(belonging, members);
    // Leaders die while the rest is a majority.
    let leader = lists.world.leader().expect("somebody leads");
    lists.world.kill(leader);
    lists.wait_for(6000 * MS, "another leads", |lists| lists.world.leader().is_some_and(|now| now != leader));
    work(&mut lists, 40);
    lists.world.start(leader);
    settle(&mut lists);
    for id in lists.world.ids().filter(|id| !members.contains(&id.0)).collect::<Vec<_>>() {
        // Another life of it, or the same one, is told so, too.
        lists.world.kill(id);
        lists.world.start(id);
        lists.wait_for(6000 * MS, "it is told that it was removed", |lists| {
            lists.world.status(id).is_some_and(|status| status.service == Service::Removed)
        });
    }
    settle(&mut lists);
    lists.verify();
}

#[test]
fn members_come_and_go_under_faults() {
    let (first, seeds) = (number("FIRST", 0), number("SEEDS", 30));
    (first..first + seeds).for_each(|seed| story(seed, founders_are_three, 4000 * MS));
}

#[test]
fn members_with_disks_come_and_go_under_faults() {
    let (first, seeds) = (number("FIRST", 0), number("SEEDS", 8));
    (first..first + seeds).for_each(|seed| story(seed, founders_are_three_with_disks, 30_000 * MS));
}

/// A replica that had copied the state was seconds behind with its checkpoint, and counted as not converged: its disk published one of the store before,
/// or failed after it had taken its time, and then was slow again.
/// Once: a test's, not the product's: `members_with_disks_come_and_go_under_faults` failed with seeds 2, 37 and 42: a
/// simulated publication takes up to 20 election timeouts, two may come in turn, and the test waited for less.
#[test]
fn who_copied_behind_slow_disks_has_its_checkpoint_soon_after_they_are_well() {
    for seed in [2, 37, 42] {
        story(seed, founders_are_three_with_disks, 30_000 * MS);
    }
}

/// What an operator may ask in vain.
#[test]
fn what_would_end_the_cluster_is_refused() {
    let mut lists = Lists::start(1, NODES, 1, founders_are_three);
    let leader = lists.world.leader().expect("somebody leads");
    let others: Vec<NodeId> = (0..3).map(NodeId).filter(|id| *id != leader).collect();
    let ask = |lists: &mut Lists, change| lists.world.change_members(leader, change).expect("it is up");
    let refused = |answer| match answer {
        MemberAnswer::Refused(why) => why,
        other => panic!("{other:?}"),
    };
    let gone = NodeId(9);
    assert!(refused(ask(&mut lists, MemberChange::Remove { node: gone })).contains("no member"));
    lists.world.kill(others[0]);
    lists.run(200 * MS);
    let why = refused(ask(&mut lists, MemberChange::Remove { node: others[1] }));
    assert!(why.contains("no majority") && why.contains(&others[0].to_string()), "{why}");
    assert!(refused(ask(&mut lists, MemberChange::Remove { node: leader })).contains("no majority"));
    // The dead one may go, and never comes back.
    let mut random = Random::new(1);
    change(&mut lists, &mut random, &MemberChange::Remove { node: others[0] }, 4000 * MS);
    let again = MemberChange::Add { node: others[0], contact: Bytes::new() };
    let leader = lists.world.leader().expect("somebody leads");
    let why = refused(lists.world.change_members(leader, again).expect("it is up"));
    assert!(why.contains("not used again"), "{why}");
}

/// A voter is down while two of four are replaced. It comes back with its disk, knows none but the old members, and waited for the word
/// of a majority of them that nothing is known against its disk: those who were removed do not answer. (Seeds 100042 and 100411 with disks.)
///
/// What `change` cut is mended first: nobody follows a leader that it does not hear. (That hid another bug for long; see
/// `who_hears_a_majority_leads_though_the_others_hear_nobody_else`.)
#[test]
fn who_slept_through_removals_comes_back_with_its_disk() {
    let four = |options: &mut Options| {
        founders_are_three_with_disks(options);
        let own = options.node;
        let founders = (0..4).map(NodeId).chain((own.0 >= 4).then_some(own));
        options.founders = founders.map(|id| (id, Bytes::new())).collect();
    };
    let (first, seeds) = (number("FIRST", 0), number("SEEDS", 60));
    for seed in first..first + seeds {
        let mut random = Random::new(seed);
        let mut lists = Lists::start(seed, NODES, 1 + (seed % 3) as u16, four);
        work(&mut lists, 20);
        let leader = lists.world.leader().expect("somebody leads");
        let sleeper = (0..4).map(NodeId).find(|id| *id != leader).expect("there are four");
        lists.world.kill(sleeper);
        let others = (0..4).map(NodeId).filter(|id| *id != sleeper && *id != leader).collect::<Vec<_>>();
        for (node, by) in others.iter().zip([NodeId(4), NodeId(5)]) {
            let replace = MemberChange::Replace { node: *node, by, contact: Bytes::new() };
            change(&mut lists, &mut random, &replace, 30_000 * MS);
            lists.world.kill(*node);
        }
        lists.world.network.heal();
        lists.world.start(sleeper);
        let votes = |lists: &Lists| {
            let status = |id| lists.world.status(id);
            let leader = lists.world.leader().and_then(status);
            leader.is_some_and(|leader| status(sleeper).is_some_and(|own| own.epoch == leader.epoch))
        };
        lists.wait_for(6000 * MS, "it follows", votes);
        let leader = lists.world.leader().expect("it is followed");
        lists.world.kill(leader);
        lists.wait_for(6000 * MS, "its vote counts", |lists| {
            lists.world.leader().is_some_and(|now| now != leader)
        });
        work(&mut lists, 20);
        // Who was replaced is started again, too, and told.
        others.into_iter().chain([leader]).for_each(|id| lists.world.start(id));
        settle(&mut lists);
        lists.verify();
    }
}

/// A cluster of one lets a second node in, and the first one's process ends when its epoch has opened and before the second one has heard
/// that it votes. Back with its disk the first one needs the second one's word, which gave none: by its own account it did not vote. (Seed
/// 100836 with disks: a fourth of six.)
#[test]
fn a_newcomer_that_does_not_know_that_it_votes_speaks_for_who_let_it_in() {
    let alone = |options: &mut Options| {
        founders_are_three_with_disks(options);
        let own = options.node;
        options.founders =
            [NodeId(0)].into_iter().chain((own.0 > 0).then_some(own)).map(|id| (id, Bytes::new())).collect();
    };
    let (first, second) = (NodeId(0), NodeId(1));
    let mut caught = 0;
    for seed in 0..4 {
        let mut lists = Lists::start(seed, 2, 1, alone);
        work(&mut lists, 20);
        let add = MemberChange::Add { node: second, contact: Bytes::new() };
        let voters = |lists: &Lists, id| {
            let status = lists.world.status(id).expect("it is up");
            status.members.iter().filter(|member| member.voter).count()
        };
        let deadline = lists.world.now + 30_000 * MS;
        while voters(&lists, first) < 2 {
            assert!(lists.world.now < deadline, "it is let in\n{}", lists.story());
            lists.world.change_members(first, add.clone());
            for _ in 0..200 {
                if voters(&lists, first) < 2 {
                    lists.run(MS / 200);
                }
            }
        }
        caught += u32::from(voters(&lists, second) < 2);
        lists.world.kill(first);
        lists.world.start(first);
        lists.wait_for(6000 * MS, "both go on", |lists| lists.world.leader().is_some());
        settle(&mut lists);
        lists.verify();
    }
    assert!(caught > 0, "the second one had always heard of it");
}

/// What all voters lost with their power, a node without a vote has: it must not go on as if the others had it, too.
/// Once: (While it was built.) With `async` a node that was let in, or removed, by a change of membership that was
/// pending when a majority crashed took itself for one without a vote, and began another life: the voice that the others
/// waited for was gone.
#[test]
fn who_has_no_vote_and_holds_what_the_voters_lost_begins_another_life() {
    let tune = |options: &mut Options| {
        founders_are_three(options);
        options.durability = highwater_core::Durability::Async;
        options.disk_window = 5000 * MS;
    };
    let mut lists = Lists::start(5, 4, 2, tune);
    let (guest, voters) = (NodeId(3), (0..3).map(NodeId));
    let holds = |lists: &Lists, id, list| lists.list(id, list).len();
    work(&mut lists, 50);
    lists.wait_for(4000 * MS, "the guest has all", |lists| {
        lists
            .world
            .status(guest)
            .is_some_and(|status| status.service == Service::Joining && status.copying_bytes.is_none())
    });
    let life = lists.world.status(guest).expect("it is up").incarnation;
    lists.run(500 * MS);
    voters.clone().for_each(|id| lists.world.slow_disk(id, 2000 * MS));
    let leader = lists.world.leader().expect("somebody leads");
    let before = holds(&lists, leader, 200);
    let token = lists.ask(leader, 0, &[], &[200]).expect("it is taken");
    lists.wait_for(200 * MS, "the guest has what is acknowledged", |lists| {
        lists.acknowledged(token) && holds(lists, guest, 200) > before
    });
    voters.clone().for_each(|id| lists.world.kill(id));
    voters.clone().for_each(|id| lists.world.slow_disk(id, 0));
    lists.run(50 * MS);
    voters.clone().for_each(|id| lists.world.start(id));
    lists.wait_for(6000 * MS, "a leader", |lists| lists.world.leader().is_some());
    lists.wait_for(6000 * MS, "the guest in another life, with what the voters have", |lists| {
        let status = lists.world.status(guest);
        let again = status.is_some_and(|status| {
            status.incarnation != life && status.service == Service::Joining && status.copying_bytes.is_none()
        });
        // Of what was on no disk a crash may leave a part.
        again && voters.clone().all(|id| holds(lists, id, 200) == holds(lists, guest, 200))
    });
}
