//! The bytes of every kind of message, as they were recorded: builds of different age speak to each other.

use bytes::Bytes;
use highwater_consensus::{
    Beat, ElectionMessage, Members, MembersChange, Message, PendingChange, Promise, RecoveryPoint, Tail,
    Voice,
};
use highwater_core::wire::testing::{described, golden};
use highwater_core::{Ballot, EntryIndex, Epoch, Incarnation, NodeId, Timestamp, Voter};

const BALLOT: Ballot = Ballot { epoch: Epoch(0x0102), node: NodeId(3) };
const PROMISED: Ballot = Ballot { epoch: Epoch(0x0405), node: NodeId(6) };

fn index(index: u64) -> EntryIndex {
    EntryIndex(index)
}

fn tail() -> Tail {
    Tail { accepted: BALLOT, first: index(0x21), last: index(0x2233), decided: index(0x24) }
}

fn members() -> Members {
    let voter = |node| Voter { node: NodeId(node), incarnation: Incarnation(0x1000 + u64::from(node)) };
    let three = Members::new(Epoch(1), vec![voter(0), voter(2), voter(5)]);
    let change = MembersChange { removes: Some(NodeId(5)), ..MembersChange::default() };
    three.with_contacts([(NodeId(2), Bytes::from_static(b"there"))]).changed(Epoch(0x0708), &change)
}

fn name(text: String) -> String {
    text.split([' ', '(', '{']).next().unwrap_or_default().to_string()
}

#[test]
fn messages_of_streams_are_as_they_were() {
    let (ballot, known_by_all) = (BALLOT, index(0x35));
    let all = [
        Message::Adopt {
            ballot,
            start: index(0x31),
            upto: index(0x33),
            index: index(0x32),
            decided: index(0x34),
        },
        Message::Adopt {
            ballot,
            start: index(0x31),
            upto: index(0x30),
            index: index(0),
            decided: index(0x34),
        },
        Message::Accept { ballot, index: index(0x36), decided: index(0x34), known_by_all },
        Message::Accepted { ballot, index: index(0x36), received: index(0x37), decided: index(0x34) },
        Message::Decide { ballot, decided: index(0x34), last: index(0x38), known_by_all, ask: true },
        Message::Pull { promised: PROMISED, tail: tail(), received: index(0x39) },
        Message::TooFar { ballot, first: index(0x3a), members: Some(members()) },
        Message::TooFar { ballot, first: index(0x3a), members: None },
        Message::Fetch { ballot, from: index(0x3b), upto: index(0x3c) },
        Message::Fetched { ballot, index: index(0x3d), paused: true },
        Message::Stale { promised: PROMISED },
        Message::Confirm { ballot, number: 0x3e },
        Message::Confirmed { ballot, number: 0x3f },
    ];
    let bytes = all.iter().map(|message| {
        let mut out = Vec::new();
        message.encode(&mut out);
        (name(format!("{message:?}")), out)
    });
    golden(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/stream.txt"), &Message::kinds(), bytes);
}

#[test]
fn messages_of_elections_are_as_they_were() {
    let ballot = BALLOT;
    let pending = vec![PendingChange { members: members(), decided: vec![Epoch(0), Epoch(0x41)] }];
    let promise = Promise {
        ballot,
        members: members(),
        pending,
        tails: vec![tail(); 2],
        above_all: Timestamp(0x42),
        forgets: true,
    };
    let all = [
        ElectionMessage::PreVote { ballot },
        ElectionMessage::PreVoteReply {
            ballot,
            voice: Voice { granted: true, forgets: false },
            promised: PROMISED,
        },
        ElectionMessage::PreVoteReply {
            ballot,
            voice: Voice { granted: false, forgets: true },
            promised: PROMISED,
        },
        ElectionMessage::Prepare { ballot },
        ElectionMessage::Promise(promise.clone()),
        ElectionMessage::Promise(Promise { forgets: false, pending: Vec::new(), ..promise }),
        ElectionMessage::Heartbeat { ballot, beat: Beat::Asks, members: members() },
        ElectionMessage::Heartbeat { ballot, beat: Beat::Rests, members: members() },
        ElectionMessage::HeartbeatReply { ballot },
        ElectionMessage::Patient { ballot },
        ElectionMessage::Stale { promised: PROMISED },
    ];
    let bytes = all.iter().map(|message| {
        let mut out = Vec::new();
        message.encode(&mut out);
        (name(format!("{message:?}")), out)
    });
    golden(
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/election.txt"),
        &ElectionMessage::kinds(),
        bytes,
    );
}

#[test]
fn what_is_kept_of_streams_is_as_it_was() {
    let point = RecoveryPoint { promised: PROMISED, accepted: BALLOT, last: index(0x51) };
    let mut bytes = vec![("RecoveryPoint".to_string(), Vec::new()), ("Tail".to_string(), Vec::new())];
    point.encode(&mut bytes[0].1);
    tail().encode(&mut bytes[1].1);
    for members in [members(), members().in_epoch_after_loss(Epoch(0x52))] {
        let mut out = Vec::new();
        members.encode(&mut out);
        bytes.push(("Members".into(), out));
    }
    let kinds = [Tail::kinds(), Members::kinds(), RecoveryPoint::kinds()].concat();
    golden(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/kept.txt"), &kinds, bytes);
}

#[test]
fn the_document_describes_them() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/internals/messages.md");
    described(file, "stream message", &Message::kinds());
    described(file, "election message", &ElectionMessage::kinds());
    described(file, "parts of elections", &[Promise::kinds(), PendingChange::kinds()].concat());
    described(file, "kept of a stream", &[Tail::kinds(), Members::kinds(), RecoveryPoint::kinds()].concat());
}
