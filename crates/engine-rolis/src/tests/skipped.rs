//! A voter that goes on behind what the leader no longer keeps knows of the memberships that it skips.

use std::sync::Arc;

use bytes::Bytes;
use highwater_consensus::{ElectionMessage, Members, Message, Voter};
use highwater_core::log::{EntryHeader, EntryKind};
use highwater_core::{
    Ballot, Clock, EntryIndex, Epoch, Generation, Incarnation, Level, Levels, NodeId, Registry, Schema,
    StreamId, Timestamp,
};
use highwater_seam::options::Options;
use highwater_seam::{ControlOutbox, Controller, Counters, Endpoint, Frame, Outbox, Worker};
use highwater_store::Store;

use crate::lead::feed::Own;
use highwater_log_host::control::ControlMessage;
use highwater_log_host::controller::LogController;
use highwater_log_host::messages::Command;
use highwater_log_host::wire::Head;

fn voter(node: u8, life: u64) -> Voter {
    Voter { node: NodeId(node), incarnation: Incarnation(life) }
}

fn ballot(epoch: u64, node: u8) -> Ballot {
    Ballot { epoch: Epoch(epoch), node: NodeId(node) }
}

fn change(members: &Members) -> Bytes {
    let mut buffer = highwater_log_host::worker::entries::fresh_entry();
    members.encode(&mut buffer);
    let (stream, base) = (StreamId(0), Timestamp(10));
    let header = EntryHeader::without_transactions(
        EntryKind::EpochChange,
        Level::FIRST,
        stream,
        members.epoch,
        EntryIndex(1),
        base,
    );
    header.seal(&mut buffer, &[]);
    buffer.into()
}

/// A voter accepts a change of epoch and falls behind before it hears that it is decided. While it waits for a copy its log
/// goes on behind what the leader keeps, without the change; its next promise knew nothing of it.
#[test]
fn a_parked_voter_does_not_forget_a_change_that_it_accepted() {
    let options = Options::new(NodeId(1), 3, 1, Incarnation(1));
    let account = highwater_seam::memory::Account::new(&options, 1);
    let (shared, marks) = crate::parts(options, Arc::new(Clock::counter()), account, Box::new(Vec::new));
    let schema = Schema::new(vec![]);
    let store = Store::new(schema.clone());
    let code = (Registry::new(), Registry::new());
    let counters = Arc::new(Counters::default());
    let mut worker = crate::worker(StreamId(0), (shared.clone(), marks), store.clone(), counters, code, Own);
    let mut controller = LogController::new(shared.clone(), schema, store);
    let (mut out, mut said) = (Outbox::default(), ControlOutbox::default());
    for peer in [0, 2] {
        worker.peer_up(0, NodeId(peer), Incarnation(1), Levels::default());
        controller.peer_up(0, NodeId(peer), Incarnation(1), Levels::default());
    }
    let founders = Members::new(Epoch(0), (0..3).map(|node| voter(node, 1)).collect());
    controller.deliver(0, NodeId(0), ControlMessage::Genesis(founders.clone()).bytes());
    // Node 2 lost its memory, and its new life was admitted.
    let admitted = founders.with(Epoch(1), voter(2, 2));
    let frame = |message: Message, body: Bytes| Frame { head: Head::Stream(message).encode(), body };
    let (leads, first, none) = (ballot(1, 0), EntryIndex(1), EntryIndex::NONE);
    let from = Endpoint { node: NodeId(0), worker: 0 };
    let adopt = Message::Adopt { ballot: leads, start: first, upto: first, index: first, decided: none };
    worker.deliver(0, from, frame(adopt, change(&admitted)));
    let too_far = Message::TooFar { ballot: leads, first: EntryIndex(9), members: Some(admitted.clone()) };
    worker.deliver(0, from, frame(too_far, Bytes::new()));
    shared.commands[0].put(Command::Park(Generation::default()));
    worker.turn(0, &mut out);
    controller.turn(0, &mut said);
    // Another candidate asks.
    let prepare = ControlMessage::Election(ElectionMessage::Prepare { ballot: ballot(2, 2) });
    controller.deliver(0, NodeId(2), prepare.bytes());
    controller.turn(0, &mut said);
    worker.turn(0, &mut out);
    controller.turn(0, &mut said);
    let promises = said.messages.iter().filter_map(|(_, message)| match ControlMessage::read(message) {
        Ok(ControlMessage::Election(ElectionMessage::Promise(promise))) => Some(promise),
        _ => None,
    });
    let promise = promises.last().expect("it promises");
    assert_eq!(promise.tails[0].last, EntryIndex(8), "the log goes on without the change");
    let knows = promise.members == admitted || promise.pending.iter().any(|p| p.members == admitted);
    assert!(knows, "the promise names the members that it skipped: {promise:?}");
}
