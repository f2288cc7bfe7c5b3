//! Late words about a copy are about that copy, and say nothing of the one that took its place.

use std::sync::Arc;

use bytes::Bytes;
use highwater_consensus::Voter;
use highwater_core::{EntryIndex, Epoch, Incarnation, NodeId, Schema, StreamId, Timestamp};
use highwater_store::Store;

use super::*;

const DONOR: NodeId = NodeId(0);
const OTHER: NodeId = NodeId(1);
const RECEIVER: NodeId = NodeId(2);
const ALL: (usize, usize) = (0, 1);

fn name(copy: u64) -> CopyName {
    CopyName { receiver: RECEIVER, copy }
}

fn terms() -> Terms {
    Terms { epoch: Epoch(1), floor: Timestamp(5) }
}

fn store() -> Arc<Store> {
    Store::new(Schema::new(Vec::new()))
}

fn receiver(life: u64) -> Voter {
    Voter { node: RECEIVER, incarnation: Incarnation(life) }
}

/// A donor of an empty store, of which everything is settled.
pub(super) struct Settled;

impl Source for Settled {
    fn is_sound(&self) -> bool {
        true
    }

    fn position(&self) -> Timestamp {
        Timestamp(7)
    }

    fn settled(&self) -> Timestamp {
        Timestamp(7)
    }
}

/// The copies of which chunks leave in this turn.
fn sent(sender: &mut Sender) -> Vec<u64> {
    let mut copies = Vec::new();
    sender.turn(0, &Settled, |_, message, _| {
        if let CopyMessage::CopyChunk { copy, .. } = message {
            copies.push(copy);
        }
    });
    copies
}

// ---- donor ----

/// A log that goes on where the earlier copy did lacks what only this one brings.
#[test]
fn where_an_earlier_copy_goes_on_is_not_where_this_one_does() {
    let mut donor = Donor::default();
    donor.begin(name(1), terms());
    donor.end(RECEIVER, None);
    donor.begin(name(2), terms());
    assert!(!donor.gives(name(1)) && donor.gives(name(2)));
    assert_eq!(donor.located(name(1), StreamId(0), EntryIndex(3), 1), None);
    let located = donor.located(name(2), StreamId(0), EntryIndex(7), 1);
    assert_eq!(located, Some((terms(), vec![EntryIndex(7)])));
}

#[test]
fn the_end_of_an_earlier_copy_ends_none_that_was_asked_for_since() {
    let mut donor = Donor::default();
    donor.begin(name(1), terms());
    assert_eq!(donor.end(RECEIVER, None), Some(name(1)));
    donor.begin(name(2), terms());
    assert_eq!(donor.end(RECEIVER, Some(1)), None, "its receiver gave the first one up");
    assert!(donor.gives(name(2)));
    assert_eq!(donor.end(RECEIVER, Some(2)), Some(name(2)));
}

/// Tombstones stay until then.
#[test]
fn every_worker_has_to_let_go_of_that_very_copy() {
    let mut donor = Donor::default();
    for copy in [1, 2] {
        donor.begin(name(copy), terms());
        donor.end(RECEIVER, None);
    }
    assert!(!donor.ended(name(1), StreamId(0), 2));
    assert!(!donor.ended(name(2), StreamId(1), 2), "one of two, of each");
    assert!(donor.ended(name(1), StreamId(1), 2) && donor.ended(name(2), StreamId(0), 2));
    assert!(!donor.ended(name(2), StreamId(0), 2), "it is over");
}

#[test]
fn nothing_is_sent_but_what_was_announced_and_has_not_ended() {
    let (mut sender, store) = (Sender::default(), store());
    sender.announce(name(2));
    sender.start(receiver(1), 1, true, &store, ALL);
    assert_eq!((sent(&mut sender), sender.take_refused()), (vec![], vec![name(1)]));
    sender.end(name(2));
    sender.start(receiver(1), 2, true, &store, ALL);
    assert_eq!((sent(&mut sender), sender.take_refused()), (vec![], vec![name(2)]), "it has ended");
    sender.announce(name(3));
    sender.start(receiver(1), 3, true, &store, ALL);
    sender.end(name(3));
    assert_eq!(sent(&mut sender), [0; 0], "what is begun ends, too");
    sender.announce(name(4));
    sender.start(receiver(1), 4, true, &store, ALL);
    sender.end(name(3));
    assert_eq!(sent(&mut sender), [4], "and an earlier one's end is none of this one's");
}

// ---- receiver ----

#[test]
fn what_comes_of_an_earlier_copy_is_none_of_this_one() {
    let mut receiver = Receiver::new(1);
    receiver.want(0);
    let ask = |receiver: &mut Receiver| {
        receiver.choose(Some(DONOR), &[]);
        receiver.ask(0, DONOR, 1)
    };
    let (before, copy) = (ask(&mut receiver), ask(&mut receiver));
    assert_ne!(before, copy);
    assert!(!receiver.asked_for(DONOR, before) && !receiver.asked_for(OTHER, copy));
    assert!(receiver.asked_for(DONOR, copy));
    receiver.granted(DONOR, copy);
    assert!(!receiver.is_about(before) && receiver.is_about(copy));
    assert_eq!(receiver.arrived(before, StreamId(0), Timestamp(9), 1), None);
    assert_eq!(receiver.arrived(copy, StreamId(0), Timestamp(4), 1), Some(DONOR));
    assert_eq!(receiver.step(0), Step::CatchUp(Timestamp(4)), "as far as this one asks for");
}

#[test]
fn chunks_of_another_copy_or_donor_are_not_installed_nor_is_any_twice() {
    // No records, and their checksum.
    let chunk = Bytes::from_static(&[0; CRC_BYTES]);
    let mut installer = Installer::expect(0, DONOR, 2, store());
    let last = Some(Timestamp(9));
    assert_eq!(installer.take(1, DONOR, (1, 0), last, &chunk), 0, "of an earlier copy");
    assert_eq!(installer.take(1, OTHER, (2, 0), last, &chunk), 0, "of another donor");
    assert_eq!(installer.take(1, DONOR, (2, 0), None, &chunk), chunk.len());
    assert_eq!(installer.take(1, DONOR, (2, 0), last, &chunk), 0, "it came before");
    assert!(installer.is_receiving());
    assert_eq!((installer.take_completed(), installer.take_stalled()), (None, None));
    assert_eq!(installer.take(1, DONOR, (2, 1), last, &chunk), chunk.len());
    assert_eq!(installer.take_completed(), Some((2, Timestamp(9))));
}
