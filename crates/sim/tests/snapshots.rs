//! Reads on followers' snapshots, with whole replicas: serializable under faults, never waiting for a writer, never mixed.
//!
//! `SEEDS=1000 FIRST=1 cargo test -p highwater-sim --test simulated snapshots::` runs more; a failure names its seed.

use crate::common::chaos::faults_with;
use crate::common::{Lists, MS, number, small, tiny};
use highwater_core::NodeId;
use highwater_seam::{Options, Refusal};
use highwater_sim::network::Channel;

fn followers(lists: &Lists) -> Vec<NodeId> {
    lists.world.ids().filter(|id| Some(*id) != lists.world.leader()).collect()
}

/// Snapshots are used for so long that a node may lead and follow again meanwhile.
fn patient(options: &mut Options) {
    small(options);
    options.own.set("snapshot_age_us", 300_000);
}

/// Every replica is asked for lists and for the sum of all balances, all the time. The lists that snapshots show fit into
/// one order with all transactions; the sums are nothing; what one replica shows never goes back.
#[test]
fn snapshots_with_many_seeds() {
    let (runs, first) = (number("SEEDS", 60), number("FIRST", 1));
    let (mut read, mut audited, mut rows) = (0, 0, 0);
    for seed in first..first + runs {
        let tune = [tiny as fn(&mut Options), small, patient][seed as usize % 3];
        let ended =
            std::panic::catch_unwind(|| faults_with(seed, tune, |lists| lists.reads_snapshots = true));
        let Ok(lists) = ended else { panic!("seed {seed} failed") };
        (read, audited, rows) =
            (read + lists.snapshots_read() as u64, audited + lists.audited, rows + lists.rows_audited);
    }
    println!("{read} lists reads, {audited} audits of {rows} rows on snapshots in {runs} runs");
    assert!(read > 200 * runs && audited > 80 * runs, "{read} reads, {audited} audits: hardly any");
    assert!(rows > 2 * audited, "{rows} rows in {audited} audits: nothing moved");
}

/// A value read, then overwritten by another stream's transaction: whoever sees the second transaction sees the first. The
/// second one's stream is decided, the first one's is not: snapshots show neither, and then both.
#[test]
fn a_snapshot_shows_no_overwriter_without_the_reader_before_it() {
    let mut lists = Lists::start(21, 3, 2, small);
    lists.run(50 * MS);
    let leader = lists.world.leader().unwrap();
    lists.world.network.hold(Channel::Worker(0));
    // Reads list 0 as empty, notes that in list 1.
    let reader = lists.ask(leader, 0, &[0], &[1]).unwrap();
    let overwriter = lists.ask(leader, 1, &[], &[0]).unwrap();
    lists.run(10 * MS);
    let follower = followers(&lists)[0];
    let before = lists.ask_snapshot(follower, 0, &[0, 1]).unwrap();
    lists.wait_for(2 * MS, "an answer without waiting for stream 0", |lists| lists.acknowledged(before));
    assert_eq!(lists.seen(before), Some(&vec![vec![], vec![]]));
    assert!(!lists.acknowledged(overwriter), "nor is the leader's client told");
    lists.world.network.heal();
    let both = |lists: &Lists| lists.acknowledged(reader) && lists.acknowledged(overwriter);
    lists.wait_for(100 * MS, "both are released", both);
    lists.run(10 * MS);
    let after = lists.ask_snapshot(follower, 1, &[0, 1]).unwrap();
    lists.wait_for(2 * MS, "an answer", |lists| lists.acknowledged(after));
    assert_eq!(lists.seen(after).map(|seen| (seen[0].len(), seen[1].len())), Some((1, 1)));
    lists.verify();
}

/// Soon after a value is released its followers show it, and a cut-off follower goes on showing what it had.
#[test]
fn snapshots_keep_up_and_outlive_the_connection() {
    let mut lists = Lists::start(22, 3, 2, small);
    lists.run(50 * MS);
    let leader = lists.world.leader().unwrap();
    let written = lists.ask(leader, 0, &[], &[0]).unwrap();
    lists.wait_for(10 * MS, "released", |lists| lists.acknowledged(written));
    let follower = followers(&lists)[0];
    let shows = |lists: &mut Lists| {
        let read = lists.ask_snapshot(follower, 0, &[0]).unwrap();
        lists.wait_for(2 * MS, "an answer", |lists| lists.acknowledged(read));
        lists.seen(read).unwrap()[0].len()
    };
    let asked = lists.world.now;
    while shows(&mut lists) == 0 {
        assert!(lists.world.now < asked + 20 * MS, "the follower never shows it\n{}", lists.story());
    }
    for id in lists.world.ids().filter(|id| *id != follower) {
        lists.world.network.cut(id, follower);
        lists.world.network.cut(follower, id);
    }
    lists.run(300 * MS);
    assert_eq!(shows(&mut lists), 1);
    lists.world.network.heal();
    lists.verify();
}

/// A node without a complete store shows nothing; a leader runs reads as its own transactions.
#[test]
fn who_serves_snapshots() {
    let mut lists = Lists::start(23, 3, 2, small);
    lists.run(50 * MS);
    let (leader, victim) = (lists.world.leader().unwrap(), followers(&lists)[0]);
    let written = lists.ask(leader, 0, &[], &[0]).unwrap();
    lists.wait_for(10 * MS, "released", |lists| lists.acknowledged(written));
    let on_leader = lists.ask_snapshot(leader, 1, &[0]).unwrap();
    lists.wait_for(10 * MS, "an answer", |lists| lists.acknowledged(on_leader));
    assert_eq!(lists.seen(on_leader).map(|seen| seen[0].len()), Some(1), "a leader's read is a transaction");
    lists.world.kill(victim);
    lists.run(MS);
    lists.world.start(victim);
    let procedure = lists.world.procedure("list.audit");
    let token = highwater_seam::Token(u64::MAX);
    let refused = lists.world.submit_snapshot(victim, 0, token, procedure, &[]);
    assert_eq!(refused, Err(Refusal::NotServing { ask: None }));
    let mut shown = None;
    for _ in 0..1000 {
        let read = lists.ask_snapshot(victim, 0, &[0]);
        lists.run(3 * MS);
        shown = read.and_then(|read| lists.seen(read)).map(|seen| seen[0].len());
        if shown.is_some() {
            break;
        }
    }
    assert_eq!(shown, Some(1), "the first thing that it shows is what was written\n{}", lists.story());
    lists.verify();
}

/// A procedure that writes is refused on a snapshot, and nothing is written.
#[test]
fn snapshots_take_no_writes() {
    let mut lists = Lists::start(24, 3, 1, small);
    lists.run(50 * MS);
    let follower = followers(&lists)[0];
    let procedure = lists.world.procedure("list.pay");
    let token = highwater_seam::Token(u64::MAX);
    lists.world.submit_snapshot(follower, 0, token, procedure, &[1, 2, 3]).unwrap();
    lists.run(10 * MS);
    assert_eq!(lists.outcomes.get("other"), Some(&1), "BadRequest\n{}", lists.story());
    lists.verify();
}

/// When nobody has read for a while, no snapshot is pinned: nothing is kept, and nobody takes a turn for it.
#[test]
fn snapshots_cost_nothing_when_nobody_reads() {
    let mut lists = Lists::start(25, 3, 2, small);
    let follower = followers(&lists)[0];
    let kept = |lists: &Lists| lists.world.replica(follower).unwrap().controller.store().versions_kept();
    let mut most = 0;
    for _ in 0..100 {
        lists.load();
        lists.ask_snapshot(follower, 0, &[0, 1]);
        lists.run(MS / 2);
        most = most.max(kept(&lists));
    }
    assert!(most > 0, "versions are kept for readers");
    for _ in 0..300 {
        lists.load();
        lists.run(MS);
    }
    assert_eq!(kept(&lists), 0, "{}", lists.story());
    lists.run(300 * MS);
    let (turns, frames) = lists.world.work;
    lists.run(2000 * MS);
    // An idle worker is asked for a turn now and then, to show that it can take one.
    let asked = 3 * 2 * (2000 / 120 + 1);
    assert!(lists.world.work.0 <= turns + asked && lists.world.work.1 == frames, "{}", lists.story());
    lists.verify();
}
