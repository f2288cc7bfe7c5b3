//! A follower of a cluster in which nobody writes any more can begin a checkpoint, and give a copy, however little of its log it keeps.

use std::sync::Arc;

use bytes::Bytes;
use highwater_consensus::{Members, Message, Voter};
use highwater_core::log::{EntryHeader, EntryKind};
use highwater_core::{
    Ballot, Clock, EntryIndex, Epoch, Incarnation, Level, Levels, NodeId, Registry, Schema, StreamId,
    Timestamp,
};
use highwater_seam::options::Options;
use highwater_seam::{Endpoint, Frame, Outbox, Worker};
use highwater_store::Store;

use crate::lead::feed::Own;
use crate::policy::RolisPolicy;
use highwater_log_host::messages::{Command, Report};
use highwater_log_host::shared::Shared;
use highwater_log_host::wire::Head;
use highwater_log_host::worker::LogWorker;

const LEADS: Ballot = Ballot { epoch: Epoch(1), node: NodeId(0) };

fn members() -> Members {
    let voter = |node| Voter { node: NodeId(node), incarnation: Incarnation(1) };
    Members::new(LEADS.epoch, (0..3).map(voter).collect())
}

/// The first entry of the epoch, which begins at 10, or an empty one.
fn entry(stream: u16, index: u64, closed: u64) -> Bytes {
    let mut buffer = highwater_log_host::worker::entries::fresh_entry();
    let kind = if index == 1 { EntryKind::EpochChange } else { EntryKind::Batch };
    if index == 1 {
        members().encode(&mut buffer);
    }
    let (index, closed) = (EntryIndex(index), Timestamp(closed));
    let header =
        EntryHeader::without_transactions(kind, Level::FIRST, StreamId(stream), LEADS.epoch, index, closed);
    header.seal(&mut buffer, &[]);
    buffer.into()
}

/// A follower of two streams that keeps as little of its log as it may, and has heard that these entries are decided: when each closes.
fn follower(streams: [&[u64]; 2]) -> (Arc<Shared>, Vec<LogWorker<RolisPolicy<Own>>>) {
    let options = Options { log_retain_bytes: 0, ..Options::new(NodeId(1), 3, 2, Incarnation(1)) };
    let account = highwater_seam::memory::Account::new(&options, 1);
    let (shared, marks) = crate::parts(options, Arc::new(Clock::counter()), account, Box::new(Vec::new));
    let store = Store::new(Schema::new(vec![]));
    let mut workers = Vec::new();
    for (at, closed) in streams.into_iter().enumerate() {
        let id = StreamId(at as u16);
        let code = (Registry::new(), Registry::new());
        let mut worker =
            crate::worker(id, (shared.clone(), marks.clone()), store.clone(), Arc::default(), code, Own);
        worker.peer_up(0, LEADS.node, Incarnation(1), Levels::default());
        let from = Endpoint { node: LEADS.node, worker: id.0 };
        let mut deliver = |message: Message, body: Bytes| {
            worker.deliver(0, from, Frame { head: Head::Stream(message).encode(), body });
        };
        let (ballot, first, none) = (LEADS, EntryIndex(1), EntryIndex::NONE);
        let adopt = Message::Adopt { ballot, start: first, upto: first, index: first, decided: none };
        deliver(adopt, entry(id.0, 1, 10));
        for (at, closed) in closed.iter().enumerate() {
            let index = EntryIndex(at as u64 + 2);
            let accept = Message::Accept { ballot, index, decided: none, known_by_all: none };
            deliver(accept, entry(id.0, index.0, *closed));
        }
        let last = EntryIndex(closed.len() as u64 + 1);
        let decide = Message::Decide { ballot, decided: last, last, known_by_all: last, ask: false };
        deliver(decide, Bytes::new());
        workers.push(worker);
    }
    let mut out = Outbox::default();
    for now in 0..20 {
        for worker in &mut workers {
            worker.turn(now, &mut out);
        }
    }
    (shared, workers)
}

/// The last entry of a stream closes at its leader's clock when it was sealed, and the others may end a little below: nobody waits for more. The
/// stream kept that entry and nothing older, so that it could not be said where a checkpoint goes on. The next attempt had no start, either, nor the
/// ones after it, until somebody wrote: what was copied was on no disk, and a learner got no vote.
#[test]
fn a_checkpoint_finds_where_to_go_on_though_nobody_writes_any_more() {
    let (shared, mut workers) = follower([&[20, 30, 100], &[50]]);
    assert_eq!(shared.progress.applied(), Timestamp(50), "where all streams are closed");
    let mut out = Outbox::default();
    let mut starts_at = |floor: u64| {
        shared.reports.take();
        for (worker, commands) in workers.iter_mut().zip(&shared.commands) {
            commands.put(Command::CheckpointFrom { number: 1, epoch: LEADS.epoch, floor: Timestamp(floor) });
            worker.turn(20, &mut out);
        }
        let mut starts = Vec::new();
        for report in shared.reports.take() {
            if let Report::CheckpointFrom { located, .. } = report {
                starts.push(located.map(|(start, ..)| start.0));
            }
        }
        starts
    };
    assert_eq!(starts_at(50), [Some(4), Some(3)]);
    assert_eq!(starts_at(15)[0], None, "the rest of the log has gone");
}
