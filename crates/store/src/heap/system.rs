//! Memory from the system: mappings, and what the system's allocator gives.

use std::alloc::Layout;
use std::ptr::NonNull;

/// Pieces of more bytes are mappings of their own, which go back to the system at once; up to that, the system's
/// allocator is the better one.
const MAPPED: usize = 256 << 10;
/// Mappings of so many bytes are worth huge pages.
const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;
/// What the system's allocator takes for itself, about, for a piece aligned to a cache line.
const OVERHEAD: usize = 64;

/// What a large piece of `bytes` takes from the system.
pub(super) const fn large_bytes(bytes: usize) -> usize {
    let room = bytes.next_multiple_of(64);
    if room > MAPPED { room.next_multiple_of(PAGE) } else { room + OVERHEAD }
}

/// Whether a piece that takes so many bytes is a mapping.
const fn is_mapped(taken: usize) -> bool {
    taken >= MAPPED + PAGE
}

/// How much of what a piece takes holds something.
pub(super) const fn large_room(taken: usize) -> usize {
    if is_mapped(taken) { taken } else { taken - OVERHEAD }
}

/// A zeroed piece, aligned to 64, that takes so many bytes (of [`large_bytes`]).
pub(super) fn take_large(taken: usize) -> NonNull<u8> {
    if is_mapped(taken) {
        return map(taken, PAGE).unwrap_or_else(|| out_of_memory(taken));
    }
    // SAFETY: the size is not zero.
    let at = unsafe { std::alloc::alloc_zeroed(layout(taken)) };
    NonNull::new(at).unwrap_or_else(|| out_of_memory(taken))
}

/// Gives a piece of [`take_large`] back.
///
/// # Safety
/// It was taken with the same number of bytes, was not given back, and nobody uses it any more.
pub(super) unsafe fn give_large(at: NonNull<u8>, taken: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if is_mapped(taken) { unmap(at, taken) } else { std::alloc::dealloc(at.as_ptr(), layout(taken)) }
    }
}

fn layout(taken: usize) -> Layout {
    Layout::from_size_align(large_room(taken), 64)
        .expect("sizes come from values, bounded by MAX_VALUE_BYTES")
}

/// Zeroed memory, on huge pages where it is large and the system gives them. `None` if the system has no more.
pub(super) fn map(size: usize, align: usize) -> Option<NonNull<u8>> {
    let slack = align - PAGE;
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
        return None;
    }
    let at: NonNull<u8> = NonNull::new(at.cast()).expect("mmap never maps page zero");
    let front = at.as_ptr().align_offset(align);
    // SAFETY: both ends are inside the mapping just made, outside the aligned part that we keep; all are multiples
    // of the page size. madvise is a hint on memory that we own.
    unsafe {
        let kept = at.add(front);
        if front > 0 {
            unmap(at, front);
        }
        if slack > front {
            unmap(kept.add(size), slack - front);
        }
        if size >= HUGE {
            libc::madvise(kept.as_ptr().cast(), size, libc::MADV_HUGEPAGE);
        }
        Some(kept)
    }
}

/// Has the kernel clear the pages of a range now, and no more: written over as a whole, they would only push what
/// others work with out of the caches.
///
/// # Safety
/// The range is of a mapping by [`map`], holds zeros, and nobody uses it yet.
pub(super) unsafe fn touch(at: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise. Kernels before 5.14 do not know the advice.
    let populated = unsafe { libc::madvise(at.as_ptr().cast(), size, libc::MADV_POPULATE_WRITE) };
    if populated != 0 {
        for offset in (0..size).step_by(PAGE) {
            // SAFETY: within the range.
            unsafe { at.add(offset).write_volatile(0) };
        }
    }
}

/// Gives a mapping back.
///
/// # Safety
/// The range is of a mapping by [`map`], and nobody uses it any more.
pub(super) unsafe fn unmap(at: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise. A failure (too many mappings) leaves the range mapped: it is lost, nothing breaks.
    unsafe { libc::munmap(at.as_ptr().cast(), size) };
}

/// Gives the pages of a range back; it stays mapped and reads as zeros.
///
/// # Safety
/// The range is of a mapping by [`map`]; whoever may still look at it can stand zeros.
pub(super) unsafe fn discard(at: NonNull<u8>, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(at.as_ptr().cast(), size, libc::MADV_DONTNEED) };
}

/// Has the system's allocator give back the pages of what was freed to it. Takes milliseconds: not for a worker's thread.
pub fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no preconditions; it takes the allocator's own locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has the system's allocator keep to one arena, from the start of the process: each thread's own reserves 64 MiB of address
/// space, which is much where that is limited (`ulimit -v`). Threads that allocate then wait for each other.
pub fn one_arena() {
    #[cfg(target_env = "gnu")]
    // SAFETY: no preconditions; it takes the allocator's own locks.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Ends the process: the budget of a node refuses growth long before this.
pub(super) fn out_of_memory(size: usize) -> ! {
    std::alloc::handle_alloc_error(Layout::from_size_align(size, 64).unwrap_or(Layout::new::<u64>()))
}
