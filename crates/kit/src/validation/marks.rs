//! Who reads and writes what at the moment, and how late it was read: the paper's `rts`, `readers` and `writers`. (`wts` is the
//! timestamp of the store's record.)
//!
//! Keys share a fixed number of *slots*, by hash: two keys of one slot are taken for one, which may refuse what could have been
//! valid, and never finds valid what is not. So marks take no memory per key, and a key that nobody touches has none.
//!
//! For tables that are scanned there are marks of ranges, too, in shards by the front of the key: a scan marks a range, and a write looks
//! whether it falls into one.
//!
//! A replica that collects a tombstone remembers here, by slot and shard, that there was one: no trace of a key may mean that it was written and deleted
//! since it was read.
//!
//! Each slot and shard has a lock of its own, held for a few instructions: transactions that touch different keys write to no common
//! line, but for two keys of one slot.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use highwater_core::transaction::KeyRange;
use highwater_core::{IndexKind, Schema, TableId, Timestamp};
use highwater_seam::Nanos;
use highwater_store::sync::Backoff;

use super::payload::{covers, hash};

/// Marks that stand in a slot itself.
const INLINE: usize = 4;
/// Bit of a mark: it writes.
const WRITES: u64 = 1 << 63;
/// Shards of a table that is scanned.
const SHARDS: usize = 16;
/// Bytes of a key that choose its shard: scans of composite keys stay within one prefix, as a rule.
const PREFIX: usize = 4;
/// Scans that are over, and are remembered one by one in a shard; of those before them the latest timestamp is.
const REMEMBERED: usize = 64;

/// A transaction in the way; a timestamp above this one is not refused for that reason again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InTheWay(pub Timestamp);

/// Takes a lock without sleeping on it: a simulator lets its holder go on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let mut backoff = Backoff::default();
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::WouldBlock) => backoff.wait(),
            Err(TryLockError::Poisoned(_)) => panic!("nobody panics while holding marks"),
        }
    }
}

/// What is marked under the keys of one slot.
#[derive(Default)]
struct Marked {
    /// The latest committed read.
    rts: u64,
    count: u32,
    inline: [u64; INLINE],
    #[expect(clippy::box_collection, reason = "a vector is three words, and a slot is a line")]
    more: Option<Box<Vec<u64>>>,
}

impl Marked {
    fn all(&self) -> impl Iterator<Item = u64> {
        let inline = &self.inline[..self.count as usize];
        inline.iter().chain(self.more.iter().flat_map(|more| more.iter())).copied()
    }

    fn add(&mut self, mark: u64) {
        if self.all().any(|known| known == mark) {
            return;
        }
        if (self.count as usize) < INLINE {
            self.inline[self.count as usize] = mark;
            self.count += 1;
        } else {
            self.more.get_or_insert_default().push(mark);
        }
    }

    fn remove(&mut self, mark: u64) {
        if let Some(at) = self.inline[..self.count as usize].iter().position(|known| *known == mark) {
            self.count -= 1;
            self.inline.swap(at, self.count as usize);
            if let Some(last) = self.more.as_mut().and_then(|more| more.pop()) {
                self.inline[self.count as usize] = last;
                self.count += 1;
            }
        } else if let Some(more) = &mut self.more {
            more.retain(|known| *known != mark);
        }
    }
}

/// A line of its own.
#[repr(align(64))]
#[derive(Default)]
struct Slot(Mutex<Marked>);

/// A range that a transaction reads, or has read.
struct Ranged {
    low: Bound<Box<[u8]>>,
    high: Bound<Box<[u8]>>,
    ts: u64,
    pending: bool,
}

fn owned(bound: Bound<&[u8]>) -> Bound<Box<[u8]>> {
    bound.map(Into::into)
}

impl Ranged {
    fn covers(&self, key: &[u8]) -> bool {
        let (low, high) = (self.low.as_ref().map(|key| &**key), self.high.as_ref().map(|key| &**key));
        covers((low, high), key)
    }
}

/// What is marked in one shard of a table that is scanned.
#[derive(Default)]
struct Shard {
    /// The latest committed scan that is not remembered any more.
    rts: u64,
    /// The latest tombstone that was collected.
    gone: u64,
    scans: Vec<Ranged>,
    writers: BTreeMap<Box<[u8]>, Vec<u64>>,
}

impl Shard {
    fn forget_some(&mut self) {
        while self.scans.len() > REMEMBERED
            && let Some(oldest) = self.scans.iter().position(|scan| !scan.pending)
        {
            self.rts = self.rts.max(self.scans.swap_remove(oldest).ts);
        }
    }
}

/// The marks of a table that is scanned.
#[derive(Default)]
struct RangeMarks([Mutex<Shard>; SHARDS]);

fn shard_of(key: &[u8]) -> usize {
    let front = &key[..key.len().min(PREFIX)];
    front.iter().fold(0usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(*byte))) % SHARDS
}

/// The shards that a range may touch: one if all its keys begin alike.
fn shards_of(range: KeyRange<'_>) -> std::ops::Range<usize> {
    let front = |bound: Bound<&[u8]>| match bound {
        Bound::Included(key) | Bound::Excluded(key) => key.get(..PREFIX).map(<[u8]>::to_vec),
        Bound::Unbounded => None,
    };
    match (front(range.0), front(range.1)) {
        (Some(low), Some(high)) if low == high => {
            let shard = shard_of(&low);
            shard..shard + 1
        }
        _ => 0..SHARDS,
    }
}

/// Up to when tombstones are collected: they linger for an election timeout behind what is over everywhere. Whoever had not heard that it is, and
/// executed a transaction that found no trace, or the tombstone, has had it validated by then, as a rule; else it is refused.
#[derive(Debug, Default)]
pub struct Linger {
    next: Nanos,
    seen: Timestamp,
    long: Timestamp,
}

impl Linger {
    /// Transactions that were over everywhere for `every` at least; `over`: what is now.
    pub fn look(&mut self, now: Nanos, every: Nanos, over: impl FnOnce() -> Timestamp) -> Timestamp {
        if now >= self.next {
            (self.long, self.seen, self.next) = (self.seen, over(), now + every);
        }
        self.long
    }

    /// When to look again.
    #[inline]
    pub fn next(&self) -> Nanos {
        self.next
    }
}

/// All marks of a replica, shared by its workers.
pub struct Marks {
    slots: Box<[Slot]>,
    /// The latest tombstone by slot of its keys that was collected.
    gone: Box<[AtomicU64]>,
    ranges: Box<[Option<RangeMarks>]>,
}

impl Marks {
    /// For tables of `schema`, in about so many bytes.
    pub fn new(schema: &Schema, bytes: u64) -> Marks {
        let slots =
            (bytes / size_of::<(Slot, AtomicU64)>() as u64).clamp(1 << 10, 1 << 20).next_power_of_two();
        let ranges =
            schema.iter().map(|(_, spec)| (spec.index == IndexKind::Ordered).then(RangeMarks::default));
        Marks {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            gone: (0..slots).map(|_| AtomicU64::new(0)).collect(),
            ranges: ranges.collect(),
        }
    }

    /// Asks for the line of a key's slot.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        highwater_store::sync::prefetch(std::ptr::from_ref(self.slot(hash)).cast::<u8>());
    }

    /// A tombstone of this key is about to be unlinked.
    pub fn collected(&self, table: TableId, key: &[u8], ts: Timestamp) {
        let slot = (hash(table, key) as usize) & (self.slots.len() - 1);
        // Release; pairs with the Acquire in `gone`: who does not find the tombstone any more finds this.
        self.gone[slot].fetch_max(ts.0, Ordering::Release);
        if let Some(ranges) = self.ranges(table) {
            let mut shard = lock(&ranges.0[shard_of(key)]);
            shard.gone = shard.gone.max(ts.0);
        }
    }

    /// Asked after no trace of a key was found: the latest tombstone that was collected of it, or of another key of its slot.
    #[inline]
    pub fn gone(&self, hash: u64) -> Timestamp {
        Timestamp(self.gone[(hash as usize) & (self.slots.len() - 1)].load(Ordering::Acquire))
    }

    #[inline]
    fn slot(&self, hash: u64) -> &Slot {
        &self.slots[(hash as usize) & (self.slots.len() - 1)]
    }

    /// Marks that a transaction at `ts` has read a key as of `version`, if that can still be: no transaction under way may write between
    /// the two, and `now`, asked under the slot's lock, must not be newer. The paper's algorithm 1, lines 4 to 11; but writers at or
    /// below `version` are not in the way: what they write is what was read, or older.
    pub fn read(
        &self,
        hash: u64,
        ts: Timestamp,
        version: Timestamp,
        now: impl FnOnce() -> Timestamp,
    ) -> Result<(), InTheWay> {
        let mut marked = lock(&self.slot(hash).0);
        let between = |mark: &u64| mark & WRITES != 0 && (version.0 + 1..ts.0).contains(&(mark & !WRITES));
        if let Some(writer) = marked.all().find(between) {
            return Err(InTheWay(Timestamp(writer & !WRITES)));
        }
        let now = now();
        if now > version {
            return Err(InTheWay(now));
        }
        marked.add(ts.0);
        Ok(())
    }

    /// Marks that a transaction at `ts` writes a key, if nobody has read it, or reads it, later in the order of timestamps. The same,
    /// lines 15 to 22.
    pub fn write(&self, hash: u64, ts: Timestamp) -> Result<(), InTheWay> {
        let mut marked = lock(&self.slot(hash).0);
        let readers = marked.all().filter(|mark| mark & WRITES == 0);
        let latest = readers.fold(marked.rts, u64::max);
        if ts.0 < latest {
            return Err(InTheWay(Timestamp(latest)));
        }
        marked.add(ts.0 | WRITES);
        Ok(())
    }

    /// Whether a transaction under way writes a key, or another one of its slot.
    #[inline]
    pub fn is_written(&self, hash: u64) -> bool {
        lock(&self.slot(hash).0).all().any(|mark| mark & WRITES != 0)
    }

    /// Whether it is the transaction at `ts` that does.
    #[inline]
    pub fn is_writer(&self, hash: u64, ts: Timestamp) -> bool {
        lock(&self.slot(hash).0).all().any(|mark| mark == ts.0 | WRITES)
    }

    /// A read is over.
    pub fn end_read(&self, hash: u64, ts: Timestamp, committed: bool) {
        let mut marked = lock(&self.slot(hash).0);
        marked.remove(ts.0);
        if committed {
            marked.rts = marked.rts.max(ts.0);
        }
    }

    /// A write is over; if it committed, it is installed.
    #[inline]
    pub fn end_write(&self, hash: u64, ts: Timestamp) {
        lock(&self.slot(hash).0).remove(ts.0 | WRITES);
    }

    fn ranges(&self, table: TableId) -> Option<&RangeMarks> {
        self.ranges.get(table.0 as usize)?.as_ref()
    }

    /// Marks that a transaction at `ts` has read a range, if `valid`, asked under the locks of the range, finds that it may; `seen`
    /// tells which version of a key it saw, and `as_of` up to when it saw all that was written.
    pub fn scan(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        (ts, as_of): (Timestamp, Timestamp),
        seen: impl Fn(&[u8]) -> Timestamp,
        valid: impl FnOnce() -> Result<(), InTheWay>,
    ) -> Result<(), InTheWay> {
        let Some(ranges) = self.ranges(table) else { return Ok(()) };
        // In the order of the shards, always.
        let mut shards: Vec<_> = shards_of(range).map(|at| lock(&ranges.0[at])).collect();
        for shard in &shards {
            for (key, writers) in shard.writers.iter().filter(|(key, _)| covers(range, key)) {
                let version = seen(key);
                if let Some(writer) = writers.iter().find(|writer| (version.0 + 1..ts.0).contains(*writer)) {
                    return Err(InTheWay(Timestamp(*writer)));
                }
            }
        }
        valid()?;
        // What was written and deleted since has left no trace in the store.
        if let Some(gone) = shards.iter().map(|shard| shard.gone).max().filter(|gone| *gone > as_of.0) {
            return Err(InTheWay(Timestamp(gone)));
        }
        for shard in &mut shards {
            let (low, high) = (owned(range.0), owned(range.1));
            shard.scans.push(Ranged { low, high, ts: ts.0, pending: true });
        }
        Ok(())
    }

    /// The part of [`write`](Marks::write) for tables that are scanned.
    pub fn write_ranged(&self, table: TableId, key: &[u8], ts: Timestamp) -> Result<(), InTheWay> {
        let Some(ranges) = self.ranges(table) else { return Ok(()) };
        let mut shard = lock(&ranges.0[shard_of(key)]);
        let over = shard.scans.iter().filter(|scan| scan.ts > ts.0 && scan.covers(key)).map(|scan| scan.ts);
        let latest = over.fold(shard.rts, u64::max);
        if ts.0 < latest {
            return Err(InTheWay(Timestamp(latest)));
        }
        let writers = shard.writers.entry(key.into()).or_default();
        if !writers.contains(&ts.0) {
            writers.push(ts.0);
        }
        Ok(())
    }

    /// A scan is over.
    pub fn end_scan(&self, table: TableId, range: KeyRange<'_>, ts: Timestamp, committed: bool) {
        let Some(ranges) = self.ranges(table) else { return };
        for at in shards_of(range) {
            let mut shard = lock(&ranges.0[at]);
            if committed {
                let marked = shard.scans.iter_mut().filter(|scan| scan.ts == ts.0);
                let found = marked.map(|scan| scan.pending = false).count();
                if found == 0 {
                    shard.rts = shard.rts.max(ts.0);
                }
                shard.forget_some();
            } else {
                shard.scans.retain(|scan| scan.ts != ts.0);
            }
        }
    }

    /// A write to a table that is scanned is over; if it committed, it is installed.
    pub fn end_write_ranged(&self, table: TableId, key: &[u8], ts: Timestamp) {
        let Some(ranges) = self.ranges(table) else { return };
        let mut shard = lock(&ranges.0[shard_of(key)]);
        if let Some(writers) = shard.writers.get_mut(key) {
            writers.retain(|writer| *writer != ts.0);
            if writers.is_empty() {
                shard.writers.remove(key);
            }
        }
    }

    /// How many marks there are of transactions under way; for tests and reports.
    pub fn pending(&self) -> usize {
        let slots = self.slots.iter().map(|slot| lock(&slot.0).all().count()).sum::<usize>();
        let shards = self.ranges.iter().flatten().flat_map(|ranges| &ranges.0);
        let ranged = shards.map(|shard| {
            let shard = lock(shard);
            shard.writers.len() + shard.scans.iter().filter(|scan| scan.pending).count()
        });
        slots + ranged.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Bound::{Excluded, Included, Unbounded};

    use highwater_core::{KeyKind, TableSpec};

    use super::*;

    const TABLE: TableId = TableId(0);

    fn marks() -> Marks {
        let spec = TableSpec { name: "t", keys: KeyKind::Bytes, index: IndexKind::Ordered };
        Marks::new(&Schema::new(vec![spec]), 0)
    }

    fn at(ts: u64) -> Timestamp {
        Timestamp(ts)
    }

    #[test]
    fn slots_are_lines() {
        assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (64, 64));
    }

    /// Section 5.2.2, step 2.
    #[test]
    fn a_read_is_refused_where_somebody_may_write_before_it() {
        let marks = marks();
        assert_eq!(marks.write(7, at(20)), Ok(()));
        assert_eq!(marks.read(7, at(30), at(10), || at(10)), Err(InTheWay(at(20))));
        assert_eq!(marks.read(7, at(15), at(10), || at(10)), Ok(()), "it is before that write");
        assert_eq!(
            marks.read(7, at(30), at(20), || at(10)),
            Ok(()),
            "that is what it read, at another replica"
        );
        assert_eq!(marks.read(7, at(15), at(10), || at(12)), Err(InTheWay(at(12))), "not the latest version");
        marks.end_write(7, at(20));
        assert_eq!(marks.read(7, at(40), at(20), || at(20)), Ok(()));
    }

    #[test]
    fn a_write_is_refused_where_somebody_has_read_after_it() {
        let marks = marks();
        assert_eq!(marks.read(7, at(30), at(10), || at(10)), Ok(()));
        assert_eq!(marks.write(7, at(20)), Err(InTheWay(at(30))));
        assert_eq!(marks.write(7, at(30)), Ok(()), "its own read");
        marks.end_read(7, at(30), false);
        assert_eq!(marks.write(7, at(20)), Ok(()), "that one was aborted");
        assert_eq!(marks.read(7, at(50), at(40), || at(40)), Ok(()));
        marks.end_read(7, at(50), true);
        assert_eq!(marks.write(7, at(45)), Err(InTheWay(at(50))), "a committed read");
    }

    #[test]
    fn a_slot_holds_any_number_of_marks() {
        let marks = marks();
        for ts in 1..=20 {
            assert_eq!(marks.write(3, at(ts)), Ok(()));
            assert_eq!(marks.write(3, at(ts)), Ok(()), "marked once");
        }
        assert_eq!(marks.pending(), 20);
        for ts in [5, 1, 20, 2, 19, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18] {
            assert!(marks.read(3, at(100), at(0), || at(0)).is_err());
            marks.end_write(3, at(ts));
        }
        assert_eq!(marks.pending(), 0);
    }

    #[test]
    fn ranges_keep_writes_out_and_writes_keep_ranges_out() {
        let marks = marks();
        let range: KeyRange<'_> = (Included(b"aaaa1"), Excluded(b"aaaa5"));
        let unseen = |_: &[u8]| at(0);
        assert_eq!(marks.scan(TABLE, range, (at(30), at(0)), unseen, || Ok(())), Ok(()));
        assert_eq!(marks.write_ranged(TABLE, b"aaaa3", at(20)), Err(InTheWay(at(30))));
        assert_eq!(marks.write_ranged(TABLE, b"aaaa5", at(20)), Ok(()), "not in the range");
        assert_eq!(marks.write_ranged(TABLE, b"aaaa3", at(40)), Ok(()));
        assert_eq!(marks.scan(TABLE, range, (at(50), at(0)), unseen, || Ok(())), Err(InTheWay(at(40))));
        assert_eq!(
            marks.scan(TABLE, range, (at(50), at(0)), |_| at(40), || Ok(())),
            Ok(()),
            "it saw that write"
        );
        assert_eq!(
            marks.scan(TABLE, (Unbounded, Unbounded), (at(25), at(0)), unseen, || Ok(())),
            Err(InTheWay(at(20))),
            "everywhere"
        );
        marks.end_scan(TABLE, range, at(30), true);
        assert_eq!(marks.write_ranged(TABLE, b"aaaa2", at(29)), Err(InTheWay(at(50))));
        marks.end_scan(TABLE, range, at(50), false);
        assert_eq!(marks.write_ranged(TABLE, b"aaaa2", at(29)), Err(InTheWay(at(30))), "it committed");
        marks.end_write_ranged(TABLE, b"aaaa3", at(40));
        marks.end_write_ranged(TABLE, b"aaaa5", at(20));
        assert_eq!(marks.pending(), 0);
    }

    #[test]
    fn scans_that_are_forgotten_still_count() {
        let marks = marks();
        let range: KeyRange<'_> = (Included(b"aaaa1"), Included(b"aaaa2"));
        for ts in 1..=1000 {
            assert_eq!(marks.scan(TABLE, range, (at(ts), at(0)), |_| at(0), || Ok(())), Ok(()));
            marks.end_scan(TABLE, range, at(ts), true);
        }
        assert_eq!(marks.write_ranged(TABLE, b"aaaa1", at(999)), Err(InTheWay(at(1000))));
        assert_eq!(marks.write_ranged(TABLE, b"aaaa1", at(1001)), Ok(()));
    }
}
