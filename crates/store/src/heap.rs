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

use std::alloc::Layout;
use std::collections::{HashMap, VecDeque};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::guard::Guards;
use crate::sync::{AtomicU64, Mutex, Ordering, prefetch};

/// How many threads may use one store at a time (workers, appliers, scans).
pub(crate) const MAX_PARTICIPANTS: usize = 128;

const SIZED: usize = 40;
/// Class of tree nodes; never mixed with anything else.
pub(crate) const NODE: u8 = SIZED as u8;
/// Class of hash segments.
pub(crate) const SEGMENT: u8 = SIZED as u8 + 1;
const CLASSES: usize = SIZED + 2;
/// Not a class: a piece of its own, from the system's allocator.
const LARGE: u8 = u8::MAX;

/// Bytes of a tree node.
pub(crate) const NODE_BYTES: usize = 1024;
/// Bytes of a hash segment.
pub(crate) const SEGMENT_BYTES: usize = 64 * 65;
/// Pieces larger than this come from the system's allocator.
pub(crate) const MAX_SIZED: usize = 4096;

const CHUNK: usize = 2 << 20;
const FIRST_CHUNK: usize = 256 << 10;
const BLOCK: usize = 16 << 10;
/// How far ahead fresh memory is asked for.
const AHEAD: usize = 512;
/// So many retired pieces, or so many bytes of them, are stamped and looked after at a time.
const BATCH: usize = 128;
const BATCH_BYTES: usize = 1 << 20;
/// A free list longer than this gives half of it to the pool.
const LONG: usize = 8192;

/// Bytes of the pieces of each class: steps of 1/8 or less, 32 at least.
const SIZES: [usize; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let (mut class, mut size) = (0, 0);
    while class < SIZED {
        size += match size {
            0..512 => 32,
            512..1024 => 64,
            1024..2048 => 128,
            _ => 256,
        };
        sizes[class] = size;
        class += 1;
    }
    assert!(size == MAX_SIZED);
    sizes[NODE as usize] = NODE_BYTES;
    sizes[SEGMENT as usize] = SEGMENT_BYTES;
    sizes
};

/// The smallest class that holds `bytes`.
fn class_of(bytes: usize) -> u8 {
    let class = match bytes {
        0..=32 => 0,
        33..=512 => bytes.div_ceil(32) - 1,
        513..=1024 => 16 + (bytes - 512).div_ceil(64) - 1,
        1025..=2048 => 24 + (bytes - 1024).div_ceil(128) - 1,
        2049..=MAX_SIZED => 32 + (bytes - 2048).div_ceil(256) - 1,
        _ => return LARGE,
    };
    debug_assert!(SIZES[class] >= bytes && (class == 0 || SIZES[class - 1] < bytes));
    class as u8
}

/// What a piece will hold if `bytes` are asked for.
#[inline]
pub(crate) fn rounded(bytes: usize) -> usize {
    match class_of(bytes) {
        LARGE => bytes.next_multiple_of(64),
        class => SIZES[class as usize],
    }
}

/// Memory in use, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Records with their keys and values.
    pub records: u64,
    /// Index nodes, segments and directories.
    pub index: u64,
    /// Unlinked, but perhaps still being read.
    pub retired: u64,
    /// Taken from the system, free pieces included.
    pub reserved: u64,
}

/// Bytes by use, written by one worker only (relaxed loads and stores, no shared line), summed up by reports. The
/// difference of one worker may be negative: it frees what another allocated.
#[derive(Debug, Default)]
struct Counters {
    records: AtomicU64,
    index: AtomicU64,
    retired: AtomicU64,
}

impl Counters {
    fn all(&self) -> [&AtomicU64; 3] {
        [&self.records, &self.index, &self.retired]
    }
}

fn bump(counter: &AtomicU64, by: usize, up: bool) {
    let now = counter.load(Ordering::Relaxed);
    let next = if up { now.wrapping_add(by as u64) } else { now.wrapping_sub(by as u64) };
    counter.store(next, Ordering::Relaxed);
}

struct Chunk(NonNull<u8>, usize);

#[derive(Clone, Copy)]
struct Piece {
    at: NonNull<u8>,
    class: u8,
    /// Generation after it was unlinked.
    stamp: u64,
}

// SAFETY: a chunk or piece is memory that its holder owns; no thread is tied to it.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Send for Piece {}

/// What the heaps of one store share.
pub(crate) struct Heaps {
    pub guards: Guards,
    chunks: Mutex<Vec<Chunk>>,
    /// Chunks that nobody uses yet, their pages in place; also in `chunks`.
    reserve: Mutex<Vec<Chunk>>,
    /// Free pieces that workers had too many of; and retired pieces of workers that are gone.
    pool: Mutex<Vec<Vec<Piece>>>,
    orphans: Mutex<Vec<Piece>>,
    large: Mutex<HashMap<usize, usize>>,
    /// Those of the workers that are gone, summed up; then one for each worker.
    counters: Mutex<Vec<Arc<Counters>>>,
}

impl Heaps {
    pub fn new() -> Arc<Heaps> {
        Arc::new(Heaps {
            guards: Guards::new(MAX_PARTICIPANTS),
            chunks: Mutex::new(Vec::new()),
            reserve: Mutex::new(Vec::new()),
            pool: Mutex::new((0..CLASSES).map(|_| Vec::new()).collect()),
            orphans: Mutex::new(Vec::new()),
            large: Mutex::new(HashMap::new()),
            counters: Mutex::new(vec![Arc::default()]),
        })
    }

    /// Maps chunks of so many bytes in all, and touches their pages.
    pub fn reserve(&self, bytes: u64) {
        for _ in 0..bytes.div_ceil(CHUNK as u64) {
            let (at, size) = map(CHUNK);
            // SAFETY: the chunk was just mapped.
            unsafe { std::ptr::write_bytes(at.as_ptr(), 0, size) };
            lock(&self.chunks).push(Chunk(at, size));
            lock(&self.reserve).push(Chunk(at, size));
        }
    }

    /// A fresh chunk: reserved, or of `size` bytes from the system.
    fn chunk(&self, size: usize) -> (NonNull<u8>, usize) {
        if let Some(Chunk(at, size)) = lock(&self.reserve).pop() {
            return (at, size);
        }
        let (at, size) = map(size);
        lock(&self.chunks).push(Chunk(at, size));
        (at, size)
    }

    pub fn memory(&self) -> Memory {
        let counters = lock(&self.counters);
        let sum = |of: fn(&Counters) -> &AtomicU64| {
            counters.iter().map(|each| of(each).load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
        };
        let chunks: usize = lock(&self.chunks).iter().map(|chunk| chunk.1).sum();
        let large: usize = lock(&self.large).values().sum();
        Memory {
            records: sum(|each| &each.records),
            index: sum(|each| &each.index),
            retired: sum(|each| &each.retired),
            reserved: (chunks + large) as u64,
        }
    }
}

impl Drop for Heaps {
    fn drop(&mut self) {
        for Chunk(at, size) in lock(&self.chunks).drain(..) {
            // SAFETY: `map` mapped exactly this range, and nobody is left who could use it: heaps and stores hold an
            // `Arc` of this.
            unsafe { libc::munmap(at.as_ptr().cast(), size) };
        }
        for (at, size) in lock(&self.large).drain() {
            let at = std::ptr::with_exposed_provenance_mut(at);
            // SAFETY: allocated in `Heap::alloc_large` with this layout, and not freed since: it was in the map.
            unsafe { std::alloc::dealloc(at, large_layout(size)) };
        }
    }
}

/// A pinned guard for a visitor who allocates nothing.
pub(crate) struct Visit<'a> {
    guards: &'a Guards,
    slot: usize,
}

impl Heaps {
    /// Pins until the result is dropped.
    pub fn visit(&self) -> Visit<'_> {
        let slot = self.guards.join();
        self.guards.pin(slot);
        Visit { guards: &self.guards, slot }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.guards.unpin(self.slot);
        self.guards.leave(self.slot);
    }
}

/// Locks a mutex; a panic while it was held has left nothing half done that matters here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> impl std::ops::DerefMut<Target = T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn large_layout(size: usize) -> Layout {
    Layout::from_size_align(size, 64).expect("sizes come from values, bounded by MAX_VALUE_BYTES")
}

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

/// Zeroed memory from the system, on huge pages where it gives them.
fn map(size: usize) -> (NonNull<u8>, usize) {
    let slack = if size == CHUNK { CHUNK } else { 0 };
    // SAFETY: an anonymous private mapping touches no existing memory.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size + slack,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        std::alloc::handle_alloc_error(large_layout(size));
    }
    let at: NonNull<u8> = NonNull::new(at.cast()).expect("mmap never maps page zero");
    if slack == 0 {
        return (at, size);
    }
    let front = at.as_ptr().align_offset(CHUNK);
    // SAFETY: both ends are inside the mapping just made, outside the aligned part that we keep; all are multiples
    // of the page size. madvise is a hint on memory that we own.
    unsafe {
        let kept = at.add(front);
        if front > 0 {
            libc::munmap(at.as_ptr().cast(), front);
        }
        if slack > front {
            libc::munmap(kept.add(size).as_ptr().cast(), slack - front);
        }
        libc::madvise(kept.as_ptr().cast(), size, libc::MADV_HUGEPAGE);
        (kept, size)
    }
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
