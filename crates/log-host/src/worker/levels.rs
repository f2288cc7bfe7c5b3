//! A worker and the level in use: [`Raising`](crate::members::raising::Raising) has the invariant, this is the worker's part of it.

use highwater_consensus::Voter;
use highwater_core::{EntryIndex, Level, NodeId};
use highwater_seam::{Nanos, Worker};

use crate::context::Turn;
use crate::hooks;
use crate::messages::Report;
use crate::readable::level_of;

use super::LogWorker;
use super::entries::level_if_sound;
use super::policy::Policy;

impl<P: Policy> LogWorker<P> {
    /// Writes as the replica does from now on, and has no more to do with whoever does not read that.
    #[inline]
    pub(super) fn watch_level(&mut self, now: Nanos) {
        let level = self.context.shared.level();
        if level > self.context.level {
            self.write_at(now, level);
        }
    }

    /// The level may have risen since the turn began, and what was copied meanwhile, of a store that other workers write to, be of it.
    #[inline]
    pub(super) fn watch_level_late(&mut self, turn: &mut Turn<'_>) {
        if self.context.shared.level() > self.context.level {
            self.watch_level(turn.now);
            turn.out.frames.retain(|(to, _)| !self.unable.contains(&to.node));
        }
    }

    #[cold]
    fn write_at(&mut self, now: Nanos, level: Level) {
        self.context.log.level = level;
        self.policy.set_tables(self.store.schema().tables_at(level));
        let below = |(node, newest): (&NodeId, &Level)| (*newest < level).then_some(*node);
        let unable: Vec<NodeId> = self.newest.iter().filter_map(below).collect();
        unable.into_iter().for_each(|node| self.have_done_with(now, node));
    }

    /// Connected, and yet as if it were not.
    pub(super) fn have_done_with(&mut self, now: Nanos, peer: NodeId) {
        let newest = self.newest.get(&peer).copied();
        self.peer_down(now, peer);
        self.newest.extend(newest.map(|newest| (peer, newest)));
        self.unable.insert(peer);
    }

    /// Whether what arrived is an entry that this stream may take in. Who holds it may be asked for it: its level is in use from here on.
    pub(super) fn can_take(&mut self, now: Nanos, from: Voter, entry: &[u8], index: EntryIndex) -> bool {
        if level_of(entry) > self.context.options().levels.newest {
            hooks::unreadable(level_of(entry));
            self.context.shared.reports.put(Report::Unreadable(from.node, level_of(entry)));
            return false;
        }
        let Some(level) = level_if_sound(entry, self.context.id, index) else { return false };
        if level > self.context.level {
            self.context.shared.raise(level);
            self.watch_level(now);
        }
        // This may have ended what there was with the sender, whose entry is as good as any.
        true
    }

    /// An entry is on this replica's disk.
    ///
    /// # Errors
    /// In words, if this build does not read it.
    pub(super) fn recover_level(&self, entry: &[u8]) -> Result<(), String> {
        let level = level_of(entry);
        if level > self.context.shared.level() { self.context.shared.raise_by_disk(level) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use highwater_consensus::{Change, Message};
    use highwater_core::log::{EntryHeader, EntryKind};
    use highwater_core::{Ballot, Epoch, Incarnation, Levels, StreamId, Timestamp};
    use highwater_seam::options::Options;
    use highwater_seam::{Counters, Endpoint, Frame, Outbox};
    use highwater_store::Store;

    use super::*;
    use crate::tests::ordered::Ordered;
    use crate::wire::Head;
    use crate::worker::entries::fresh_entry;

    const OLD: Levels = Levels { oldest: Level(1), newest: Level(1) };
    const NEW: Levels = Levels { oldest: Level(1), newest: Level(2) };

    /// A worker of node 1, of a build that speaks these.
    fn worker(levels: Levels) -> LogWorker<Ordered> {
        let options = Options { levels, ..Options::new(NodeId(1), 3, 1, Incarnation(1)) };
        let account = highwater_seam::memory::Account::new(&options, 1);
        let parts = crate::testing::parts(options, account);
        let store = Store::new(highwater_core::Schema::new(vec![]));
        let counters = Arc::new(Counters::default());
        LogWorker::new(StreamId(0), parts, store, counters, |_| Ordered::default())
    }

    fn entry(level: Level) -> Bytes {
        let mut buffer = fresh_entry();
        let closed = Timestamp(10);
        let header = EntryHeader::without_transactions(
            EntryKind::Batch,
            level,
            StreamId(0),
            Epoch(1),
            EntryIndex(1),
            closed,
        );
        header.seal(&mut buffer, &[]);
        buffer.into()
    }

    /// Node 0, which leads, sends an entry.
    fn send(worker: &mut LogWorker<Ordered>, level: Level) {
        let (first, ballot) = (EntryIndex(1), Ballot { epoch: Epoch(1), node: NodeId(0) });
        let adopt =
            Message::Adopt { ballot, start: first, upto: first, index: first, decided: EntryIndex::NONE };
        let frame = Frame { head: Head::Stream(adopt).encode(), body: entry(level) };
        worker.deliver(0, Endpoint { node: NodeId(0), worker: 0 }, frame);
    }

    /// A node that was elected asks for the first entry: whether it gets anything.
    fn is_answered(worker: &mut LogWorker<Ordered>, epoch: u64, node: u8) -> bool {
        let (first, ballot) = (EntryIndex(1), Ballot { epoch: Epoch(epoch), node: NodeId(node) });
        worker.stream.promise(ballot);
        let fetch = Message::Fetch { ballot, from: first, upto: first };
        let frame = Frame { head: Head::Stream(fetch).encode(), body: Bytes::new() };
        worker.deliver(0, Endpoint { node: NodeId(node), worker: 0 }, frame);
        let mut out = Outbox::default();
        worker.turn(0, &mut out);
        out.frames.iter().any(|(to, _)| to.node == NodeId(node))
    }

    #[test]
    fn an_entry_of_a_later_level_is_not_taken_in_and_its_sender_is_named() {
        let mut worker = worker(OLD);
        worker.peer_up(0, NodeId(0), Incarnation(1), NEW);
        send(&mut worker, Level(2));
        assert_eq!(worker.stream.last(), EntryIndex::NONE);
        let reports: Vec<Report> = worker.context.shared.reports.take().into_iter().collect();
        assert!(matches!(reports[..], [Report::Unreadable(NodeId(0), Level(2))]));
        send(&mut worker, Level(1));
        assert_eq!(worker.stream.last(), EntryIndex(1));
    }

    #[test]
    fn who_holds_an_entry_uses_its_level_and_has_done_with_those_that_do_not_read_it() {
        let mut worker = worker(NEW);
        worker.peer_up(0, NodeId(0), Incarnation(1), NEW);
        worker.peer_up(0, NodeId(2), Incarnation(1), OLD);
        assert!(worker.peer(NodeId(2)).is_some());
        send(&mut worker, Level(2));
        assert_eq!((worker.stream.last(), worker.context.shared.level()), (EntryIndex(1), Level(2)));
        assert!(worker.peer(NodeId(2)).is_none());
        // New leaders ask for what this one holds: who reads it has it, the other one gets no answer.
        assert!(is_answered(&mut worker, 2, 0));
        assert!(!is_answered(&mut worker, 3, 2));
        // It comes back as a build that does.
        worker.peer_up(0, NodeId(2), Incarnation(1), NEW);
        assert!(is_answered(&mut worker, 4, 2));
    }

    #[test]
    fn a_disk_with_entries_of_a_later_level_is_refused_in_words() {
        let (appended, body) = Change::Appended(entry(Level(2))).encode();
        let record = Bytes::from([appended, body].concat());
        assert!(worker(NEW).recover(record.clone()).is_ok());
        let why = worker(OLD).recover(record).unwrap_err();
        assert_eq!(
            why,
            "the disk holds what was written at level 2, and this build reads up to level 1: start this node with a newer build"
        );
    }
}
