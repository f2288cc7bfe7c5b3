//! Optimistic transactions: one [`Occ`] for each worker.
//!
//! A transaction runs without locks. It remembers every record that it read, with the word that it saw, and the version
//! of every index node on whose absence of keys it relied. Writes are encoded at once into the open log entry (a
//! [`TxWriter`]): one copy to the wire; the write set keeps where each value stands. The commit has four phases, which
//! [`Occ::commit`] runs in a line and a simulator may run one by one:
//!
//! 1. [`lock`](Occ::lock): looks whether the transaction is too large or no memory is left for it, then locks all written
//!    records, in the order of their addresses; gives up after a short wait.
//! 2. [`timestamp`](Occ::timestamp): read the clock; above every timestamp that was seen, and above the floor. A clock
//!    that does not get there has gone back: the transaction fails, and its worker should not go on with that clock.
//! 3. [`validate`](Occ::validate): the records read and the nodes relied on are unchanged, and not locked by others.
//! 4. [`install`](Occ::install): copy the values from the log into the records, unlock them with the new timestamp.
//!
//! # Why timestamps are a serial order
//!
//! The clock is read after all locks are taken and before anything is validated. Take two transactions with a conflict
//! on a record, T1 first:
//! - T2 reads or overwrites what T1 wrote: it has seen T1's timestamp, and takes a larger one.
//! - T1 reads what T2 overwrites (anti-dependency): T1 validated the record before T2 locked it. T1 read its clock
//!   before that, T2 after it.
//!
//! The same with index nodes: T2's placeholder is in the index, and its node changed, before T2 reads its clock. A
//! timestamp taken after validation would lose the second case, and with it snapshots cut by timestamp.
//!
//! # Inserts
//!
//! A key that is absent gets a *placeholder* at once: a tombstone with timestamp 0. It changes its node's version: so
//! others who relied on the key's absence fail, and the transaction corrects its own node set. If it relied on the
//! absence itself, then the placeholder's word takes over as the proof: another transaction may write to the placeholder
//! without changing the node. An aborted transaction leaves its placeholders to be collected.

mod commit;
mod growth;
mod images;
mod map;
mod nodes;
mod read;
mod sets;
#[cfg(all(test, not(shuttle)))]
#[allow(clippy::unwrap_used)]
mod tests;
mod undo;
mod write;

use std::sync::Arc;

use highwater_core::log::TxWriter;
use highwater_core::{Abort, Clock, Timestamp};

use crate::graveyard::Graveyard;
use crate::heap::Heap;
use crate::record::Scratch;
use crate::store::Store;
use crate::tree::{Fingers, LeafCopy};
use crate::word::Busy;
use sets::Sets;

/// How far a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No transaction is open.
    Idle,
    /// It runs.
    Open,
    /// It holds the locks of its write set.
    Locked,
    /// It has its timestamp.
    Stamped(Timestamp),
    /// It will commit.
    Validated(Timestamp),
}

/// A worker's transactions, one after another.
pub struct Occ {
    /// In front of the store: what it points to is returned to the store when it is dropped.
    heap: Heap,
    store: Arc<Store>,
    clock: Arc<Clock>,
    writer: TxWriter,
    phase: Phase,
    /// The next timestamp is larger.
    floor: Timestamp,
    /// The timestamp that the clock did not come to exceed, if that ended a transaction lately.
    clock_stands: Option<Timestamp>,
    /// The largest timestamp seen by the open transaction.
    latest: u64,
    sets: Sets,
    /// Whether the current transaction writes; or else, whether the last one wrote.
    wrote: bool,
    value: Scratch,
    leaf: Box<LeafCopy>,
    fingers: Box<[Fingers]>,
    graveyard: Graveyard,
    /// Before-images, if they are kept.
    undo: Option<images::UndoLog>,
    /// Bytes by which transactions may still make the store grow.
    room: u64,
}

// SAFETY: the records and nodes that it points to are shared memory, valid while its guard is pinned; pinning is by
// slot, not by thread.
unsafe impl Send for Occ {}

impl From<Busy> for Abort {
    fn from(_: Busy) -> Abort {
        Abort::Conflict
    }
}

impl Occ {
    /// Transactions on `store`, stamped by `clock`.
    pub fn new(store: Arc<Store>, clock: Arc<Clock>) -> Occ {
        Occ {
            heap: Heap::new(&store.heaps),
            fingers: store.fingers(),
            store,
            clock,
            writer: TxWriter::default(),
            phase: Phase::Idle,
            floor: Timestamp::ZERO,
            clock_stands: None,
            latest: 0,
            sets: Sets::new(),
            wrote: false,
            value: Scratch::default(),
            leaf: Box::new(LeafCopy::new()),
            graveyard: Graveyard::default(),
            undo: None,
            room: u64::MAX,
        }
    }

    /// Opens a transaction.
    ///
    /// # Panics
    /// If one is open.
    #[inline]
    pub fn begin(&mut self) {
        assert_eq!(self.phase, Phase::Idle, "one transaction at a time");
        self.heap.pin();
        self.writer.begin();
        self.latest = 0;
        self.wrote = false;
        self.phase = Phase::Open;
    }

    /// How far the transaction is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the open transaction, or else the last one, has writes.
    #[inline]
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// Bytes in the open log entry, whatever was put in front included.
    #[inline]
    pub fn log_len(&self) -> usize {
        self.writer.len()
    }

    /// The open log entry. Its buffer may be taken between transactions.
    #[inline]
    pub fn log(&mut self) -> &mut TxWriter {
        &mut self.writer
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The next commit's timestamp will exceed `ts`: this stream is closed up to there.
    #[inline]
    pub fn set_floor(&mut self, ts: Timestamp) {
        self.floor = self.floor.max(ts);
    }

    /// From now on transactions may make the store grow by so many bytes in all; further ones end with
    /// [`Abort::OutOfMemory`] unless they only read, delete or overwrite.
    #[inline]
    pub fn set_room(&mut self, bytes: u64) {
        self.room = bytes;
    }

    /// What is left of it.
    #[inline]
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Unlinks tombstones that this worker's transactions left, if their timestamps are at or below `floor`: no older
    /// write can be applied any more. Bounded work; call it between transactions, now and then. Says whether more is due.
    ///
    /// # Panics
    /// If a transaction is open.
    #[inline]
    pub fn collect(&mut self, floor: Timestamp) -> bool {
        assert_eq!(self.phase, Phase::Idle, "collect between transactions");
        let more = self.graveyard.collect(&self.store, floor, &mut self.fingers, &mut self.heap);
        self.heap.tend();
        more
    }
}

impl Drop for Occ {
    fn drop(&mut self) {
        self.abort();
        self.keep_undo(false);
        self.graveyard.abandon(&self.store);
    }
}
