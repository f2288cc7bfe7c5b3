//! Optimistic transactions: one [`Occ`] for each worker.
//!
//! A transaction runs without locks. It remembers every record that it read, with the word that it saw, and the version
//! of every index node on whose absence of keys it relied. Writes are encoded at once into the open log entry (a
//! [`TxWriter`]): one copy to the wire; the write set keeps where each value stands. The commit has four phases, which
//! [`Occ::commit`] runs in a line and a simulator may run one by one:
//!
//! 1. [`lock`](Occ::lock): looks whether the transaction is too large or no memory is left for it, then locks all written
//!    records: as they come, and if one of them is locked by another transaction, all again in the order of their addresses; gives up after a
//!    short wait.
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
//! # Two transactions, two ways
//!
//! T1 writes to *b* what it reads in *a*; T2 overwrites *a*. `10 @3` is the value 10 with timestamp 3.
//!
//! *One conflict.* T2 commits while T1 runs:
//!
//! | | T1 | T2 | a | b |
//! |---|---|---|---|---|
//! | 1 | gets a: 10, and remembers @3 | | 10 @3 | 5 @4 |
//! | 2 | | puts 20 into a: in its log only | 10 @3 | 5 @4 |
//! | 3 | | locks a, draws 7, validates, installs | 20 @7 | 5 @4 |
//! | 4 | puts 10 into b, locks b, draws 8 | | 20 @7 | 5 @4, locked |
//! | 5 | validates: a is @7, was @3. A conflict: unlocks b | | 20 @7 | 5 @4 |
//! | 6 | again, from the start: gets 20, commits at 9 | | 20 @7 | 20 @9 |
//!
//! *No conflict.* T2 locks *a* after T1 has validated it:
//!
//! | | T1 | T2 | a | b |
//! |---|---|---|---|---|
//! | 1 | gets a: 10 @3; puts 10 into b | | 10 @3 | 5 @4 |
//! | 2 | locks b, draws 7, validates: a is as it was | | 10 @3 | 5 @4, locked |
//! | 3 | | puts 20 into a, locks it, draws 8, validates, installs | 20 @8 | 5 @4, locked |
//! | 4 | installs | | 20 @8 | 10 @7 |
//!
//! Both commit, and T2 was done first. In the serial order T1 comes first all the same, because 7 is less than 8 and T1 did not see
//! what T2 wrote. A clock that T1 read in step 4 would say 9, and a snapshot at 8 would show what T2 wrote to *a* and not what T1,
//! which came before it, wrote to *b*. Had T2 locked *a* before T1 validated, T1 would have found the lock: a conflict.
//!
//! ```
//! # use std::sync::Arc;
//! # use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Transaction};
//! # use highwater_store::{Occ, Store};
//! # const TABLE: TableId = TableId(0);
//! # let store = Store::new(Schema::new(vec![TableSpec { name: "t", keys: KeyKind::Bytes, index: IndexKind::Hash }]));
//! # let clock = Arc::new(Clock::counter());
//! # let (mut t1, mut t2) = (Occ::new(store.clone(), clock.clone()), Occ::new(store, clock));
//! # t1.begin();
//! # t1.put(TABLE, b"a", b"10").unwrap();
//! # t1.commit().unwrap();
//! // One conflict: steps 1, 3 and 5.
//! t1.begin();
//! let read = t1.get(TABLE, b"a").unwrap().unwrap().to_vec();
//! t2.begin();
//! t2.put(TABLE, b"a", b"20").unwrap();
//! t2.commit().unwrap();
//! t1.put(TABLE, b"b", &read).unwrap();
//! assert!(t1.commit().is_err());
//!
//! // No conflict: steps 1 to 4.
//! t1.begin();
//! let read = t1.get(TABLE, b"a").unwrap().unwrap().to_vec();
//! t1.put(TABLE, b"b", &read).unwrap();
//! t1.lock().unwrap();
//! t1.timestamp().unwrap();
//! t1.validate().unwrap();
//! t2.begin();
//! t2.put(TABLE, b"a", b"30").unwrap();
//! let second = t2.commit().unwrap();
//! let first = t1.install();
//! assert!(first < second);
//! ```
//!
//! # Inserts
//!
//! A key that is absent gets a *placeholder* at once: a tombstone with timestamp 0. It changes its node's version: so
//! others who relied on the key's absence fail, and the transaction corrects its own node set. If it relied on the
//! absence itself, then the placeholder's word takes over as the proof: another transaction may write to the placeholder
//! without changing the node. An aborted transaction leaves its placeholders to be collected.

mod ahead;
mod commit;
mod growth;
mod images;
mod look;
mod map;
mod met;
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
use highwater_core::{Abort, Clock, Timestamp, Work};

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
    work: Work,
    ahead: ahead::Ahead,
    /// Whether the current transaction writes; or else, whether the last one wrote.
    wrote: bool,
    value: Scratch,
    leaf: Box<LeafCopy>,
    fingers: Box<[Fingers]>,
    graveyard: Graveyard,
    /// Where the last attempt met another transaction.
    met: met::Met,
    /// Before-images, if they are kept.
    undo: Option<images::UndoLog>,
    /// Bytes by which transactions may still make the store grow.
    room: u64,
    /// So many tables may be written, the first ones: none if whoever writes is refused.
    writable: u8,
    /// So many, but for that.
    tables: u8,
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
        let tables = store.schema().len() as u8;
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
            work: Work::default(),
            ahead: ahead::Ahead::default(),
            wrote: false,
            value: Scratch::default(),
            leaf: Box::new(LeafCopy::new()),
            graveyard: Graveyard::default(),
            met: met::Met::default(),
            undo: None,
            room: u64::MAX,
            writable: tables,
            tables,
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
        self.work.begin();
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

    /// The work of transactions, and how much one may.
    #[inline]
    pub fn work(&mut self) -> &mut Work {
        &mut self.work
    }

    /// Rows that all its transactions have passed.
    #[inline]
    pub fn all_rows(&self) -> u64 {
        self.work.all_rows()
    }

    /// Whether whoever watches this worker has asked it to pause before another transaction.
    pub fn has_to_pause(&self) -> bool {
        self.work.has_to_pause()
    }

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

    /// From now on transactions may write to the first so many tables; a write to another one ends with [`Abort::TooNew`].
    pub fn set_tables(&mut self, tables: usize) {
        let refuses = self.writable < self.tables;
        self.tables = tables.min(self.store.schema().len()) as u8;
        self.refuse_writes(refuses);
    }

    /// From now on transactions that want to write end with [`Abort::DiskFull`], or not any more.
    #[inline]
    pub fn refuse_writes(&mut self, refuse: bool) {
        self.writable = if refuse { 0 } else { self.tables };
    }

    /// Unlinks tombstones that this worker's transactions left, if their timestamps are at or below `floor`: no older
    /// write can be applied any more. Bounded work; call it between transactions, now and then. Says whether more is due.
    ///
    /// # Panics
    /// If a transaction is open.
    #[inline]
    pub fn collect(&mut self, floor: Timestamp) -> bool {
        assert_eq!(self.phase, Phase::Idle, "collect between transactions");
        let more =
            self.graveyard.collect(&self.store, floor, (&mut self.fingers, &mut self.heap), |_, _, _| {});
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
