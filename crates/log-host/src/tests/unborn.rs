//! A node that knows of no cluster leaves nothing on its disk.

use std::sync::Arc;

use bytes::Bytes;
use highwater_consensus::{Members, Voter};
use highwater_core::evidence::{Start, Starts};
use highwater_core::{Durability, Epoch, Incarnation, Levels, NodeId, Schema};
use highwater_kit::witness::{DiskWord, RECORD};
use highwater_seam::options::Options;
use highwater_seam::{ControlOutbox, Controller};
use highwater_store::Store;

use crate::control::ControlMessage;
use crate::controller::LogController;

fn voter(node: u8) -> Voter {
    Voter { node: NodeId(node), incarnation: Incarnation(1) }
}

/// The controller of node 1 of three, which has met the others.
fn met_all() -> LogController {
    let options = Options { durability: Durability::Sync, ..Options::new(NodeId(1), 3, 1, Incarnation(1)) };
    let account = highwater_seam::memory::Account::new(&options, 1);
    let shared = crate::testing::shared(options, account);
    let schema = Schema::new(vec![]);
    let mut controller = LogController::new(shared, schema.clone(), Store::new(schema));
    for peer in [NodeId(0), NodeId(2)] {
        controller.peer_up(0, peer, Incarnation(1), Levels::default());
    }
    controller
}

fn word(start: u64) -> Bytes {
    let starts = Starts::new(1, vec![Start { number: start, had: 0 }]);
    ControlMessage::Disk(DiskWord { starts: Arc::new(starts), synced: 0 }).bytes()
}

/// The records of its next turn: about others' disks, and about anything else.
fn writes(controller: &mut LogController) -> (usize, usize) {
    let mut out = ControlOutbox::default();
    controller.turn(0, &mut out);
    let of_disks = |record: &&Bytes| record.starts_with(&RECORD.to_le_bytes());
    let count = out.writes.iter().filter(of_disks).count();
    (count, out.writes.len() - count)
}

/// It noted down what it heard of others' disks before the birth. When it lost that file its identity spoke of a journal that was gone, so that it might
/// have forgotten anything: the cluster was never born.
#[test]
fn nothing_is_written_before_a_membership_is_known() {
    let mut controller = met_all();
    for node in [0, 2] {
        controller.deliver(0, NodeId(node), word(7));
    }
    assert_eq!(writes(&mut controller), (0, 0));
    let founders = Members::new(Epoch(0), (0..3).map(voter).collect());
    controller.deliver(0, NodeId(0), ControlMessage::Genesis(founders).bytes());
    assert_eq!(writes(&mut controller), (2, 1), "the members, and what was heard before");
    controller.deliver(0, NodeId(2), word(8));
    assert_eq!(writes(&mut controller).0, 0, "of an older disk it says so");
}

/// The word of a node that came back with what it wrote as a member goes on being written, though the membership itself was lost with the power.
#[test]
fn who_comes_back_with_a_journal_goes_on_in_it() {
    let mut controller = met_all();
    controller.recovered(0);
    controller.deliver(0, NodeId(0), word(7));
    assert_eq!(writes(&mut controller), (1, 0));
}
