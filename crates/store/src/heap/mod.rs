//! Memory for records, keys, index nodes: per-worker slabs of size classes, and what waits to be reclaimed.
//!
//! ```text
//! system --mmap, 2 MiB, huge pages--> chunk --32 KiB--> block of one class --> piece
//! ```
//!
//! Each worker cuts pieces from blocks of its own and keeps free lists, without sharing anything. Pieces that it
//! *retires* are stamped in batches and come back to its free lists when no guard holds them; what is too much for a
//! free list goes to the [`pool`] that all share, where blocks and chunks become free for other sizes, and for the
//! system. Pieces of the class [`NODE`] are never used for anything but tree nodes (see `tree::node`).
//!
//! Pieces are aligned to 16 bytes ([`ALIGN`]), those of 64 bytes and multiples to a cache line.

mod classes;
mod memory;
mod pace;
mod pool;
mod provision;
mod shared;
mod system;

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

pub(crate) use self::classes::{
    ALIGN, BUCKET, BUCKET_BYTES, MAX_SIZED, NODE, NODE_BYTES, SEGMENT, SEGMENT_BYTES, rounded, taken,
};
use self::classes::{CLASSES, LARGE, SIZES, class_of, part_of};
use self::memory::{Counters, bump};
pub use self::memory::{Memory, cost};
use self::pool::{BLOCK, Free};
pub use self::provision::Provision;
use self::shared::Piece;
pub(crate) use self::shared::{Heaps, VERSION_PARTS, lock};
pub use self::system::one_arena;
pub use self::system::trim as give_back_freed;
use crate::sync::{Ordering, prefetch};

/// How far ahead fresh memory is asked for.
const AHEAD: usize = 512;
/// When so many pieces are retired, or so many bytes of them, they are stamped together and looked after.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 1 << 20;

/// After a heap was asked to give up what it keeps, it does so up to this many times: guards may hold some of it at
/// first.
const FLUSHES: u8 = 8;

/// A free list longer than this gives half of it to the pool.
const LONG: [usize; CLASSES] = {
    let mut long = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        long[class] = 8 * BLOCK / SIZES[class];
        class += 1;
    }
    long
};

/// One worker's memory and its place among the guards.
pub(crate) struct Heap {
    shared: Arc<Heaps>,
    slot: usize,
    free: [Vec<NonNull<u8>>; CLASSES],
    /// The unused rest of each class's current block: next piece and how many bytes are left.
    block: [(NonNull<u8>, usize); CLASSES],
    /// Retired, not stamped yet.
    fresh: Vec<Piece>,
    fresh_bytes: usize,
    /// Stamped, oldest first.
    stamped: VecDeque<Piece>,
    /// The number of the last request to give up what is kept here that this heap has heard.
    flushed: u64,
    /// How many more times it gives up for that request what guards have let go of since.
    flushing: u8,
    counters: Arc<Counters>,
}

// SAFETY: all pointers are to memory that this heap owns or to retired pieces that it alone will free.
unsafe impl Send for Heap {}

impl Heap {
    pub fn new(shared: &Arc<Heaps>) -> Heap {
        let counters = Arc::new(Counters::default());
        shared.register(&counters);
        Heap {
            slot: shared.guards.join(),
            shared: shared.clone(),
            free: [const { Vec::new() }; CLASSES],
            block: [(NonNull::dangling(), 0); CLASSES],
            fresh: Vec::new(),
            fresh_bytes: 0,
            stamped: VecDeque::new(),
            flushed: shared.flushes(),
            flushing: 0,
            counters,
        }
    }

    /// Pins this worker's guard: what it finds from now on stays valid until [`Heap::unpin`].
    #[inline]
    pub fn pin(&self) {
        self.shared.guards.pin(self.slot);
    }

    /// Unpins, and reclaims if enough has been retired.
    #[inline]
    pub fn unpin(&mut self) {
        self.shared.guards.unpin(self.slot);
        if self.fresh.len() >= BATCH || self.fresh_bytes >= BATCH_BYTES {
            self.reclaim();
        }
    }

    /// Memory for `bytes` or more (see [`rounded`]): zeroed by the system, or as its last user left it.
    #[inline]
    pub fn alloc(&mut self, bytes: usize) -> NonNull<u8> {
        self.alloc_whole(bytes).0
    }

    /// As [`Heap::alloc`], and what it holds.
    #[inline]
    pub fn alloc_whole(&mut self, bytes: usize) -> (NonNull<u8>, usize) {
        let class = class_of(bytes);
        if class == LARGE {
            bump(&self.counters.records, taken(bytes), true);
            return (self.shared.take_large(taken(bytes)), rounded(bytes));
        }
        let size = SIZES[class as usize];
        bump(&self.counters.records, size, true);
        (self.piece(class), size)
    }

    /// Memory for an index part: [`NODE`], [`SEGMENT`] or [`BUCKET`]. Zeroed when it comes from the system; else as it
    /// was left.
    pub fn alloc_index(&mut self, class: u8) -> NonNull<u8> {
        bump(&self.counters.index, SIZES[class as usize], true);
        self.piece(class)
    }

    /// Memory for a part of an index, of any size.
    pub fn alloc_part(&mut self, bytes: usize) -> NonNull<u8> {
        let class = part_of(bytes);
        bump(&self.counters.index, taken(bytes), true);
        if class == LARGE { self.shared.take_large(taken(bytes)) } else { self.piece(class) }
    }

    /// Gives back memory from [`Heap::alloc`] that is unlinked, but may still be read.
    pub fn retire(&mut self, at: NonNull<u8>, bytes: usize) {
        bump(&self.counters.records, taken(bytes), false);
        self.retire_piece(at, class_of(bytes), taken(bytes));
    }

    /// Gives back memory from [`Heap::alloc_index`], as [`Heap::retire`] does.
    pub fn retire_index(&mut self, at: NonNull<u8>, class: u8) {
        bump(&self.counters.index, SIZES[class as usize], false);
        self.retire_piece(at, class, SIZES[class as usize]);
    }

    /// Gives back memory from [`Heap::alloc_part`], as [`Heap::retire`] does.
    pub fn retire_part(&mut self, at: NonNull<u8>, bytes: usize) {
        bump(&self.counters.index, taken(bytes), false);
        self.retire_piece(at, part_of(bytes), taken(bytes));
    }

    /// Counts what a worker keeps of before-images: `now` bytes instead of `before`.
    #[inline]
    pub fn count_images(&self, before: usize, now: usize) {
        bump(&self.counters.before_images, now.wrapping_sub(before), true);
    }

    /// So many tombstones wait for this worker.
    #[inline]
    pub fn count_waiting(&self, count: usize) {
        if self.counters.waiting.load(Ordering::Relaxed) != count as u64 {
            self.counters.waiting.store(count as u64, Ordering::Relaxed);
        }
    }

    /// This worker keeps before-images of transactions above `ts` only; or none. See [`Guards::keep_images_above`].
    ///
    /// [`Guards::keep_images_above`]: crate::guard::Guards::keep_images_above
    #[inline]
    pub fn keep_images_above(&self, ts: Option<u64>) {
        self.shared.guards.keep_images_above(self.slot, ts);
    }

    fn retire_piece(&mut self, at: NonNull<u8>, class: u8, size: usize) {
        bump(&self.counters.retired, size, true);
        self.fresh.push(Piece { at, class, stamp: 0 });
        self.fresh_bytes += size;
    }

    /// Stamps what was retired and frees what no guard holds any more.
    #[cold]
    pub fn reclaim(&mut self) {
        self.fresh_bytes = 0;
        let stamp = self.shared.guards.stamp();
        self.stamped.extend(self.fresh.drain(..).map(|piece| Piece { stamp, ..piece }));
        self.shared.guards.advance(stamp);
        let safe = self.shared.guards.safe();
        while let Some(piece) = self.stamped.pop_front_if(|piece| piece.stamp < safe) {
            let size = match piece.class {
                LARGE => self.shared.give_large(piece.at),
                class => self.release(piece.at, class),
            };
            bump(&self.counters.retired, size, false);
        }
        self.adopt();
        let flushes = self.shared.flushes();
        if self.flushed != flushes {
            (self.flushed, self.flushing) = (flushes, FLUSHES);
        }
        if self.flushing > 0 {
            self.flushing =
                if self.stamped.is_empty() && self.fresh.is_empty() { 0 } else { self.flushing - 1 };
            self.flush();
        }
    }

    /// Looks after retired pieces that a departed worker left.
    fn adopt(&mut self) {
        let orphans = std::mem::take(&mut *lock(&self.shared.orphans));
        self.fresh.extend(orphans);
    }

    fn release(&mut self, at: NonNull<u8>, class: u8) -> usize {
        let list = &mut self.free[class as usize];
        list.push(at);
        if list.len() > LONG[class as usize] {
            let surplus = list.drain(..LONG[class as usize] / 2).map(|at| Free { at, class });
            self.shared.give(surplus);
        }
        SIZES[class as usize]
    }

    /// To be called between transactions, now and then: gives up what is kept here for later, if that was asked for.
    #[inline]
    pub fn tend(&mut self) {
        if self.flushing > 0 || self.flushed != self.shared.flushes() {
            self.reclaim();
        }
    }

    /// Gives everything that is free to the pool.
    fn flush(&mut self) {
        for (class, list) in self.free.iter_mut().enumerate() {
            let (block, size) = (&mut self.block[class], SIZES[class]);
            while block.1 >= size {
                list.push(cut(block, size));
            }
            block.1 = 0;
            if !list.is_empty() {
                self.shared.give(list.drain(..).map(|at| Free { at, class: class as u8 }));
                list.shrink_to(BATCH);
            }
        }
    }

    #[inline]
    fn piece(&mut self, class: u8) -> NonNull<u8> {
        if let Some(at) = self.free[class as usize].pop() {
            return at;
        }
        let size = SIZES[class as usize];
        if self.block[class as usize].1 < size
            && let Some(at) = self.refill(class)
        {
            return at;
        }
        let at = cut(&mut self.block[class as usize], size);
        // Fresh memory is used in order: have the lines here when they are needed.
        prefetch(at.as_ptr().wrapping_add(AHEAD.max(size)));
        at
    }

    /// Gets pieces from the pool and returns one, or makes a new block.
    #[cold]
    fn refill(&mut self, class: u8) -> Option<NonNull<u8>> {
        let free = &mut self.free[class as usize];
        lock(&self.shared.pool).take_pieces(class, LONG[class as usize] / 4, free);
        // The lowest first.
        free.reverse();
        if let Some(at) = free.pop() {
            return Some(at);
        }
        self.block[class as usize] = (self.shared.block(class), BLOCK);
        None
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.reclaim();
        lock(&self.shared.orphans).extend(self.stamped.drain(..).chain(self.fresh.drain(..)));
        self.flush();
        self.shared.unregister(&self.counters);
        self.shared.guards.leave(self.slot);
    }
}

/// Takes `size` bytes off the front of a range.
fn cut(range: &mut (NonNull<u8>, usize), size: usize) -> NonNull<u8> {
    assert!(range.1 >= size, "the range was refilled");
    let at = range.0;
    // SAFETY: the result is within the range or one past its end.
    range.0 = unsafe { at.add(size) };
    range.1 -= size;
    at
}

#[cfg(all(test, not(shuttle)))]
mod tests;
