//! The commit: lock, timestamp, validate, install. And the ways out of it.
//!
//! Each phase asserts that it comes after the one before ([`Phase`]), because their order is the proof that timestamps
//! are a serial order: see the module `occ`.

use highwater_core::hooks;
use highwater_core::log::Key;
use highwater_core::{Abort, TableId, Timestamp, planted};

use super::sets::{Access, Sets};
use super::{Occ, Phase};
use crate::grave::GraveKey;
use crate::hooks::{ALL_LOCKED, CONFLICT, INSTALL, LOCK, STAMPED, VALIDATED};
use crate::keys::{ByteKeys, IntegerKeys, Keys};
use crate::record::Record;
use crate::store::{AnyIndex, Store};
use crate::sync::{Ordering, fence, spin_loop};
use crate::word::{Busy, DEAD, LOCKED, RecordWord, TIMESTAMP, TOMBSTONE};

/// How often the clock is read before it counts as one that stands or went back.
///
/// A reading and a pause take 10 ns at least, so these take between most of a millisecond and some milliseconds. That
/// is long enough: the counters of two cores that are in step differ by less than a cache line takes from one to the
/// other, a thousandth of it. And it is short enough: others only wait for the locks that are held meanwhile, and an
/// election timeout is ten times as long.
const READINGS: u32 = 1 << 16;
/// The same in a simulated run, where the clock moves each time that it is read and every pause is a turn for others: a
/// few readings tell, and more would cost the run its time.
const READINGS_SIMULATED: u32 = 64;

/// A commit shows that it goes on after so many records: a transaction of a million takes a while to lock, validate and install.
const STRETCH: usize = 4096;

/// A record that could not be locked, by its place among the writes; and how many before it, or with it, were.
struct Unlocked {
    locked: usize,
    at: usize,
    /// Somebody else held its lock.
    busy: bool,
}

impl Occ {
    /// Commits and returns the timestamp; or undoes everything, but for what [`lock`](Occ::lock) leaves open. The locks
    /// may be held already.
    #[inline]
    pub fn commit(&mut self) -> Result<Timestamp, Abort> {
        self.commit_here()
    }

    /// The same without a call, for the one place of an engine from which nearly all commits come.
    #[inline(always)]
    pub fn commit_here(&mut self) -> Result<Timestamp, Abort> {
        if self.phase == Phase::Open {
            self.lock()?;
        }
        self.timestamp()?;
        self.validate()?;
        Ok(self.install())
    }

    /// Ends a transaction that decided to roll back: drops its writes, but validates what it read and takes a
    /// timestamp, because the decision reveals what was read. On a conflict, everything is undone.
    ///
    /// So ends a transaction whose procedure panicked, too: wherever that was, no lock is held while a procedure runs.
    pub fn commit_rollback(&mut self) -> Result<Timestamp, Abort> {
        assert_eq!(self.phase, Phase::Open, "locks are taken after the procedure has ended");
        self.writer.abort();
        self.bury_placeholders();
        self.sets.writes.clear();
        self.wrote = false;
        self.phase = Phase::Locked;
        self.timestamp()?;
        self.validate()?;
        let Phase::Validated(ts) = self.phase else { unreachable!("it was just validated") };
        self.floor = ts;
        self.end();
        Ok(ts)
    }

    /// Ends a transaction that wrote nothing and saw nothing above `mark`, if it is one: validates what it read. On a conflict, everything
    /// is undone. `false`: it is another one, and still open.
    ///
    /// What it read is what the store held at `mark`, and when it was validated, if nothing commits at or below `mark` any more: whatever
    /// replaces a part of it later is above. So it needs no timestamp of its own.
    pub fn commit_at(&mut self, mark: Timestamp) -> Result<bool, Abort> {
        assert_eq!(self.phase, Phase::Open, "locks are taken after the procedure has ended");
        if self.wrote || !self.sets.writes.is_empty() || self.latest > mark.0 {
            return Ok(false);
        }
        self.phase = Phase::Stamped(mark);
        self.validate()?;
        self.writer.abort();
        self.end();
        Ok(true)
    }

    /// Takes back what the open transaction has written so far, and keeps what it has read: it may write something else, whose
    /// commit then validates all of that. It must not touch again what it has written and not read.
    ///
    /// # Panics
    /// If no transaction is open, or its locks are taken.
    pub fn drop_writes(&mut self) {
        assert_eq!(self.phase, Phase::Open, "locks are taken after the last write");
        self.writer.abort();
        self.writer.begin();
        self.bury_placeholders();
        self.sets.forget_writes();
        self.wrote = false;
    }

    /// Drops the open transaction, if any, in whatever phase it is.
    pub fn abort(&mut self) {
        match self.phase {
            Phase::Idle => return,
            Phase::Open => {}
            Phase::Locked | Phase::Stamped(_) | Phase::Validated(_) => self.unlock(self.sets.writes.len()),
        }
        self.bury_placeholders();
        self.writer.abort();
        self.wrote = false;
        self.end();
    }

    /// Phase 1: locks the write set. On a conflict, everything is undone.
    ///
    /// At first in the order in which it was written, waiting for nobody: who does not wait while holding locks is in no circle of those who do. If
    /// somebody holds one of the locks, all are given back, and taken in an order that is the same for all, waiting for each a little.
    ///
    /// A transaction that is too large, or for which no memory is left, stays open. Its client will be told so, which
    /// depends on what it read; so the host ends it with [`commit_rollback`](Occ::commit_rollback), which validates
    /// that.
    #[inline(always)]
    pub fn lock(&mut self) -> Result<(), Abort> {
        assert_eq!(self.phase, Phase::Open);
        if !self.sets.writes.is_empty() {
            self.check_growth()?;
        }
        // As a rule nobody is in the way, and sorting would cost as much as locking.
        let mut locked = self.lock_all(RecordWord::lock_at_once);
        if let Err(Unlocked { busy: true, locked: some, .. }) = locked {
            self.unlock(some);
            self.sort();
            locked = self.lock_all(RecordWord::lock);
        }
        if let Err(Unlocked { locked, at, .. }) = locked {
            self.met_at_write(at);
            return self.fail(locked);
        }
        if !self.sets.writes.is_empty() {
            // Pairs with itself in another transaction: of two that each read what the other has locked, one sees
            // the other's lock.
            fence(Ordering::SeqCst);
        }
        self.phase = Phase::Locked;
        hooks::point(ALL_LOCKED);
        Ok(())
    }

    /// Locks one record after the other by `lock`. On a conflict returns how many it has locked: those must be unlocked.
    #[inline(always)]
    fn lock_all(&mut self, lock: impl Fn(&RecordWord) -> Result<u64, Busy>) -> Result<(), Unlocked> {
        let Sets { writes, accesses, .. } = &mut self.sets;
        for (at, write) in writes.iter_mut().enumerate() {
            hooks::point(LOCK);
            if at % STRETCH == STRETCH - 1 {
                self.work.step();
            }
            let before = match lock(write.record.word()) {
                Ok(DEAD) => return Err(Unlocked { locked: at, at, busy: false }),
                Err(Busy) => return Err(Unlocked { locked: at, at, busy: true }),
                Ok(before) => before,
            };
            write.before = before;
            self.latest = self.latest.max(before & TIMESTAMP);
            if accesses[write.access as usize].seen.is_some_and(|seen| seen.word() != before) {
                return Err(Unlocked { locked: at + 1, at, busy: false });
            }
        }
        Ok(())
    }

    /// Undoes everything while the first `locked` writes hold their locks.
    #[cold]
    fn fail<T>(&mut self, locked: usize) -> Result<T, Abort> {
        self.unlock(locked);
        self.phase = Phase::Open;
        self.abort();
        Err(Abort::Conflict)
    }

    fn unlock(&mut self, locked: usize) {
        for write in &self.sets.writes[..locked] {
            write.record.word().unlock(write.before);
        }
    }

    /// Phase 2: reads the clock until it exceeds every timestamp that this transaction saw. With cores whose clocks are
    /// in step it does so at once.
    ///
    /// The timestamp is always one that the clock showed, and never "the largest one seen, plus one". Such a timestamp
    /// would be ahead of the clock: a transaction that overwrites, a moment later, what this one read could draw a
    /// smaller one, though it comes later in the serial order. If the clock does not come to exceed what was seen,
    /// everything is undone as on a conflict, and [`take_clock_stands`](Occ::take_clock_stands) says so.
    #[inline(always)]
    pub fn timestamp(&mut self) -> Result<Timestamp, Abort> {
        assert_eq!(self.phase, Phase::Locked);
        let least = self.floor.max(Timestamp(self.latest));
        let mut ts = self.clock.now();
        if ts <= least {
            ts = self.await_clock(least)?;
        }
        self.phase = Phase::Stamped(ts);
        hooks::point(STAMPED);
        Ok(ts)
    }

    #[cold]
    fn await_clock(&mut self, least: Timestamp) -> Result<Timestamp, Abort> {
        for _ in 0..if hooks::simulated() { READINGS_SIMULATED } else { READINGS } {
            spin_loop();
            let ts = self.clock.now();
            if ts > least {
                return Ok(ts);
            }
        }
        self.clock_stands = Some(least);
        self.fail(self.sets.writes.len())
    }

    /// The timestamp that the clock did not come to exceed, if that undid a transaction since the last call. The
    /// timestamp was read from the same clock before, so the clock went back, or stands: another attempt would fare no
    /// better.
    #[cold]
    pub fn take_clock_stands(&mut self) -> Option<Timestamp> {
        self.clock_stands.take()
    }

    /// Phase 3: checks that what was read is unchanged. On a conflict, everything is undone.
    #[inline(always)]
    pub fn validate(&mut self) -> Result<(), Abort> {
        let Phase::Stamped(ts) = self.phase else { panic!("validate comes after timestamp") };
        let records = match self.sets.accesses.len() {
            0..STRETCH => self.sets.accesses.iter().all(|access| self.is_as_seen(access)),
            _ => self.are_as_seen(),
        };
        let sets = &self.sets;
        // Legal, so a simulated run does it now and then: a transaction may always be taken for one with a conflict.
        let nodes = || planted!(PhantomsAllowed) || sets.nodes.unchanged();
        if !((records || planted!(ReadsUnvalidated)) && nodes()) || hooks::buggify(CONFLICT) {
            self.met_at_read();
            return self.fail(self.sets.writes.len());
        }
        hooks::point(VALIDATED);
        let ts = if planted!(StampedLate) { self.clock.now() } else { ts };
        self.phase = Phase::Validated(ts);
        Ok(())
    }

    /// The same of very many records.
    #[cold]
    fn are_as_seen(&mut self) -> bool {
        (0..self.sets.accesses.len()).step_by(STRETCH).all(|start| {
            self.work.step();
            let end = self.sets.accesses.len().min(start + STRETCH);
            self.sets.accesses[start..end].iter().all(|access| self.is_as_seen(access))
        })
    }

    /// Whether a record is as this transaction has seen it, while its locks are held.
    #[inline]
    pub(super) fn is_as_seen(&self, access: &Access) -> bool {
        match access.seen {
            None => true,
            // A record that we write was compared with what we read of it when we locked it.
            Some(_) if access.write().is_some() && !self.sets.writes.is_empty() => true,
            Some(seen) => {
                let now = access.record.word().load();
                let now = if planted!(LockIgnored) { now & !LOCKED } else { now };
                now == seen.word() || now == seen.word() | LOCKED && self.owns(access)
            }
        }
    }

    /// Whether this transaction itself holds the record's lock. A scan remembers a record a second time if the
    /// transaction has touched it by key, and only the access by key knows of the write; so the record is looked up by
    /// its key.
    #[cold]
    fn owns(&self, access: &Access) -> bool {
        let hash = match self.store.table(access.table).expect("scanned tables exist") {
            AnyIndex::HashU64(_) | AnyIndex::TreeU64(_) => {
                IntegerKeys::hash(IntegerKeys::stored(&access.record))
            }
            AnyIndex::HashBytes(_) | AnyIndex::TreeBytes(_) => {
                ByteKeys::hash(ByteKeys::stored(&access.record))
            }
        };
        let touched = self.sets.find(access.table, hash, |record| *record == access.record);
        touched.is_some_and(|at| self.sets.accesses[at].write().is_some())
    }

    /// Brings the writes into the order in which all transactions lock that wait for each other: that of addresses. A simulated run must be a
    /// function of its seed, and addresses are not: there the order is that of tables and keys.
    #[cold]
    fn sort(&mut self) {
        if !hooks::simulated() {
            return self.sets.writes.sort_unstable_by_key(|write| write.record);
        }
        let store = &self.store;
        let key = |write: &super::sets::Write| GraveKey::from(stored_key(store, write.table, &write.record));
        self.sets.writes.sort_by_cached_key(|write| (write.table, key(write)));
    }

    /// Phase 4: writes and unlocks.
    #[inline(always)]
    pub fn install(&mut self) -> Timestamp {
        let Phase::Validated(ts) = self.phase else { panic!("install comes after validate") };
        if let Some(undo) = &mut self.undo
            && !self.sets.writes.is_empty()
        {
            for write in &self.sets.writes {
                undo.keep(write.table, write.before, write.record);
            }
            undo.end(ts, &self.heap);
        }
        let mut deleted = false;
        for (at, write) in self.sets.writes.iter().enumerate() {
            hooks::point(INSTALL);
            if at % STRETCH == STRETCH - 1 {
                self.work.step();
            }
            debug_assert!(write.before & TIMESTAMP < ts.0, "a record's timestamp only grows");
            if write.delete {
                deleted = true;
                write.record.word().unlock(ts.0 | TOMBSTONE);
            } else {
                write.record.write_value(self.writer.value(write.at), &mut self.heap);
                write.record.word().unlock(ts.0);
            }
        }
        if deleted {
            self.bury_tombstones(ts);
        }
        self.writer.commit(ts);
        self.floor = ts;
        self.end();
        ts
    }

    #[inline]
    fn end(&mut self) {
        self.sets.clear();
        self.ahead.clear();
        self.heap.unpin();
        self.phase = Phase::Idle;
    }

    fn bury_tombstones(&mut self, ts: Timestamp) {
        for at in 0..self.sets.writes.len() {
            if self.sets.writes[at].delete {
                self.bury(at, ts);
            }
        }
    }

    /// Remembers the placeholders that a transaction made and will not write: they are in the index, and have to be
    /// unlinked.
    fn bury_placeholders(&mut self) {
        for at in 0..self.sets.writes.len() {
            if self.sets.writes[at].created {
                self.bury(at, Timestamp::ZERO);
            }
        }
    }

    fn bury(&mut self, write: usize, ts: Timestamp) {
        let write = &self.sets.writes[write];
        let key = stored_key(&self.store, write.table, &write.record);
        self.graveyard.bury(write.table, ts, key);
    }
}

/// The key of a record, as the log has it.
pub(super) fn stored_key<'a>(store: &Store, table: TableId, record: &'a Record) -> Key<'a> {
    match store.table(table).expect("written tables exist") {
        AnyIndex::HashU64(_) | AnyIndex::TreeU64(_) => IntegerKeys::logged(IntegerKeys::stored(record)),
        AnyIndex::HashBytes(_) | AnyIndex::TreeBytes(_) => ByteKeys::logged(ByteKeys::stored(record)),
    }
}
