//! How much memory a replica may use, and how its leader keeps every replica within its own.
//!
//! A node's budget is divided beforehand ([`Shares`]): logs, replies, before-images and buffers get what their own bounds
//! allow, the rest is the store's. Nodes tell each other what their store may use and uses. The leader takes the node with
//! the least left over; its workers draw *room* from that, a grant at a time ([`Account`]), and pay for every transaction
//! that writes from their grant (`Occ::set_room`: one comparison). A transaction that would make the store grow by more
//! than is left ends with `OutOfMemory` before it locks anything; what only reads, deletes or overwrites goes on.
//!
//! # Why followers have room for what was accepted
//!
//! A follower installs what the leader installed, so its store grows as the leader's does, but for what it takes in other
//! sizes, has not collected yet, or keeps for its readers. That shows in what it says it uses: the leader counts, for
//! each node, the larger of the two. What is under way meanwhile is bounded by what may be above the mark and in a
//! backlog, whose bytes are set aside; an eighth is left for pieces that lie idle in other size classes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::wire;
use highwater_store::{Occ, Store};

use crate::options::Options;
pub use crate::shares::Shares;

/// What the leader's store may grow to, and what its workers have been granted of it.
#[derive(Debug)]
pub struct Account {
    /// What this node's store may use; `u64::MAX` if there is no limit.
    pub store: u64,
    /// What the leader's own store may come to, so that no node's exceeds its budget. Kept by the controller.
    most: AtomicU64,
    /// What each worker was granted last: all of it may be unused yet. The lock is taken once for a grant, not for a
    /// transaction.
    granted: Mutex<Vec<u64>>,
    /// The longest transaction that every node has room for.
    transaction: AtomicU64,
}

/// Most that a worker is granted at a time, as a rule.
const GRANT: u64 = 4 << 20;
/// A worker asks for its next grant when less than this is left of the last one.
const LOW: u64 = 64 << 10;
/// A transaction that finds no room gets this many times as much at its next attempt: from a usual grant to any size in four.
const STEP: u64 = 8;

impl Account {
    /// Nothing granted yet.
    pub fn new(options: &Options, workers: usize) -> Account {
        let store = options.shares().expect("the host validates the options").store;
        Account {
            store,
            most: AtomicU64::new(store),
            granted: Mutex::new(vec![0; workers]),
            transaction: AtomicU64::new(options.max_transaction_bytes as u64),
        }
    }

    /// Sets what the leader's store may come to, and the longest transaction that every node has room for.
    pub fn set_most(&self, bytes: u64, transaction: u64) {
        self.most.store(bytes, Ordering::Relaxed);
        self.transaction.store(transaction, Ordering::Relaxed);
    }

    /// What the leader's store may come to.
    #[inline]
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// A new grant for a worker, in the place of its last one: what its transactions may make the store grow by from now
    /// on. At least `wanted`, if that much is left.
    fn grant(&self, worker: usize, store: &Store, wanted: u64) -> u64 {
        let most = self.most();
        if most == u64::MAX {
            return u64::MAX;
        }
        let mut granted = self.granted.lock().expect("nobody panics while holding the grants");
        granted[worker] = 0;
        let others: u64 = granted.iter().sum();
        let room = most.saturating_sub(store.used()).saturating_sub(others);
        let usual = (room / (4 * granted.len() as u64)).min(GRANT);
        granted[worker] = usual.max(room.min(wanted));
        granted[worker]
    }
}

/// One worker's grant.
#[derive(Debug)]
pub struct Grant {
    worker: usize,
    /// In this turn nothing more was left, or not enough for any transaction: reads and deletes need not hear it again.
    denied: bool,
    /// The grant is larger than usual, for one transaction: the others wait for the rest of it.
    large: bool,
}

impl Grant {
    /// Of the worker with this number.
    #[inline]
    pub fn of(worker: usize) -> Grant {
        Grant { worker, denied: false, large: false }
    }

    /// A turn begins: memory may have become free, and what a large transaction left of its grant is given back.
    #[inline]
    pub fn next_turn(&mut self, account: &Account, occ: &mut Occ) {
        self.denied = false;
        if std::mem::take(&mut self.large) {
            self.ask(account, occ, LOW);
        }
    }

    /// Before a transaction: the next grant, if the last one is about used up.
    #[inline]
    pub fn look(&mut self, account: &Account, occ: &mut Occ) {
        if occ.room() < LOW && !self.denied {
            self.ask(account, occ, LOW);
        }
    }

    /// A transaction found no room: whether there is more now.
    #[cold]
    pub fn more(&mut self, account: &Account, occ: &mut Occ) -> bool {
        let before = occ.room();
        if self.denied {
            return false;
        }
        // Not all at once: what this worker does not use the others miss.
        self.large = true;
        self.ask(account, occ, STEP * before.max(LOW));
        occ.room() > before
    }

    #[cold]
    fn ask(&mut self, account: &Account, occ: &mut Occ, wanted: u64) {
        let granted = account.grant(self.worker, occ.store(), wanted);
        self.denied = granted < wanted;
        occ.set_room(granted);
        occ.log().set_most(account.transaction.load(Ordering::Relaxed) as usize);
    }

    /// The worker leads no more.
    pub fn give_back(&mut self, account: &Account) {
        self.large = false;
        account.granted.lock().expect("nobody panics while holding the grants")[self.worker] = 0;
    }
}

/// What a replica may use and uses, for people and reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStatus {
    /// This node's budget.
    pub shares: Shares,
    /// Bytes that its store uses.
    pub used: u64,
    /// Bytes that its logs keep.
    pub logs: u64,
    /// What its store may come to if it leads: less than its share if another node has less room.
    pub most: u64,
}

wire! {
    /// What a node last said about its store and its disk.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Told: "told" {
        /// Orders what one life of a node says.
        pub number: u64,
        /// What its store may use.
        pub budget: u64,
        /// What it uses.
        pub used: u64,
        /// The longest transaction that it has room for.
        pub transaction: u64,
        /// Its disk is about to be full.
        pub disk_low: bool,
    }
}

/// What the leader's store may come to if it uses `own` bytes now and the others are as they said.
pub fn most_for(own: u64, budget: u64, others: impl Iterator<Item = Told>) -> u64 {
    let most = others.map(|told| told.budget.saturating_sub(told.used.saturating_sub(own)));
    most.fold(budget, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use highwater_core::{Incarnation, NodeId, Schema};

    #[test]
    fn the_node_with_the_least_left_over_decides() {
        let told = |budget, used| Told { number: 1, budget, used, transaction: 0, disk_low: false };
        assert_eq!(most_for(50, 100, [].into_iter()), 100);
        assert_eq!(most_for(50, 100, [told(80, 40), told(200, 0)].into_iter()), 80, "a smaller budget");
        assert_eq!(most_for(50, 100, [told(100, 70)].into_iter()), 80, "it uses more for the same data");
        assert_eq!(most_for(50, 100, [told(10, 90)].into_iter()), 0, "it has too little already");
    }

    #[test]
    fn grants_never_exceed_what_is_left() {
        let options = Options::new(NodeId(0), 3, 2, Incarnation(1));
        let (store, account) = (Store::new(Schema::new(Vec::new())), Account::new(&options, 2));
        assert_eq!(account.grant(0, &store, 0), u64::MAX, "without a limit");
        account.set_most(10 << 20, 64 << 20);
        let left = (10 << 20) - store.used();
        let first = account.grant(0, &store, 0);
        assert!(first <= left / 8);
        assert_eq!(account.grant(1, &store, 64 << 20), left - first);
        assert_eq!(account.grant(0, &store, 64 << 20), first, "its own again: the other has the rest");
        Grant::of(1).give_back(&account);
        assert!(account.grant(0, &store, 0) > 0);
        account.set_most(0, 64 << 20);
        assert_eq!(account.grant(1, &store, 1), 0);
    }

    #[test]
    fn a_budget_that_its_own_bounds_use_up_is_refused_with_words() {
        let mut options = Options::new(NodeId(0), 3, 2, Incarnation(1));
        assert_eq!(options.shares().unwrap().store, u64::MAX);
        options.memory_bytes = 4 << 30;
        let shares = options.shares().unwrap();
        let sum = shares.logs + shares.work + shares.buffers + shares.slack + shares.store;
        assert_eq!(sum, shares.whole);
        options.memory_bytes = options.memory_for(100 << 20);
        assert!(options.shares().is_ok_and(|shares| (100 << 20..101 << 20).contains(&shares.store)));
        options.memory_bytes = 500 << 20;
        let words = options.validate().unwrap_err();
        assert!(words.contains("500 MiB") && words.contains("logs take"), "{words}");
        options.fit_memory();
        assert_eq!(options.validate(), Ok(()));
    }
}
