//! Segments and buckets of the hash index.
//!
//! ```text
//! segment  count u64 | prefix u64 | depth u32 | padding to 64 | 64 buckets of 64 bytes
//! bucket   version u64 | 6 slots u64 | overflow bucket u64
//! slot     tag (16 bits) | address of the record (48 bits); 0: empty
//! version  bit 0: locked   bit 1: obsolete   upper bits: counts the keys that came and went
//! ```

use std::ptr::NonNull;

use super::SEGMENT;
use crate::heap::{Heap, SEGMENT_BYTES};
use crate::index::NodeSeen;
use crate::record::Record;
use crate::sync::{AtomicPtr, AtomicU64, Backoff, Ordering, fence};

pub const BUCKETS: usize = 64;
pub const LOCKED: u64 = 1;
pub const OBSOLETE: u64 = 2;
/// What a change adds to a bucket's version.
pub const STEP: u64 = 4;

const ADDRESS_BITS: u32 = 48;

#[repr(C, align(64))]
pub(crate) struct Bucket {
    pub version: AtomicU64,
    pub slots: [AtomicPtr<u8>; 6],
    /// More slots, when these six are taken; its version is not used. Never shrinks.
    overflow: AtomicPtr<Bucket>,
}

#[repr(C, align(64))]
pub(crate) struct Segment {
    /// Keys in it. Split when too many.
    pub count: AtomicU64,
    /// The upper `depth` bits that all its hashes have.
    pub prefix: u64,
    pub depth: u32,
    pub buckets: [Bucket; BUCKETS],
}

const _: () = assert!(size_of::<Bucket>() == 64 && size_of::<Segment>() == SEGMENT_BYTES);

/// The record of a slot whose tag matches.
#[inline]
pub fn tagged(slot: &AtomicPtr<u8>, tag: u16) -> Option<Record> {
    // Acquire; pairs with the Release in `push`: the record's key is there.
    let at = slot.load(Ordering::Acquire);
    if (at.addr() >> ADDRESS_BITS) as u16 == tag { record(at) } else { None }
}

#[inline]
fn record(slot: *mut u8) -> Option<Record> {
    let at = NonNull::new(slot.map_addr(|addr| addr & ((1 << ADDRESS_BITS) - 1)))?;
    // SAFETY: slots hold records that were in the index after the caller's guard was pinned.
    Some(unsafe { Record::from_ptr(at) })
}

impl Bucket {
    fn empty() -> Bucket {
        Bucket {
            version: AtomicU64::new(0),
            slots: [const { AtomicPtr::new(std::ptr::null_mut()) }; 6],
            overflow: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// This bucket and its overflow buckets.
    #[inline]
    pub fn chain(&self) -> impl Iterator<Item = &Bucket> {
        std::iter::successors(Some(self), |bucket| {
            // SAFETY: overflow buckets live as long as their segment. Acquire; pairs with the Release in `push`.
            unsafe { bucket.overflow.load(Ordering::Acquire).as_ref() }
        })
    }

    #[inline]
    pub fn try_lock(&self, version: u64) -> bool {
        // Acquire; pairs with the Release in `unlock`.
        let taken = self
            .version
            .compare_exchange(version, version | LOCKED, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if taken {
            // Pairs with the acquire fence in `find`: whoever sees our change sees that the bucket was locked.
            fence(Ordering::Release);
        }
        taken
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

    /// The bucket as it is; nobody else can change it.
    pub fn seen(&self) -> NodeSeen {
        NodeSeen { version: &self.version, seen: self.version.load(Ordering::Relaxed) }
    }

    /// Adds a record. The caller holds the lock, or nobody else knows the bucket.
    pub fn push(&self, record: Record, tag: u16, heap: &mut Heap) {
        let address = record.as_ptr();
        assert!(address.addr() >> ADDRESS_BITS == 0, "user addresses have 48 bits");
        let tagged = address.map_addr(|addr| addr | usize::from(tag) << ADDRESS_BITS);
        let mut last = self;
        for bucket in self.chain() {
            for slot in &bucket.slots {
                if slot.load(Ordering::Relaxed).is_null() {
                    // Release; pairs with the Acquire in `tagged`.
                    slot.store(tagged, Ordering::Release);
                    return;
                }
            }
            last = bucket;
        }
        let more = heap.alloc(size_of::<Bucket>()).cast::<Bucket>();
        let bucket = Bucket::empty();
        bucket.slots[0].store(tagged, Ordering::Relaxed);
        // SAFETY: the piece is large enough, aligned to 64 as its size is 64, and nobody else has it.
        unsafe { more.write(bucket) };
        // Release; pairs with the Acquire in `chain`.
        last.overflow.store(more.as_ptr(), Ordering::Release);
    }
}

impl Segment {
    pub fn create(depth: u32, prefix: u64, heap: &mut Heap) -> NonNull<Segment> {
        let at = heap.alloc_index(SEGMENT).cast::<Segment>();
        // SAFETY: the piece is of the segment's size and alignment, and nobody else has it.
        unsafe {
            at.write(Segment {
                count: AtomicU64::new(0),
                prefix,
                depth,
                buckets: std::array::from_fn(|_| Bucket::empty()),
            });
        }
        at
    }

    #[inline]
    pub fn bucket(&self, hash: u64) -> &Bucket {
        &self.buckets[hash as usize % BUCKETS]
    }

    /// Every record in it.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.buckets
            .iter()
            .flat_map(Bucket::chain)
            .flat_map(|bucket| &bucket.slots)
            .filter_map(|slot| record(slot.load(Ordering::Acquire)))
    }

    /// The first hash behind those of this segment; `None` at the end.
    pub fn end(&self) -> Option<u64> {
        if self.depth == 0 { None } else { self.prefix.checked_add(1 << (64 - self.depth)) }
    }

    /// Gives a segment and its overflow buckets back.
    pub fn retire(segment: NonNull<Segment>, heap: &mut Heap) {
        // SAFETY: it has left the directory, but is not reclaimed before the caller unpins.
        for bucket in &unsafe { segment.as_ref() }.buckets {
            for bucket in bucket.chain() {
                if let Some(more) = NonNull::new(bucket.overflow.load(Ordering::Acquire)) {
                    heap.retire(more.cast(), size_of::<Bucket>());
                }
            }
        }
        heap.retire_index(segment.cast(), SEGMENT);
    }
}
