//! Records: word, length, key and value in one piece of memory.
//!
//! ```text
//!  0  word   u64            see `word`
//!  8  len    u32 atomic     length of the value; bit 31: spilled
//! 12  shape  u32            bits 0-16 length of the key, bits 17-31 room for the value in 8-byte words; never changes
//! 16  key    padded to 8    never changes; integer keys as one native integer
//!  .  value  room * 8       or, if spilled, its first 8 bytes are a pointer to a buffer:
//!
//!  0  capacity u64          of the buffer, in bytes; never changes
//!  8  value
//! ```
//!
//! A spilled record stays spilled, so that its pointer, once seen to be one, always is one. A reader that races with
//! a writer may combine the length of one value with the buffer of another: it never reads beyond the room or the
//! capacity, and the word tells it afterwards that it read nonsense.

use std::ptr::NonNull;

use highwater_core::log::Key;

use crate::heap::{self, Heap, MAX_SIZED};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, prefetch};
use crate::word::{Busy, RecordWord};

const LINE: usize = 64;
/// More lines of one record are not asked for ahead: the processor's own prefetching follows a long copy.
const PREFETCHED_LINES: usize = 8;
const HEAD: usize = 16;
const SPILLED: u32 = 1 << 31;
const KEY_LEN: u32 = (1 << 17) - 1;

#[repr(C)]
struct Head {
    word: RecordWord,
    len: AtomicU32,
    shape: u32,
}

const _: () = assert!(size_of::<Head>() == HEAD);

/// A record, found in an index under a guard that is still pinned.
///
/// Invariant: the memory is a record made by [`Record::create`] that has not been reclaimed. All methods rest on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Record(NonNull<u8>);

// SAFETY: a record is shared memory that is only accessed through atomics, but for the parts that never change, and for plain reads of the value by
// who holds its lock.
unsafe impl Send for Record {}

/// Where values are copied to: whole words, so that a copy needs no tail.
#[derive(Default)]
pub(crate) struct Scratch {
    words: Vec<u64>,
    len: usize,
}

impl Scratch {
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `copy_value`, `read_at_once` or `set` initialised this many bytes at the front of the vector's memory, and any bytes
        // are valid.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast(), self.len) }
    }

    #[cold]
    fn grow(&mut self, words: usize) {
        self.words.reserve(words.next_power_of_two());
    }

    /// Gives back the memory of a large value, if it is of more than `most` bytes.
    pub fn shrink(&mut self, most: usize) {
        if self.words.capacity() * 8 > most {
            *self = Scratch::default();
        }
    }

    /// Holds a copy of `bytes`.
    pub fn set(&mut self, bytes: &[u8]) {
        self.words.clear();
        self.words.resize(bytes.len().div_ceil(8), 0);
        for (word, chunk) in self.words.iter_mut().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(whole);
        }
        self.len = bytes.len();
    }
}

impl Record {
    /// A record that is not in an index yet, with room for a value of `value_len` bytes and a little more. `word` is a
    /// tombstone that was never written, or [`BORN_LOCKED`](crate::word::BORN_LOCKED).
    ///
    /// Inlined, so that each index, which knows its kind of keys, has a copy without the other kind.
    #[inline(always)]
    pub fn create(key: Key<'_>, value_len: usize, word: u64, heap: &mut Heap) -> Record {
        let (key_len, front) = (key_len_of(key), front_of(key));
        let room = padded(value_len).max(8);
        let bytes = if front + room <= MAX_SIZED { front + room } else { front + 8 };
        let (at, bytes) = heap.alloc_whole(bytes);
        let room_words = ((bytes - front) / 8).min((1 << 15) - 1);
        let shape = key_len as u32 | (room_words as u32) << 17;
        // SAFETY: the piece holds `front` bytes and more, is aligned to 16, and nobody else has it. A racing reader may
        // copy words that no value ever reached: the heap's memory always holds some bytes.
        unsafe {
            at.cast::<Head>().write(Head { word: RecordWord::new(word), len: AtomicU32::new(0), shape });
            match key {
                Key::U64(key) => at.add(HEAD).cast::<u64>().write(key),
                Key::Bytes(key) => {
                    std::ptr::copy_nonoverlapping(key.as_ptr(), at.add(HEAD).as_ptr(), key.len());
                }
            }
        }
        Record(at)
    }

    /// Gives back a record that has left its index, and its buffer.
    pub fn retire(self, heap: &mut Heap) {
        if let Some((buffer, capacity)) = self.buffer() {
            heap.retire(buffer, 8 + capacity);
        }
        heap.retire(self.0, self.piece_bytes());
    }

    /// For index slots.
    #[inline]
    pub fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// From an index slot.
    ///
    /// # Safety
    /// The pointer came from [`Record::as_ptr`], and the guard under which it was found is pinned.
    #[inline]
    pub unsafe fn from_ptr(at: NonNull<u8>) -> Record {
        Record(at)
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: the type's invariant.
        unsafe { self.0.cast::<Head>().as_ref() }
    }

    #[inline]
    pub fn word(&self) -> &RecordWord {
        &self.head().word
    }

    #[inline]
    pub fn key_u64(&self) -> u64 {
        debug_assert_eq!(self.key_len(), 8);
        // SAFETY: the type's invariant; the key of an integer table is 8 bytes, aligned, and never changes.
        unsafe { self.0.add(HEAD).cast::<u64>().read() }
    }

    #[inline]
    pub fn key_bytes(&self) -> &[u8] {
        // SAFETY: the type's invariant; the key never changes.
        unsafe { std::slice::from_raw_parts(self.0.add(HEAD).as_ptr(), self.key_len()) }
    }

    /// Whether it is the record of this key, which is of its table's kind.
    #[inline]
    pub fn is_of(&self, key: Key<'_>) -> bool {
        match key {
            Key::U64(key) => self.key_u64() == key,
            Key::Bytes(key) => self.key_bytes() == key,
        }
    }

    #[inline]
    pub fn key_len(&self) -> usize {
        (self.head().shape & KEY_LEN) as usize
    }

    /// Offset of the value.
    #[inline]
    fn front(&self) -> usize {
        HEAD + padded(self.key_len())
    }

    /// Bytes for a value inside the record.
    #[inline]
    fn room(&self) -> usize {
        (self.head().shape >> 17) as usize * 8
    }

    fn piece_bytes(&self) -> usize {
        self.front() + self.room()
    }

    #[inline]
    fn inline(&self) -> *const AtomicU64 {
        // SAFETY: the offset is inside the piece.
        unsafe { self.0.as_ptr().add(self.front()).cast() }
    }

    /// The first word of the value as the pointer to a buffer; meaningful if spilled.
    #[inline]
    fn spill(&self) -> &AtomicPtr<u8> {
        // SAFETY: the room is 8 bytes at least, aligned to 8; atomics of one size may share memory.
        unsafe { &*self.inline().cast() }
    }

    /// The buffer and its capacity, if spilled.
    #[inline]
    fn buffer(&self) -> Option<(NonNull<u8>, usize)> {
        // Acquire; pairs with the Release in `write_buffer`: a spilled record's pointer is there.
        if self.head().len.load(Ordering::Acquire) & SPILLED == 0 {
            return None;
        }
        // Acquire; pairs with the Release in `write_buffer`: the buffer's capacity is there.
        let buffer =
            NonNull::new(self.spill().load(Ordering::Acquire)).expect("a spilled record has a buffer");
        // SAFETY: a buffer that was current after the guard was pinned is not reclaimed; its capacity never changes.
        Some((buffer, unsafe { buffer.cast::<u64>().read() } as usize))
    }

    /// Where the value starts, how many bytes may be there, and [`SPILLED`] if that is in a buffer, else 0.
    #[inline]
    fn space(&self) -> (*const AtomicU64, usize, u32) {
        match self.buffer() {
            None => (self.inline(), self.room(), 0),
            // SAFETY: a buffer is 8 bytes and its capacity.
            Some((buffer, capacity)) => (unsafe { buffer.as_ptr().add(8).cast() }, capacity, SPILLED),
        }
    }

    /// Where the value starts and how many bytes may be read there.
    #[inline]
    fn value(&self) -> (*const AtomicU64, usize) {
        let (at, most, _) = self.space();
        (at, most)
    }

    /// Copies the value; returns the word that it belongs to. Under a tombstone it is what there was, and means nothing.
    #[inline(always)]
    pub fn read(&self, into: &mut Scratch) -> Result<u64, Busy> {
        match self.read_at_once(into) {
            Some(word) => Ok(word),
            None => self.read_patiently(into),
        }
    }

    /// The same where the value stands in the record and nobody is writing, which is nearly always: in one piece with the caller.
    #[inline(always)]
    pub fn read_at_once(&self, into: &mut Scratch) -> Option<u64> {
        let before = self.word().begin_read()?;
        // Whatever length it is, it is bounded by what there is, and belongs to the value if the word is the same behind the copy.
        let (len, shape) = (self.head().len.load(Ordering::Relaxed), self.head().shape);
        if len & SPILLED != 0 {
            return None;
        }
        let len = (len as usize).min((shape >> 17) as usize * 8);
        let words = len.div_ceil(8);
        if into.words.capacity() < words {
            into.grow(words);
        }
        // SAFETY: source and target hold `words` words: rooms are multiples of 8.
        unsafe { copy_out(self.inline(), into.words.as_mut_ptr(), words) };
        into.len = len;
        self.word().end_read(before).then_some(before)
    }

    /// The same wherever the value stands, waiting a little for who writes: no part of its caller, so that builds for tests, where callers are not
    /// optimised, copy long values as fast as others.
    #[inline(never)]
    pub fn read_patiently(&self, into: &mut Scratch) -> Result<u64, Busy> {
        self.word().read(|| self.copy_value(into))
    }

    /// Copies the value. The caller holds the lock.
    #[inline]
    pub fn copy_locked_value<'a>(&self, into: &'a mut Scratch) -> &'a [u8] {
        self.copy_value(into);
        into.bytes()
    }

    /// Appends a head, the key and, if it is wanted, the value, in whole words: key and value as they stand in the record, which is copied at one
    /// go unless it is spilled. `head` is told the lengths of both.
    ///
    /// # Safety
    /// The caller holds the lock: nobody writes meanwhile.
    #[inline(always)]
    pub unsafe fn append_locked(
        &self,
        head: impl Fn(usize, usize) -> [u64; 2],
        with_value: bool,
        to: &mut Vec<u8>,
    ) {
        let (len, shape) = (self.head().len.load(Ordering::Relaxed), self.head().shape);
        if len & SPILLED != 0 {
            // SAFETY: as of this function.
            return unsafe { self.append_spilled(head, with_value, to) };
        }
        let (key_len, len) = ((shape & KEY_LEN) as usize, if with_value { len as usize } else { 0 });
        assert!(len <= (shape >> 17) as usize * 8, "under its lock a record is not between two lengths");
        let words = key_len.div_ceil(8) + len.div_ceil(8);
        let bytes = 8 * (2 + words);
        to.reserve(bytes);
        // SAFETY: there is room for so many words behind what the vector has, and all are written. The key is padded to words, and the value
        // follows it; rooms are multiples of 8.
        unsafe {
            let end = to.as_mut_ptr().add(to.len()).cast::<u64>();
            end.cast::<[u64; 2]>().write_unaligned(head(key_len, len));
            copy_unchanging(self.0.as_ptr().add(HEAD).cast(), end.add(2), words);
            to.set_len(to.len() + bytes);
        }
    }

    /// # Safety
    /// As of [`append_locked`](Record::append_locked).
    #[cold]
    unsafe fn append_spilled(
        &self,
        head: impl Fn(usize, usize) -> [u64; 2],
        with_value: bool,
        to: &mut Vec<u8>,
    ) {
        let (from, most) = self.value();
        let (key_len, len) = (self.key_len(), if with_value { self.value_len() } else { 0 });
        assert!(len <= most, "under its lock a record is not between two lengths");
        let (key_words, value_words) = (key_len.div_ceil(8), len.div_ceil(8));
        let bytes = 8 * (2 + key_words + value_words);
        to.reserve(bytes);
        // SAFETY: as above; capacities are multiples of 8, too.
        unsafe {
            let end = to.as_mut_ptr().add(to.len()).cast::<u64>();
            end.cast::<[u64; 2]>().write_unaligned(head(key_len, len));
            copy_unchanging(self.0.as_ptr().add(HEAD).cast(), end.add(2), key_words);
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), end.add(2 + key_words).cast(), 8 * value_words);
            to.set_len(to.len() + bytes);
        }
    }

    #[inline(always)]
    fn copy_value(&self, into: &mut Scratch) {
        let len = (self.head().len.load(Ordering::Acquire) & !SPILLED) as usize;
        let (from, most) = self.value();
        let len = len.min(most);
        let words = len.div_ceil(8);
        if into.words.capacity() < words {
            into.grow(words);
        }
        // SAFETY: source and target hold `words` words: rooms and capacities are multiples of 8.
        unsafe { copy_out(from, into.words.as_mut_ptr(), words) };
        into.len = len;
    }

    /// Sets the value. The caller holds the lock.
    #[inline]
    pub fn write_value(&self, value: &[u8], heap: &mut Heap) {
        let (at, room, spilled) = self.space();
        if value.len() <= room {
            // SAFETY: the value fits, and only the holder of the lock writes.
            unsafe { copy_in(value, at) };
            self.head().len.store(value.len() as u32 | spilled, Ordering::Relaxed);
        } else {
            self.write_buffer(value, heap);
        }
    }

    #[cold]
    fn write_buffer(&self, value: &[u8], heap: &mut Heap) {
        let old = self.buffer();
        let bytes = buffer_bytes(value.len());
        let buffer = heap.alloc(bytes);
        let capacity = bytes - 8;
        // SAFETY: nobody else has the buffer yet; it holds its header and the value. A racing reader may use the length
        // of a later value: the heap's memory always holds some bytes.
        unsafe {
            buffer.cast::<u64>().write(capacity as u64);
            std::ptr::copy_nonoverlapping(value.as_ptr(), buffer.as_ptr().add(8), value.len());
        }
        // Releases; pair with the Acquires in `buffer`.
        self.spill().store(buffer.as_ptr(), Ordering::Release);
        self.head().len.store(value.len() as u32 | SPILLED, Ordering::Release);
        if let Some((old, capacity)) = old {
            heap.retire(old, 8 + capacity);
        }
    }

    /// Length of the value, about: it may change any time unless the caller holds the lock.
    #[inline]
    pub fn value_len(&self) -> usize {
        (self.head().len.load(Ordering::Relaxed) & !SPILLED) as usize
    }

    /// Bytes that a value of `len` bytes would take beyond what the record has, about: see [`Record::value_len`].
    pub fn growth_to(&self, len: usize) -> usize {
        if len <= self.value().1 { 0 } else { buffer_bytes(len) }
    }

    /// Asks for the first cache line.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.0.as_ptr());
    }

    /// Asks for the other lines of a value that is likely to be read whole. Touches the first.
    #[inline]
    pub fn prefetch_value(&self) {
        let (at, most) = self.value();
        let len = (self.head().len.load(Ordering::Relaxed) & !SPILLED) as usize;
        let start = at.cast::<u8>();
        for line in (0..len.min(most)).step_by(LINE).take(PREFETCHED_LINES) {
            prefetch(start.wrapping_add(line));
        }
        prefetch(start.wrapping_add(len.min(most)));
    }

    /// Asks for the first so many bytes, without looking at any: the caller knows how long such records are, about.
    #[inline]
    pub fn prefetch_bytes(&self, bytes: usize) {
        let start: *const u8 = self.0.as_ptr();
        let offset = start.addr() % LINE;
        for line in (0..offset + bytes).step_by(LINE).take(PREFETCHED_LINES) {
            prefetch(start.wrapping_add(line).wrapping_sub(offset));
        }
    }

    /// How many bytes a reader touches of a record whose value has so many.
    #[inline]
    pub fn bytes_with(&self, value_len: usize) -> usize {
        self.front() + value_len
    }
}

/// So many bytes in whole words. (What the standard library's rounding compiles to for any number takes three times as many instructions.)
#[inline]
const fn padded(bytes: usize) -> usize {
    (bytes + 7) & !7
}

/// Bytes of a key.
pub(crate) fn key_len_of(key: Key<'_>) -> usize {
    match key {
        Key::U64(_) => 8,
        Key::Bytes(key) => key.len(),
    }
}

/// Bytes in front of the value of this key's record.
#[inline]
pub(crate) fn front_of(key: Key<'_>) -> usize {
    HEAD + padded(key_len_of(key))
}

/// Bytes of a new buffer for a value: it may grow a little.
fn buffer_bytes(value_len: usize) -> usize {
    heap::rounded(8 + value_len + value_len / 8)
}

/// Copies words by relaxed loads.
///
/// # Safety
/// Both sides hold `words` words; the target is ours. It need not be aligned.
#[inline(always)]
unsafe fn copy_out(from: *const AtomicU64, to: *mut u64, words: usize) {
    let mut at = 0;
    // SAFETY: `at + 2 <= words` and `at < words`; see above.
    unsafe {
        while at + 2 <= words {
            let two = [(*from.add(at)).load(Ordering::Relaxed), (*from.add(at + 1)).load(Ordering::Relaxed)];
            to.add(at).cast::<[u64; 2]>().write_unaligned(two);
            at += 2;
        }
        if at < words {
            to.add(at).write_unaligned((*from.add(at)).load(Ordering::Relaxed));
        }
    }
}

/// Copies words that nobody writes meanwhile, two at a time: mostly a few.
///
/// # Safety
/// Both sides hold `words` words, and nobody writes to the source; the target is ours. Neither need be aligned.
#[inline(always)]
unsafe fn copy_unchanging(from: *const u64, to: *mut u64, words: usize) {
    let mut at = 0;
    // SAFETY: `at + 2 <= words` and `at < words`; see above.
    unsafe {
        while at + 2 <= words {
            let two = from.add(at).cast::<[u64; 2]>().read_unaligned();
            to.add(at).cast::<[u64; 2]>().write_unaligned(two);
            at += 2;
        }
        if at < words {
            to.add(at).write_unaligned(from.add(at).read_unaligned());
        }
    }
}

/// The last bytes of a value as a little-endian word, filled up with zeros: from one load where it has 8 bytes.
#[inline(always)]
fn tail(whole: &[u8], bytes: usize) -> u64 {
    match whole.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * bytes),
        None => whole.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// Copies bytes by relaxed stores of words; the last word is filled up with zeros.
///
/// # Safety
/// The target holds `from.len()` bytes, rounded up to words, and only this thread stores to it.
#[inline(always)]
unsafe fn copy_in(from: &[u8], to: *const AtomicU64) {
    let (words, rest) = (from.len() / 8, from.len() % 8);
    let source = from.as_ptr().cast::<u64>();
    let mut at = 0;
    // SAFETY: `at + 2 <= words`, `at < words`, and for the last part of a word `at == words`; see above.
    unsafe {
        let copy = |at: usize| (*to.add(at)).store(source.add(at).read_unaligned(), Ordering::Relaxed);
        while at + 2 <= words {
            copy(at);
            copy(at + 1);
            at += 2;
        }
        if at < words {
            copy(at);
        }
        if rest > 0 {
            (*to.add(words)).store(tail(from, rest).to_le(), Ordering::Relaxed);
        }
    }
}
