//! Where a transaction met another one: the record at which its commit failed, for whoever counts hot keys.
//!
//! Looked for on the way out of a conflict only; a transaction that commits pays nothing.

use highwater_core::TableId;
use highwater_core::log::Key;

use super::Occ;
use super::commit::stored_key;

/// The record of the last conflict, if it was at one.
#[derive(Default)]
pub(super) struct Met {
    table: Option<TableId>,
    /// Of a table with integer keys.
    number: u64,
    /// Of a table with byte strings: at most [`MOST_KEY_BYTES`] of it.
    bytes: Vec<u8>,
    is_number: bool,
}

/// Bytes of a key that are kept.
const MOST_KEY_BYTES: usize = 256;

impl Occ {
    /// The record at which the last attempt met another transaction, and the first bytes of its key; `None`: it met none, or where there was
    /// no record yet.
    pub fn take_met(&mut self) -> Option<(TableId, Key<'_>)> {
        let Met { table, number, bytes, is_number } = &mut self.met;
        Some((table.take()?, if *is_number { Key::U64(*number) } else { Key::Bytes(bytes) }))
    }

    /// A write could not be locked, or was of something that had been read and is gone.
    #[cold]
    pub(super) fn met_at_write(&mut self, write: usize) {
        let Occ { met, store, sets, .. } = self;
        let write = &sets.writes[write];
        met.note(write.table, stored_key(store, write.table, &write.record));
    }

    /// What was read has changed: the first record of which that is true.
    #[cold]
    pub(super) fn met_at_read(&mut self) {
        let at = self.sets.accesses.iter().position(|access| !self.is_as_seen(access));
        let Occ { met, store, sets, .. } = self;
        if let Some(access) = at.map(|at| &sets.accesses[at]) {
            met.note(access.table, stored_key(store, access.table, &access.record));
        }
    }
}

impl Met {
    fn note(&mut self, table: TableId, key: Key<'_>) {
        self.table = Some(table);
        match key {
            Key::U64(number) => (self.is_number, self.number) = (true, number),
            Key::Bytes(bytes) => {
                self.is_number = false;
                self.bytes.clear();
                self.bytes.extend_from_slice(&bytes[..bytes.len().min(MOST_KEY_BYTES)]);
            }
        }
    }
}
