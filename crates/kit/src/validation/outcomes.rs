//! What became of the transactions that a worker coordinates: told to every replica, until each has said that it has taken effect.
//!
//! Outcomes are numbered; a replica takes them in the order of their numbers, and says in every frame how far it is. What does not
//! arrive is told again from there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use highwater_core::{NodeId, Timestamp};

use super::message::{About, Message};
use super::payload::Payload;
use super::record::Record;

/// A transaction takes about so many bytes at a replica, beside its payload: a record, its place in the tree and in the order of arrival, an entry here.
pub const RECORD_BYTES: usize = size_of::<Record>() + 2 * size_of::<Entry>() + 160;
/// A bound may be smaller than what a few of them take.
const FREE_BYTES: usize = 64 << 10;

struct Entry {
    ts: Timestamp,
    commit: bool,
    payload: Payload,
    /// Who has a record of it: a bit each.
    known: u32,
}

/// How far a replica is.
#[derive(Clone, Copy, Default)]
struct Cursor {
    sent: u64,
    heard: u64,
    /// Nothing was heard since it was told again: payloads go along.
    again: bool,
    /// What it had heard at the last beat.
    at_beat: u64,
    /// Beats since it has heard more, and how many have to be for it to be told again.
    still: u32,
    patience: u32,
}

/// The outcomes of one coordinator.
#[derive(Default)]
pub struct Outcomes {
    /// The number of the last one.
    last: u64,
    /// Those that some replica has not heard, up to the last.
    log: VecDeque<Entry>,
    bytes: usize,
    cursors: BTreeMap<NodeId, Cursor>,
    /// Transactions that are not over everywhere.
    open: BTreeSet<Timestamp>,
}

impl Outcomes {
    /// A new epoch begins, in which these have to hear.
    pub fn begin(&mut self, listeners: impl Iterator<Item = NodeId>) {
        *self = Outcomes {
            cursors: listeners.map(|node| (node, Cursor::default())).collect(),
            ..Outcomes::default()
        };
    }

    /// A transaction begins.
    #[inline]
    pub fn open(&mut self, ts: Timestamp) {
        self.open.insert(ts);
    }

    /// A transaction never was: nobody was told of it, and nobody will be.
    #[inline]
    pub fn unopen(&mut self, ts: Timestamp) {
        self.open.remove(&ts);
    }

    /// Whether a transaction is not over everywhere.
    #[inline]
    pub fn is_open(&self, ts: Timestamp) -> bool {
        self.open.contains(&ts)
    }

    /// The earliest transaction that is not over everywhere.
    #[inline]
    pub fn first_open(&self) -> Option<Timestamp> {
        self.open.first().copied()
    }

    /// A transaction is decided. `known`: who has a record of it, a bit each.
    pub fn push(&mut self, ts: Timestamp, commit: bool, payload: Payload, known: u32) {
        self.last += 1;
        self.bytes += payload.len();
        self.log.push_back(Entry { ts, commit, payload, known });
        self.trim();
    }

    /// The number of the last one.
    #[inline]
    pub fn last(&self) -> u64 {
        self.last
    }

    /// `node` has heard those up to a number; this node, where what it decided has to be on its disk.
    pub fn heard(&mut self, node: NodeId, number: u64) {
        let last = self.last;
        let Some(cursor) =
            self.cursors.get_mut(&node).filter(|cursor| (cursor.heard + 1..=last).contains(&number))
        else {
            return;
        };
        cursor.heard = number;
        cursor.sent = cursor.sent.max(number);
        cursor.again = false;
        self.trim();
    }

    fn trim(&mut self) {
        let all = self.cursors.values().map(|cursor| cursor.heard).min().unwrap_or(self.last);
        while self.first_number() <= all
            && let Some(entry) = self.log.pop_front()
        {
            self.bytes -= entry.payload.len();
            self.open.remove(&entry.ts);
        }
    }

    fn first_number(&self) -> u64 {
        self.last + 1 - self.log.len() as u64
    }

    /// What `node` has not been told yet, or is to be told again.
    pub fn tell(&mut self, node: NodeId, mut post: impl FnMut(Message)) {
        let first = self.first_number();
        let Some(cursor) = self.cursors.get_mut(&node) else { return };
        for number in cursor.sent + 1..=self.last {
            let entry = &self.log[(number - first) as usize];
            let lacks = cursor.again || entry.known >> node.0 & 1 == 0;
            let payload = (entry.commit && lacks).then(|| entry.payload.clone());
            post(Message { ts: entry.ts, about: About::Outcome { number, commit: entry.commit, payload } });
        }
        cursor.sent = self.last;
    }

    /// To be called at every beat: whoever has not heard anything more for a while is told again, after `most_beats` at the latest.
    pub fn tell_those_who_stand_still(&mut self, most_beats: u32) {
        for cursor in self.cursors.values_mut() {
            if cursor.sent == cursor.heard || cursor.heard != cursor.at_beat {
                (cursor.at_beat, cursor.still) = (cursor.heard, 0);
                // On a slow wire whoever tells again makes it slower.
                cursor.patience = if cursor.sent == cursor.heard { 2 } else { cursor.patience.max(2) };
                continue;
            }
            cursor.still += 1;
            if cursor.still >= cursor.patience.max(2) {
                cursor.again = true;
                cursor.sent = cursor.heard;
                (cursor.still, cursor.patience) = (0, (2 * cursor.patience.max(2)).min(most_beats.max(2)));
            }
        }
    }

    /// The connection to `node` is new: it is told again what it has not heard.
    pub fn tell_again(&mut self, node: NodeId) {
        if let Some(cursor) = self.cursors.get_mut(&node) {
            cursor.again = cursor.sent > cursor.heard;
            cursor.sent = cursor.heard;
            (cursor.still, cursor.patience) = (0, 2);
        }
    }

    /// Whether somebody has not heard all.
    #[inline]
    pub fn unheard(&self) -> usize {
        self.log.len()
    }

    /// Bytes that are kept for those who have not heard, at each replica: what is written and read, and the records of it, which take more where
    /// that is small.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes + (self.log.len() * RECORD_BYTES).saturating_sub(FREE_BYTES)
    }

    /// The node but `me` that has heard least, and keeps outcomes from being forgotten: nobody, if all others have heard everything, or as much as is on this
    /// node's own disk, which then is what everything waits for.
    pub fn slowest(&self, me: NodeId) -> Option<NodeId> {
        let heard = |node: &NodeId| self.cursors.get(node).map(|cursor| cursor.heard);
        let others = self.cursors.iter().filter(|(node, _)| **node != me);
        let (node, least) =
            others.map(|(node, cursor)| (*node, cursor.heard)).min_by_key(|(_, heard)| *heard)?;
        let own = heard(&me).unwrap_or(self.last);
        (least < own).then_some(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(outcomes: &mut Outcomes, node: u8) -> Vec<(u64, bool)> {
        let mut told = Vec::new();
        outcomes.tell(NodeId(node), |message| {
            let About::Outcome { number, payload, .. } = message.about else { panic!("an outcome") };
            told.push((number, payload.is_some()));
        });
        told
    }

    /// With `sync` a coordinator listens to itself: what it decided has to be on its own disk.
    /// Once: a coordinator of `sync` whose own disk hung accused a healthy replica of holding outcomes up, and had it
    /// leave the epoch.
    #[test]
    fn whose_own_disk_is_behind_accuses_nobody() {
        let mut outcomes = Outcomes::default();
        outcomes.begin([NodeId(0), NodeId(1), NodeId(2)].into_iter());
        for ts in [10, 20, 30] {
            outcomes.open(Timestamp(ts));
            outcomes.push(Timestamp(ts), true, Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[]), 0);
        }
        outcomes.heard(NodeId(1), 3);
        outcomes.heard(NodeId(2), 3);
        assert_eq!((outcomes.unheard(), outcomes.slowest(NodeId(0))), (3, None), "its own disk hangs");
        let mut outcomes = Outcomes { cursors: outcomes.cursors.clone(), ..outcomes };
        outcomes.cursors.entry(NodeId(2)).or_default().heard = 1;
        outcomes.heard(NodeId(0), 2);
        assert_eq!(outcomes.slowest(NodeId(0)), Some(NodeId(2)), "that one is further behind");
    }

    /// Small ones by the thousand are bounded, too.
    /// Once: records of small transactions were outside all bounds: a hung voter cost some 2 GB before it was left out.
    #[test]
    fn what_records_take_is_counted() {
        let mut outcomes = Outcomes::default();
        outcomes.begin([NodeId(1)].into_iter());
        let payload = Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[]);
        for ts in 1..=10_000 {
            outcomes.open(Timestamp(ts));
            outcomes.push(Timestamp(ts), true, payload.clone(), 0);
        }
        assert!(outcomes.bytes() > 10_000 * 300, "{} bytes", outcomes.bytes());
        outcomes.heard(NodeId(1), 9_990);
        assert!(outcomes.bytes() < 100, "a few are nothing");
    }

    #[test]
    fn each_is_told_until_it_has_heard() {
        let mut outcomes = Outcomes::default();
        outcomes.begin([NodeId(1), NodeId(2)].into_iter());
        let payload = Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &[]);
        for ts in [30, 10, 20] {
            outcomes.open(Timestamp(ts));
        }
        outcomes.push(Timestamp(30), true, payload.clone(), 0b010);
        outcomes.push(Timestamp(10), true, payload.clone(), 0b110);
        assert_eq!(told(&mut outcomes, 1), [(1, false), (2, false)]);
        assert_eq!(told(&mut outcomes, 2), [(1, true), (2, false)], "it has no record of the first");
        assert_eq!(told(&mut outcomes, 2), []);
        outcomes.heard(NodeId(1), 2);
        assert_eq!((outcomes.unheard(), outcomes.first_open()), (2, Some(Timestamp(10))));
        outcomes.tell_again(NodeId(2));
        assert_eq!(told(&mut outcomes, 2), [(1, true), (2, true)]);
        outcomes.heard(NodeId(2), 1);
        assert_eq!((outcomes.unheard(), outcomes.slowest(NodeId(0))), (1, Some(NodeId(2))));
        outcomes.heard(NodeId(2), 9);
        assert_eq!(outcomes.unheard(), 1, "nobody hears what was never told");
        outcomes.heard(NodeId(2), 2);
        assert_eq!(
            (outcomes.unheard(), outcomes.bytes(), outcomes.first_open()),
            (0, 0, Some(Timestamp(20)))
        );
    }
}
