//! What waits for the disk: frames and reports that vouch for what this worker's stream must not forget.
//!
//! Without a disk nothing is written, and nothing waits. With one the stream says what changed and which of its messages vouch for
//! how many changes ([`highwater_consensus::Stream`] has the rule); this part turns changes into records, and records that are
//! synced back into changes.
//!
//! With [`Durability::Async`](highwater_core::Durability::Async) the stream says so of fewer messages. How far the disk is behind is known
//! here: while that is more than [`Options::disk_window`](highwater_seam::options::Options::disk_window), they wait as they do with `Sync`.
//!
//! Invariants: a frame or report leaves when the changes made before it are synced, in the order in which they came. No more than
//! `MOST_FRAMES` frames wait to one node, and one report, however long the disk takes: each of them says where the log stands, so a
//! later one says all that an earlier one did.

use std::collections::VecDeque;

use bytes::Bytes;
use highwater_consensus::Stream;
use highwater_seam::{Endpoint, Frame, LogPosition, Nanos, Outbox};

use crate::context::{Context, Turn};
use crate::hooks;
use crate::messages::Report;
use crate::pulse::NEVER;

/// So many frames wait to one node. Enough that acknowledgements leave one by one as syncs return.
const MOST_FRAMES: usize = 64;

/// What waits for the disk.
#[derive(Default)]
pub struct Gate {
    /// Bytes that were handed out to be written, from the birth of the journal on.
    written: u64,
    /// How many of them are synced.
    synced_bytes: u64,
    /// At which of them which number of changes is complete, and when they were handed out.
    ends: VecDeque<(u64, u64, Nanos)>,
    /// How many changes are synced.
    synced: u64,
    frames: VecDeque<(u64, (Endpoint, Frame))>,
    reports: VecDeque<(u64, Report)>,
}

impl Gate {
    /// What comes is written behind `position` of the records.
    pub fn starting_at(position: u64) -> Gate {
        Gate { written: position, synced_bytes: position, ..Gate::default() }
    }

    /// Bytes of records that were handed out, from the birth of the journal on.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Hands out what the stream has to have written; whether there was anything.
    #[inline]
    pub fn write(&mut self, now: Nanos, stream: &mut Stream, out: &mut Outbox) -> bool {
        let changes = stream.take_changes();
        if changes.is_empty() {
            return false;
        }
        for change in changes {
            let (head, entry) = change.encode();
            let record = if entry.is_empty() { head } else { Bytes::from([head, entry].concat()) };
            self.written += record.len() as u64;
            out.writes.push(record);
        }
        self.ends.push_back((self.written, stream.changes_made(), now));
        true
    }

    /// Everything written up to `position` is on disk: how many changes that are.
    ///
    /// Invariant: positions count what this process handed out, behind what its disk had before, so a word that comes late is a lower one, and
    /// says nothing. None is beyond what was handed out: it would be about another journal, and vouch for what is on no disk.
    #[inline]
    pub fn synced(&mut self, position: LogPosition) -> u64 {
        assert!(
            position.0 <= self.written,
            "synced up to {position:?}, and {} were handed out",
            self.written
        );
        self.synced_bytes = self.synced_bytes.max(position.0);
        while let Some((_, changes, _)) = self.ends.pop_front_if(|(end, ..)| *end <= position.0) {
            self.synced = changes;
        }
        self.synced
    }

    /// Whether something was handed out to be written more than `window` ago, and is not on disk.
    #[inline]
    pub fn is_behind(&self, now: Nanos, window: Nanos) -> bool {
        self.ends.front().is_some_and(|(_, _, at)| now.saturating_sub(*at) > window)
    }

    /// When the oldest of what is not on disk was handed out; [`NEVER`] if all is there.
    #[inline]
    pub fn unsynced_since(&self) -> Nanos {
        self.ends.front().map_or(NEVER, |(_, _, at)| *at)
    }

    /// Bytes that were handed out to be written and are not on disk.
    #[inline]
    pub fn unsynced_bytes(&self) -> u64 {
        self.written - self.synced_bytes
    }

    /// A frame leaves now, or when so many changes are on disk.
    #[inline]
    pub fn send(&mut self, after: u64, to: Endpoint, frame: Frame, out: &mut Outbox) {
        if after <= self.synced && (after == 0 || self.frames.is_empty()) {
            out.frames.push((to, frame));
        } else {
            self.keep_frame(after, to, frame);
        }
    }

    /// Beyond their number the newest one gives way, not the oldest: that one leaves next.
    fn keep_frame(&mut self, after: u64, to: Endpoint, frame: Frame) {
        let waiting = || self.frames.iter().enumerate().filter(|(_, (_, (other, _)))| *other == to);
        let newest = waiting().next_back().map(|(at, _)| at).filter(|_| waiting().count() >= MOST_FRAMES);
        newest.into_iter().for_each(|at| drop(self.frames.remove(at)));
        self.frames.push_back((after, (to, frame)));
    }

    /// The same for a report; of several promises the last one counts.
    #[inline]
    pub fn report(&mut self, after: u64, report: Report, context: &Context, turn: &mut Turn<'_>) {
        if after <= self.synced && self.reports.is_empty() || hooks::reports_unsynced() {
            turn.report(context, report);
        } else {
            // A candidate that asks again for the same promise must not put it off.
            let fence = |report: &Report| match report {
                Report::Fenced { ballot, .. } => Some(*ballot),
                _ => None,
            };
            let asked_again =
                |waiting: &(u64, Report)| waiting.0 == after && fence(&waiting.1) == fence(&report);
            if fence(&report).is_some() && self.reports.iter().any(asked_again) {
                return;
            }
            self.reports.retain(|(_, waiting)| fence(waiting).is_none() || fence(&report).is_none());
            self.reports.push_back((after, report));
        }
    }

    /// Hands out what need not wait any more.
    #[inline]
    pub fn open(&mut self, context: &Context, turn: &mut Turn<'_>) {
        let synced = self.synced;
        while let Some((_, frame)) = self.frames.pop_front_if(|(after, _)| *after <= synced) {
            turn.out.frames.push(frame);
        }
        while let Some((_, report)) = self.reports.pop_front_if(|(after, _)| *after <= synced) {
            turn.report(context, report);
        }
    }

    /// The connection to a node is lost, and with it what waits to be sent there.
    pub fn peer_down(&mut self, peer: highwater_core::NodeId) {
        self.frames.retain(|(_, (to, _))| to.node != peer);
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::NodeId;

    use super::*;

    fn frame(number: u8) -> Frame {
        Frame { head: Bytes::copy_from_slice(&[number]), body: Bytes::new() }
    }

    #[test]
    fn a_word_on_a_sync_that_comes_late_takes_nothing_back() {
        let mut gate = Gate { written: 90, ..Gate::default() };
        gate.ends.extend([(30, 1, 10), (60, 2, 10), (90, 3, 10)]);
        assert_eq!((gate.synced(LogPosition(60)), gate.unsynced_bytes()), (2, 30));
        assert_eq!((gate.synced(LogPosition(30)), gate.unsynced_bytes()), (2, 30), "late");
        assert_eq!((gate.synced(LogPosition(90)), gate.unsynced_bytes()), (3, 0));
    }

    #[test]
    #[should_panic(expected = "were handed out")]
    fn a_sync_of_more_than_was_written_is_of_another_journal() {
        Gate { written: 90, ..Gate::default() }.synced(LogPosition(91));
    }

    #[test]
    fn while_a_disk_hangs_what_waits_for_it_stays_bounded_and_leaves_in_order() {
        let (mut gate, mut out) = (Gate::default(), Outbox::default());
        let to = |node| Endpoint { node: NodeId(node), worker: 0 };
        gate.ends.extend((1..=200).map(|change| (change, change, 10)));
        gate.written = 200;
        assert!(gate.is_behind(111, 100) && !gate.is_behind(110, 100));
        assert_eq!(gate.unsynced_since(), 10);
        for change in 1..=200 {
            gate.send(change, to(1), frame(change as u8), &mut out);
            gate.send(change, to(2), frame(change as u8), &mut out);
        }
        assert!(out.frames.is_empty());
        assert_eq!(gate.frames.len(), 2 * MOST_FRAMES);
        gate.synced(LogPosition(3));
        let ready = |gate: &mut Gate| {
            let synced = gate.synced;
            let mut left = Vec::new();
            while let Some((_, (to, frame))) = gate.frames.pop_front_if(|(after, _)| *after <= synced) {
                left.push((to.node.0, frame.head[0]));
            }
            left
        };
        assert_eq!(
            ready(&mut gate),
            [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3), (2, 3)],
            "the oldest ones were kept"
        );
        gate.synced(LogPosition(200));
        let left = ready(&mut gate);
        assert_eq!(left.len(), 2 * (MOST_FRAMES - 3));
        assert_eq!(left[left.len() - 2..], [(1, 200), (2, 200)], "and the newest, which says it all");
        assert_eq!(gate.unsynced_since(), NEVER);
    }
}
