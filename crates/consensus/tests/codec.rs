//! Messages survive the way through bytes, and bytes that are no message do no harm.

use highwater_consensus::*;
use highwater_core::codec::Reader;
use highwater_core::wire::testing::check;
use proptest::prelude::*;

#[test]
fn a_stream_message_round_trips_and_every_shorter_one_is_refused() {
    check::<Message>(2000);
}

#[test]
fn an_election_message_round_trips_and_every_shorter_one_is_refused() {
    check::<ElectionMessage>(1000);
}

#[test]
fn what_is_kept_of_a_stream_round_trips() {
    check::<Tail>(500);
    check::<Members>(500);
    check::<RecoveryPoint>(500);
}

proptest! {
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
