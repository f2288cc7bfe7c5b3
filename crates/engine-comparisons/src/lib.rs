//! The three systems that Meerkat's paper compares it with (section 6.1, table 1), on its storage layer and its transport: what differs is
//! who has to agree with whom.
//!
//! | | cores coordinate | replicas coordinate |
//! |---|---|---|
//! | [`kuafu`] | yes: a shared counter and a shared log | yes: a primary |
//! | [`tapir`] | yes: a shared record | no |
//! | [`meerkat_pb`] | no | yes: a primary |
//! | `meerkat` | no | no |
//!
//! # What is the same, so that the rest can be measured
//!
//! Execution, timestamps of coordinators, marks, validation, payloads and their encoding, the write phase, how messages are gathered
//! into frames, how a refused attempt is put off: all of that is [`validation`](highwater_kit::validation), called from here or, where it is a
//! few lines of its worker, written the same way (`common`). A transaction is open, and its marks stand, from validation until it is
//! decided, in all four. Every transaction that is validated goes through the protocol, also one that only read: a later primary would
//! have to know what was read.
//!
//! # What is not there
//!
//! These are for measurements. Everything that has to do with failures is left out: nobody takes over, nobody comes back, and a node that
//! lost its memory ends the service, as with engine `backup`. Connections may break: what was lost with one is sent
//! again, and what comes twice is taken once.
//!
//! A worker answers requests once every other node's worker of its number was met, each of them having met the same lives of all nodes: so
//! who lost its memory hears of it before it serves.
//!
//! | file | what |
//! |---|---|
//! | `node` | what the threads of a replica share |
//! | `storage` | Meerkat's storage layer, for one worker |
//! | `common` | requests, attempts, other nodes, frames |
//! | `outgoing` | what a primary's worker sends to its backups |
//! | `controller` | membership that never changes; statuses |
//! | `planted` | mistakes to be caught |
//! | [`meerkat_pb`], [`tapir`], [`kuafu`] | the systems |

#![cfg(not(loom))]

mod common;
mod controller;
pub mod kuafu;
pub mod meerkat_pb;
mod node;
mod outgoing;
#[cfg(feature = "planted")]
pub mod planted;
mod storage;
pub mod tapir;

use std::sync::Arc;

use highwater_core::{Clock, NodeId};
use highwater_kit::code::Code;
use highwater_seam::engine::Abilities;
use highwater_seam::options::Options;
use highwater_seam::{Counters, Replica, Worker};

use controller::FixedController;
use node::Node;
use storage::Shelf;

/// Every write goes to every replica, and nobody takes over.
const ABILITIES: Abilities =
    Abilities { replicates: true, interruptible: true, sessions: true, ..Abilities::NONE };

/// The node that serves, where one does.
const PRIMARY: NodeId = NodeId(0);

/// A fresh replica, of workers of a kind.
fn build<W: Worker + 'static>(
    (options, clock): (Options, Arc<Clock>),
    code: &dyn Code,
    primary: Option<NodeId>,
    worker: impl Fn(u16, &Arc<Node>, &Shelf, Arc<Counters>) -> W,
) -> Replica {
    let shelf = Shelf::new(code, &options);
    let (procedures, versions) = (shelf.registry.names(), shelf.registry.versions());
    let signatures = shelf.registry.signatures();
    let node = Arc::new(Node::new(options, clock, primary));
    let counters: Vec<Arc<Counters>> = node.cells.iter().map(|_| Arc::default()).collect();
    let workers = counters
        .iter()
        .zip(0..)
        .map(|(counters, at)| -> Box<dyn Worker> { Box::new(worker(at, &node, &shelf, counters.clone())) });
    let workers = workers.collect();
    let controller = Box::new(FixedController::new(node, shelf.store));
    Replica { controller, workers, counters, procedures, versions, signatures }
}

/// A message in words, for people.
fn words(to_controller: bool, head: &[u8]) -> String {
    if to_controller { "a piece of a message".into() } else { highwater_kit::validation::words(head) }
}
