//! A leader whose commit clock goes back.

use crate::common::{Lists, MS, small};
use highwater_core::NodeId;
use highwater_seam::Nanos;

/// As far as the clock goes back; in the simulator a nanosecond of it is one of the monotonic clock.
const BACK: Nanos = 5000 * MS;

fn with_counters(seed: u64) -> Lists {
    Lists::prepared(seed, 3, 2, small, |world| {
        for id in world.ids() {
            world.clock(id).follow_time(1 << 40);
        }
    })
}

fn trouble(lists: &Lists, id: NodeId) -> String {
    lists.world.status(id).and_then(|status| status.trouble).unwrap_or_default()
}

/// It cannot draw timestamps, for as long as the clock lags: it says so and leads no more. Another one does, at once; this
/// one does not even stand when that one is lost, until its clock has passed what it showed.
#[test]
fn a_leader_whose_clock_went_back_leaves_the_lead_to_others() {
    let mut lists = with_counters(31);
    let first = lists.world.leader().unwrap();
    for _ in 0..50 {
        lists.load();
        lists.run(MS);
    }
    lists.world.clock(first).set_back_commits(BACK);
    let back_at = lists.world.now;
    while lists.world.leader().is_none_or(|leader| leader == first) {
        assert!(lists.world.now < back_at + 500 * MS, "another leader\n{}", lists.story());
        lists.load();
        lists.run(MS);
    }
    let said = lists.world.events(first).join("\n");
    assert!(said.contains("giving up the lead: the clock went back"), "{said}");
    let words = trouble(&lists, first);
    assert!(words.contains("the clock went back"), "{words}");

    let second = lists.world.leader().unwrap();
    lists.world.kill(second);
    lists.wait_for(1000 * MS, "a third leader", |lists| lists.world.leader().is_some());
    let third = lists.world.leader().unwrap();
    assert!(third != first, "its clock still lags");
    lists.world.start(second);
    lists.run(500 * MS);
    lists.world.network.heal();
    while lists.world.now < back_at + BACK + 200 * MS {
        lists.load();
        lists.run(20 * MS);
    }
    assert_eq!(trouble(&lists, first), "", "its clock has passed what it showed");
    let said = lists.world.events(first).join("\n");
    assert!(said.contains("may lead again"), "{said}");
    lists.verify();
}

/// The worker that finds out may be one that only seals; and what others claimed of a silent stream stays true when its
/// worker goes on with a clock that went back.
#[test]
fn nothing_is_lost_whenever_the_clock_goes_back() {
    for seed in 0..30 {
        let mut lists = with_counters(100 + seed);
        for round in 0..30 {
            // One worker is silent, most of the time.
            lists.busy = vec![if round % 7 == 6 { 1 } else { 0 }];
            lists.load();
            lists.run(MS / 4);
            if round == seed {
                let leader = lists.world.leader().unwrap();
                lists.world.clock(leader).set_back_commits(20 * MS);
            }
        }
        if let Some(leader) = lists.world.leader() {
            lists.world.kill(leader);
            lists.run(MS);
            lists.world.start(leader);
        }
        lists.verify();
    }
}
