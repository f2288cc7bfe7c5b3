//! Point lookups: of what the transaction has touched before, or has announced, and else in the index.

use highwater_core::{Abort, TableId};

use super::Occ;
use super::sets::Seen;
use crate::index::{Found, Index};
use crate::keys::{ByteKeys, IntegerKeys, Keys};
use crate::record::Record;
use crate::store::with_index;
use crate::sync::Backoff;
use crate::tree::Fingers;
use crate::word::{Busy, DEAD, TIMESTAMP, TOMBSTONE};

/// What a lookup for reading found.
#[derive(Clone, Copy)]
pub(super) enum Looked {
    /// The transaction's own write, by its index.
    Own(usize),
    /// A live record; its value is in `Occ::value`.
    Live(usize),
    /// A tombstone, and the access.
    Gone(usize),
    /// No record.
    Absent,
}

impl Occ {
    /// Looks a key up, reads its record (its value only if `COPY`) and remembers what was seen.
    ///
    /// What procedures read they have announced as a rule. So that is in one piece with the caller, and the index, of which there are four kinds,
    /// is not.
    #[inline(always)]
    pub(super) fn look<const COPY: bool>(&mut self, table: TableId, key: &[u8]) -> Result<Looked, Abort> {
        self.begin_read();
        let index = self.store.table(table).ok_or(Abort::BadRequest)?;
        match index.has_integer_keys() {
            true => self.look_at::<IntegerKeys, COPY>(table, key),
            false => self.look_at::<ByteKeys, COPY>(table, key),
        }
    }

    #[inline(always)]
    fn look_at<K: Keys, const COPY: bool>(&mut self, table: TableId, bytes: &[u8]) -> Result<Looked, Abort> {
        let key = K::parse(bytes).ok_or(Abort::BadRequest)?;
        let hash = K::hash(key);
        match self.sets.find(table, hash, |record| K::same(K::stored(record), key)) {
            Some(at) => self.look_again::<COPY>(table, at),
            None => self.look_up::<COPY>(table, bytes, hash),
        }
    }

    /// Reads a record that the transaction has touched before, or that was announced.
    #[inline(always)]
    fn look_again<const COPY: bool>(&mut self, table: TableId, at: usize) -> Result<Looked, Abort> {
        let access = self.sets.accesses[at];
        if let Some(write) = access.write() {
            return Ok(Looked::Own(write));
        }
        let read = if COPY { access.record.read_at_once(&mut self.value) } else { None };
        let word = match read {
            Some(word) => word,
            None => self.read_record::<COPY>(access.record)?,
        };
        match access.seen {
            Some(seen) if word == seen.word() => {}
            // An announced record that has left its index since: its key is to be looked up again, with the rest.
            None if word != DEAD => self.saw::<COPY>(table, at, word),
            _ => return Err(Abort::Conflict),
        }
        Ok(if word & TOMBSTONE == 0 { Looked::Live(at) } else { Looked::Gone(at) })
    }

    /// Looks for a record in the table's index, and reads it.
    #[inline(never)]
    fn look_up<const COPY: bool>(&mut self, table: TableId, key: &[u8], hash: u64) -> Result<Looked, Abort> {
        if self.sets.are_full() {
            return Err(Abort::TooLarge);
        }
        self.work.pass(1)?;
        let mut backoff = Backoff::default();
        loop {
            let found = with_index!(self.store.table(table).expect("it was there"), index => {
                find(index, key, hash, &mut self.fingers[table.0 as usize])
            });
            let record = match found {
                Found::Record(record) => record,
                Found::Absent(node) => {
                    self.sets.nodes.push(node);
                    return Ok(Looked::Absent);
                }
            };
            let word = self.read_record::<COPY>(record)?;
            if word == DEAD {
                // The record is being taken out of the index at this moment: look the key up again.
                backoff.wait();
                continue;
            }
            let at = self.sets.add(table, hash, record, None);
            self.saw::<COPY>(table, at, word);
            return Ok(if word & TOMBSTONE == 0 { Looked::Live(at) } else { Looked::Gone(at) });
        }
    }

    /// The record's word, and its value too if it is wanted.
    #[inline(always)]
    fn read_record<const COPY: bool>(&mut self, record: Record) -> Result<u64, Busy> {
        if COPY { record.read_patiently(&mut self.value) } else { record.word().read(|| ()) }
    }

    /// The transaction relies on this word of a record from now on.
    #[inline(always)]
    fn saw<const COPY: bool>(&mut self, table: TableId, at: usize, word: u64) {
        self.latest = self.latest.max(word & TIMESTAMP);
        let access = &mut self.sets.accesses[at];
        access.seen = Some(Seen::new(word));
        if COPY {
            let bytes = access.record.bytes_with(self.value.bytes().len());
            self.fingers[table.0 as usize].saw(bytes);
        }
    }
}

#[inline(always)]
fn find<I: Index>(index: &I, key: &[u8], hash: u64, fingers: &mut Fingers) -> Found {
    index.find(I::Keys::parse(key).expect("it was parsed before"), hash, fingers)
}
