//! Segments and buckets of the hash index.
//!
//! ```text
//! segment  crowded u64 | prefix u64 | depth u32 | known u32 | padding to 64 | 64 buckets of 64 bytes
//! bucket   version u64 | 6 slots u64 | overflow bucket u64
//! slot     bits 0-3: the hash's bits behind the segment's prefix   4-47: address of the record   48-63: tag; 0: empty
//! version  bit 0: locked   bit 1: obsolete   upper bits: counts the keys that came and went
//! ```
//!
//! A split needs one more bit of each key's hash. Records are aligned to 16 bytes, so the low four bits of their
//! addresses are free to hold the next four bits of the hash; only every fifth split of a segment's line has to look
//! at the keys, and to miss the cache for each.

use std::ptr::NonNull;

use super::SEGMENT;
use crate::heap::{ALIGN, BUCKET, BUCKET_BYTES, Heap, SEGMENT_BYTES};
use crate::record::Record;
use crate::seen::NodeSeen;
use crate::sync::{AtomicPtr, AtomicU64, Backoff, Ordering, prefetch};

/// Shuttle's segments are small, so that threads meet in splits.
pub const BUCKETS: usize = if cfg!(shuttle) { 2 } else { 64 };
pub const LOCKED: u64 = 1;
pub const OBSOLETE: u64 = 2;
/// What a change adds to a bucket's version.
pub const STEP: u64 = 4;
const FIRST_VERSION: u64 = 0;

const ADDRESS_BITS: u32 = 48;
/// How many bits of the hash a slot holds for splits.
const NEXT_BITS: u32 = 4;
const NEXT: usize = (1 << NEXT_BITS) - 1;

const _: () = assert!(1 << NEXT_BITS == ALIGN);

#[repr(C, align(64))]
pub(crate) struct Bucket {
    pub version: AtomicU64,
    pub slots: [AtomicPtr<u8>; 6],
    /// More slots, when these six are taken; its version is not used. Never shrinks.
    overflow: AtomicPtr<Bucket>,
}

#[repr(C, align(64))]
pub(crate) struct Segment {
    /// Overflow buckets made since the segment was made, or was last found to be half empty: a sign of how full it is.
    /// To count keys would have every insert write to one line of the segment; this is written by few.
    pub crowded: AtomicU64,
    /// The upper `depth` bits that all its hashes have.
    pub prefix: u64,
    pub depth: u32,
    /// How many of the next bits of the hash in each slot have not been used up by splits, counted from the upper
    /// end.
    known: u32,
    pub buckets: [Bucket; BUCKETS],
}

const _: () = assert!(size_of::<Bucket>() == BUCKET_BYTES && size_of::<Segment>() <= SEGMENT_BYTES);

/// The record of a slot whose tag matches. Tags are never 0.
#[inline]
pub fn tagged(slot: &AtomicPtr<u8>, tag: u16) -> Option<Record> {
    // Acquire; pairs with the Release in `find_or_add`: the record's key is there.
    let at = slot.load(Ordering::Acquire);
    if (at.addr() >> ADDRESS_BITS) as u16 != tag {
        return None;
    }
    debug_assert!(tag != 0);
    // SAFETY: an empty slot has no tag; else as in `record`.
    Some(unsafe { Record::from_ptr(NonNull::new_unchecked(at.map_addr(address))) })
}

/// The address in a slot.
#[inline]
fn address(slot: usize) -> usize {
    slot & ((1 << ADDRESS_BITS) - 1) & !NEXT
}

#[inline]
fn record(slot: *mut u8) -> Option<Record> {
    let at = NonNull::new(slot.map_addr(address))?;
    // SAFETY: slots hold records that were in the index after the caller's guard was pinned.
    Some(unsafe { Record::from_ptr(at) })
}

/// Which bucket of its segment a hash belongs to.
#[inline]
pub fn bucket_of(hash: u64) -> usize {
    hash as usize % BUCKETS
}

/// What a slot holds for a record: its address, tag, and the bits of its hash behind the first `depth`.
#[inline]
pub fn packed(record: Record, tag: u16, hash: u64, depth: u32) -> *mut u8 {
    let address = record.as_ptr();
    assert!(address.addr() >> ADDRESS_BITS == 0, "user addresses have 48 bits");
    debug_assert!(address.addr() & NEXT == 0, "pieces are aligned so");
    let next = (hash << depth >> (64 - NEXT_BITS)) as usize;
    address.map_addr(|addr| addr | next | usize::from(tag) << ADDRESS_BITS)
}

impl Bucket {
    fn empty() -> Bucket {
        Bucket {
            version: AtomicU64::new(FIRST_VERSION),
            slots: [const { AtomicPtr::new(std::ptr::null_mut()) }; 6],
            overflow: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// This bucket and its overflow buckets.
    #[inline]
    pub fn chain(&self) -> impl Iterator<Item = &Bucket> {
        std::iter::successors(Some(self), |bucket| {
            // SAFETY: overflow buckets live as long as their segment. Acquire; pairs with the Release in `push_overflow`.
            unsafe { bucket.overflow.load(Ordering::Acquire).as_ref() }
        })
    }

    /// Locks the bucket if its version is still this one. Its lookups need no fence here: what they find is right
    /// whatever else changes, and that they found nothing is proved by a later look at the version.
    #[inline]
    pub fn try_lock(&self, version: u64) -> bool {
        // Acquire; pairs with the Release in `unlock`.
        let locked = version | LOCKED;
        self.version.compare_exchange(version, locked, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Locks a bucket that cannot become obsolete meanwhile.
    pub fn lock(&self) {
        let mut backoff = Backoff::default();
        loop {
            let version = self.version.load(Ordering::Relaxed);
            assert!(version & OBSOLETE == 0, "only the holder of the mutex makes buckets obsolete");
            if version & LOCKED == 0 && self.try_lock(version) {
                return;
            }
            backoff.wait();
        }
    }

    #[inline]
    pub fn unlock(&self, version: u64) {
        debug_assert!(version & LOCKED == 0);
        // Release; pairs with the Acquires in `find` and `try_lock`.
        self.version.store(version, Ordering::Release);
    }

    /// The bucket as a split made it.
    pub fn when_made(&self) -> NodeSeen {
        NodeSeen { version: &self.version, seen: FIRST_VERSION }
    }

    /// An empty slot, if there is one. The caller holds the lock, or nobody else knows the bucket.
    #[inline]
    pub fn free_slot(&self) -> Option<&AtomicPtr<u8>> {
        self.chain().flat_map(|bucket| &bucket.slots).find(|slot| slot.load(Ordering::Relaxed).is_null())
    }

    /// What the slots hold.
    fn packed(&self) -> impl Iterator<Item = *mut u8> {
        self.chain()
            .flat_map(|bucket| &bucket.slots)
            // Acquire; pairs with the Release in `find_or_add`.
            .map(|slot| slot.load(Ordering::Acquire))
            .filter(|packed| !packed.is_null())
    }
}

impl Segment {
    pub fn create(depth: u32, prefix: u64, heap: &mut Heap) -> NonNull<Segment> {
        let at = heap.alloc_index(SEGMENT).cast::<Segment>();
        // SAFETY: the piece is of the segment's size and alignment, and nobody else has it.
        unsafe {
            at.write(Segment {
                crowded: AtomicU64::new(0),
                prefix,
                depth,
                known: NEXT_BITS,
                buckets: std::array::from_fn(|_| Bucket::empty()),
            });
        }
        at
    }

    #[inline]
    pub fn bucket(&self, hash: u64) -> &Bucket {
        &self.buckets[bucket_of(hash)]
    }

    /// Adds a record, [`packed`], to a bucket whose slots are all taken. The caller holds the bucket's lock, or nobody
    /// else knows the segment.
    pub fn push_overflow(&self, bucket: usize, packed: *mut u8, heap: &mut Heap) {
        let more = heap.alloc_index(BUCKET).cast::<Bucket>();
        let overflow = Bucket::empty();
        overflow.slots[0].store(packed, Ordering::Relaxed);
        // SAFETY: the piece is large enough, aligned to 64 as its size is 64, and nobody else has it.
        unsafe { more.write(overflow) };
        let last = self.buckets[bucket].chain().last().expect("a chain has a first bucket");
        // Release; pairs with the Acquire in `chain`.
        last.overflow.store(more.as_ptr(), Ordering::Release);
        self.crowded.fetch_add(1, Ordering::Relaxed);
    }

    /// Every record in it.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.buckets.iter().flat_map(Bucket::packed).filter_map(record)
    }

    /// The first hash behind those of this segment; `None` at the end.
    pub fn end(&self) -> Option<u64> {
        if self.depth == 0 { None } else { self.prefix.checked_add(1 << (64 - self.depth)) }
    }

    /// Two new segments with the records of this one, whose buckets are all locked.
    pub fn halves(&self, hash: impl Fn(&Record) -> u64, heap: &mut Heap) -> [NonNull<Segment>; 2] {
        let depth = self.depth + 1;
        let upper = self.prefix | 1 << (64 - depth);
        let mut halves = [Segment::create(depth, self.prefix, heap), Segment::create(depth, upper, heap)];
        // SAFETY: both were just made, and are not published yet.
        let [low, high] = halves.each_mut().map(|half| unsafe { half.as_mut() });
        if self.known == 0 {
            self.records().for_each(|record| prefetch(record.as_ptr()));
        } else {
            (low.known, high.known) = (self.known - 1, self.known - 1);
        }
        for (at, bucket) in self.buckets.iter().enumerate() {
            for old in bucket.packed() {
                let Some(record) = record(old) else { unreachable!("empty slots were left out") };
                let (is_high, new) = if self.known == 0 {
                    let (hash, tag) = (hash(&record), (old.addr() >> ADDRESS_BITS) as u16);
                    (hash << self.depth >> 63 != 0, packed(record, tag, hash, depth))
                } else {
                    let is_high = old.addr() >> (NEXT_BITS - 1) & 1 != 0;
                    (is_high, old.map_addr(|addr| (addr & !NEXT) | (addr << 1 & NEXT)))
                };
                let half = if is_high { &mut *high } else { &mut *low };
                match half.buckets[at].free_slot() {
                    Some(slot) => slot.store(new, Ordering::Relaxed),
                    None => half.push_overflow(at, new, heap),
                }
            }
        }
        halves
    }

    /// Gives a segment and its overflow buckets back.
    pub fn retire(segment: NonNull<Segment>, heap: &mut Heap) {
        // SAFETY: it has left the directory, but is not reclaimed before the caller unpins.
        for bucket in &unsafe { segment.as_ref() }.buckets {
            for bucket in bucket.chain() {
                if let Some(more) = NonNull::new(bucket.overflow.load(Ordering::Acquire)) {
                    heap.retire_index(more.cast(), BUCKET);
                }
            }
        }
        heap.retire_index(segment.cast(), SEGMENT);
    }
}
