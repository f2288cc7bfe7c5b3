//! What the workers of a replica share: the counter that orders transactions, and the log.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::{NodeId, Timestamp, hooks};
use highwater_kit::validation::payload::Payload;
use highwater_seam::padded::Padded;

use crate::node::{SHARED, lock};

/// Shared by the workers of a replica. Each part in cache lines of its own.
pub struct Order {
    counter: Padded<AtomicU64>,
    sent: Padded<Mutex<PrimaryLog>>,
    received: Padded<Mutex<BackupLog>>,
    /// Of a primary: up to where each backup has installed the log.
    acknowledged: Vec<Padded<AtomicU64>>,
}

impl Order {
    /// Of one of so many replicas.
    pub fn new(nodes: u8) -> Order {
        Order {
            counter: Padded::default(),
            sent: Padded::default(),
            received: Padded::default(),
            acknowledged: (0..nodes).map(|_| Padded::default()).collect(),
        }
    }

    /// The next number: later than all that anybody was given before.
    #[inline]
    pub fn next(&self) -> Timestamp {
        hooks::point(SHARED);
        // The order of one variable is all that is asked for.
        Timestamp(self.counter.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The last number that was given out: those of this worker to come are later.
    pub fn last(&self) -> Timestamp {
        Timestamp(self.counter.0.load(Ordering::Relaxed))
    }

    /// Appends a transaction; its position, from 1 on.
    #[inline]
    pub fn append(&self, payload: Payload) -> u64 {
        lock(&self.sent.0).append(payload)
    }

    /// What stands at a position; nothing, if all have acknowledged it.
    pub fn payload(&self, position: u64) -> Option<Payload> {
        lock(&self.sent.0).get(position).cloned()
    }

    /// A backup has installed all up to a position. Whether that is news.
    pub fn acknowledge(&self, node: NodeId, position: u64) -> bool {
        // Release; pairs with the Acquire in `acknowledged`: nothing but the number itself.
        self.acknowledged[node.0 as usize].0.fetch_max(position, Ordering::AcqRel) < position
    }

    /// Up to where a backup has installed the log.
    pub fn acknowledged(&self, node: NodeId) -> u64 {
        self.acknowledged[node.0 as usize].0.load(Ordering::Acquire)
    }

    /// Drops what all have acknowledged.
    pub fn trim(&self, acknowledged: u64) {
        lock(&self.sent.0).trim(acknowledged);
    }

    /// Enters what came; nothing, if it came before.
    #[inline]
    pub fn receive(&self, position: u64, ts: Timestamp, payload: Payload) {
        lock(&self.received.0).receive(position, ts, payload);
    }

    /// A worker has installed what it took (`done`), and takes the next that nobody has. With it, up to where all is installed.
    #[inline]
    pub fn take(&self, done: Option<u64>) -> (Option<Taken>, u64) {
        lock(&self.received.0).take(done)
    }
}

/// What a primary keeps for its backups.
#[derive(Default)]
struct PrimaryLog {
    last: u64,
    entries: VecDeque<Payload>,
}

impl PrimaryLog {
    fn append(&mut self, payload: Payload) -> u64 {
        self.entries.push_back(payload);
        self.last += 1;
        self.last
    }

    fn first(&self) -> u64 {
        self.last + 1 - self.entries.len() as u64
    }

    fn get(&self, position: u64) -> Option<&Payload> {
        self.entries.get(position.checked_sub(self.first())? as usize)
    }

    fn trim(&mut self, acknowledged: u64) {
        while self.first() <= acknowledged && self.entries.pop_front().is_some() {}
    }
}

/// A transaction that a worker installs.
pub type Taken = (u64, Timestamp, Payload);

/// What a backup has received, as far as it is not installed.
#[derive(Default)]
struct BackupLog {
    /// All up to here is installed.
    installed: u64,
    /// What is installed beyond.
    beyond: BTreeSet<u64>,
    /// What is being installed.
    taken: BTreeSet<u64>,
    waiting: BTreeMap<u64, (Timestamp, Payload)>,
}

impl BackupLog {
    fn receive(&mut self, position: u64, ts: Timestamp, payload: Payload) {
        let known =
            position <= self.installed || self.taken.contains(&position) || self.beyond.contains(&position);
        if !known {
            self.waiting.entry(position).or_insert((ts, payload));
        }
    }

    fn take(&mut self, done: Option<u64>) -> (Option<Taken>, u64) {
        if let Some(done) = done {
            assert!(self.taken.remove(&done), "who took it has installed it");
            self.beyond.insert(done);
            while self.beyond.remove(&(self.installed + 1)) {
                self.installed += 1;
            }
        }
        let next = self.waiting.pop_first().map(|(position, (ts, payload))| (position, ts, payload));
        self.taken.extend(next.iter().map(|(position, ..)| *position));
        (next, self.installed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(len: usize) -> Payload {
        Payload::build(Timestamp::ZERO, (&[], 0), (&[], 0), &vec![0; len])
    }

    #[test]
    fn a_primary_keeps_what_somebody_has_not_acknowledged() {
        let order = Order::new(3);
        assert_eq!([order.append(payload(1)), order.append(payload(2)), order.append(payload(3))], [1, 2, 3]);
        assert!(order.acknowledge(NodeId(1), 2) && !order.acknowledge(NodeId(1), 1));
        order.trim(order.acknowledged(NodeId(2)));
        assert_eq!(order.payload(1).unwrap().len(), payload(1).len());
        order.acknowledge(NodeId(2), 2);
        order.trim(2);
        assert_eq!(order.payload(2), None);
        assert_eq!(order.payload(3).unwrap().len(), payload(3).len());
        order.trim(9);
        assert_eq!((order.payload(3), order.append(payload(0))), (None, 4));
    }

    /// Workers take in the order of the log and wait for no gap; what is acknowledged has none.
    #[test]
    fn a_backup_installs_in_parallel_and_acknowledges_without_gaps() {
        let mut log = BackupLog::default();
        let receive = |log: &mut BackupLog, position| log.receive(position, Timestamp(position), payload(0));
        [3, 2, 3].into_iter().for_each(|position| receive(&mut log, position));
        let take = |log: &mut BackupLog, done| {
            let (taken, installed) = log.take(done);
            (taken.map(|(position, ..)| position), installed)
        };
        assert_eq!(take(&mut log, None), (Some(2), 0));
        assert_eq!(take(&mut log, None), (Some(3), 0), "another worker");
        receive(&mut log, 2);
        assert_eq!(take(&mut log, Some(3)), (None, 0), "2 is being installed, and 1 has not come");
        receive(&mut log, 3);
        receive(&mut log, 1);
        assert_eq!(take(&mut log, Some(2)), (Some(1), 0));
        assert_eq!(take(&mut log, Some(1)), (None, 3));
        [1, 2, 3].into_iter().for_each(|position| receive(&mut log, position));
        assert_eq!(take(&mut log, None), (None, 3), "what comes twice is taken once");
        assert!(log.beyond.is_empty() && log.taken.is_empty());
    }

    #[test]
    fn numbers_grow_over_all_threads() {
        let order = Order::new(1);
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let take = || (0..1000).map(|_| order.next().0).collect::<Vec<_>>();
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(all.iter().copied().eq(1..=3000));
        assert_eq!(order.last(), Timestamp(3000));
    }
}
