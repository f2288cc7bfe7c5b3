//! Followers' reads with bounds, step by step: who can prove what, and what becomes of who cannot.

use highwater_core::{NodeId, Outcome, Timestamp};
use highwater_engines::EngineKind;
use highwater_seam::{Freshness, Nanos, Refusal, Token};
use highwater_sim::world::Reply;

use crate::common::{Lists, MS, small};

/// The election timeout of [`small`].
const TIMEOUT: Nanos = 30 * MS;

/// Three replicas that have been born, and their leader.
fn born(seed: u64) -> (Lists, NodeId) {
    let mut lists = Lists::start(seed, 3, 2, small);
    lists.run(50 * MS);
    let leader = lists.world.leader().unwrap();
    (lists, leader)
}

fn followers(lists: &Lists) -> [NodeId; 2] {
    let followers: Vec<NodeId> = lists.world.ids().filter(|id| Some(*id) != lists.world.leader()).collect();
    followers.try_into().unwrap()
}

/// The two hear nothing of each other.
fn cut(lists: &mut Lists, one: NodeId, other: NodeId) {
    lists.world.network.cut(one, other);
    lists.world.network.cut(other, one);
}

/// Appends to list 0 at the leader; the reply, and when it came.
fn write(lists: &mut Lists, leader: NodeId) -> Reply {
    let written = lists.ask(leader, 0, &[], &[0]).unwrap();
    answer(lists, written)
}

/// The reply to a request that is under way.
fn answer(lists: &mut Lists, token: Token) -> Reply {
    let until = lists.world.now + 1000 * MS;
    while lists.world.now < until {
        let mine = lists.world.replies.iter().position(|reply| reply.token == token);
        if let Some(at) = mine {
            return lists.world.replies.remove(at);
        }
        let now = lists.world.now;
        lists.world.run_until(now + MS / 10);
    }
    panic!("no answer to {token:?}\n{}", lists.story());
}

/// Reads list 0 on a replica: the reply, and how long it took.
fn read(lists: &mut Lists, to: NodeId, freshness: Freshness) -> (Reply, Nanos) {
    let asked = lists.world.now;
    let token = Token(u64::MAX - asked);
    let procedure = lists.world.procedure("list.step");
    let args = [0, 0, 0, 0, 1, 0];
    lists.world.submit_fresh(to, 1, (token, Some(freshness)), procedure, &args).unwrap();
    let reply = answer(lists, token);
    let took = reply.at - asked;
    (reply, took)
}

/// How many values a reply shows.
fn shown(reply: &Reply) -> u32 {
    assert_eq!(reply.outcome, Outcome::Committed, "{reply:?}");
    u32::from_le_bytes(reply.bytes[..4].try_into().unwrap())
}

#[track_caller]
fn is_denied(lists: &Lists, reply: &Reply, took: Nanos, words: &str) {
    assert_eq!(reply.outcome, Outcome::Denied, "{reply:?}");
    assert!(reply.bytes.starts_with(words.as_bytes()), "{}", String::from_utf8_lossy(&reply.bytes));
    assert_eq!(reply.moment, Timestamp::ZERO, "nothing was seen");
    assert!((2 * TIMEOUT..3 * TIMEOUT).contains(&took), "after {took} ns\n{}", lists.story());
}

/// Who has the token of a write sees it on every replica; a token of nobody's is waited for, and not for ever.
#[test]
fn a_token_is_read_on_every_replica() {
    let (mut lists, leader) = born(31);
    for round in 1..=20 {
        let written = write(&mut lists, leader);
        assert!(written.moment > Timestamp::ZERO);
        for to in lists.world.ids().collect::<Vec<_>>() {
            let (reply, _) = read(&mut lists, to, Freshness::Since(written.moment));
            assert!(reply.moment >= written.moment);
            assert_eq!(shown(&reply), round, "on {to}");
        }
    }
    let [follower, _] = followers(&lists);
    let (reply, took) = read(&mut lists, follower, Freshness::Since(Timestamp::MAX));
    is_denied(&lists, &reply, took, "NOTFRESH this replica has not got as far");
}

/// A replica proves its freshness in about two round trips, in a cluster that has nothing else to do, too.
#[test]
fn an_idle_cluster_proves_that_it_is_fresh() {
    let (mut lists, leader) = born(32);
    write(&mut lists, leader);
    lists.run(500 * MS);
    for follower in followers(&lists) {
        let (reply, took) = read(&mut lists, follower, Freshness::Within(0));
        assert!(shown(&reply) == 1 && took < 5 * MS, "{took} ns");
        let (frames, within) = (lists.world.work.1, Freshness::Within(100 * MS));
        let (reply, _) = read(&mut lists, follower, within);
        assert!(shown(&reply) == 1);
        assert_eq!(lists.world.work.1, frames, "the last answer is young enough: nobody is asked");
    }
    lists.run(300 * MS);
    let frames = lists.world.work.1;
    lists.run(2000 * MS);
    assert_eq!(lists.world.work.1, frames, "and when nobody reads, nobody asks");
}

/// A follower that is cut off answers a bound for as long as it can prove it, and then says that it cannot; a leader that comes back to it
/// makes it answer again.
#[test]
fn who_is_cut_off_says_so() {
    let (mut lists, leader) = born(33);
    write(&mut lists, leader);
    let [follower, other] = followers(&lists);
    let within = Freshness::Within(20 * MS);
    assert!(shown(&read(&mut lists, follower, within).0) == 1);
    [leader, other].into_iter().for_each(|peer| cut(&mut lists, peer, follower));
    assert!(shown(&read(&mut lists, follower, within).0) == 1, "its proof is young enough");
    lists.run(20 * MS);
    let (reply, took) = read(&mut lists, follower, within);
    is_denied(&lists, &reply, took, "NOTFRESH no leader vouches");
    let (reply, _) = read(&mut lists, follower, Freshness::Since(Timestamp(1)));
    assert!(shown(&reply) == 1, "what it has it shows");
    lists.world.network.heal();
    lists.run(200 * MS);
    assert!(shown(&read(&mut lists, follower, Freshness::Within(0)).0) == 1, "{}", lists.story());
}

/// A leader that is cut off with a follower vouches for nothing, while the others go on without them.
#[test]
fn a_deposed_leader_cannot_vouch() {
    let mut lists = Lists::start(34, 5, 2, small);
    lists.run(50 * MS);
    let old = lists.world.leader().unwrap();
    let before = write(&mut lists, old);
    let others: Vec<NodeId> = lists.world.ids().filter(|id| *id != old).collect();
    let follower = others[0];
    for one in [old, follower] {
        others[1..].iter().for_each(|other| cut(&mut lists, one, *other));
    }
    let (reply, took) = read(&mut lists, follower, Freshness::Within(0));
    is_denied(&lists, &reply, took, "NOTFRESH no leader vouches");
    lists.run(200 * MS);
    let new =
        others[1..].iter().copied().find(|id| lists.world.status(*id).is_some_and(|status| status.leads()));
    let new = new.unwrap_or_else(|| panic!("a majority goes on\n{}", lists.story()));
    let after = write(&mut lists, new);
    assert!(after.moment > before.moment);
    let (reply, took) = read(&mut lists, follower, Freshness::Within(0));
    is_denied(&lists, &reply, took, "NOTFRESH no leader vouches");
    let (reply, took) = read(&mut lists, follower, Freshness::Since(after.moment));
    is_denied(&lists, &reply, took, "NOTFRESH this replica has not got as far");
    let (reply, _) = read(&mut lists, others[2], Freshness::Within(0));
    assert!(reply.moment >= after.moment, "who follows the new leader sees its writes");
    lists.world.network.heal();
    lists.run(300 * MS);
    let (reply, _) = read(&mut lists, follower, Freshness::Within(0));
    assert!(reply.moment >= after.moment, "{}", lists.story());
}

/// The strawman reads on its leader only, which keeps every bound as it is.
#[test]
fn the_strawman_keeps_bounds_by_reading_on_its_leader() {
    let mut lists = Lists::on(EngineKind::Strawman, 35, 3, 2, small, |_| {});
    lists.run(50 * MS);
    let leader = lists.world.leader().unwrap();
    let written = write(&mut lists, leader);
    for freshness in [Freshness::Since(written.moment), Freshness::Within(0)] {
        let (reply, _) = read(&mut lists, leader, freshness);
        assert!(shown(&reply) == 1 && reply.moment > written.moment);
        let [follower, _] = followers(&lists);
        let (token, procedure) = (Token(u64::MAX), lists.world.procedure("list.step"));
        let refused =
            lists.world.submit_fresh(follower, 1, (token, Some(freshness)), procedure, &[0, 0, 0, 0, 1, 0]);
        assert_eq!(refused, Err(Refusal::NotServing { ask: Some(leader) }));
    }
}
