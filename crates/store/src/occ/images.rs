//! Before-images, as a worker keeps them: one run of bytes, the oldest first.
//!
//! ```text
//! image   word before u64 | length u32 | table and length of the key u32 | key, padded to 8 | value, padded to 8
//! ```
//!
//! An integer key is there as its record has it, in native order: the table says of which kind its keys are.

use std::collections::VecDeque;

use highwater_core::limits::MAX_KEY_BYTES;
use highwater_core::log::Key;
use highwater_core::{TableId, Timestamp};

use crate::heap::Heap;
use crate::record::Record;
use crate::store::{AnyIndex, Store};
use crate::word::TOMBSTONE;

const IMAGE_HEAD: usize = 16;
/// Where the table stands above the length of the key.
const TABLE_SHIFT: u32 = 24;
const _: () = assert!(MAX_KEY_BYTES < 1 << TABLE_SHIFT);
/// Forgotten bytes are dropped when so many stand in front, and not before: dropping them moves all that is kept.
const COMPACT_BYTES: usize = 256 << 10;

/// The before-images of one worker's transactions above the watermark.
///
/// Invariant: the worker's slot among the guards says above which timestamp it keeps images, before anybody can see what
/// the transaction wrote.
#[derive(Debug, Default)]
pub(super) struct UndoLog {
    /// Each transaction's timestamp and the end of its images. Ends count all bytes ever kept, so that dropping bytes
    /// from the front changes none of them.
    transactions: VecDeque<(Timestamp, u64)>,
    images: Vec<u8>,
    /// Forgotten bytes in front of `images`.
    head: usize,
    /// Bytes that were ever dropped from the front.
    dropped: u64,
    /// Bytes that the heap's account was last told of.
    counted: usize,
}

impl UndoLog {
    /// Keeps what a record holds before it is overwritten; a tombstone holds nothing. The caller holds its lock. Copied once, and by one append:
    /// this is done for each write of a leader.
    #[inline]
    pub fn keep(&mut self, table: TableId, before: u64, record: Record) {
        let with_value = before & TOMBSTONE == 0;
        let head = |key_len: usize, value_len: usize| {
            let key = key_len as u64 | u64::from(table.0) << TABLE_SHIFT;
            [before, value_len as u64 | key << 32]
        };
        // SAFETY: the caller holds the lock.
        unsafe { record.append_locked(head, with_value, &mut self.images) };
    }

    /// The images since the last call belong to the transaction at `ts`, which is about to be seen.
    #[inline]
    pub fn end(&mut self, ts: Timestamp, heap: &Heap) {
        if self.transactions.is_empty() {
            heap.keep_images_above(Some(ts.0 - 1));
        }
        self.transactions.push_back((ts, self.dropped + self.images.len() as u64));
        self.count(heap);
    }

    /// Forgets the transactions at or below `mark`.
    #[inline]
    pub fn forget(&mut self, mark: Timestamp, heap: &Heap) {
        let mut forgot = false;
        while let Some((_, end)) = self.transactions.pop_front_if(|(ts, _)| *ts <= mark) {
            self.head = (end - self.dropped) as usize;
            forgot = true;
        }
        if !forgot {
            return;
        }
        heap.keep_images_above(self.transactions.front().map(|(ts, _)| ts.0 - 1));
        if self.head == self.images.len() || self.head > COMPACT_BYTES && self.head > self.images.len() / 2 {
            self.images.drain(..self.head);
            self.dropped += self.head as u64;
            self.head = 0;
            // What a large transaction once needed does not stay.
            if self.images.capacity() / 4 > self.images.len().max(COMPACT_BYTES) {
                self.images.shrink_to(2 * self.images.len().max(COMPACT_BYTES));
            }
        }
        self.count(heap);
    }

    #[inline]
    fn count(&mut self, heap: &Heap) {
        let bytes = self.images.capacity() + self.transactions.capacity() * size_of::<(Timestamp, u64)>();
        if bytes != self.counted {
            heap.count_images(self.counted, bytes);
            self.counted = bytes;
        }
    }

    /// Bytes of images that are kept.
    #[inline]
    pub fn len(&self) -> usize {
        self.images.len() - self.head
    }

    /// The images that are kept, oldest first; [`take_image`] reads them.
    pub fn images(&self) -> &[u8] {
        &self.images[self.head..]
    }

    /// Forgets everything, and gives the memory back.
    pub fn clear(&mut self, heap: &Heap) {
        heap.keep_images_above(None);
        heap.count_images(self.counted, 0);
        *self = UndoLog::default();
    }
}

/// One before-image.
pub(super) struct Image<'a> {
    pub table: TableId,
    pub key: Key<'a>,
    pub before: u64,
    pub value: &'a [u8],
}

/// Takes the first image off, which is of a table of this store.
pub(super) fn take_image<'a>(images: &mut &'a [u8], store: &Store) -> Option<Image<'a>> {
    let (head, rest) = images.split_at_checked(IMAGE_HEAD)?;
    let [before, shape] = [0, 8].map(|at| u64::from_ne_bytes(head[at..at + 8].try_into().expect("8 bytes")));
    let (len, key) = (shape as u32 as usize, (shape >> 32) as u32);
    let (table, key_len) = (TableId((key >> TABLE_SHIFT) as u8), (key & ((1 << TABLE_SHIFT) - 1)) as usize);
    let (key, rest) = rest.split_at(key_len.next_multiple_of(8));
    let key = match store.table(table).expect("images are of tables of this store") {
        AnyIndex::HashU64(_) | AnyIndex::TreeU64(_) => {
            Key::U64(u64::from_ne_bytes(key.try_into().expect("8 bytes")))
        }
        AnyIndex::HashBytes(_) | AnyIndex::TreeBytes(_) => Key::Bytes(&key[..key_len]),
    };
    let (value, rest) = rest.split_at(len.next_multiple_of(8));
    *images = rest;
    Some(Image { table, key, before, value: &value[..len] })
}
