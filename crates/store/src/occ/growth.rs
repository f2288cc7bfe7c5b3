//! What a transaction would add to the memory in use, and whether it may: looked at before it locks anything.

use highwater_core::{Abort, planted};

use super::Occ;
use crate::word::TOMBSTONE;

/// More than any record takes beside its key and value: its head, what rounding adds, and its share of an index.
pub(crate) const RECORD_BYTES: u64 = 192;

impl Occ {
    /// Whether the open transaction's writes may be installed.
    ///
    /// Every transaction that writes pays one comparison with a bound that no write set exceeds; only where that is more
    /// than the room that is left, its records are looked at.
    #[inline]
    pub(super) fn check_growth(&mut self) -> Result<(), Abort> {
        let bound = self.sets.writes.len() as u64 * RECORD_BYTES + self.writer.open_bytes() as u64 * 5 / 4;
        if bound <= self.room {
            // Without a limit the room is so large that no life of a worker uses it up.
            self.room -= bound;
        } else {
            let growth = if planted!(GrowthUnpaid) { 0 } else { self.growth() };
            self.room = self.room.checked_sub(growth).ok_or(Abort::OutOfMemory)?;
        }
        if self.undo.is_some() { self.check_images() } else { Ok(()) }
    }

    /// Bytes by which the write set would make the store grow, about: others may write to the records at this moment.
    #[cold]
    fn growth(&self) -> u64 {
        let growth = |write: &super::sets::Write| {
            let len = write.at.len as usize;
            let fresh = RECORD_BYTES as usize + write.record.key_len() + len;
            let value = if write.delete { 0 } else { write.record.growth_to(len) };
            (value + if write.created { fresh } else { 0 }) as u64
        };
        self.sets.writes.iter().map(growth).sum()
    }

    /// A leader keeps what a transaction replaces until the mark has passed it. Before-images are not in the budget, so
    /// one transaction may replace no more bytes than it may write.
    #[inline]
    fn check_images(&self) -> Result<(), Abort> {
        let images: usize = self.sets.writes.iter().map(|write| write.record.value_len()).sum();
        if images > self.writer.most() { self.count_images() } else { Ok(()) }
    }

    /// The same sum without tombstones. Those keep the length of the value that they had, and need no before-image of it.
    #[cold]
    fn count_images(&self) -> Result<(), Abort> {
        let live = |write: &&super::sets::Write| write.record.word().load() & TOMBSTONE == 0;
        let images: usize = self.sets.writes.iter().filter(live).map(|write| write.record.value_len()).sum();
        if images > self.writer.most() { Err(Abort::TooLarge) } else { Ok(()) }
    }
}
