//! Timestamps that coordinators propose: their local time, and who they are, so that no two are the same.
//!
//! ```text
//! bits 0-4    node
//! then        worker, in as many bits as the cluster's workers need
//! the rest    a reading of the node's clock, in ticks of so many bits
//! ```
//!
//! A transaction is named by its timestamp: every attempt has one of its own. Clocks of different nodes are not compared for
//! safety. One that is behind learns by refusals how far others are ([`Stamps::observe`]), as with Lamport's clocks, or its
//! transactions would be refused until it has caught up by itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use highwater_core::{Clock, NodeId, Timestamp};

/// Bits of a node: ids of a cluster's nodes are below 31.
const NODE_BITS: u32 = 5;

/// Who coordinates a transaction: a worker of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Coordinator {
    pub node: NodeId,
    /// Its number there: at every replica the worker of that number has the transaction's record.
    pub worker: u16,
}

/// How timestamps of a cluster are made up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    bits: u32,
}

impl Layout {
    /// Of a cluster whose replicas have so many workers.
    #[inline]
    pub fn new(workers: u16) -> Layout {
        Layout { bits: NODE_BITS + u32::from(workers.max(1)).next_power_of_two().trailing_zeros() }
    }

    /// Who proposed a timestamp.
    pub fn coordinator(self, ts: Timestamp) -> Coordinator {
        let id = ts.0 & ((1 << self.bits) - 1);
        Coordinator { node: NodeId((id & ((1 << NODE_BITS) - 1)) as u8), worker: (id >> NODE_BITS) as u16 }
    }

    /// By how many ticks `later` is later; 0 if it is not.
    #[inline]
    pub fn ticks_between(self, ts: Timestamp, later: Timestamp) -> u64 {
        self.tick(later).saturating_sub(self.tick(ts))
    }

    /// So many units of a clock, in ticks.
    #[inline]
    pub fn ticks(self, units: u64) -> u64 {
        units >> self.bits
    }

    fn tick(self, ts: Timestamp) -> u64 {
        ts.0 >> self.bits
    }

    fn stamp(self, tick: u64, id: u64) -> Timestamp {
        let ts = Timestamp(tick << self.bits | id);
        assert!(ts < Timestamp::MAX && tick < 1 << 61 >> self.bits, "timestamps are exhausted");
        ts
    }
}

/// The timestamps of one coordinator.
pub struct Stamps {
    clock: Arc<Clock>,
    layout: Layout,
    id: u64,
    /// The tick of the last one, or what was closed: the next one's is larger.
    last: u64,
    /// Ticks of single ones that are further ahead: no other one is there.
    ahead: BTreeSet<u64>,
}

impl Stamps {
    /// Of `coordinator`, by its node's clock.
    pub fn new(clock: Arc<Clock>, layout: Layout, coordinator: Coordinator) -> Stamps {
        assert!(u32::from(coordinator.node.0) < 1 << NODE_BITS, "node ids fit into {NODE_BITS} bits");
        let id = u64::from(coordinator.worker) << NODE_BITS | u64::from(coordinator.node.0);
        Stamps { clock, layout, id, last: 0, ahead: BTreeSet::new() }
    }

    /// A timestamp above all that this coordinator proposed before, and above `seen`; and so many ticks ahead of its clock.
    #[inline]
    pub fn next(&mut self, seen: Timestamp, lead: u64) -> Timestamp {
        let now = (self.clock.now().0 >> self.layout.bits) + lead;
        self.last = self.free(now.max(self.last + 1).max(self.layout.tick(seen) + 1));
        self.layout.stamp(self.last, self.id)
    }

    /// The same for one transaction that has to be further ahead than others: those that come after it need not be above it.
    pub fn ahead(&mut self, seen: Timestamp, lead: u64) -> Timestamp {
        let now = (self.clock.now().0 >> self.layout.bits) + lead;
        let tick = self.free(now.max(self.last + 1).max(self.layout.tick(seen) + 1));
        self.ahead.insert(tick);
        self.layout.stamp(tick, self.id)
    }

    /// The next tick that no single one has.
    fn free(&mut self, mut tick: u64) -> u64 {
        if !self.ahead.is_empty() {
            self.ahead = self.ahead.split_off(&(self.last + 1));
            while self.ahead.contains(&tick) {
                tick += 1;
            }
        }
        tick
    }

    /// The next ones are above this one.
    #[inline]
    pub fn observe(&mut self, ts: Timestamp) {
        self.last = self.last.max(self.layout.tick(ts));
    }

    /// No further one is at or below this one, whoever proposed it.
    #[inline]
    pub fn close_above(&mut self, ts: Timestamp) {
        self.last = self.last.max(self.layout.tick(ts) + 1);
    }

    /// No further one is at or below this: the last one, or as late as it is now.
    pub fn close(&mut self) -> Timestamp {
        self.last = self.last.max(self.clock.now().0 >> self.layout.bits);
        self.last()
    }

    /// Nor at or below single ones that are further ahead.
    pub fn close_ahead(&mut self) {
        self.last = self.last.max(self.ahead.last().copied().unwrap_or(0));
    }

    /// The largest timestamp that this coordinator may have proposed, but for single ones that are further ahead.
    #[inline]
    pub fn last(&self) -> Timestamp {
        self.layout.stamp(self.last, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(node: u8, worker: u16, workers: u16) -> Stamps {
        let coordinator = Coordinator { node: NodeId(node), worker };
        Stamps::new(Arc::new(Clock::counter()), Layout::new(workers), coordinator)
    }

    #[test]
    fn a_timestamp_names_its_coordinator() {
        for (node, worker, workers) in [(0, 0, 1), (30, 0, 1), (2, 4, 5), (30, 255, 256)] {
            let mut stamps = stamps(node, worker, workers);
            let coordinator = Coordinator { node: NodeId(node), worker };
            for _ in 0..5 {
                let ts = stamps.next(Timestamp::ZERO, 0);
                assert_eq!(Layout::new(workers).coordinator(ts), coordinator);
            }
        }
    }

    #[test]
    fn timestamps_grow_above_what_was_seen_observed_and_closed() {
        let (mut a, mut b) = (stamps(0, 0, 2), stamps(1, 1, 2));
        let first = a.next(Timestamp(1 << 40), 0);
        assert!(first.0 > 1 << 40);
        assert!(a.next(Timestamp::ZERO, 0) > first);
        b.observe(first);
        let second = b.next(Timestamp::ZERO, 0);
        assert!(second > first);
        let closed = b.close();
        assert!(closed >= second && b.next(Timestamp::ZERO, 0) > closed);
    }

    /// One that is ahead alone: the next ones are not, and none is the same.
    #[test]
    fn a_single_timestamp_is_ahead_of_later_ones() {
        let mut a = stamps(0, 0, 1);
        let first = a.next(Timestamp::ZERO, 0);
        let far = a.ahead(Timestamp::ZERO, 1 << 20);
        let next = a.next(Timestamp::ZERO, 0);
        assert!(first < next && next < far && a.last() == next);
        a.observe(Timestamp(far.0 - 32));
        assert!(a.next(Timestamp::ZERO, 0) > far, "not the same one");
        assert!(a.ahead.is_empty() || a.close() > far);
        let far = a.ahead(Timestamp::ZERO, 1 << 20);
        assert!(a.close() < far);
        a.close_ahead();
        assert!(a.close() >= far && a.next(Timestamp::ZERO, 0) > far);
    }
}
