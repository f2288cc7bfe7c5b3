//! How much of the log is kept: little while nobody lags, the whole budget as soon as somebody does.

use bytes::Bytes;
use highwater_consensus::*;
use highwater_core::{Ballot, EntryIndex, Epoch, Incarnation, NodeId};

const BALLOT: Ballot = Ballot { epoch: Epoch(1), node: NodeId(0) };
const KEEP: u64 = 160;

fn voter(node: u8) -> Voter {
    Voter { node: NodeId(node), incarnation: Incarnation(1) }
}

/// Three replicas; node 0 leads.
fn cluster() -> Vec<Stream> {
    cluster_of(3)
}

fn cluster_of(nodes: u8) -> Vec<Stream> {
    let stream = |node| Stream::new(voter(node), EntryIndex::NONE, StreamOptions::default());
    let mut streams: Vec<Stream> = (0..nodes).map(stream).collect();
    let all: Vec<u8> = (0..nodes).collect();
    assert!(take_over(&mut streams, 0, BALLOT, &all));
    deliver(&mut streams, &all);
    streams
}

/// A node wins with the promises of these; whether it can take over.
fn take_over(streams: &mut [Stream], node: u8, ballot: Ballot, promising: &[u8]) -> bool {
    let tails = promising.iter().map(|node| (voter(*node), streams[usize::from(*node)].promise(ballot)));
    let tails = tails.collect();
    let members = Members::new(Epoch(0), (0..streams.len() as u8).map(voter).collect());
    streams[usize::from(node)].take_over(0, Plan { ballot, tails, quorums: Quorums::of(members) })
}

/// Delivers among those that are `reachable` until nothing is under way.
fn deliver(streams: &mut [Stream], reachable: &[u8]) {
    loop {
        let mut waiting: Vec<(u8, Envelope)> = Vec::new();
        for from in reachable {
            waiting.extend(streams[*from as usize].drain().map(|envelope| (*from, envelope)));
        }
        if waiting.is_empty() {
            return;
        }
        for (from, envelope) in waiting.into_iter().filter(|(_, envelope)| reachable.contains(&envelope.to.0))
        {
            let to = &mut streams[envelope.to.0 as usize];
            to.deliver(0, voter(from), envelope.message, envelope.entry);
        }
    }
}

/// Proposes entries of one byte, one after another, and trims everywhere.
fn propose(streams: &mut [Stream], count: usize, reachable: &[u8]) {
    for _ in 0..count {
        streams[0].propose(Bytes::from_static(b"x"));
        deliver(streams, reachable);
        for stream in streams.iter_mut() {
            let decided = stream.decided();
            stream.trim(decided, KEEP);
        }
    }
}

#[test]
fn a_log_that_everyone_has_is_kept_to_a_sixteenth() {
    let mut streams = cluster();
    propose(&mut streams, 1000, &[0, 1, 2]);
    for stream in &streams {
        // What everyone knows is told with a later entry: a few more than the sixteenth.
        assert!((KEEP / 16..KEEP / 16 + 5).contains(&stream.log_bytes()), "{}", stream.describe());
    }
}

/// It kept all that a lagging follower might have asked for, and there was none.
/// Once: a cluster of one kept `log_retain_bytes` of log, a sixteenth of which is kept where nobody lags: nobody was
/// asked what all know.
#[test]
fn who_is_alone_keeps_little_until_somebody_listens() {
    let mut alone = cluster_of(1);
    propose(&mut alone, 1000, &[0]);
    assert!((KEEP / 16..KEEP / 16 + 5).contains(&alone[0].log_bytes()), "{}", alone[0].describe());
    alone[0].peer_up(0, voter(1));
    propose(&mut alone, 1000, &[0]);
    assert!(alone[0].log_bytes() > KEEP / 2, "{}", alone[0].describe());
}

#[test]
fn what_one_replica_lacks_is_kept_by_all_others_and_given_to_it() {
    let mut streams = cluster();
    propose(&mut streams, 100, &[0, 1, 2]);
    streams[0].peer_down(NodeId(2));
    propose(&mut streams, 100, &[0, 1]);
    for stream in &streams[..2] {
        assert!(stream.log_bytes() > 100, "{}", stream.describe());
    }
    // Node 2 is back.
    streams[0].peer_up(0, voter(2));
    streams[2].peer_up(0, voter(0));
    deliver(&mut streams, &[0, 1, 2]);
    assert_eq!(streams[2].last(), streams[0].last());
    assert_eq!(streams[2].too_far(), None);
    // And everything is trimmed again.
    propose(&mut streams, 100, &[0, 1, 2]);
    assert!(streams.iter().all(|stream| stream.log_bytes() < 20));
}

#[test]
fn the_budget_bounds_what_is_kept_for_one_who_stays_away() {
    let mut streams = cluster();
    propose(&mut streams, 10, &[0, 1, 2]);
    streams[0].peer_down(NodeId(2));
    propose(&mut streams, 1000, &[0, 1]);
    for stream in &streams[..2] {
        assert_eq!(stream.log_bytes(), KEEP, "{}", stream.describe());
    }
}

#[test]
fn a_new_leader_has_what_the_last_one_kept_for_others() {
    let mut streams = cluster();
    propose(&mut streams, 100, &[0, 1, 2]);
    propose(&mut streams, 100, &[0, 1]);
    // Node 0 is gone; node 1 leads with the promise of node 2, which lacks a hundred entries.
    let ballot = Ballot { epoch: Epoch(2), node: NodeId(1) };
    let tails = [1, 2].map(|node| (voter(node), streams[node as usize].promise(ballot)));
    let members = Members::new(Epoch(0), (0..3).map(voter).collect());
    let plan = Plan { ballot, tails: tails.into(), quorums: Quorums::of(members) };
    assert!(streams[1].take_over(0, plan));
    deliver(&mut streams, &[1, 2]);
    assert_eq!(streams[2].last(), streams[1].last());
    assert_eq!(streams[1].decided(), streams[1].last());
}

const BACKLOG: u64 = 100_000;

/// A cluster whose node 2 holds so much that is not installed.
fn bounded() -> Vec<Stream> {
    let options = StreamOptions { backlog_bytes: BACKLOG, ..StreamOptions::default() };
    let mut streams = cluster();
    streams[2] = Stream::new(voter(2), EntryIndex::NONE, options);
    streams[2].promise(BALLOT);
    streams[0].peer_up(0, voter(2));
    streams[2].peer_up(0, voter(0));
    deliver(&mut streams, &[0, 1, 2]);
    streams
}

/// A follower that decides and does not install takes what it may hold, and no more. If it is not needed, it falls behind and
/// copies the state; if it is, the leader waits; and once it installs, it asks for the rest.
#[test]
fn what_a_follower_holds_and_has_not_installed_is_bounded() {
    let entry = || Bytes::from(vec![7; 10_000]);
    let install = |stream: &mut Stream| stream.trim(stream.decided(), KEEP);

    // The leader has another majority: it goes on, and drops what it need not keep.
    let mut streams = bounded();
    for _ in 0..50 {
        streams[0].propose(entry());
        deliver(&mut streams, &[0, 1, 2]);
        assert!(streams[2].log_bytes() <= BACKLOG + 10_000, "{}", streams[2].describe());
    }
    assert_eq!(streams[0].decided(), streams[0].last());
    assert!(streams[2].last() < streams[0].last());
    install(&mut streams[0]);
    install(&mut streams[2]);
    streams[2].tick(1 << 40);
    deliver(&mut streams, &[0, 1, 2]);
    assert!(streams[2].too_far().is_some(), "it copies the state: {}", streams[2].describe());

    // The leader needs it: it waits, and goes on when there is room.
    let mut streams = bounded();
    for _ in 0..50 {
        streams[0].propose(entry());
        deliver(&mut streams, &[0, 2]);
    }
    assert!(streams[0].decided() < streams[0].last(), "a majority has not taken it");
    assert!(streams[2].log_bytes() <= BACKLOG + 10_000);
    for round in 1..10 {
        install(&mut streams[2]);
        streams[2].tick(round << 40);
        deliver(&mut streams, &[0, 2]);
        streams[0].announce_decided();
        deliver(&mut streams, &[0, 2]);
    }
    assert_eq!(streams[0].decided(), streams[0].last(), "{}", streams[2].describe());

    // An entry without transactions is taken beyond the bound.
    let mut streams = bounded();
    while streams[2].backlog_bytes() <= BACKLOG {
        streams[0].propose(entry());
        deliver(&mut streams, &[0, 1, 2]);
    }
    streams[0].propose(Bytes::from_static(b"a claim"));
    deliver(&mut streams, &[0, 1, 2]);
    assert_eq!(streams[2].last(), streams[0].last());
}

/// More than half of the bound cannot be installed before the leader has this vote: what there is room for is asked for all the same.
#[test]
fn a_follower_that_is_needed_takes_what_it_has_room_for() {
    let retry = StreamOptions::default().retry;
    let mut streams = bounded();
    // The last one is refused. Of the others the first is installed: 95 kB stay, and nothing more can be installed.
    for len in [10_000, 60_000, 35_000, 60_000] {
        streams[0].propose(Bytes::from(vec![7; len]));
        deliver(&mut streams, &[0, 2]);
    }
    let refused = streams[0].last();
    assert!(streams[2].last() < refused, "{}", streams[2].describe());
    let installed = EntryIndex(streams[2].decided().0 - 2);
    streams[2].trim(installed, KEEP);
    let backlog = streams[2].backlog_bytes();
    assert!(backlog > BACKLOG / 2 && backlog <= BACKLOG, "{backlog}");
    let mut rounds = 0;
    while streams[0].decided() < refused {
        rounds += 1;
        assert!(rounds < 100, "never asked for: {}", streams[2].describe());
        for node in [0, 2] {
            streams[node].tick(rounds * 2 * retry);
        }
        deliver(&mut streams, &[0, 2]);
    }
    assert!(streams[2].backlog_bytes() <= BACKLOG + 60_000);
}

/// The best log goes on behind a copied state, and who has what is before that knows less of its end.
#[test]
fn the_best_log_may_be_in_parts() {
    let restart = |stream: &mut Stream| stream.restart_after(stream.decided());
    let ballot = Ballot { epoch: Epoch(2), node: NodeId(1) };
    for whole in [true, false] {
        let mut streams = cluster_of(4);
        propose(&mut streams, 4, &[0, 1, 2, 3]);
        propose(&mut streams, 12, &[0, 2, 3]);
        restart(&mut streams[3]);
        // Node 3 alone hears of the last entry, and lacks what is before it; only node 2 has that.
        streams[0].propose(Bytes::from_static(b"y"));
        deliver(&mut streams, &[0, 3]);
        if !whole {
            restart(&mut streams[2]);
        }
        assert_eq!(take_over(&mut streams, 1, ballot, &[1, 2, 3]), whole);
        deliver(&mut streams, &[1, 2, 3]);
        assert_eq!(streams[1].is_leading(ballot), whole, "{}", streams[1].describe());
        let same = |at| streams[1].entry(EntryIndex(at)) == streams[0].entry(EntryIndex(at));
        assert_eq!((5..=streams[0].last().0).all(same), whole, "{}", streams[1].describe());
    }
}

/// A follower whose disk hangs acknowledges nothing. What it was sent is trimmed at the leader as time goes on, and counted as never sent:
/// so it was sent everything, and held it.
#[test]
fn who_acknowledges_nothing_is_sent_a_window_s_worth_though_the_log_goes_on() {
    let mut streams = cluster();
    let window = StreamOptions::default().window_bytes as usize;
    let entry = Bytes::from(vec![b'x'; window / 8]);
    let mut sent = 0;
    for _ in 0..100 {
        streams[0].propose(entry.clone());
        for (from, to) in [(0, 1), (1, 0)] {
            for envelope in streams[from].drain().collect::<Vec<_>>() {
                sent += if envelope.to == NodeId(2) { envelope.entry.len() } else { 0 };
                if envelope.to == NodeId(to) {
                    streams[to as usize].deliver(0, voter(from as u8), envelope.message, envelope.entry);
                }
            }
        }
        let decided = streams[0].decided();
        streams[0].trim(decided, window as u64 / 2);
    }
    assert!(streams[0].decided() >= EntryIndex(100), "{}", streams[0].describe());
    assert!((1..=window + 2 * entry.len()).contains(&sent), "{sent} bytes of a window of {window}");
}

/// A voter trimmed, right after its promise, what the new leader lacked and had from nobody else: `Fetch` was never answered, and whoever
/// had everything kept its vote for that leader.
#[test]
fn what_a_promise_told_of_a_log_stays_there_until_its_leader_has_it() {
    let mut streams = cluster();
    propose(&mut streams, 100, &[0, 1]);
    let next = Ballot { epoch: Epoch(2), node: NodeId(2) };
    assert!(take_over(&mut streams, 2, next, &[1, 2]));
    let all = streams[1].decided();
    streams[1].trim(all, 0);
    deliver(&mut streams, &[1, 2]);
    assert!(streams[2].is_leading(next), "{}", streams[2].describe());
    streams[2].propose(Bytes::from_static(b"x"));
    deliver(&mut streams, &[1, 2]);
    let all = streams[1].decided();
    streams[1].trim(all, 0);
    assert!(streams[1].log_bytes() <= 1, "taken over: nothing is kept any more. {}", streams[1].describe());
}
