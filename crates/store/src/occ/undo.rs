//! Before-images: how a deposed leader's store gets rid of what will never have happened.
//!
//! A leader that replicates after it commits runs ahead of what is safe. For every transaction above the watermark this
//! log keeps what it overwrote. When the final mark is known, [`Occ::roll_back`] restores, for each record, the value
//! that the mark preserves: the before-image whose own timestamp is at or below the mark while its transaction's is
//! above. There is exactly one such image per record that was overwritten beyond the mark, whichever worker keeps it; so
//! every worker rolls its own log back, in any order. Nothing newer may be written before all of them have: the
//! timestamps of the next leader come from another clock and need not exceed those that are rolled back.
//!
//! ```text
//! image   record u64 | word before u64 | length u32 | table u8 | value (length bytes)
//! ```

use std::collections::VecDeque;
use std::ptr::NonNull;

use highwater_core::hooks::{self, Point};
use highwater_core::{TableId, Timestamp};

use super::{Occ, Phase};
use crate::record::Record;
use crate::word::{TIMESTAMP, TOMBSTONE};

const IMAGE_HEAD: usize = 21;
/// Compact when this many forgotten bytes stand in front.
const COMPACT_BYTES: usize = 256 << 10;

/// The before-images of one worker's transactions above the watermark.
///
/// Invariant: a record named by an image of a transaction above the watermark is in its index: it is locked or carries a
/// timestamp above the watermark, and nothing above the watermark is unlinked.
#[derive(Debug, Default)]
pub(super) struct UndoLog {
    /// Each transaction's timestamp and the end of its images, counted from the beginning of time.
    transactions: VecDeque<(Timestamp, u64)>,
    images: Vec<u8>,
    /// Forgotten bytes in front of `images`.
    head: usize,
    /// Bytes that were ever dropped from the front.
    dropped: u64,
}

impl UndoLog {
    /// Keeps what a record held before it is overwritten.
    #[inline]
    pub fn keep(&mut self, table: TableId, record: Record, before: u64, value: &[u8]) {
        self.images.extend_from_slice(&(record.as_ptr() as u64).to_ne_bytes());
        self.images.extend_from_slice(&before.to_ne_bytes());
        self.images.extend_from_slice(&(value.len() as u32).to_ne_bytes());
        self.images.push(table.0);
        self.images.extend_from_slice(value);
    }

    /// The images since the last call belong to the transaction at `ts`.
    #[inline]
    pub fn end(&mut self, ts: Timestamp) {
        self.transactions.push_back((ts, self.dropped + self.images.len() as u64));
    }

    /// Forgets the transactions at or below `mark`.
    #[inline]
    pub fn forget(&mut self, mark: Timestamp) {
        while let Some((_, end)) = self.transactions.pop_front_if(|(ts, _)| *ts <= mark) {
            self.head = (end - self.dropped) as usize;
        }
        if self.head == self.images.len() || self.head > COMPACT_BYTES && self.head > self.images.len() / 2 {
            self.images.drain(..self.head);
            self.dropped += self.head as u64;
            self.head = 0;
        }
    }
}

/// One before-image.
struct Image<'a> {
    table: TableId,
    record: Record,
    before: u64,
    value: &'a [u8],
}

/// Takes the first image off.
fn take_image<'a>(images: &mut &'a [u8]) -> Option<Image<'a>> {
    let (head, rest) = images.split_at_checked(IMAGE_HEAD)?;
    let word = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    let len = u32::from_ne_bytes(head[16..20].try_into().expect("4 bytes")) as usize;
    let (value, rest) = rest.split_at(len);
    *images = rest;
    let record = NonNull::new(word(0) as *mut u8).expect("records have addresses");
    // SAFETY: the pointer came from `Record::as_ptr` in `keep`; the type's invariant keeps the record alive, and no other
    // worker unlinks it while the caller's guard is pinned.
    let record = unsafe { Record::from_ptr(record) };
    Some(Image { table: TableId(head[20]), record, before: word(8), value })
}

impl Occ {
    /// Keeps before-images of what commits from now on (or not). Forgets those kept before.
    pub fn keep_undo(&mut self, keep: bool) {
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
            undo.forget(mark);
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
        undo.forget(preserved);
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
        restored
    }

    fn restore(&mut self, image: &Image<'_>, preserved: Timestamp) -> bool {
        // Held for the length of an install only; never for ever, since what is above the mark is not unlinked.
        let current = loop {
            match image.record.word().lock() {
                Ok(word) => break word,
                Err(_) => crate::sync::spin_loop(),
            }
        };
        if current & TIMESTAMP <= preserved.0 {
            image.record.word().unlock(current);
            return false;
        }
        if image.before & TOMBSTONE == 0 {
            image.record.write_value(image.value, &mut self.heap);
        }
        image.record.word().unlock(image.before);
        if image.before & TOMBSTONE != 0 {
            self.bury_restored(image.table, image.record, Timestamp(image.before & TIMESTAMP));
        }
        true
    }
}
