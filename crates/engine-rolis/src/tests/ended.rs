//! A donor that has ended a copy sends nothing of it, though its receiver does not know that yet.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use highwater_consensus::{Members, Voter};
use highwater_core::{Clock, Epoch, Incarnation, Levels, NodeId, Registry, Schema, StreamId};
use highwater_kit::copy::CopyMessage;
use highwater_seam::options::Options;
use highwater_seam::{ControlOutbox, Controller, Counters, Endpoint, Frame, Outbox, Worker};
use highwater_store::Store;

use crate::lead::feed::Own;
use highwater_log_host::control::ControlMessage;
use highwater_log_host::controller::LogController;
use highwater_log_host::wire::Head;

const RECEIVER: NodeId = NodeId(2);
const COPY: u64 = 77;

fn voter(node: u8) -> Voter {
    Voter { node: NodeId(node), incarnation: Incarnation(1) }
}

/// The control connections of the two end a moment before the receiver asks, over the connection of its worker, for what it was granted. The donor
/// kept no tombstones for it any more, and sent its store all the same.
#[test]
fn a_copy_that_has_ended_is_not_begun_late() {
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
    for peer in [NodeId(0), RECEIVER] {
        worker.peer_up(0, peer, Incarnation(1), Levels::default());
        controller.peer_up(0, peer, Incarnation(1), Levels::default());
    }
    let founders = Members::new(Epoch(0), (0..3).map(voter).collect());
    controller.deliver(0, NodeId(0), ControlMessage::Genesis(founders).bytes());
    controller.deliver(0, RECEIVER, ControlMessage::CopyRequest { copy: COPY }.bytes());
    worker.turn(0, &mut out);
    controller.turn(0, &mut said);
    let granted = |message: &Bytes| {
        matches!(ControlMessage::read(message), Ok(ControlMessage::CopyGrant { copy: COPY, .. }))
    };
    assert!(said.messages.iter().any(|(to, message)| *to == RECEIVER && granted(message)));
    let serves = || shared.serving_copies.load(Ordering::SeqCst);
    assert_eq!(serves(), 1, "tombstones stay");

    controller.peer_down(1, RECEIVER, false);
    controller.turn(1, &mut said);
    assert_eq!(serves(), 1, "until the worker has let go of it");
    worker.turn(1, &mut out);
    controller.turn(1, &mut said);
    assert_eq!(serves(), 0);
    out.frames.clear();
    let ask = Frame { head: Head::Copy(CopyMessage::CopyStart { copy: COPY }).encode(), body: Bytes::new() };
    worker.deliver(2, Endpoint { node: RECEIVER, worker: 0 }, ask);
    worker.turn(2, &mut out);
    let is_chunk =
        |frame: &Frame| matches!(Head::decode(&frame.head), Ok(Head::Copy(CopyMessage::CopyChunk { .. })));
    assert!(!out.frames.iter().any(|(_, frame)| is_chunk(frame)), "nobody keeps tombstones for it");
}
