//! Memory for records, keys, index nodes: per-worker slabs of size classes, and what waits to be reclaimed.
//!
//! ```text
//! system --mmap, 2 MiB, huge pages--> chunk --16 KiB or more--> block of one class --> piece
//! ```
//!
//! Each worker allocates from its own blocks and free lists without sharing anything. Pieces that it *retires* are
//! stamped in batches and come back to its free lists when no guard holds them; long free lists overflow into a pool
//! that all workers share. Chunks go back to the system when the store is dropped, so that a pointer into one never
//! faults; pieces of the class [`NODE`] are never used for anything but tree nodes (see `tree::node`).
//!
//! Pieces are aligned to 32 bytes, those of 64 bytes and multiples to a cache line.

mod classes;
mod shared;

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use self::classes::{CLASSES, LARGE, SIZES, class_of};
pub(crate) use self::classes::{MAX_SIZED, NODE, NODE_BYTES, SEGMENT, SEGMENT_BYTES, rounded};
pub use self::shared::Memory;
use self::shared::{CHUNK, Counters, Piece, bump, large_layout};
pub(crate) use self::shared::{Heaps, lock};
use crate::sync::{Ordering, prefetch};

/// Bytes of a worker's first chunk: less, because small stores are made often in tests.
const FIRST_CHUNK: usize = 256 << 10;
/// Bytes of a block, at least.
const BLOCK: usize = 16 << 10;
/// How far ahead fresh memory is asked for.
const AHEAD: usize = 512;
/// So many retired pieces, or so many bytes of them, are stamped and looked after at a time.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 1 << 20;
/// A free list longer than this gives half of it to the pool.
const LONG: usize = 8192;

/// One worker's memory and its place among the guards.
pub(crate) struct Heap {
    shared: Arc<Heaps>,
    slot: usize,
    free: [Vec<NonNull<u8>>; CLASSES],
    /// The unused rest of each class's current block: next piece and how many bytes are left.
    block: [(NonNull<u8>, usize); CLASSES],
    /// The unused rest of the current chunk.
    chunk: (NonNull<u8>, usize),
    /// Retired, not stamped yet.
    fresh: Vec<Piece>,
    fresh_bytes: usize,
    /// Stamped, oldest first.
    stamped: VecDeque<Piece>,
    counters: Arc<Counters>,
}

// SAFETY: all pointers are to memory that this heap owns or to retired pieces that it alone will free.
unsafe impl Send for Heap {}

impl Heap {
    pub fn new(shared: &Arc<Heaps>) -> Heap {
        let counters = Arc::new(Counters::default());
        lock(&shared.counters).push(counters.clone());
        Heap {
            slot: shared.guards.join(),
            shared: shared.clone(),
            free: [const { Vec::new() }; CLASSES],
            block: [(NonNull::dangling(), 0); CLASSES],
            chunk: (NonNull::dangling(), 0),
            fresh: Vec::new(),
            fresh_bytes: 0,
            stamped: VecDeque::new(),
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
        let class = class_of(bytes);
        if class == LARGE {
            let size = rounded(bytes);
            bump(&self.counters.records, size, true);
            return self.alloc_large(size);
        }
        bump(&self.counters.records, SIZES[class as usize], true);
        self.piece(class)
    }

    /// Memory for an index part: [`NODE`] or [`SEGMENT`]. Zeroed when it comes from the system; else as it was left.
    pub fn alloc_index(&mut self, class: u8) -> NonNull<u8> {
        bump(&self.counters.index, SIZES[class as usize], true);
        self.piece(class)
    }

    /// Memory for a directory: always from the system's allocator.
    pub fn alloc_directory(&mut self, bytes: usize) -> NonNull<u8> {
        let size = bytes.next_multiple_of(64);
        bump(&self.counters.index, size, true);
        self.alloc_large(size)
    }

    /// Gives back memory from [`Heap::alloc`] that is unlinked, but may still be read.
    pub fn retire(&mut self, at: NonNull<u8>, bytes: usize) {
        bump(&self.counters.records, rounded(bytes), false);
        self.retire_piece(at, class_of(bytes), rounded(bytes));
    }

    /// Gives back memory from [`Heap::alloc_index`], as [`Heap::retire`] does.
    pub fn retire_index(&mut self, at: NonNull<u8>, class: u8) {
        bump(&self.counters.index, SIZES[class as usize], false);
        self.retire_piece(at, class, SIZES[class as usize]);
    }

    /// Gives back memory from [`Heap::alloc_directory`], as [`Heap::retire`] does.
    pub fn retire_directory(&mut self, at: NonNull<u8>, bytes: usize) {
        let size = bytes.next_multiple_of(64);
        bump(&self.counters.index, size, false);
        self.retire_piece(at, LARGE, size);
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
                LARGE => lock(&self.shared.large)[&piece.at.as_ptr().expose_provenance()],
                class => SIZES[class as usize],
            };
            bump(&self.counters.retired, size, false);
            self.release(piece);
        }
        self.adopt();
    }

    /// Looks after retired pieces that a departed worker left.
    fn adopt(&mut self) {
        let orphans = std::mem::take(&mut *lock(&self.shared.orphans));
        self.fresh.extend(orphans);
    }

    fn release(&mut self, piece: Piece) {
        if piece.class == LARGE {
            let size = lock(&self.shared.large)
                .remove(&piece.at.as_ptr().expose_provenance())
                .expect("a large piece is in the map until it is freed");
            // SAFETY: allocated in `alloc_large` with this layout; the map held it, so it was not freed before.
            unsafe { std::alloc::dealloc(piece.at.as_ptr(), large_layout(size)) };
            return;
        }
        let list = &mut self.free[piece.class as usize];
        list.push(piece.at);
        if list.len() > LONG {
            let surplus = list.drain(..LONG / 2).map(|at| Piece { at, ..piece });
            lock(&self.shared.pool)[piece.class as usize].extend(surplus);
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
        {
            let pool = &mut lock(&self.shared.pool)[class as usize];
            let from = pool.len().saturating_sub(LONG / 4);
            self.free[class as usize].extend(pool.drain(from..).map(|piece| piece.at));
        }
        if let Some(at) = self.free[class as usize].pop() {
            return Some(at);
        }
        let size = SIZES[class as usize];
        let block = (BLOCK / size).max(4) * size;
        let block = block.next_multiple_of(64);
        if self.chunk.1 < block {
            let first = self.chunk.0 == NonNull::dangling();
            self.chunk = self.shared.chunk(if first { FIRST_CHUNK } else { CHUNK });
        }
        self.block[class as usize] = (cut(&mut self.chunk, block), block);
        None
    }

    fn alloc_large(&mut self, size: usize) -> NonNull<u8> {
        // SAFETY: the size is not zero.
        let at = unsafe { std::alloc::alloc_zeroed(large_layout(size)) };
        let Some(at) = NonNull::new(at) else { std::alloc::handle_alloc_error(large_layout(size)) };
        lock(&self.shared.large).insert(at.as_ptr().expose_provenance(), size);
        at
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.reclaim();
        lock(&self.shared.orphans).extend(self.stamped.drain(..).chain(self.fresh.drain(..)));
        let mut pool = lock(&self.shared.pool);
        for (class, list) in self.free.iter_mut().enumerate() {
            let (mut block, size) = (self.block[class], SIZES[class]);
            while block.1 >= size {
                list.push(cut(&mut block, size));
            }
            pool[class].extend(list.drain(..).map(|at| Piece { at, class: class as u8, stamp: 0 }));
        }
        drop(pool);
        let mut counters = lock(&self.shared.counters);
        counters.retain(|other| !Arc::ptr_eq(other, &self.counters));
        for (sum, mine) in counters[0].all().into_iter().zip(self.counters.all()) {
            bump(sum, mine.load(Ordering::Relaxed) as usize, true);
        }
        drop(counters);
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
mod tests {
    use super::*;

    #[test]
    fn classes_cover_all_sizes_with_bounded_waste() {
        for bytes in 1..=MAX_SIZED {
            let size = rounded(bytes);
            assert!(size >= bytes && size - bytes < 32.max(size / 8), "{bytes} -> {size}");
        }
    }

    #[test]
    fn retired_memory_is_reused_only_when_no_guard_holds_it() {
        let heaps = Heaps::new();
        let (mut writer, reader) = (Heap::new(&heaps), Heap::new(&heaps));
        reader.pin();
        let piece = writer.alloc(100);
        writer.retire(piece, 100);
        writer.reclaim();
        assert_eq!(heaps.memory().retired, 128);
        assert_ne!(writer.alloc(100), piece);
        reader.shared.guards.unpin(reader.slot);
        writer.reclaim();
        assert_eq!(heaps.memory().retired, 0);
        assert_eq!(writer.alloc(100), piece);
    }

    #[test]
    fn a_departed_worker_leaves_its_memory_to_the_others() {
        let heaps = Heaps::new();
        let mut first = Heap::new(&heaps);
        let pieces: Vec<_> = (0..100).map(|_| first.alloc(64)).collect();
        for piece in pieces {
            first.retire(piece, 64);
        }
        drop(first);
        let reserved = heaps.memory().reserved;
        let mut second = Heap::new(&heaps);
        for _ in 0..100 {
            second.alloc(64);
        }
        assert_eq!(heaps.memory().reserved, reserved);
    }

    #[test]
    fn large_pieces_are_counted_and_given_back() {
        let heaps = Heaps::new();
        let mut heap = Heap::new(&heaps);
        let piece = heap.alloc(1 << 20);
        assert_eq!(heaps.memory().records, 1 << 20);
        heap.retire(piece, 1 << 20);
        heap.reclaim();
        assert_eq!(heaps.memory(), Memory { reserved: heaps.memory().reserved, ..Memory::default() });
        heap.alloc(5000);
    }
}
