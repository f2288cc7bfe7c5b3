//! Bugs that were found in whole replicas, each told again step by step; each comment tells one. Those of which a whole run
//! is kept are in `plans`.

use crate::common::{Lists, MS, small, tiny};
use highwater_core::NodeId;
use highwater_sim::network::Channel;

/// A transaction larger than the log that is kept emptied it, and newcomers were refused copies while nobody wrote:
/// `a_large_transaction_does_not_empty_a_log` tells more.
#[test]
fn an_idle_cluster_with_short_logs_still_gives_copies() {
    let mut lists = Lists::start(1, 3, 2, tiny);
    for _ in 0..400 {
        lists.load();
        lists.run(MS / 2);
    }
    lists.run(100 * MS);
    let follower = lists.world.ids().find(|id| Some(*id) != lists.world.leader()).unwrap();
    lists.world.kill(follower);
    lists.run(10 * MS);
    lists.world.start(follower);
    lists.wait_for(1000 * MS, "the newcomer votes", Lists::whole);
    lists.verify();
}

/// A receiver that gave a donor up (too slow, refused by one worker, lost its leader) never said so, unless the connection
/// broke. The donor kept its tombstones for ever. Seen here by a learner that dies again and again in its copy: whoever
/// serves it must end with no copy in service, or deleted keys pile up.
#[test]
fn learners_that_die_while_they_copy_leave_nothing_behind() {
    let mut lists = Lists::start(7, 3, 3, tiny);
    let victim = NodeId(2);
    for round in 0..12 {
        for _ in 0..20 {
            lists.load();
            lists.run(MS / 2);
        }
        if lists.whole() || round % 2 == 1 {
            let voted = lists.whole();
            lists.world.kill(victim);
            lists.run(MS);
            lists.world.start(victim);
            if voted {
                lists.run(u64::from(round as u32) * MS / 3);
            }
        }
    }
    lists.verify();
}

/// A donor granted a copy, died and came back before its workers were asked for their parts. Its new life, with nothing in its
/// store, sent that: the receiver called its empty store complete, and voted (`highwater sim --seed 100445`).
#[test]
fn the_later_life_of_a_donor_does_not_serve_what_the_earlier_one_granted() {
    let mut met = 0;
    for seed in 0..6 {
        let mut lists = Lists::start(seed, 5, 1, small);
        for _ in 0..40 {
            lists.load();
            lists.run(MS / 2);
        }
        lists.run(50 * MS);
        let leader = lists.world.leader().unwrap();
        let victim = lists.world.ids().find(|id| *id != leader).unwrap();
        lists.world.kill(victim);
        lists.run(20 * MS);
        // Controllers talk, workers do not.
        lists.world.network.hold(Channel::Worker(0));
        lists.world.start(victim);
        let granted = |lists: &Lists| {
            let said =
                lists.world.log.iter().rev().find(|(_, at, said)| *at == victim && said.contains("copying"));
            let donor =
                said.and_then(|(_, _, said)| said.split("from n").nth(1)?.split(',').next()?.parse().ok());
            donor.map(NodeId)
        };
        lists.wait_for(500 * MS, "a copy is granted", |lists| granted(lists).is_some());
        let donor = granted(&lists).unwrap();
        if donor == leader {
            continue;
        }
        met += 1;
        // It vanishes, so that nobody hears of it, and comes back; now workers talk, controllers do not.
        lists.world.vanish(donor, 500 * MS);
        lists.world.network.hold(Channel::Control);
        lists.run(MS);
        lists.world.start(donor);
        lists.world.network.release(Channel::Worker(0));
        lists.run(10 * MS);
        lists.world.network.heal();
        lists.verify();
    }
    assert!(met > 0, "some donors are followers");
}
