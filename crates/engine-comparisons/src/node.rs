//! What the threads of a replica share, whatever the system: nothing that a transaction writes to, but for cells of one writer each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use highwater_core::hooks::{self, Point};
use highwater_core::{Clock, Incarnation, NodeId, Timestamp};
use highwater_seam::options::Options;
use highwater_store::sync::Backoff;

/// A worker is about to touch what the workers of a replica share.
pub const SHARED: Point = Point::new("Shared");

/// Takes a lock. A simulator has one thread: there it lets the holder go on.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    const POISONED: &str = "nobody panics while holding what is shared";
    if !hooks::simulated() {
        return mutex.lock().expect(POISONED);
    }
    hooks::point(SHARED);
    let mut backoff = Backoff::default();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::WouldBlock) => backoff.wait(),
            Err(TryLockError::Poisoned(_)) => panic!("{POISONED}"),
        }
    }
}

/// What a worker says of itself. Written by its owner only.
#[derive(Default)]
#[repr(align(128))]
pub struct Cell {
    /// Transactions under way.
    pub busy: AtomicU64,
    /// Transactions of which it has learnt what became.
    pub decided: AtomicU64,
    /// Own ones that were decided in one round trip; `tapir` only.
    pub fast: AtomicU64,
    /// Own ones that took two; `tapir` only.
    pub slow: AtomicU64,
    /// Bytes that it keeps for others.
    pub bytes: AtomicU64,
    /// Everything at or below is over at every replica, of what this worker has to do with.
    pub closed: AtomicU64,
}

/// One per replica.
pub struct Node {
    pub options: Options,
    pub clock: Arc<Clock>,
    /// The only node that serves; `None`: all do.
    pub primary: Option<NodeId>,
    pub cells: Vec<Cell>,
    /// Bytes of what workers keep together.
    pub shared_bytes: AtomicU64,
    /// By how much a transaction may make the store grow, in bytes, until the controller looks again.
    pub room: AtomicU64,
    /// The first life of each node that was met, by any thread.
    lives: Mutex<Vec<Option<Incarnation>>>,
    /// A number made of all lives: who took part in another cluster has another one. 0: somebody was not met yet.
    cluster: AtomicU64,
    /// Somebody lost its memory, or its frames make no sense: never again.
    broken: AtomicBool,
}

impl Node {
    /// Of a fresh replica.
    pub fn new(options: Options, clock: Arc<Clock>, primary: Option<NodeId>) -> Node {
        let node = Node {
            clock,
            primary,
            cells: (0..options.workers).map(|_| Cell::default()).collect(),
            shared_bytes: AtomicU64::new(0),
            room: AtomicU64::new(u64::MAX),
            lives: Mutex::new(vec![None; options.nodes as usize]),
            cluster: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            options,
        };
        node.meet(node.options.node, node.options.incarnation);
        node
    }

    /// Whether this node takes transactions of clients.
    pub fn serves(&self) -> bool {
        self.primary.is_none_or(|primary| primary == self.options.node)
    }

    /// A node was met in this life. Whether that changes what other threads do.
    pub fn meet(&self, node: NodeId, life: Incarnation) -> bool {
        let mut lives = self.lives.lock().expect("nobody panics while holding the lives");
        let Some(known) = lives.get_mut(node.0 as usize) else { return false };
        let fresh = known.is_none();
        if *known.get_or_insert(life) != life {
            return self.break_off();
        }
        if !fresh || lives.iter().any(Option::is_none) {
            return false;
        }
        let mix = |hash: u64, life: &Option<Incarnation>| {
            (hash.rotate_left(5) ^ life.map_or(0, |life| life.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        };
        // Release; pairs with the Acquire in `cluster`: nothing but the number itself.
        self.cluster.store(lives.iter().fold(1, mix) | 1, Ordering::Release);
        true
    }

    /// The lives that were met, by node.
    pub fn lives(&self) -> Vec<Option<Incarnation>> {
        self.lives.lock().expect("nobody panics while holding the lives").clone()
    }

    /// The number of the cluster, once everybody was met.
    #[inline]
    pub fn cluster(&self) -> Option<u64> {
        let cluster = self.cluster.load(Ordering::Acquire);
        (cluster != 0).then_some(cluster)
    }

    /// Service is over, for good. Whether that is news.
    pub fn break_off(&self) -> bool {
        !self.broken.swap(true, Ordering::Relaxed)
    }

    /// Whether it is.
    #[inline]
    pub fn broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Nothing at or below will be installed any more.
    pub fn floor(&self) -> Timestamp {
        // Acquire; pairs with the Release in `publish`: what is closed is installed.
        Timestamp(self.cells.iter().map(|cell| cell.closed.load(Ordering::Acquire)).min().unwrap_or(0))
    }

    /// The sum of a figure over all workers.
    pub fn sum(&self, figure: impl Fn(&Cell) -> &AtomicU64) -> u64 {
        self.cells.iter().map(|cell| figure(cell).load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(me: u8) -> Node {
        let options = Options::new(NodeId(me), 3, 2, Incarnation(u64::from(me) + 10));
        Node::new(options, Arc::new(Clock::counter()), Some(NodeId(0)))
    }

    #[test]
    fn nodes_that_met_the_same_lives_are_of_one_cluster() {
        let (a, b) = (node(0), node(1));
        assert!(!a.meet(NodeId(1), Incarnation(11)) && a.cluster().is_none());
        assert!(a.meet(NodeId(2), Incarnation(12)), "everybody was met");
        b.meet(NodeId(0), Incarnation(10));
        b.meet(NodeId(2), Incarnation(12));
        assert_eq!(a.cluster(), b.cluster());
        assert!(a.serves() && !b.serves() && !a.broken());
        assert!(a.meet(NodeId(2), Incarnation(13)) && a.broken(), "it lost its memory");
        let other = node(1);
        other.meet(NodeId(0), Incarnation(10));
        other.meet(NodeId(2), Incarnation(13));
        assert_ne!(other.cluster(), a.cluster());
    }

    #[test]
    fn what_workers_write_shares_no_line() {
        assert_eq!((align_of::<Cell>(), size_of::<Cell>() % 128), (128, 0));
    }
}
