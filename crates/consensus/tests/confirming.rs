//! How a leader finds out that it still leads: who answers, who counts, and that no disk is waited for.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_consensus::*;
use highwater_core::{Ballot, Durability, EntryIndex, Epoch, Incarnation, NodeId};

const OPTIONS: StreamOptions = StreamOptions {
    window_bytes: 1 << 20,
    backlog_bytes: 256 << 20,
    durability: Durability::Memory,
    retry: 10_000_000,
};

fn voter(node: u8) -> Voter {
    Voter { node: NodeId(node), incarnation: Incarnation(1) }
}

fn members(nodes: std::ops::Range<u8>) -> Members {
    Members::new(Epoch(0), nodes.map(voter).collect())
}

fn ballot(epoch: u64, node: u8) -> Ballot {
    Ballot { epoch: Epoch(epoch), node: NodeId(node) }
}

/// So many streams, of which the first leads; what that sent is lost.
fn led(nodes: u8, quorums: Quorums, options: StreamOptions) -> Vec<Stream> {
    let mut streams: Vec<Stream> =
        (0..nodes).map(|node| Stream::new(voter(node), EntryIndex::NONE, options)).collect();
    let tails: BTreeMap<Voter, Tail> =
        (0..nodes).map(|node| (voter(node), streams[node as usize].promise(ballot(1, 0)))).collect();
    assert!(streams[0].take_over(0, Plan { ballot: ballot(1, 0), tails, quorums }));
    streams.iter_mut().for_each(|stream| drop((stream.take_changes(), stream.drain().count())));
    streams
}

/// Asks, and has those that `reachable` names answer.
fn ask(streams: &mut [Stream], reachable: &[u8]) -> u64 {
    let number = streams[0].ask_for_confirmation();
    let questions: Vec<Envelope> = streams[0].drain().collect();
    for envelope in questions.into_iter().filter(|envelope| reachable.contains(&envelope.to.0)) {
        let to = &mut streams[envelope.to.0 as usize];
        to.deliver(0, voter(0), envelope.message, Bytes::new());
        let answers: Vec<Envelope> = to.drain().collect();
        for answer in answers {
            streams[0].deliver(0, voter(envelope.to.0), answer.message, Bytes::new());
        }
    }
    number
}

#[test]
fn a_majority_confirms_a_lead_and_one_less_does_not() {
    for (nodes, few, enough) in
        [(2, &[][..], &[1][..]), (3, &[], &[2]), (4, &[1], &[1, 3]), (5, &[4], &[2, 4])]
    {
        let mut streams = led(nodes, Quorums::of(members(0..nodes)), OPTIONS);
        assert_eq!(streams[0].confirmed(), 0);
        let first = ask(&mut streams, few);
        assert!(streams[0].confirmed() < first, "{nodes} nodes, {few:?}");
        let second = ask(&mut streams, enough);
        assert_eq!(streams[0].confirmed(), second, "{nodes} nodes, {enough:?}");
        assert!(first < second && streams[1].confirmed() == 0, "who follows is confirmed by nobody");
    }
}

#[test]
fn a_lone_node_confirms_itself() {
    let mut streams = led(1, Quorums::of(members(0..1)), OPTIONS);
    let number = streams[0].ask_for_confirmation();
    assert_eq!((streams[0].confirmed(), streams[0].has_output()), (number, false));
}

#[test]
fn who_has_promised_more_says_so_and_ends_the_lead() {
    let mut streams = led(3, Quorums::of(members(0..3)), OPTIONS);
    streams[1].promise(ballot(2, 2));
    ask(&mut streams, &[1]);
    assert!(!streams[0].is_leading(ballot(1, 0)));
    assert_eq!((streams[0].confirmed(), streams[0].promised()), (0, ballot(2, 2)));
}

#[test]
fn who_has_not_promised_the_ballot_yet_says_nothing() {
    let mut streams = led(3, Quorums::of(members(0..3)), OPTIONS);
    streams[1] = Stream::new(voter(1), EntryIndex::NONE, OPTIONS);
    let number = ask(&mut streams, &[1]);
    assert!(streams[0].confirmed() < number && streams[1].promised() == Ballot::default());
}

/// Answers may be late: of another ballot, of another life, to a question that was never asked.
#[test]
fn only_an_answer_to_this_ballot_by_this_life_counts() {
    let mut streams = led(3, Quorums::of(members(0..3)), OPTIONS);
    let number = streams[0].ask_for_confirmation();
    let other = Voter { node: NodeId(1), incarnation: Incarnation(2) };
    for (from, message) in [
        (other, Message::Confirmed { ballot: ballot(1, 0), number }),
        (voter(1), Message::Confirmed { ballot: ballot(0, 0), number }),
        (voter(1), Message::Confirmed { ballot: ballot(1, 0), number: number + 1 }),
        (voter(7), Message::Confirmed { ballot: ballot(1, 0), number }),
    ] {
        streams[0].deliver(0, from, message.clone(), Bytes::new());
        assert!(streams[0].confirmed() < number, "{message:?}");
    }
    // That life is another voter: what it says is worth nothing until it is let in.
    streams[0].peer_up(0, other);
    streams[0].deliver(0, other, Message::Confirmed { ballot: ballot(1, 0), number }, Bytes::new());
    assert!(streams[0].confirmed() < number);
}

#[test]
fn while_the_membership_changes_both_have_to_confirm() {
    let mut quorums = Quorums::of(members(0..3));
    quorums.and(members(2..5));
    let mut streams = led(5, quorums, OPTIONS);
    let number = ask(&mut streams, &[1, 2]);
    assert!(streams[0].confirmed() < number, "of 2, 3 and 4 only one said yes");
    let number = ask(&mut streams, &[3, 4]);
    assert!(streams[0].confirmed() < number, "of 0, 1 and 2 only one said yes");
    let number = ask(&mut streams, &[2, 3]);
    assert_eq!(streams[0].confirmed(), number);
}

#[test]
fn neither_question_nor_answer_waits_for_a_disk() {
    let options = StreamOptions { durability: Durability::Sync, ..OPTIONS };
    let mut streams = led(3, Quorums::of(members(0..3)), options);
    streams[0].ask_for_confirmation();
    let questions: Vec<Envelope> = streams[0].drain().collect();
    assert!(questions.len() == 2 && questions.iter().all(|question| question.after == 0));
    let Envelope { message, .. } = questions[0].clone();
    streams[1].deliver(0, voter(0), message, Bytes::new());
    let answers: Vec<Envelope> = streams[1].drain().collect();
    assert!(matches!(answers[..], [Envelope { message: Message::Confirmed { .. }, after: 0, .. }]));
    assert!(streams[1].take_changes().is_empty(), "there is nothing to write");
}
