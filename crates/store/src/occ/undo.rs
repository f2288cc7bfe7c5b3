//! Before-images: how a deposed leader's store gets rid of what will never have happened.
//!
//! A leader that replicates after it commits runs ahead of what is safe. For every transaction above the watermark this
//! log keeps what it overwrote. When the final mark is known, [`Occ::roll_back`] restores, for each record, the value
//! that the mark preserves: the before-image whose own timestamp is at or below the mark while its transaction's is
//! above. There is exactly one such image per record that was overwritten beyond the mark, whichever worker keeps it; so
//! every worker rolls its own log back, in any order. Nothing newer may be written before all of them have: the
//! timestamps of the next leader come from another clock and need not exceed those that are rolled back.
//!
//! Images name their records by key: whatever else happens to the store, a roll-back finds what is there, or makes it.
//! That the marks are the same for all workers is the caller's affair; that no tombstone is unlinked while a before-image
//! of its record is kept is the store's ([`Guards::no_images_up_to`]), or two images of one key could both seem to be the
//! one that the mark preserves.
//!
//! ```text
//! image   word before u64 | length u32 | table u8 | key kind and length u32 | key | value (length bytes)
//! ```
//!
//! [`Guards::no_images_up_to`]: crate::guard::Guards::no_images_up_to

use std::collections::VecDeque;

use highwater_core::hooks::{self, Point};
use highwater_core::log::Key;
use highwater_core::{TableId, Timestamp};

use super::{Occ, Phase};
use crate::heap::Heap;
use crate::index::Index;
use crate::keys::Keys;
use crate::store::with_index;
use crate::sync::Backoff;
use crate::tree::Fingers;
use crate::word::{DEAD, TIMESTAMP, TOMBSTONE};

const IMAGE_HEAD: usize = 17;
/// In front of an integer key, instead of a length.
const INTEGER: u32 = u32::MAX;
/// Compact when this many forgotten bytes stand in front.
const COMPACT_BYTES: usize = 256 << 10;

/// The before-images of one worker's transactions above the watermark.
///
/// Invariant: the worker's slot among the guards says above which timestamp it keeps images, before anybody can see what
/// the transaction wrote.
#[derive(Debug, Default)]
pub(super) struct UndoLog {
    /// Each transaction's timestamp and the end of its images, counted from the beginning of time.
    transactions: VecDeque<(Timestamp, u64)>,
    images: Vec<u8>,
    /// Forgotten bytes in front of `images`.
    head: usize,
    /// Bytes that were ever dropped from the front.
    dropped: u64,
    /// Bytes that the heap's account knows of.
    counted: usize,
}

impl UndoLog {
    /// Keeps what a record held before it is overwritten.
    #[inline]
    pub fn keep(&mut self, table: TableId, key: Key<'_>, before: u64, value: &[u8]) {
        self.images.extend_from_slice(&before.to_ne_bytes());
        self.images.extend_from_slice(&(value.len() as u32).to_ne_bytes());
        self.images.push(table.0);
        match key {
            Key::U64(key) => {
                self.images.extend_from_slice(&INTEGER.to_ne_bytes());
                self.images.extend_from_slice(&key.to_ne_bytes());
            }
            Key::Bytes(key) => {
                self.images.extend_from_slice(&(key.len() as u32).to_ne_bytes());
                self.images.extend_from_slice(key);
            }
        }
        self.images.extend_from_slice(value);
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

    /// Forgets everything, and gives the memory back.
    fn clear(&mut self, heap: &Heap) {
        heap.keep_images_above(None);
        heap.count_images(self.counted, 0);
        *self = UndoLog::default();
    }
}

/// One before-image.
struct Image<'a> {
    table: TableId,
    key: Key<'a>,
    before: u64,
    value: &'a [u8],
}

/// Takes the first image off.
fn take_image<'a>(images: &mut &'a [u8]) -> Option<Image<'a>> {
    let (head, rest) = images.split_at_checked(IMAGE_HEAD)?;
    let number = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().expect("4 bytes"));
    let before = u64::from_ne_bytes(head[..8].try_into().expect("8 bytes"));
    let (len, table, kind) = (number(8) as usize, TableId(head[12]), number(13));
    let (key, rest) = match kind {
        INTEGER => {
            let (key, rest) = rest.split_at(8);
            (Key::U64(u64::from_ne_bytes(key.try_into().expect("8 bytes"))), rest)
        }
        key_len => {
            let (key, rest) = rest.split_at(key_len as usize);
            (Key::Bytes(key), rest)
        }
    };
    let (value, rest) = rest.split_at(len);
    *images = rest;
    Some(Image { table, key, before, value })
}

impl Occ {
    /// Keeps before-images of what commits from now on (or not). Forgets those kept before.
    pub fn keep_undo(&mut self, keep: bool) {
        if let Some(mut undo) = self.undo.take() {
            undo.clear(&self.heap);
        }
        self.undo = keep.then(UndoLog::default);
    }

    /// Bytes of before-images that are kept.
    #[inline]
    pub fn undo_bytes(&self) -> usize {
        self.undo.as_ref().map_or(0, |undo| undo.images.len() - undo.head)
    }

    /// Transactions at or below `mark` will never be rolled back.
    #[inline]
    pub fn forget_undo(&mut self, mark: Timestamp) {
        if let Some(undo) = &mut self.undo {
            undo.forget(mark, &self.heap);
        }
    }

    /// Restores what this worker's transactions above `preserved` overwrote. Other workers may roll back at the same
    /// time; nothing else may be written until all of them have. Says how many records it restored.
    ///
    /// # Panics
    /// While a transaction is open.
    pub fn roll_back(&mut self, preserved: Timestamp) -> u64 {
        assert_eq!(self.phase, Phase::Idle, "a roll-back comes between transactions");
        let Some(mut undo) = self.undo.take() else { return 0 };
        undo.forget(preserved, &self.heap);
        self.heap.pin();
        let mut images = &undo.images[undo.head..];
        let mut restored = 0;
        while let Some(image) = take_image(&mut images) {
            if image.before & TIMESTAMP <= preserved.0 {
                hooks::point(Point::RollBack);
                restored += u64::from(self.restore(&image, preserved));
            }
        }
        self.heap.unpin();
        undo.clear(&self.heap);
        restored
    }

    fn restore(&mut self, image: &Image<'_>, preserved: Timestamp) -> bool {
        let store = self.store.clone();
        let index = store.table(image.table).expect("images are of tables of this store");
        let fingers = &mut self.fingers[image.table.0 as usize];
        let restored =
            with_index!(index, index => restore_in(index, image, preserved, fingers, &mut self.heap));
        if restored && image.before & TOMBSTONE != 0 {
            // Whoever buried it first has given it up.
            self.graveyard.bury_at_once(image.table, Timestamp(image.before & TIMESTAMP), image.key);
        }
        restored
    }
}

fn restore_in<I: Index>(
    index: &I,
    image: &Image<'_>,
    preserved: Timestamp,
    fingers: &mut Fingers,
    heap: &mut Heap,
) -> bool {
    let key = I::Keys::logged_key(image.key).expect("images hold keys of their table's kind");
    let hash = I::Keys::hash(key);
    let mut backoff = Backoff::default();
    loop {
        let (record, added) =
            index.find_or_add(key, hash, image.value.len(), TOMBSTONE, fingers, heap, &mut ());
        match record.word().lock() {
            // It left the index, or another worker restores it: held for the length of an install only.
            Ok(DEAD) | Err(_) => backoff.wait(),
            Ok(current) if current & TIMESTAMP <= preserved.0 && !added => {
                record.word().unlock(current);
                return false;
            }
            Ok(_) => {
                if image.before & TOMBSTONE == 0 {
                    record.write_value(image.value, heap);
                }
                record.word().unlock(image.before);
                return true;
            }
        }
    }
}
