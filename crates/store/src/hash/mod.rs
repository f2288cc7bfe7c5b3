//! The hash index: a directory of segments of 64 buckets, a bucket being one cache line.
//!
//! ```text
//! hash    63 ........ (64 - depth) | ... | 21 .. 6 | 5 .. 0
//!         directory entry                  tag | 1   bucket in its segment
//! ```
//!
//! A lookup reads the directory entry, the bucket and the record: two lines that may miss. A found record needs no
//! check of the bucket; an absent key is proved by the bucket's version, which the transaction remembers and validates.
//!
//! A segment that fills is split by one more bit of the hash: its buckets are locked, two new segments are built, the
//! directory is pointed to them, and the old buckets become *obsolete* (their versions say so for ever), which sends
//! whoever comes late back to the directory. Lookups of keys that are there never wait, not even for a split. The
//! directory doubles by copying, under the same mutex that splits take. Nothing ever stops the whole table.
//!
//! Writers of a bucket hold its lock bit for a few instructions and take no other lock while they do. A splitter takes
//! the table's mutex and then the buckets in order.

mod segment;

use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::heap::{Heap, SEGMENT, lock};
use crate::index::{Found, Index, NodeSet, Way};
use crate::keys::Keys;
use crate::record::Record;
use crate::seen::NodeSeen;
use crate::sync::{AtomicPtr, Backoff, Mutex, Ordering, Padded, prefetch};
use crate::tree::Fingers;
use crate::word::Busy;
pub(crate) use segment::Bucket;
use segment::{LOCKED, OBSOLETE, STEP, Segment};

/// A segment is looked at when so many of its buckets have overflown: with 64 buckets of 6 slots, as a rule when it has
/// about 260 keys, 4 a bucket.
const CROWDED: u64 = if cfg!(shuttle) { 1 } else { 8 };
/// If it has so many keys then, it is split.
const FULL: usize = if cfg!(shuttle) { 0 } else { 160 };

/// The directory is not doubled beyond so many entries a segment: keys that collide in all their upper bits must not
/// blow it up. Their buckets grow chains instead.
const SPARSE: usize = 16;

/// A directory: 2^depth entries, which are written under the table's mutex.
///
/// Invariant: made by [`Directory::create`], and not reclaimed: it was found under a guard that is still pinned.
#[derive(Clone, Copy)]
struct Directory {
    entries: NonNull<AtomicPtr<Segment>>,
    depth: u32,
}

impl Directory {
    /// Directories are aligned to 64, so that their depth fits in front of the address.
    const DEPTH_BITS: usize = 63;

    fn create(depth: u32, heap: &mut Heap, entry: impl Fn(usize) -> *mut Segment) -> Directory {
        let entries = heap.alloc_part(Self::bytes(depth)).cast::<AtomicPtr<Segment>>();
        for index in 0..1 << depth {
            // SAFETY: the piece holds 2^depth entries, and nobody else has it.
            unsafe { entries.add(index).write(AtomicPtr::new(entry(index))) };
        }
        Directory { entries, depth }
    }

    fn bytes(depth: u32) -> usize {
        (size_of::<AtomicPtr<Segment>>() << depth).next_multiple_of(64)
    }

    /// Address and depth in one word: a lookup needs not touch a header.
    fn pack(self) -> *mut u8 {
        self.entries.as_ptr().cast::<u8>().map_addr(|addr| addr | self.depth as usize)
    }

    #[inline]
    fn unpack(packed: *mut u8) -> Directory {
        let depth = (packed.addr() & Self::DEPTH_BITS) as u32;
        let entries = packed.map_addr(|addr| addr & !Self::DEPTH_BITS).cast();
        Directory { entries: NonNull::new(entries).expect("there always is a directory"), depth }
    }

    #[inline]
    fn entries(&self) -> &[AtomicPtr<Segment>] {
        // SAFETY: the type's invariant.
        unsafe { std::slice::from_raw_parts(self.entries.as_ptr(), 1 << self.depth) }
    }

    /// The entry of a hash.
    #[inline]
    fn entry(&self, hash: u64) -> &AtomicPtr<Segment> {
        // Two shifts: one by 64 is not defined when the depth is 0.
        &self.entries()[(hash >> 1 >> (63 - self.depth)) as usize]
    }
}

/// A hash index from keys of kind `K` to records.
pub(crate) struct Hash<K> {
    /// Packed; see [`Directory::pack`].
    directory: AtomicPtr<u8>,
    /// Held while a segment is split: how many segments there are. Out of line: every lookup of every table reads what
    /// stands here, and next to here.
    segments: Box<Padded<Mutex<usize>>>,
    keys: PhantomData<fn(K)>,
}

/// What a slot tells of a hash. Never 0, which is what an empty slot has there: whatever has the tag is a record.
#[inline]
fn tag(hash: u64) -> u16 {
    (hash >> 6) as u16 | 1
}

impl<K: Keys> Hash<K> {
    pub fn new(heap: &mut Heap) -> Hash<K> {
        let segment = Segment::create(0, 0, heap);
        let directory = Directory::create(0, heap, |_| segment.as_ptr());
        Hash {
            directory: AtomicPtr::new(directory.pack()),
            segments: Box::new(Padded(Mutex::new(1))),
            keys: PhantomData,
        }
    }

    #[inline]
    fn directory(&self) -> Directory {
        // Acquire; pairs with the Release in `double`.
        Directory::unpack(self.directory.load(Ordering::Acquire))
    }

    #[inline]
    fn segment(&self, hash: u64) -> &Segment {
        // SAFETY: an entry points to a segment until that is retired; the caller is pinned.
        // Acquire; pairs with the Release in `split`.
        unsafe { &*self.directory().entry(hash).load(Ordering::Acquire) }
    }

    /// The records of the segment that covers a hash, and the first hash behind it, for scans: going on from there
    /// misses no record that was there all the time, whatever is split meanwhile. Some may be of lower hashes.
    pub fn scan(&self, hash: u64) -> (impl Iterator<Item = Record>, Option<u64>) {
        let segment = self.segment(hash);
        (segment.records(), segment.end())
    }

    /// Visits every record.
    pub fn for_each(&self, visit: &mut dyn FnMut(Record)) {
        let mut next = Some(0);
        while let Some(at) = next {
            let (records, end) = self.scan(at);
            records.filter(|record| K::hash(K::stored(record)) >= at).for_each(&mut *visit);
            next = end;
        }
    }

    /// The key's record and its slot, if it is in the bucket.
    #[inline]
    fn search<'a>(bucket: &'a Bucket, key: K::Key<'_>, hash: u64) -> Option<(Record, &'a AtomicPtr<u8>)> {
        let tag = tag(hash);
        for bucket in bucket.chain() {
            for slot in &bucket.slots {
                if let Some(record) = segment::tagged(slot, tag)
                    && K::same(K::stored(&record), key)
                {
                    return Some((record, slot));
                }
            }
        }
        None
    }

    /// The bucket of the hash, locked, its segment and its version.
    fn lock_bucket(&self, hash: u64) -> (&Segment, &Bucket, u64) {
        let mut backoff = Backoff::default();
        loop {
            let segment = self.segment(hash);
            let bucket = segment.bucket(hash);
            let version = bucket.version.load(Ordering::Relaxed);
            if version & (LOCKED | OBSOLETE) == 0 && bucket.try_lock(version) {
                return (segment, bucket, version);
            }
            backoff.wait();
        }
    }

    /// Splits the segment of the hash, if it is still crowded and may be split.
    #[cold]
    fn split(&self, hash: u64, heap: &mut Heap, nodes: &mut impl NodeSet) {
        let mut segments = lock(&self.segments.0);
        let old_at = self.directory().entry(hash).load(Ordering::Relaxed);
        // SAFETY: it is retired below at the earliest, and we are pinned.
        let old = unsafe { &*old_at };
        if old.crowded.load(Ordering::Relaxed) + 1 < CROWDED {
            return;
        }
        if old.records().take(FULL).count() < FULL {
            // Keys came and went: the overflow buckets are of different times.
            old.crowded.store(0, Ordering::Relaxed);
            return;
        }
        if old.depth == self.directory().depth && !self.double(*segments, heap) {
            return;
        }
        for bucket in &old.buckets {
            bucket.lock();
        }
        let halves = old.halves(|record| K::hash(K::stored(record)), heap);
        // SAFETY: both were just made; they are retired at the next split at the earliest, and we are pinned.
        let [low, high] = halves.map(|half| unsafe { half.as_ref() });
        self.publish(old, halves);
        *segments += 1;
        for (at, bucket) in old.buckets.iter().enumerate() {
            // As they were made: if somebody has added a key since, those who relied on the old bucket must notice.
            let [low, high] = [&low.buckets[at], &high.buckets[at]].map(Bucket::when_made);
            // Release; pairs with the Acquire of whoever finds the bucket obsolete and reads the directory again.
            let version = bucket.version.load(Ordering::Relaxed);
            bucket.version.store((version & !LOCKED) | OBSOLETE, Ordering::Release);
            nodes.replaced(NodeSeen { version: &bucket.version, seen: version & !LOCKED }, &[low, high]);
        }
        Segment::retire(NonNull::new(old_at).expect("entries are never null"), heap);
    }

    /// Points the directory to the two halves of a segment.
    fn publish(&self, old: &Segment, halves: [NonNull<Segment>; 2]) {
        let directory = self.directory();
        let span = 1usize << (directory.depth - old.depth);
        let first = (old.prefix >> 1 >> (63 - directory.depth)) as usize;
        for (at, entry) in directory.entries()[first..first + span].iter().enumerate() {
            debug_assert!(std::ptr::eq(entry.load(Ordering::Relaxed), old));
            let half = halves[usize::from(at >= span / 2)];
            // Release; pairs with the Acquire in `segment`.
            entry.store(half.as_ptr(), Ordering::Release);
        }
    }

    /// Doubles the directory, unless it is sparse already. The caller holds the mutex.
    fn double(&self, segments: usize, heap: &mut Heap) -> bool {
        let old = self.directory();
        let len = old.entries().len();
        if len >= segments * SPARSE || old.depth >= 40 {
            return false;
        }
        let new = Directory::create(old.depth + 1, heap, |at| old.entries()[at / 2].load(Ordering::Relaxed));
        // Release; pairs with the Acquire in `directory`.
        self.directory.store(new.pack(), Ordering::Release);
        heap.retire_part(old.entries.cast(), Directory::bytes(old.depth));
        true
    }
}

/// The last step of a lookup through its steps (see [`Way::Bucket`]), for which neither index nor key is needed.
#[inline]
pub(crate) fn peek(hash: u64, bucket: NonNull<Bucket>) -> Option<Record> {
    // SAFETY: it was found under the guard that is still pinned.
    let bucket = unsafe { bucket.as_ref() };
    bucket.slots.iter().find_map(|slot| segment::tagged(slot, tag(hash)))
}

impl<K: Keys> Index for Hash<K> {
    type Keys = K;

    #[inline]
    fn find(&self, key: K::Key<'_>, hash: u64, _: &mut Fingers) -> Found {
        let mut backoff = Backoff::default();
        loop {
            let bucket = self.segment(hash).bucket(hash);
            // Acquire; pairs with the Release in `unlock`.
            let version = bucket.version.load(Ordering::Acquire);
            if let Some((record, _)) = Self::search(bucket, key, hash) {
                return Found::Record(record);
            } else if version & (LOCKED | OBSOLETE) == 0 {
                // A key that came while we searched has changed the version: whoever relies on it will notice.
                return Found::Absent(NodeSeen { version: &bucket.version, seen: version });
            }
            backoff.wait();
        }
    }

    fn find_or_add(
        &self,
        key: K::Key<'_>,
        hash: u64,
        value_len: usize,
        word: u64,
        _: &mut Fingers,
        heap: &mut Heap,
        nodes: &mut impl NodeSet,
    ) -> (Record, bool) {
        let mut may_split = true;
        let mut backoff = Backoff::default();
        loop {
            let segment = self.segment(hash);
            let bucket = segment.bucket(hash);
            // Acquire; pairs with the Release in `unlock`: the search sees every key that this version counts.
            let version = bucket.version.load(Ordering::Acquire);
            // Without the lock: who overwrites what is there writes to no line of the index.
            if let Some((record, _)) = Self::search(bucket, key, hash) {
                return (record, false);
            }
            // Nothing has come since the search, or the lock is not to be had.
            if version & (LOCKED | OBSOLETE) != 0 || !bucket.try_lock(version) {
                backoff.wait();
                continue;
            }
            let slot = bucket.free_slot();
            if slot.is_none() && may_split && segment.crowded.load(Ordering::Relaxed) + 1 >= CROWDED {
                bucket.unlock(version);
                self.split(hash, heap, nodes);
                may_split = false;
                continue;
            }
            let record = Record::create(K::logged(key), value_len, word, heap);
            let packed = segment::packed(record, tag(hash), hash, segment.depth);
            match slot {
                // Release; pairs with the Acquire in `tagged`.
                Some(slot) => slot.store(packed, Ordering::Release),
                None => segment.push_overflow(segment::bucket_of(hash), packed, heap),
            }
            bucket.unlock(version + STEP);
            let seen = |seen| NodeSeen { version: &bucket.version, seen };
            nodes.replaced(seen(version), &[seen(version + STEP)]);
            return (record, true);
        }
    }

    fn unlink(
        &self,
        key: K::Key<'_>,
        hash: u64,
        expected: u64,
        _: &mut Fingers,
        heap: &mut Heap,
    ) -> Result<Option<Record>, Busy> {
        let (_, bucket, version) = self.lock_bucket(hash);
        let Some((record, slot)) = Self::search(bucket, key, hash) else {
            bucket.unlock(version);
            return Ok(None);
        };
        let died = record.word().die(expected);
        if died != Ok(true) {
            bucket.unlock(version);
            return died.map(|_| None);
        }
        // Relaxed: readers that still find it see that it is dead.
        slot.store(std::ptr::null_mut(), Ordering::Relaxed);
        bucket.unlock(version + STEP);
        record.retire(heap);
        Ok(Some(record))
    }

    #[inline]
    fn enter(&self, key: K::Key<'_>, _: Option<&mut Fingers>) -> Way {
        let hash = K::hash(key);
        let bucket = self.segment(hash).bucket(hash);
        prefetch(bucket);
        Way::Bucket(hash, NonNull::from(bucket))
    }

    #[inline]
    fn go_on(&self, way: Way, _: K::Key<'_>) -> Way {
        way
    }

    #[inline]
    fn peek(&self, way: Way, _: K::Key<'_>, _: &mut Fingers) -> Option<Record> {
        let Way::Bucket(hash, bucket) = way else { return None };
        peek(hash, bucket)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;
    use crate::heap::Heaps;
    use crate::keys::IntegerKeys;
    use crate::word::TOMBSTONE;

    #[test]
    fn a_key_that_is_there_is_found_for_writing_without_the_bucket_s_lock() {
        let heaps = Heaps::new();
        let (done, found) = channel();
        std::thread::spawn(move || {
            let mut heap = Heap::new(&heaps);
            let index: Hash<IntegerKeys> = Hash::new(&mut heap);
            heap.pin();
            let hash = IntegerKeys::hash(7);
            let mut find = |index: &Hash<_>| {
                index.find_or_add(7, hash, 8, TOMBSTONE, &mut Fingers::default(), &mut heap, &mut ())
            };
            let (record, added) = find(&index);
            let (_, bucket, version) = index.lock_bucket(hash);
            let (again, added_again) = find(&index);
            bucket.unlock(version);
            let _ = done.send((added, added_again, record == again));
        });
        // Whoever takes the lock waits for it for ever.
        let found = found.recv_timeout(Duration::from_secs(20));
        assert_eq!(found, Ok((true, false, true)), "added once, and found with no lock");
    }
}
