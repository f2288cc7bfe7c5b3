//! Messages survive the way through bytes, and bytes that are no message do no harm.

use highwater_consensus::*;
use highwater_core::codec::Reader;
use highwater_core::{Ballot, EntryIndex, Epoch, Incarnation, NodeId, Timestamp};
use proptest::prelude::*;

fn ballot() -> impl Strategy<Value = Ballot> {
    (any::<u64>(), any::<u8>()).prop_map(|(epoch, node)| Ballot { epoch: Epoch(epoch), node: NodeId(node) })
}

fn index() -> impl Strategy<Value = EntryIndex> {
    prop_oneof![0..9u64, 0..=1u64 << 62].prop_map(EntryIndex)
}

fn tail() -> impl Strategy<Value = Tail> {
    (ballot(), [index(), index(), index()]).prop_map(|(accepted, mut indexes)| {
        indexes.sort();
        let [first, decided, last] = indexes;
        Tail { accepted, first, last, decided }
    })
}

fn message() -> impl Strategy<Value = Message> {
    let adopt =
        (ballot(), 1..1000u64, 0..50u64, 0..50u64, index()).prop_map(|(ballot, start, len, at, decided)| {
            let (start, upto) = (EntryIndex(start), EntryIndex(start + len - 1));
            let index = EntryIndex((start.0 + at).min(upto.0));
            Message::Adopt { ballot, start, upto, index, decided }
        });
    prop_oneof![
        adopt,
        (ballot(), index(), index(), index()).prop_map(|(ballot, index, decided, known_by_all)| {
            Message::Accept { ballot, index, decided, known_by_all }
        }),
        (ballot(), index(), index(), index()).prop_map(|(ballot, index, received, decided)| {
            Message::Accepted { ballot, index, received, decided }
        }),
        (ballot(), index(), index(), index(), any::<bool>()).prop_map(
            |(ballot, decided, last, known_by_all, ask)| Message::Decide {
                ballot,
                decided,
                last,
                known_by_all,
                ask
            }
        ),
        (ballot(), tail(), index()).prop_map(|(promised, tail, received)| Message::Pull {
            promised,
            tail,
            received
        }),
        (ballot(), index(), prop::option::of(members()))
            .prop_map(|(ballot, first, members)| Message::TooFar { ballot, first, members }),
        (ballot(), index(), index()).prop_map(|(ballot, from, upto)| Message::Fetch { ballot, from, upto }),
        (ballot(), index(), any::<bool>()).prop_map(|(ballot, index, paused)| Message::Fetched {
            ballot,
            index,
            paused
        }),
        ballot().prop_map(|promised| Message::Stale { promised }),
        (ballot(), any::<u64>()).prop_map(|(ballot, number)| Message::Confirm { ballot, number }),
        (ballot(), any::<u64>()).prop_map(|(ballot, number)| Message::Confirmed { ballot, number }),
    ]
}

fn members() -> impl Strategy<Value = Members> {
    (any::<u64>(), prop::collection::btree_map(any::<u8>(), any::<u64>(), 1..8)).prop_map(
        |(epoch, voters)| {
            let voter = |(node, life)| Voter { node: NodeId(node), incarnation: Incarnation(life) };
            Members::new(Epoch(epoch), voters.into_iter().map(voter).collect())
        },
    )
}

fn pending() -> impl Strategy<Value = PendingChange> {
    let decided = prop::collection::vec(any::<u64>().prop_map(Epoch), 0..5);
    (members(), decided).prop_map(|(members, decided)| PendingChange { members, decided })
}

fn beat() -> impl Strategy<Value = Beat> {
    prop_oneof![Just(Beat::Asks), Just(Beat::Vouches), Just(Beat::Calm), Just(Beat::Rests)]
}

fn election_message() -> impl Strategy<Value = ElectionMessage> {
    let list = prop::collection::vec(tail(), 0..20);
    let promise =
        (ballot(), members(), prop::collection::vec(pending(), 0..3), list, any::<u64>(), any::<bool>());
    prop_oneof![
        ballot().prop_map(|ballot| ElectionMessage::PreVote { ballot }),
        (ballot(), any::<bool>(), any::<bool>(), ballot()).prop_map(
            |(ballot, granted, forgets, promised)| {
                ElectionMessage::PreVoteReply { ballot, granted, forgets, promised }
            }
        ),
        ballot().prop_map(|ballot| ElectionMessage::Prepare { ballot }),
        promise.prop_map(|(ballot, members, pending, tails, above_all, forgets)| {
            ElectionMessage::Promise(Promise {
                ballot,
                members,
                pending,
                tails,
                above_all: Timestamp(above_all),
                forgets,
            })
        }),
        (ballot(), beat(), members()).prop_map(|(ballot, beat, members)| ElectionMessage::Heartbeat {
            ballot,
            beat,
            members
        }),
        ballot().prop_map(|ballot| ElectionMessage::Patient { ballot }),
        ballot().prop_map(|ballot| ElectionMessage::HeartbeatReply { ballot }),
        ballot().prop_map(|promised| ElectionMessage::Stale { promised }),
    ]
}

proptest! {
    #[test]
    fn a_stream_message_round_trips_and_every_shorter_one_is_refused(message in message()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(Message::decode(&mut reader), Ok(message));
        prop_assert!(reader.is_empty());
        for len in 0..bytes.len() {
            prop_assert!(Message::decode(&mut Reader::new(&bytes[..len])).is_err());
        }
    }

    #[test]
    fn an_election_message_round_trips_and_every_shorter_one_is_refused(message in election_message()) {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(ElectionMessage::decode(&mut reader), Ok(message));
        prop_assert!(reader.is_empty());
        for len in 0..bytes.len() {
            prop_assert!(ElectionMessage::decode(&mut Reader::new(&bytes[..len])).is_err());
        }
    }

    /// Whatever is decoded can be encoded, to the same bytes but for flags; nothing panics, largest numbers included.
    #[test]
    fn garbage_never_panics(
        tag in 0..12u8,
        noise in prop::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..80),
    ) {
        let bytes: Vec<u8> = std::iter::once(tag).chain(noise).collect();
        if let Ok(message) = Message::decode(&mut Reader::new(&bytes)) {
            message.encode(&mut Vec::new());
        }
        if let Ok(message) = ElectionMessage::decode(&mut Reader::new(&bytes)) {
            message.encode(&mut Vec::new());
        }
    }
}

#[test]
fn the_largest_index_is_refused() {
    let mut bytes = vec![6];
    bytes.extend([0; 9]);
    bytes.extend([0xff; 8]);
    assert!(Message::decode(&mut Reader::new(&bytes)).is_err());
}
