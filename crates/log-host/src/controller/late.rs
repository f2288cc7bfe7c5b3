//! Answers that come late, handed in by hand: what they are about has been replaced, and they change nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_consensus::{Members, MembersChange, Voter};
use highwater_core::evidence::{Start, Starts};
use highwater_core::{EntryIndex, Epoch, Incarnation, NodeId, Schema, StreamId, Timestamp};
use highwater_kit::copy::CopyName;
use highwater_seam::memory::Account;
use highwater_seam::options::Options;
use highwater_seam::{ControlOutbox, Controller, DiskState};
use highwater_store::Store;

use super::LogController;
use crate::control::{ControlMessage, Granted};
use crate::messages::Report;

const STREAM: StreamId = StreamId(0);
const PEER: NodeId = NodeId(2);

fn voter(node: NodeId) -> Voter {
    Voter { node, incarnation: Incarnation(1) }
}

fn members() -> Members {
    Members::new(Epoch(0), (0..3).map(|node| voter(NodeId(node))).collect())
}

/// The controller of node 1 of three, which votes and follows nobody yet.
fn controller() -> LogController {
    let options = Options::new(NodeId(1), 3, 1, Incarnation(1));
    let account = Account::new(&options, 1);
    let shared = crate::testing::shared(options, account);
    let schema = Schema::new(vec![]);
    let mut controller = LogController::new(shared, schema.clone(), Store::new(schema));
    let levels = controller.desk.shared.options.levels;
    for peer in [NodeId(0), PEER] {
        controller.peer_up(0, peer, Incarnation(1), levels);
    }
    controller.on_genesis(0, members());
    controller
}

/// The messages for a node that were not handed out yet.
fn sent(controller: &mut LogController, to: NodeId) -> Vec<ControlMessage> {
    let mut out = ControlOutbox::default();
    controller.desk.hand_out(&mut out);
    let messages = out.messages.into_iter().filter(|(node, _)| *node == to);
    messages.map(|(_, bytes)| ControlMessage::read(&bytes).expect("it was just encoded")).collect()
}

/// It asks `PEER` for a copy, and for another one: the names of both.
fn asks_twice(controller: &mut LogController) -> [u64; 2] {
    controller.receiver.want(0);
    [0, 1].map(|now| {
        controller.receiver.choose(Some(PEER), &[]);
        controller.receiver.ask(now, PEER, 1)
    })
}

fn granted() -> Granted {
    Granted { epoch: Epoch(0), members: members(), floor: Timestamp::ZERO, starts: vec![EntryIndex(1)] }
}

/// A change of members would end a lead in which something that was executed is not released.
#[test]
fn a_worker_that_was_quiet_for_an_earlier_change_is_not_quiet_for_this_one() {
    let mut controller = controller();
    controller.admission.begin(MembersChange::default(), 1000);
    controller.quiesce();
    controller.quiesce();
    controller.on_report(1, Report::Quiesced(STREAM, 1));
    assert!(controller.admission.quiesced(STREAM, 1, 0), "nobody has been quiet until now");
}

/// It would begin another life, and give up what it holds, for what was said to the process before.
#[test]
fn what_was_said_of_an_earlier_start_is_not_said_of_this_one() {
    let mut controller = controller();
    let starts = [3, 4].map(|number| Start { number, had: 0 });
    let starts = Arc::new(Starts::new(2, starts.to_vec()));
    controller.set_disk(DiskState { starts, ..DiskState::default() });
    let now = controller.disk.start();
    let before = if now == 3 { 4 } else { 3 };
    controller.deliver(1, PEER, ControlMessage::DiskJudged { start: before, stale: true }.bytes());
    assert!(!controller.stale);
    controller.deliver(1, PEER, ControlMessage::DiskJudged { start: now, stale: true }.bytes());
    assert!(controller.stale);
}

/// The log would go on where the earlier copy's does, over the store of this one.
#[test]
fn a_grant_of_an_earlier_copy_is_not_taken() {
    let mut controller = controller();
    let [before, copy] = asks_twice(&mut controller);
    let store = controller.store.clone();
    controller.on_copy_grant(2, PEER, before, granted());
    controller.on_copy_grant(2, NodeId(0), copy, granted());
    assert!(Arc::ptr_eq(&store, &controller.store) && controller.receiver.asked_for(PEER, copy));
    controller.on_copy_grant(2, PEER, copy, granted());
    assert!(!Arc::ptr_eq(&store, &controller.store));
}

#[test]
fn a_refusal_of_an_earlier_copy_does_not_cost_this_one() {
    let mut controller = controller();
    let [before, copy] = asks_twice(&mut controller);
    controller.deliver(2, PEER, ControlMessage::CopyRefuse { copy: before }.bytes());
    assert!(controller.receiver.asked_for(PEER, copy));
    controller.on_copy_grant(2, PEER, copy, granted());
    controller.on_report(3, Report::CopyStalled { copy: before });
    controller.on_report(3, Report::Copied { copy: before, stream: STREAM, complete_at: Timestamp(9) });
    assert!(controller.receiver.is_about(copy), "it goes on to arrive");
    assert_eq!(controller.desk.came_late("about a copy that was given up"), 3);
    controller.on_report(4, Report::CopyStalled { copy });
    assert!(!controller.receiver.is_about(copy));
}

/// A donor whose receiver has asked anew.
#[test]
fn what_is_heard_of_an_earlier_copy_ends_none_that_is_given() {
    let mut controller = controller();
    let name = |copy| CopyName { receiver: PEER, copy };
    for copy in [1, 2] {
        controller.deliver(1, PEER, ControlMessage::CopyRequest { copy }.bytes());
    }
    sent(&mut controller, PEER);
    let given = controller.desk.shared.serving_copies.load(Ordering::SeqCst);
    controller.on_report(2, Report::Located { copy: name(1), stream: STREAM, start: None });
    controller.on_report(2, Report::Located { copy: name(1), stream: STREAM, start: Some(EntryIndex(3)) });
    controller.deliver(2, PEER, ControlMessage::CopyFinished { copy: 1 }.bytes());
    let said = sent(&mut controller, PEER);
    let of_copies = |message: &ControlMessage| {
        matches!(message, ControlMessage::CopyGrant { .. } | ControlMessage::CopyRefuse { .. })
    };
    assert!(!said.iter().any(of_copies), "{said:?}");
    assert!(controller.donor.gives(name(2)));
    assert_eq!(controller.desk.shared.serving_copies.load(Ordering::SeqCst), given, "tombstones stay");
    controller.on_report(3, Report::Located { copy: name(2), stream: STREAM, start: Some(EntryIndex(3)) });
    assert!(sent(&mut controller, PEER).iter().any(of_copies), "this one is granted");
}

/// Without its voter too few would have complete stores, and the leader would remove another one.
#[test]
fn what_a_node_said_of_its_store_ends_with_its_connection_and_its_life() {
    let mut controller = controller();
    let levels = controller.desk.shared.options.levels;
    controller.deliver(1, PEER, ControlMessage::Store { complete: true }.bytes());
    assert!(controller.stores.is_complete(voter(PEER)));
    let another = Voter { incarnation: Incarnation(2), ..voter(PEER) };
    assert!(!controller.stores.is_complete(another), "its next life has said nothing");
    controller.peer_down(2, PEER, false);
    controller.peer_up(3, PEER, Incarnation(1), levels);
    assert!(!controller.stores.is_complete(voter(PEER)), "nor has this one over the new connection");
}
