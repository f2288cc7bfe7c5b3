//! One worker's part of the `trecord`: what this replica knows of transactions (the paper's figure 2), by coordinator.
//!
//! A record is needed until the transaction is over at every replica: a backup coordinator or a change of epoch may ask for it. It is
//! needed longer while an older transaction is under way here, with which it may be in conflict: a change of epoch that finds
//! that one valid has to see why it is not (see `merge`).
//!
//! Invariant: what is over everywhere, by its coordinator's word (`closed`), is over here, and no record of it is made again. One that was would be
//! under way for ever, and nobody could say what it writes.

// circle: what a transaction takes is counted in one number for its record and for its outcome, by the sizes of both.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Included};

use highwater_core::{NodeId, Timestamp};
use highwater_seam::{ClientId, Nanos};

use super::outcomes::RECORD_BYTES;
use super::payload::Payload;

/// What a replica knows of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// What it reads and writes, if that came.
    pub payload: Option<Payload>,
    /// Whether it was found valid, once that was looked at. Never changes: votes are counted by others.
    pub valid: Option<bool>,
    /// It was found valid, and nobody was told so: its time has not come (see `strict`).
    pub withheld: bool,
    /// Its marks stand.
    pub marked: bool,
    /// What it reads and writes is on its way to the disk.
    pub written: bool,
    /// Proposals of earlier views are not accepted.
    pub view: u32,
    /// The last proposal that was accepted: in which view, and whether to commit.
    pub accepted: Option<(u32, bool)>,
    /// Whether it committed, once that is known.
    pub outcome: Option<bool>,
    /// The client that coordinates it, if it has asked here: who is told what this replica says.
    pub client: Option<ClientId>,
    /// When it was first heard of here.
    pub since: Nanos,
    /// When its time had come, and others were told what had been withheld.
    pub ripe: Nanos,
    /// When it was over here.
    pub ended: Nanos,
}

/// A record on its way to whoever leads a change of epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Which transaction.
    pub ts: Timestamp,
    /// As in [`Record`].
    pub valid: Option<bool>,
    /// As in [`Record`].
    pub accepted: Option<(u32, bool)>,
    /// As in [`Record`].
    pub outcome: Option<bool>,
    /// As in [`Record`].
    pub payload: Option<Payload>,
    /// Who tells it has the payload, which did not travel along.
    pub kept: bool,
}

impl Told {
    /// Nothing yet.
    #[inline]
    pub fn of(ts: Timestamp) -> Told {
        Told { ts, valid: None, accepted: None, outcome: None, payload: None, kept: false }
    }
}

/// When this worker's turns began, as far as is needed: see [`Turns::over_before`].
#[derive(Default)]
struct Turns(VecDeque<Nanos>);

/// Turns that are closer together are not told apart.
const GRAIN: Nanos = 50_000;
/// So many are remembered; if there are more, records stay for longer.
const MOST_TURNS: usize = 1 << 12;

impl Turns {
    fn begin(&mut self, now: Nanos) {
        let follows = self.0.back().is_none_or(|last| now >= last + GRAIN);
        if follows && self.0.len() < MOST_TURNS {
            self.0.push_back(now);
        }
    }

    /// All that ended in a turn that began before this was over at `time`, as any thread tells it. Threads look at the time when they begin a turn: what
    /// one of them notes down as ended then may have ended until its next turn began.
    fn over_before(&mut self, time: Nanos) -> Nanos {
        if time == Nanos::MAX {
            return time;
        }
        while self.0.get(1).is_some_and(|next| *next <= time) {
            self.0.pop_front();
        }
        self.0.front().copied().filter(|first| *first <= time).unwrap_or(0)
    }
}

/// The records of one worker.
#[derive(Default)]
pub struct Records {
    /// By the coordinator's node.
    of: BTreeMap<NodeId, BTreeMap<Timestamp, Record>>,
    /// In the order in which they were first heard of.
    arrived: VecDeque<(Nanos, NodeId, Timestamp)>,
    /// Up to here, by the coordinator's node, all was over everywhere when that was looked at last.
    closed: BTreeMap<NodeId, Timestamp>,
    turns: Turns,
    bytes: u64,
    count: usize,
    pending: usize,
}

impl Records {
    /// The record of a transaction; a new one if there was none.
    ///
    /// # Panics
    /// If there was none, and it is over everywhere.
    pub fn entry(&mut self, now: Nanos, node: NodeId, ts: Timestamp) -> &mut Record {
        let of = self.of.entry(node).or_default();
        of.entry(ts).or_insert_with(|| {
            let closed = self.closed.get(&node).is_some_and(|closed| ts <= *closed);
            assert!(!closed, "no record is made of {ts}, which is over everywhere");
            self.arrived.push_back((now, node, ts));
            self.count += 1;
            self.pending += 1;
            Record { since: now, ..Record::default() }
        })
    }

    /// The record of a transaction, if there is one.
    #[inline]
    pub fn get(&self, node: NodeId, ts: Timestamp) -> Option<&Record> {
        self.of.get(&node)?.get(&ts)
    }

    /// Bytes of payloads were added.
    #[inline]
    pub fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Bytes that they hold, about.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes + (self.count * RECORD_BYTES) as u64
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Since when the oldest one that is not over has been here.
    pub fn oldest_pending(&mut self) -> Option<Nanos> {
        while let Some((since, node, ts)) = self.arrived.front() {
            match self.of.get(node).and_then(|of| of.get(ts)) {
                Some(record) if record.outcome.is_none() => return Some(*since),
                _ => drop(self.arrived.pop_front()),
            }
        }
        None
    }

    /// Those that are not over, have been here since before `since`, and whose time had come by then, at most so many. `clock`: no later one's has.
    pub fn overdue(&self, since: Nanos, clock: Timestamp, most: usize) -> Vec<(NodeId, Timestamp)> {
        let early = self.arrived.iter().take_while(|(at, ..)| *at <= since);
        let due = |record: &Record| record.outcome.is_none() && !record.withheld && record.ripe <= since;
        let pending = early.filter(|(_, node, ts)| *ts <= clock && self.get(*node, *ts).is_some_and(due));
        pending.take(most).map(|(_, node, ts)| (*node, *ts)).collect()
    }

    /// How many are not over.
    #[inline]
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// A transaction is over here.
    ///
    /// # Panics
    /// If it was before.
    pub fn end(&mut self, now: Nanos, node: NodeId, ts: Timestamp, commit: bool) {
        let record = self.entry(now, node, ts);
        assert!(record.outcome.is_none(), "{ts} ends once");
        (record.outcome, record.marked, record.ended) = (Some(commit), false, now);
        self.pending -= 1;
    }

    /// All of `node`'s transactions up to `closed` are over everywhere, by its word: those of them that are not over here. Each record is looked
    /// at once.
    pub fn close(&mut self, node: NodeId, closed: Timestamp) -> Vec<Timestamp> {
        let known = self.closed.entry(node).or_default();
        if closed <= *known {
            return Vec::new();
        }
        let from = std::mem::replace(known, closed);
        let news = self.of.get(&node).into_iter().flat_map(|of| of.range((Excluded(from), Included(closed))));
        news.filter(|(_, record)| record.outcome.is_none()).map(|(ts, _)| *ts).collect()
    }

    /// A turn of the worker begins.
    #[inline]
    pub fn begin_turn(&mut self, now: Nanos) {
        self.turns.begin(now);
    }

    /// Drops records of `node`'s transactions up to `closed`, which are over everywhere, as far as they were over here before the turn, of any
    /// worker, that began at `before`. The last one that went, if one did: there is none left up to it.
    ///
    /// Invariant: none goes that ended after a transaction was found valid here which is under way, on whatever worker.
    pub fn trim(&mut self, node: NodeId, closed: Timestamp, before: Nanos) -> Option<Timestamp> {
        let before = self.turns.over_before(before);
        let of = self.of.get_mut(&node)?;
        let mut last = None;
        while let Some(first) = of.first_entry()
            && *first.key() <= closed
            && first.get().outcome.is_some()
            && first.get().ended < before
        {
            let (ts, record) = first.remove_entry();
            last = Some(ts);
            self.count -= 1;
            self.bytes -= record.payload.map_or(0, |payload| payload.len() as u64);
        }
        last
    }

    /// All of them, for a change of epoch or a checkpoint. What nobody was told yet is not told.
    pub fn tell(&self) -> Vec<Told> {
        let all = self.of.values().flatten();
        let told = all.map(|(ts, record)| Told {
            ts: *ts,
            valid: record.valid.filter(|_| !record.withheld),
            accepted: record.accepted,
            outcome: record.outcome,
            payload: record.payload.clone(),
            kept: false,
        });
        told.collect()
    }

    /// Those that are not over.
    pub fn unfinished(&self) -> Vec<(NodeId, Timestamp)> {
        let all =
            self.of.iter().flat_map(|(node, of)| of.iter().map(move |(ts, record)| (*node, *ts, record)));
        all.filter(|(.., record)| record.outcome.is_none()).map(|(node, ts, _)| (node, ts)).collect()
    }

    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        *self = Records::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);

    #[test]
    fn a_record_stays_while_an_older_one_is_pending() {
        let mut records = Records::default();
        records.entry(10, NODE, Timestamp(100));
        records.entry(20, NODE, Timestamp(90));
        records.end(30, NODE, Timestamp(90), true);
        assert_eq!(records.oldest_pending(), Some(10));
        records.trim(NODE, Timestamp(200), 10);
        assert_eq!(records.len(), 2, "the older one may have been found valid in conflict with it");
        records.end(40, NODE, Timestamp(100), false);
        assert_eq!((records.oldest_pending(), records.pending()), (None, 0));
        records.trim(NODE, Timestamp(95), Nanos::MAX);
        assert!(records.get(NODE, Timestamp(100)).is_some(), "it is not over everywhere");
        records.trim(NODE, Timestamp(100), Nanos::MAX);
        assert_eq!(records.len(), 0);
    }

    /// Worker 1 began a turn at 100 and installed this in it, at 107. Worker 0 began one at 105, and found valid at 106 what it is in conflict with.
    #[test]
    fn what_ended_in_a_turn_may_have_ended_until_the_next_one_began() {
        let at = |us: Nanos| us * GRAIN;
        let mut records = Records::default();
        records.begin_turn(at(100));
        records.entry(at(100), NODE, Timestamp(7));
        records.end(at(100), NODE, Timestamp(7), true);
        assert_eq!(records.trim(NODE, Timestamp(7), at(105)), None);
        records.begin_turn(at(110));
        assert_eq!(records.trim(NODE, Timestamp(7), at(105)), None);
        assert_eq!(records.trim(NODE, Timestamp(7), at(110)), Some(Timestamp(7)));
    }

    #[test]
    fn what_is_closed_and_not_over_is_named_once() {
        let mut records = Records::default();
        for ts in [5, 7, 9] {
            records.entry(10, NODE, Timestamp(ts));
        }
        records.end(20, NODE, Timestamp(5), true);
        assert_eq!(records.close(NODE, Timestamp(4)), []);
        assert_eq!(records.close(NODE, Timestamp(7)), [Timestamp(7)]);
        assert_eq!(records.close(NODE, Timestamp(7)), []);
        records.entry(30, NODE, Timestamp(8));
    }

    #[test]
    #[should_panic(expected = "which is over everywhere")]
    fn no_record_is_made_of_what_is_closed() {
        let mut records = Records::default();
        records.close(NODE, Timestamp(7));
        records.entry(30, NODE, Timestamp(7));
    }

    #[test]
    fn those_that_are_overdue_are_named_in_the_order_in_which_they_came() {
        let mut records = Records::default();
        for (at, ts) in [(10, 7), (20, 5), (30, 6)] {
            records.entry(at, NODE, Timestamp(ts));
        }
        records.end(40, NODE, Timestamp(7), true);
        assert_eq!(records.overdue(25, Timestamp(9), 9), [(NODE, Timestamp(5))]);
        assert_eq!(
            records.overdue(35, Timestamp(5), 9),
            [(NODE, Timestamp(5))],
            "the time of the other has not come"
        );
        let record = records.entry(30, NODE, Timestamp(6));
        record.withheld = true;
        assert_eq!(records.overdue(35, Timestamp(9), 9).len(), 1, "nobody was told yet");
        let record = records.entry(30, NODE, Timestamp(6));
        (record.withheld, record.ripe) = (false, 50);
        assert_eq!(records.overdue(45, Timestamp(9), 9).len(), 1, "others were told just now");
        assert_eq!(records.overdue(55, Timestamp(9), 9).len(), 2);
        assert_eq!(records.unfinished().len(), 2);
    }
}
