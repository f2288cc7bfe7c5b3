//! One test for each bug that a reading or the simulation found. The name says what must hold, the comment what happened.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_consensus::*;
use highwater_core::{Ballot, Durability, EntryIndex, Epoch, Incarnation, NodeId, Timestamp};

const MS: Nanos = 1_000_000;
const OPTIONS: StreamOptions = StreamOptions {
    window_bytes: 1 << 20,
    backlog_bytes: 256 << 20,
    durability: Durability::Memory,
    retry: 10 * MS,
};

fn voter(node: u8) -> Voter {
    Voter { node: NodeId(node), incarnation: Incarnation(1) }
}

fn members(nodes: u8) -> Members {
    Members::new(Epoch(0), (0..nodes).map(voter).collect())
}

fn ballot(epoch: u64, node: u8) -> Ballot {
    Ballot { epoch: Epoch(epoch), node: NodeId(node) }
}

fn stream(node: u8) -> Stream {
    Stream::new(voter(node), EntryIndex::NONE, OPTIONS)
}

/// Has `leader` win with the promises of `voters`, the first of which is its own.
fn win(streams: &mut [Stream], now: Nanos, ballot: Ballot, voters: &[u8]) -> bool {
    let tails = voters.iter().map(|node| (voter(*node), streams[*node as usize].promise(ballot))).collect();
    let quorums = Quorums::of(members(streams.len() as u8));
    streams[ballot.node.0 as usize].take_over(now, Plan { ballot, tails, quorums })
}

fn sent(stream: &mut Stream) -> Vec<Envelope> {
    stream.drain().collect()
}

/// Delivers among those that `reachable` names until nothing is under way.
fn run_until_quiet(streams: &mut [Stream], now: Nanos, reachable: &[u8]) {
    loop {
        let mut quiet = true;
        for from in reachable {
            for envelope in sent(&mut streams[*from as usize]) {
                if reachable.contains(&envelope.to.0) {
                    quiet = false;
                    let to = &mut streams[envelope.to.0 as usize];
                    to.deliver(now, voter(*from), envelope.message, envelope.entry);
                }
            }
        }
        if quiet {
            return;
        }
    }
}

fn text(stream: &Stream) -> String {
    let entries =
        (stream.tail().first.0..=stream.last().0).map(|index| stream.entry(EntryIndex(index)).unwrap());
    entries.map(|entry| String::from_utf8_lossy(entry).into_owned()).collect()
}

fn propose(stream: &mut Stream, entries: &str) {
    entries.bytes().for_each(|byte| {
        stream.propose(Bytes::copy_from_slice(&[byte]));
    });
}

/// The leader believed a `Pull` that was sent under an older ballot. Its sender had adopted another log since, so it took
/// entries behind a prefix that was not the leader's, and called the whole accepted.
#[test]
fn a_question_from_an_older_ballot_is_not_believed() {
    let mut streams: Vec<Stream> = (0..5).map(stream).collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1, 2]);
    propose(&mut streams[0], "ab");
    run_until_quiet(&mut streams, 0, &[0, 2]);
    assert_eq!(text(&streams[2]), "ab");
    // A question of node 2 is under way for long.
    let old = Message::Pull { promised: ballot(1, 0), tail: streams[2].tail(), received: EntryIndex::NONE };
    // Node 1 leads, knows nothing of `ab`, and only node 2 adopts its log.
    win(&mut streams, 0, ballot(2, 1), &[1, 3, 4]);
    propose(&mut streams[1], "xy");
    streams[2].follow(0, ballot(2, 1));
    streams[2].tick(OPTIONS.retry);
    run_until_quiet(&mut streams, 0, &[1, 2]);
    assert_eq!(text(&streams[2]), "xy");
    // Node 0 leads again, without node 2; now the question arrives.
    win(&mut streams, 0, ballot(3, 0), &[0, 3, 4]);
    propose(&mut streams[0], "c");
    streams[0].deliver(0, voter(2), old, Bytes::new());
    run_until_quiet(&mut streams, 0, &[0, 2]);
    assert_eq!(text(&streams[2]), "abc");
}

/// A voter that had copied the state reported that it never accepted anything. Its part in a decision was hidden from the
/// next leader, which took over a log without it.
#[test]
fn a_copied_state_does_not_hide_a_vote() {
    let mut streams: Vec<Stream> = (0..3).map(stream).collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1]);
    propose(&mut streams[0], "a");
    run_until_quiet(&mut streams, 0, &[0, 1]);
    win(&mut streams, 0, ballot(2, 0), &[0, 2]);
    propose(&mut streams[0], "b");
    run_until_quiet(&mut streams, 0, &[0, 2]);
    let before = streams[2].tail();
    assert_eq!((before.accepted, before.last), (ballot(2, 0), EntryIndex(2)));
    streams[2].restart_after(EntryIndex(2));
    assert_eq!(streams[2].tail().rank(), before.rank());
    assert!(!win(&mut streams, 0, ballot(3, 1), &[1, 2]), "node 1 cannot have `b`, so it must not lead");
    assert!(win(&mut streams, 0, ballot(4, 2), &[2, 1]));
}

/// Simulation, seed 29: the copy reached less far than the undecided tail. Forgetting that tail would forget votes, and
/// refusing the copy left the voter, and with it the cluster, stuck.
#[test]
fn a_copy_may_end_before_the_log_does() {
    let mut streams: Vec<Stream> = (0..3).map(stream).collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1]);
    propose(&mut streams[0], "abc");
    run_until_quiet(&mut streams, 0, &[0, 1]);
    streams[1].restart_after(EntryIndex(2));
    let tail = streams[1].tail();
    assert_eq!((tail.accepted, tail.first, tail.last), (ballot(1, 0), EntryIndex(3), EntryIndex(3)));
    assert_eq!((tail.decided, text(&streams[1])), (EntryIndex(2), "c".to_owned()));
}

/// A follower that asked without lacking anything got no answer, and asked for ever: an idle cluster did not fall silent
/// after a connection had broken.
#[test]
fn a_question_with_nothing_to_send_is_answered() {
    let mut streams: Vec<Stream> = (0..2).map(stream).collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1]);
    propose(&mut streams[0], "a");
    run_until_quiet(&mut streams, 0, &[0, 1]);
    streams[0].peer_up(MS, voter(1));
    streams[1].peer_up(MS, voter(0));
    run_until_quiet(&mut streams, MS, &[0, 1]);
    assert_eq!(streams[1].tick(100 * MS), None);
    assert_eq!(streams[0].tick(100 * MS), None);
}

/// A timer dropped an adoption that took longer than a retry, and had the leader start again: a long log was never adopted.
#[test]
fn an_adoption_that_grows_is_left_alone() {
    let mut streams: Vec<Stream> = (0..3).map(stream).collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1]);
    propose(&mut streams[0], "abcdefgh");
    run_until_quiet(&mut streams, 0, &[0, 1]);
    win(&mut streams, 0, ballot(2, 0), &[0, 2]);
    let pieces = sent(&mut streams[0]);
    streams[2].follow(0, ballot(2, 0));
    for (at, piece) in pieces.into_iter().filter(|envelope| envelope.to == NodeId(2)).enumerate() {
        let now = at as Nanos * (OPTIONS.retry - MS);
        streams[2].tick(now);
        streams[2].deliver(now, voter(0), piece.message, piece.entry);
        // The leader sees silence and asks.
        let ask = Message::Decide {
            ballot: ballot(2, 0),
            decided: EntryIndex(0),
            last: EntryIndex(8),
            known_by_all: EntryIndex(0),
            ask: true,
        };
        streams[2].deliver(now, voter(0), ask, Bytes::new());
    }
    assert_eq!(text(&streams[2]), "abcdefgh");
    assert!(sent(&mut streams[2]).iter().all(|envelope| !matches!(envelope.message, Message::Pull { .. })));
}

/// The range to adopt reached to the end of the leader's log as it was when the follower asked. Under load the end moved
/// faster than the follower, which never got there.
#[test]
fn the_goal_of_an_adoption_does_not_move() {
    let mut streams: Vec<Stream> = (0..3).map(stream).collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1]);
    propose(&mut streams[0], "abc");
    streams[2].follow(0, ballot(1, 0));
    streams[2].tick(OPTIONS.retry);
    let pull = sent(&mut streams[2]).remove(0);
    sent(&mut streams[0]);
    streams[0].deliver(0, voter(2), pull.message, Bytes::new());
    let first = sent(&mut streams[0]).remove(0).message;
    assert!(matches!(first, Message::Adopt { start: EntryIndex(1), upto: EntryIndex(0), .. }), "{first:?}");
}

/// One timer served all peers, and each acknowledgement of any of them pushed it back: a peer whose last entry was lost
/// was not asked while another one was busy.
#[test]
fn a_busy_peer_does_not_silence_the_question_to_another() {
    let mut streams: Vec<Stream> = (0..3).map(stream).collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1, 2]);
    run_until_quiet(&mut streams, 0, &[0, 1, 2]);
    let mut asked = false;
    for step in 1..=20 {
        let now = step * 2 * MS;
        propose(&mut streams[0], "x");
        asked |= sent(&mut streams[0]).into_iter().fold(false, |asked, envelope| match envelope.to {
            NodeId(1) => {
                streams[1].deliver(now, voter(0), envelope.message, envelope.entry);
                asked
            }
            _ => asked | matches!(envelope.message, Message::Decide { ask: true, .. }),
        });
        for envelope in sent(&mut streams[1]) {
            streams[0].deliver(now, voter(1), envelope.message, envelope.entry);
        }
        streams[0].tick(now);
    }
    assert!(asked);
}

/// A leader that trimmed under a slow peer said so once, and forgot the peer. If that got lost, both waited for ever.
#[test]
fn a_peer_that_missed_that_it_is_too_far_behind_hears_it_again() {
    let mut streams: Vec<Stream> = (0..3)
        .map(|node| Stream::new(voter(node), EntryIndex::NONE, StreamOptions { window_bytes: 1, ..OPTIONS }))
        .collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1, 2]);
    run_until_quiet(&mut streams, 0, &[0, 1, 2]);
    propose(&mut streams[0], "abcd");
    run_until_quiet(&mut streams, 0, &[0, 1]);
    assert_eq!(streams[0].decided(), EntryIndex(4));
    streams[0].trim(EntryIndex(4), 0);
    let ack = Message::Accepted {
        ballot: ballot(1, 0),
        index: EntryIndex(1),
        received: EntryIndex(1),
        decided: EntryIndex::NONE,
    };
    streams[0].deliver(0, voter(2), ack, Bytes::new());
    sent(&mut streams[0]);
    for now in [1, 20 * MS, 40 * MS] {
        streams[0].tick(now);
        run_until_quiet(&mut streams, now, &[0, 2]);
    }
    assert_eq!(streams[2].too_far(), Some(EntryIndex(5)));
}

/// The holder of the best log died behind its promise, and the new leader asked nobody else.
#[test]
fn a_takeover_asks_the_next_holder() {
    let mut streams: Vec<Stream> = (0..5).map(stream).collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1, 2, 3]);
    propose(&mut streams[0], "ab");
    run_until_quiet(&mut streams, 0, &[0, 1, 2]);
    win(&mut streams, 0, ballot(2, 4), &[4, 1, 2]);
    let mut asked: Vec<NodeId> = Vec::new();
    for now in [0, OPTIONS.retry] {
        streams[4].tick(now);
        asked.extend(sent(&mut streams[4]).iter().map(|envelope| envelope.to));
    }
    assert_eq!(asked, [NodeId(1), NodeId(2)]);
}

/// A higher ballot that reaches a stream while its controller still celebrates stopped the process.
#[test]
fn a_takeover_that_comes_too_late_is_refused() {
    let mut streams: Vec<Stream> = (0..3).map(stream).collect();
    let tails =
        BTreeMap::from([0, 1].map(|node| (voter(node), streams[node as usize].promise(ballot(1, 0)))));
    streams[0].deliver(0, voter(2), Message::Stale { promised: ballot(2, 2) }, Bytes::new());
    let plan = Plan { ballot: ballot(1, 0), tails, quorums: Quorums::of(members(3)) };
    assert!(!streams[0].take_over(0, plan));
}

/// A peer that had copied a state from its successor's cluster stopped a deposed leader by telling where its log ends.
#[test]
fn a_deposed_leader_survives_a_peer_that_is_further() {
    let mut streams: Vec<Stream> = (0..3).map(stream).collect();
    win(&mut streams, 0, ballot(1, 0), &[0, 1]);
    sent(&mut streams[0]);
    let learner = Voter { node: NodeId(2), incarnation: Incarnation(9) };
    let mut further = Stream::new(learner, EntryIndex(7), OPTIONS);
    let tail = further.promise(ballot(1, 0));
    let pull = Message::Pull { promised: ballot(1, 0), tail, received: EntryIndex::NONE };
    streams[0].deliver(0, learner, pull, Bytes::new());
    let adopts = |envelope: &Envelope| matches!(envelope.message, Message::Adopt { .. });
    assert!(!sent(&mut streams[0]).iter().any(adopts), "a shorter log is not to be adopted");
    for node in [1, 2] {
        let index = EntryIndex(7);
        let further = Message::Accepted { ballot: ballot(1, 0), index, received: index, decided: index };
        streams[0].deliver(0, voter(node), further, Bytes::new());
    }
    assert_eq!(streams[0].decided(), EntryIndex::NONE, "what it does not hold it cannot call decided");
}

/// A cluster of one node decided nothing while a learner was cut off: it waited for somebody to acknowledge.
#[test]
fn a_single_voter_decides_alone_whoever_listens() {
    let mut streams = vec![stream(0)];
    win(&mut streams, 0, ballot(1, 0), &[0]);
    streams[0].peer_up(0, voter(1));
    propose(&mut streams[0], "a");
    assert_eq!(streams[0].decided(), EntryIndex(1));
}

/// A candidate heard of a higher ballot that an earlier life of its own had asked for, went on as a candidate under that
/// one, and counted the promises of the lower one for it.
#[test]
fn promises_of_two_ballots_are_never_counted_together() {
    let options = ElectionOptions { nodes: 5, heartbeat: 10 * MS, timeout: 50 * MS };
    let mut election = Election::new(voter(0), options, 1);
    election.set_members(0, members(5));
    election.set_eligible(true);
    election.campaign(0);
    let promise = |ballot| Promise {
        ballot,
        members: members(5),
        pending: Vec::new(),
        tails: Vec::new(),
        above_all: Timestamp(1),
        forgets: false,
    };
    let (own, earlier) = (election.promised(), ballot(8, 0));
    election.fenced(0, promise(own));
    election.deliver(0, voter(1), ElectionMessage::Promise(promise(own)));
    election.deliver(0, voter(2), ElectionMessage::Stale { promised: earlier });
    election.fenced(0, promise(earlier));
    election.deliver(0, voter(2), ElectionMessage::Promise(promise(earlier)));
    assert_eq!(election.standing(), Standing::Follower);
    assert!(!election.events().iter().any(|event| matches!(event, ElectionEvent::Won { .. })));
}

/// A candidate whose own streams were slow to promise won with the promises of the others. Its own log was not compared: a
/// deposed leader with more undecided entries than any of them found the best log shorter than its own, and panicked
/// (`highwater torture --faults reset --seed 1008`, on a busy machine).
#[test]
fn a_candidate_does_not_win_before_its_own_streams_promised() {
    let options = ElectionOptions { nodes: 3, heartbeat: 10 * MS, timeout: 50 * MS };
    let mut election = Election::new(voter(0), options, 1);
    election.set_members(0, members(3));
    election.set_eligible(true);
    election.campaign(0);
    let ballot = election.promised();
    let promise = Promise {
        ballot,
        members: members(3),
        pending: Vec::new(),
        tails: Vec::new(),
        above_all: Timestamp(1),
        forgets: false,
    };
    for node in [1, 2] {
        election.deliver(0, voter(node), ElectionMessage::Promise(promise.clone()));
    }
    assert_eq!(election.standing(), Standing::Preparing);
    election.fenced(0, promise);
    assert_eq!(election.standing(), Standing::Leading);
    let won = election.events().into_iter().find_map(|event| match event {
        ElectionEvent::Won { promises, .. } => Some(promises.contains_key(&voter(0))),
        _ => None,
    });
    assert_eq!(won, Some(true));
}

/// A follower's question after a reconnection was lost. Before it asked again it answered the leader, which had something
/// to ask itself, and so believed to be heard; the leader went on waiting for the question. Nothing was ever sent again.
#[test]
fn a_follower_that_answers_need_not_ask() {
    let mut streams = [stream(0), stream(1), stream(2)];
    assert!(win(&mut streams, 0, ballot(1, 0), &[0, 1, 2]));
    propose(&mut streams[0], "a");
    run_until_quiet(&mut streams, 0, &[0, 1, 2]);
    streams[0].peer_up(MS, voter(2));
    streams[2].peer_up(MS, voter(0));
    assert!(sent(&mut streams[2]).iter().any(|lost| matches!(lost.message, Message::Pull { .. })));
    streams[0].all_is_known_to_a_quorum();
    run_until_quiet(&mut streams, MS, &[0, 2]);
    propose(&mut streams[0], "b");
    run_until_quiet(&mut streams, MS, &[0, 2]);
    for now in 1..10 {
        streams[0].tick(now * 20 * MS);
        streams[2].tick(now * 20 * MS);
        run_until_quiet(&mut streams, now * 20 * MS, &[0, 2]);
    }
    assert_eq!(text(&streams[2]), "ab");
}

/// Two entries come before the host has sent anything: the one acknowledgement that covers both waits for both to be on disk.
#[test]
fn an_acknowledgement_that_covers_more_waits_for_more() {
    let options = StreamOptions { durability: Durability::Sync, ..OPTIONS };
    let voter = |node| Voter { node: NodeId(node), incarnation: Incarnation(1) };
    let (me, leader) = (voter(1), voter(0));
    let mut stream = Stream::new(me, EntryIndex::NONE, options);
    let ballot = Ballot { epoch: Epoch(1), node: leader.node };
    let none = EntryIndex::NONE;
    let range = Message::Adopt { ballot, start: EntryIndex(1), upto: none, index: none, decided: none };
    stream.deliver(0, leader, range, Bytes::new());
    for index in [1, 2] {
        let message = Message::Accept { ballot, index: EntryIndex(index), decided: none, known_by_all: none };
        stream.deliver(0, leader, message, Bytes::from_static(b"entry"));
    }
    let made = stream.changes_made();
    assert_eq!(made, stream.take_changes().len() as u64);
    let sent: Vec<Envelope> = stream.drain().collect();
    let last = sent.last().unwrap();
    assert!(matches!(last.message, Message::Accepted { index: EntryIndex(2), .. }), "{sent:?}");
    assert_eq!((sent.len(), last.after), (1, made), "{sent:?}");
}

/// A follower's question after a reconnection was lost, and so was what it said when its disk knew what was decided. It took the latter
/// for an answer to a question of the leader, and did not ask again.
#[test]
fn a_word_that_answers_nothing_does_not_end_a_question() {
    let options = StreamOptions { durability: Durability::Async, ..OPTIONS };
    let mut streams = [0, 1, 2].map(|node| Stream::new(voter(node), EntryIndex::NONE, options));
    assert!(win(&mut streams, 0, ballot(1, 0), &[0, 1, 2]));
    propose(&mut streams[0], "a");
    run_until_quiet(&mut streams, 0, &[0, 1, 2]);
    streams[0].all_is_known_to_a_quorum();
    run_until_quiet(&mut streams, 0, &[0, 1, 2]);
    let follower = &mut streams[2];
    follower.peer_up(MS, voter(0));
    assert!(sent(follower).iter().any(|lost| matches!(lost.message, Message::Pull { .. })));
    follower.take_changes();
    follower.synced(follower.changes_made());
    assert!(sent(follower).iter().any(|lost| matches!(lost.message, Message::Accepted { .. })));
    follower.tick(20 * MS);
    assert!(sent(follower).iter().any(|again| matches!(again.message, Message::Pull { .. })));
}
