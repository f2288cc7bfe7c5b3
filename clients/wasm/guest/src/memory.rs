//! Memory of a procedure: taken from one end and never given back, since all of it goes when the call ends.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;

struct Bump {
    next: Cell<usize>,
    end: Cell<usize>,
}

// SAFETY: a procedure has one thread.
unsafe impl Sync for Bump {}

const PAGE: usize = 64 << 10;

// SAFETY: what is handed out lies between `next` and `end`, both of which only grow, so no two pieces meet; the memory up to `end` is there.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.next.get() == 0 {
            let base = heap_base();
            self.next.set(base);
            self.end.set(base.next_multiple_of(PAGE));
        }
        let at = self.next.get().next_multiple_of(layout.align());
        let Some(behind) = at.checked_add(layout.size()) else { return core::ptr::null_mut() };
        if behind > self.end.get() {
            let pages = (behind - self.end.get()).div_ceil(PAGE);
            if !grow(pages) {
                return core::ptr::null_mut();
            }
            self.end.set(self.end.get() + pages * PAGE);
        }
        self.next.set(behind);
        at as *mut u8
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // The last piece may be taken again: strings and vectors that grow are often it.
        if at as usize + layout.size() == self.next.get() {
            self.next.set(at as usize);
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if at as usize + layout.size() == self.next.get() {
            self.next.set(at as usize);
            // SAFETY: of the last piece, which begins where it did.
            return unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        }
        // SAFETY: as the caller promises.
        let new = unsafe { self.alloc(Layout::from_size_align_unchecked(size, layout.align())) };
        if !new.is_null() {
            // SAFETY: both pieces are there, and do not meet.
            unsafe { core::ptr::copy_nonoverlapping(at, new, layout.size().min(size)) };
        }
        new
    }
}

#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: Bump = Bump { next: Cell::new(0), end: Cell::new(0) };

#[cfg(target_arch = "wasm32")]
fn heap_base() -> usize {
    unsafe extern "C" {
        static __heap_base: u8;
    }
    &raw const __heap_base as usize
}

#[cfg(target_arch = "wasm32")]
fn grow(pages: usize) -> bool {
    core::arch::wasm32::memory_grow::<0>(pages) != usize::MAX
}

// Elsewhere nothing runs: this is so that tools can read the crate.
#[cfg(not(target_arch = "wasm32"))]
fn heap_base() -> usize {
    0
}

#[cfg(not(target_arch = "wasm32"))]
fn grow(_pages: usize) -> bool {
    false
}
