//! What a transaction would add to the memory in use, and whether it may: looked at before it locks anything.

use highwater_core::{Abort, planted};

use super::Occ;
use super::sets::Write;
use crate::word::TOMBSTONE;

/// More than any record takes beside its key and value: its head, what rounding adds, and its share of an index.
pub(crate) const RECORD_BYTES: u64 = 192;

/// A row of so many bytes of key and value, new or rewritten, is a note, which deletes of the same transaction pay for.
const NOTE_BYTES: usize = 64;
/// So many deletes pay for one note: what they free is more than it takes, whatever their rows have.
const DELETES_FOR_A_NOTE: usize = 2;

/// How many notes more the deletes of a write set pay for. To remove what is large leaves a note of what is to be done, and has to be possible
/// when memory is full, or nothing would ever make room.
#[cold]
pub(super) fn notes_paid(writes: &[Write]) -> usize {
    let live = |write: &&Write| write.delete && write.record.word().load() & TOMBSTONE == 0;
    let notes = writes.iter().filter(|write| is_note(write)).count();
    (writes.iter().filter(live).count() / DELETES_FOR_A_NOTE).saturating_sub(notes)
}

/// Whether a row of so many bytes may be a note.
pub(super) fn may_be_note(key_len: usize, value_len: usize) -> bool {
    key_len + value_len <= NOTE_BYTES
}

fn is_note(write: &Write) -> bool {
    !write.delete && may_be_note(write.record.key_len(), write.at.len as usize)
}

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
        let growth = |write: &Write| {
            let len = write.at.len as usize;
            let fresh = RECORD_BYTES as usize + write.record.key_len() + len;
            let value = if write.delete { 0 } else { write.record.growth_to(len) };
            (value + if write.created { fresh } else { 0 }) as u64
        };
        let writes = &self.sets.writes;
        let live = |write: &&Write| write.delete && write.record.word().load() & TOMBSTONE == 0;
        let mut paid = writes.iter().filter(live).count() / DELETES_FOR_A_NOTE;
        let pays = |write: &&Write| {
            let pays = !(is_note(write) && paid > 0);
            paid -= usize::from(!pays);
            pays
        };
        writes.iter().filter(pays).map(growth).sum()
    }

    /// Whether one more record may be removed. The bound of [`check_images`](Occ::check_images), which is what counts, but at once: who removes a
    /// thousand times what a transaction may remove does not read all of that in vain.
    #[inline]
    pub(super) fn check_removal(&mut self, access: usize) -> Result<(), Abort> {
        let removed = self.sets.removed + self.sets.accesses[access].record.value_len();
        if self.undo.is_some() && removed > self.writer.most() {
            return Err(Abort::TooLarge);
        }
        self.sets.removed = removed;
        Ok(())
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
