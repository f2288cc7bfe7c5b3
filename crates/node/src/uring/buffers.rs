//! Memory that a ring's kernel side receives into: so many buffers of one size, handed out and given back.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// How many: a power of two.
pub const COUNT: usize = 128;
/// Bytes of one.
pub const SIZE: usize = 8 << 10;
/// From one to the next: a line more, or the first lines of all, which most requests need no more than, would compete for the same few places of
/// the processor's cache.
const STRIDE: usize = SIZE + 64;
/// The entries by which they are given back come first.
const ENTRIES: usize = COUNT * size_of::<BufRingEntry>();
const PAGE: usize = 4096;
/// Bytes that a ring's buffers take.
pub const MEMORY: usize = ENTRIES + COUNT * STRIDE;
/// The only group of buffers that there is.
pub const GROUP: u16 = 0;

const _: () = assert!(COUNT.is_power_of_two());

/// See the module. The kernel owns a buffer that is not out; who has one reads it and gives it back.
pub struct Buffers {
    memory: NonNull<u8>,
    /// Which are out: none is given back twice, and none is read that the kernel may write to.
    out: [bool; COUNT],
    /// Buffers ever given to the kernel.
    given: u16,
}

// SAFETY: the memory is this object's alone (and the kernel's), reached through `&self` for reading and `&mut self` for all else.
unsafe impl Send for Buffers {}

fn layout() -> Layout {
    Layout::from_size_align(MEMORY, PAGE).expect("a page is a power of two, and the size is small")
}

impl Buffers {
    /// As many as there are, all with the kernel once they are [registered](Self::register).
    pub fn new() -> Buffers {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout()) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout()) };
        let mut buffers = Buffers { memory, out: [true; COUNT], given: 0 };
        (0..COUNT as u16).for_each(|id| buffers.give_back(id));
        buffers
    }

    /// Tells a ring of them, which has to end before they do.
    ///
    /// # Errors
    /// The kernel's.
    pub fn register(&self, ring: &Submitter<'_>) -> io::Result<()> {
        // SAFETY: the entries are at the start of memory of that size, aligned to a page, which lives longer than the ring
        // (the order of the fields in `Ring`).
        unsafe { ring.register_buf_ring_with_flags(self.memory.as_ptr() as u64, COUNT as u16, GROUP, 0) }
    }

    /// What was received into a buffer that is out.
    ///
    /// # Panics
    /// If it is with the kernel, or that is more than it holds.
    pub fn received(&self, id: u16, len: usize) -> &[u8] {
        assert!(self.out[usize::from(id)], "buffer {id} is the kernel's");
        assert!(len <= SIZE, "{len} bytes in a buffer of {SIZE}");
        // SAFETY: within the memory, which was zeroed before the kernel wrote to it; it does not write to a buffer that is out.
        unsafe { std::slice::from_raw_parts(self.buffer(id), len) }
    }

    /// The kernel has filled this one.
    ///
    /// # Panics
    /// If it was out already.
    pub fn took(&mut self, id: u16) {
        let was = std::mem::replace(&mut self.out[usize::from(id)], true);
        assert!(!was, "buffer {id} was filled though the kernel did not have it");
    }

    /// The kernel may fill it again.
    ///
    /// # Panics
    /// If it is with the kernel.
    pub fn give_back(&mut self, id: u16) {
        let was = std::mem::replace(&mut self.out[usize::from(id)], false);
        assert!(was, "buffer {id} was given back twice");
        let entries = self.memory.as_ptr().cast::<BufRingEntry>();
        let place = usize::from(self.given) & (COUNT - 1);
        let address = self.buffer(id) as u64;
        // SAFETY: the place is one of COUNT at the start of the memory, and the kernel does not read it before the tail says so.
        let entry = unsafe { &mut *entries.add(place) };
        entry.set_addr(address);
        entry.set_len(SIZE as u32);
        entry.set_bid(id);
        self.given = self.given.wrapping_add(1);
        // SAFETY: the first entry is there; its last two bytes are the ring's tail, aligned to 2, which the kernel only reads.
        let tail = unsafe { &*BufRingEntry::tail(entries).cast::<AtomicU16>() };
        // Release; pairs with the kernel's acquire when it looks for a buffer: it sees the entry.
        tail.store(self.given, Ordering::Release);
    }

    fn buffer(&self, id: u16) -> *const u8 {
        // SAFETY: ids are below COUNT (`out` was indexed with it), and so many strides follow the entries.
        unsafe { self.memory.as_ptr().add(ENTRIES + usize::from(id) * STRIDE) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, once.
        unsafe { dealloc(self.memory.as_ptr(), layout()) }
    }
}
