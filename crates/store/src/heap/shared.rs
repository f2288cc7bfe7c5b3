//! What the heaps of one store share: chunks from the system, surplus pieces, counters, guards.

use std::alloc::Layout;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use super::classes::CLASSES;
use crate::guard::Guards;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// How many threads may use one store at a time (workers, appliers, scans).
pub(crate) const MAX_PARTICIPANTS: usize = 128;

/// Bytes of a chunk, as a rule: a huge page.
pub(super) const CHUNK: usize = 2 << 20;

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
pub(super) struct Counters {
    pub records: AtomicU64,
    pub index: AtomicU64,
    pub retired: AtomicU64,
}

impl Counters {
    pub fn all(&self) -> [&AtomicU64; 3] {
        [&self.records, &self.index, &self.retired]
    }
}

pub(super) fn bump(counter: &AtomicU64, by: usize, up: bool) {
    let now = counter.load(Ordering::Relaxed);
    let next = if up { now.wrapping_add(by as u64) } else { now.wrapping_sub(by as u64) };
    counter.store(next, Ordering::Relaxed);
}

pub(super) struct Chunk(NonNull<u8>, usize);

#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub at: NonNull<u8>,
    pub class: u8,
    /// Generation after it was unlinked.
    pub stamp: u64,
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
    pub(super) pool: Mutex<Vec<Vec<Piece>>>,
    pub(super) orphans: Mutex<Vec<Piece>>,
    pub(super) large: Mutex<HashMap<usize, usize>>,
    /// Those of the workers that are gone, summed up; then one for each worker.
    pub(super) counters: Mutex<Vec<Arc<Counters>>>,
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
    pub(super) fn chunk(&self, size: usize) -> (NonNull<u8>, usize) {
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

pub(super) fn large_layout(size: usize) -> Layout {
    Layout::from_size_align(size, 64).expect("sizes come from values, bounded by MAX_VALUE_BYTES")
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
