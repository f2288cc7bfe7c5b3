//! What the heaps of one store share: the pool, large pieces, counters, guards.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::Arc;

use super::memory::{Counters, Memory};
use super::pace::Pace;
use super::pool::{CHUNK, Free, Pool};
use super::system;
use crate::guard::Guards;
use crate::sync::{AtomicU64, Mutex, Ordering, Padded};

/// How many participants a store has room for at first (workers, appliers, scans): see [`Guards`].
const PARTICIPANTS: usize = 64;

/// Heaps are asked to give up what they keep for themselves if this part of the reserved memory is free but scattered:
/// whole chunks, which stand ready for anything, do not count.
const SCATTERED_PART: u64 = 8;
/// And it is this much at least.
const SCATTERED: u64 = 8 << 20;

/// A piece that was retired.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub at: NonNull<u8>,
    pub class: u8,
    /// Generation after it was unlinked.
    pub stamp: u64,
}

// SAFETY: a piece is memory that its holder owns; no thread is tied to it.
unsafe impl Send for Piece {}

/// Pieces that come from the system one by one: what each takes, by its address, and the sum.
#[derive(Default)]
pub(super) struct Large {
    pieces: HashMap<usize, usize>,
    bytes: u64,
    /// The most that `bytes` was since the system's allocator was last asked to give back what it keeps.
    peak: u64,
}

/// The system's allocator may keep so many bytes that were freed, or an eighth of what is in use.
const KEPT_BY_ALLOCATOR: u64 = 16 << 20;

impl Large {
    /// Whether the system's allocator should be asked to give back what it keeps: it does not by itself, and to the
    /// system that memory is in use.
    fn wants_trim(&mut self) -> bool {
        let wants = self.peak - self.bytes > KEPT_BY_ALLOCATOR.max(self.bytes / 8);
        if wants {
            self.peak = self.bytes;
        }
        wants
    }
}

/// Into so many parts what is kept for snapshots is divided.
pub(crate) const VERSION_PARTS: usize = 64;

/// What the heaps of one store share.
pub(crate) struct Heaps {
    pub guards: Guards,
    pub(super) pool: Mutex<Pool>,
    /// Retired pieces of workers that are gone.
    pub(super) orphans: Mutex<Vec<Piece>>,
    large: Mutex<Large>,
    /// First the sums of the workers that are gone, then the counters of each worker that is there.
    counters: Mutex<Vec<Arc<Counters>>>,
    /// Moves when all heaps are asked to give up what they keep for themselves.
    pub(super) flushes: Padded<AtomicU64>,
    /// Bytes kept for snapshots, in parts that different locks guard.
    pub versions: Box<[Padded<AtomicU64>]>,
    pub(super) pace: Mutex<Pace>,
}

impl Heaps {
    pub fn new() -> Arc<Heaps> {
        Arc::new(Heaps {
            guards: Guards::new(PARTICIPANTS),
            pool: Mutex::new(Pool::new()),
            orphans: Mutex::new(Vec::new()),
            large: Mutex::default(),
            counters: Mutex::new(vec![Arc::default()]),
            flushes: Padded::default(),
            versions: (0..VERSION_PARTS).map(|_| Padded::default()).collect(),
            pace: Mutex::default(),
        })
    }

    /// Takes at least so many bytes from the system and touches their pages. They stay with the store.
    pub fn reserve(&self, bytes: u64) {
        let mut left = bytes.div_ceil(CHUNK as u64);
        lock(&self.pool).keep += left as usize * CHUNK;
        while left > 0 && self.add_touched() {
            left -= 1;
        }
    }

    /// Adds a chunk whose pages are in place. Says whether the system had one.
    pub(super) fn add_touched(&self) -> bool {
        let Some(at) = system::map(CHUNK, CHUNK) else { return false };
        // SAFETY: the chunk was just mapped, and is nobody's yet.
        unsafe { system::touch(at, CHUNK) };
        lock(&self.pool).add_spare(at);
        true
    }

    /// A block for pieces of a class.
    pub(super) fn block(&self, class: u8) -> NonNull<u8> {
        let (at, grew) = {
            let mut pool = lock(&self.pool);
            let before = pool.reserved;
            (pool.take_block(class), pool.reserved > before)
        };
        if grew {
            self.gather();
        }
        at
    }

    /// Takes free pieces back into the pool.
    pub(super) fn give(&self, pieces: impl Iterator<Item = Free>) {
        let mut freed = Vec::new();
        lock(&self.pool).give_pieces(pieces, &mut freed);
        unmap_chunks(freed);
    }

    /// Asks all heaps for what they keep for themselves, if it looks as if that were much. Says whether it did.
    pub(super) fn gather(&self) -> bool {
        let memory = self.memory();
        // A few pieces kept here and there keep whole chunks from the system: so what counts is all that is free, but for
        // the chunks that stand ready.
        let ready = (lock(&self.pool).spare_chunks() * CHUNK) as u64;
        let scattered = memory.free.saturating_sub(ready);
        let much = scattered >= SCATTERED.max(memory.reserved / SCATTERED_PART);
        if much {
            self.flushes.fetch_add(1, Ordering::Relaxed);
        }
        much
    }

    /// How often heaps were asked to give up what they keep for themselves.
    #[inline]
    pub(super) fn flushes(&self) -> u64 {
        // Relaxed: a hint.
        self.flushes.load(Ordering::Relaxed)
    }

    /// Whether some worker is to unlink tombstones.
    pub(crate) fn any_waiting(&self) -> bool {
        lock(&self.counters).iter().any(|each| each.waiting.load(Ordering::Relaxed) > 0)
    }

    pub(super) fn take_large(&self, taken: usize) -> NonNull<u8> {
        let at = system::take_large(taken);
        let mut large = lock(&self.large);
        large.pieces.insert(at.as_ptr().expose_provenance(), taken);
        large.bytes += taken as u64;
        large.peak = large.peak.max(large.bytes);
        at
    }

    /// Off the hot path: has the system's allocator give back what was freed in quantity.
    pub(super) fn trim(&self) {
        let wants = lock(&self.large).wants_trim();
        if wants {
            system::trim();
        }
    }

    /// Gives a large piece back that nobody uses any more. Says what it took.
    pub(super) fn give_large(&self, at: NonNull<u8>) -> usize {
        let taken = {
            let mut large = lock(&self.large);
            let taken = large.pieces.remove(&at.as_ptr().expose_provenance());
            let taken = taken.expect("a large piece is in the map until it is freed");
            large.bytes -= taken as u64;
            taken
        };
        // SAFETY: taken in `take_large` with this size; the map held it, so it was not given back before.
        unsafe { system::give_large(at, taken) };
        taken
    }

    pub(super) fn register(&self, counters: &Arc<Counters>) {
        lock(&self.counters).push(counters.clone());
    }

    /// A worker is gone: what it counted goes to the sums.
    pub(super) fn unregister(&self, counters: &Arc<Counters>) {
        let mut all = lock(&self.counters);
        all.retain(|other| !Arc::ptr_eq(other, counters));
        all[0].absorb(counters);
    }

    pub fn memory(&self) -> Memory {
        let (chunks, spare) = {
            let pool = lock(&self.pool);
            (pool.reserved as u64, pool.spare_bytes as u64)
        };
        let large = lock(&self.large).bytes;
        let versions = self.versions.iter().map(|part| part.0.load(Ordering::Relaxed)).sum();
        let counters = lock(&self.counters);
        Memory::sum(&counters, versions, chunks + large, spare)
    }
}

/// Gives chunks that are nobody's back to the system.
pub(super) fn unmap_chunks(chunks: Vec<NonNull<u8>>) {
    for at in chunks {
        // SAFETY: the pool gave it up, and nobody uses a chunk whose pieces are all free.
        unsafe { system::unmap(at, CHUNK) };
    }
}

impl Drop for Heaps {
    fn drop(&mut self) {
        for (at, taken) in lock(&self.large).pieces.drain() {
            let at = NonNull::new(std::ptr::with_exposed_provenance_mut(at)).expect("pieces have addresses");
            // SAFETY: taken in `take_large` with this size, and not given back since: it was in the map. Nobody is
            // left who could use it: heaps and stores hold an `Arc` of this.
            unsafe { system::give_large(at, taken) };
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
