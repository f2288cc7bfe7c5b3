//! Writing: every write goes straight into the open log entry, and the write set remembers where it stands there.
//!
//! A value is copied twice on its way: here into the entry, and at the commit from the entry into the record. No third
//! copy is kept for the transaction to read its own writes: it reads them in the entry.

use highwater_core::hooks;
use highwater_core::limits::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use highwater_core::log::TxWriter;
use highwater_core::work::ADDED;
use highwater_core::{Abort, TableId, Work};

use super::Occ;
use super::growth::{may_be_note, notes_paid};
use super::look::Looked;
use super::sets::{Seen, Sets};
use crate::heap::Heap;
use crate::hooks::EXECUTE;
use crate::index::{Found, Index, KeyOf};
use crate::keys::{ByteKeys, IntegerKeys, Keys};
use crate::record::{Record, key_len_of};
use crate::store::with_index;
use crate::sync::Backoff;
use crate::tree::Fingers;
use crate::word::{DEAD, TIMESTAMP, TOMBSTONE};

/// The parts of an [`Occ`] that writing to one table needs, apart from the store.
struct Writing<'a> {
    table: TableId,
    sets: &'a mut Sets,
    work: &'a mut Work,
    writer: &'a mut TxWriter,
    fingers: &'a mut Fingers,
    heap: &'a mut Heap,
    latest: &'a mut u64,
    room: u64,
}

impl Writing<'_> {
    /// A put of what the transaction has not touched before.
    fn put_new<I: Index>(&mut self, index: &I, key: &[u8], value: &[u8], hash: u64) -> Result<(), Abort> {
        let key = I::Keys::parse(key).expect("it was parsed before");
        let (record, created) = self.find_or_add(index, key, hash, value.len())?;
        // If the key's absence was relied on (found by a lookup or in a scan), its node no longer proves it: others can write to our placeholder
        // without changing the node. From here the placeholder's word does.
        let relied = created && self.sets.nodes.disturbed;
        let at = self.sets.add(self.table, hash, record, relied.then(|| Seen::new(TOMBSTONE)));
        self.write::<I>(at, key, Some(value), created);
        Ok(())
    }

    #[inline]
    fn insert<I: Index>(&mut self, index: &I, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        let key = I::Keys::parse(key).ok_or(Abort::BadRequest)?;
        let hash = I::Keys::hash(key);
        if let Some(at) = self.touched::<I>(key, hash) {
            let access = self.sets.accesses[at];
            let gone = match access.write() {
                Some(write) if self.sets.writes[write].delete => {
                    self.write_again::<I>(write, key, Some(value));
                    return Ok(true);
                }
                Some(_) => false,
                None => self.word_of(at)? & TOMBSTONE != 0,
            };
            if gone {
                self.write::<I>(at, key, Some(value), false);
            }
            return Ok(gone);
        }
        let mut backoff = Backoff::default();
        loop {
            let (record, created) = self.find_or_add(index, key, hash, value.len())?;
            // We made our own placeholder with this word. If somebody has written to it since, validation finds another
            // word there, and fails.
            let word = if created { TOMBSTONE } else { record.word().read(|| ())? };
            if word == DEAD {
                // The record is being taken out of the index at this moment: look the key up again.
                backoff.wait();
                continue;
            }
            *self.latest = (*self.latest).max(word & TIMESTAMP);
            let at = self.sets.add(self.table, hash, record, Some(Seen::new(word)));
            if word & TOMBSTONE == 0 {
                return Ok(false);
            }
            self.write::<I>(at, key, Some(value), created);
            return Ok(true);
        }
    }

    /// The word of a record that the transaction has read; of one that was only announced it is read now.
    #[inline]
    fn word_of(&mut self, at: usize) -> Result<u64, Abort> {
        let access = &mut self.sets.accesses[at];
        if let Some(seen) = access.seen {
            return Ok(seen.word());
        }
        let word = access.record.word().read(|| ())?;
        if word == DEAD {
            return Err(Abort::Conflict);
        }
        *self.latest = (*self.latest).max(word & TIMESTAMP);
        access.seen = Some(Seen::new(word));
        Ok(word)
    }

    fn delete<I: Index>(&mut self, key: &[u8], looked: Looked) -> Result<bool, Abort> {
        let key = I::Keys::parse(key).ok_or(Abort::BadRequest)?;
        match looked {
            Looked::Live(at) => self.write::<I>(at, key, None, false),
            Looked::Own(write) if !self.sets.writes[write].delete => self.write_again::<I>(write, key, None),
            Looked::Own(_) | Looked::Gone(_) | Looked::Absent => return Ok(false),
        }
        Ok(true)
    }

    /// The access of this key, if the transaction has touched it before.
    #[inline]
    fn touched<I: Index>(&self, key: KeyOf<'_, I>, hash: u64) -> Option<usize> {
        self.sets.find(self.table, hash, |record| I::Keys::same(I::Keys::stored(record), key))
    }

    #[inline]
    fn find_or_add<I: Index>(
        &mut self,
        index: &I,
        key: KeyOf<'_, I>,
        hash: u64,
        value_len: usize,
    ) -> Result<(Record, bool), Abort> {
        self.work.pass(ADDED)?;
        self.sets.nodes.prepare_insertion();
        if (self.writer.open_bytes() + value_len) as u64 >= self.room
            && !(may_be_note(key_len_of(I::Keys::logged(key)), value_len)
                && notes_paid(&self.sets.writes) > 0)
        {
            return self.find_only(index, key, hash);
        }
        Ok(index.find_or_add(key, hash, value_len, TOMBSTONE, self.fingers, self.heap, &mut self.sets.nodes))
    }

    /// Finds a record, and adds none, for no memory is left for a placeholder. To add one and refuse the transaction
    /// later would not do: its placeholder would stay for a while, and take the memory all the same.
    #[cold]
    fn find_only<I: Index>(
        &mut self,
        index: &I,
        key: KeyOf<'_, I>,
        hash: u64,
    ) -> Result<(Record, bool), Abort> {
        match index.find(key, hash, self.fingers) {
            Found::Record(record) => Ok((record, false)),
            Found::Absent(node) => {
                // To be refused for lack of memory tells the client that the key was absent. So the absence is
                // validated, as everything is that a transaction reveals.
                self.sets.nodes.push(node);
                Err(Abort::OutOfMemory)
            }
        }
    }

    /// The first write of a record; `None` deletes.
    #[inline(always)]
    fn write<I: Index>(&mut self, access: usize, key: KeyOf<'_, I>, value: Option<&[u8]>, created: bool) {
        let at = match value {
            Some(value) => self.writer.put(self.table, I::Keys::logged(key), value),
            None => self.writer.delete(self.table, I::Keys::logged(key)),
        };
        self.sets.add_write(access, at, value.is_none(), created);
    }

    /// A further write of a record that the transaction has written before. The log may have one write of each record
    /// only. A value of the same length replaces the earlier one in place; else the earlier write is marked as
    /// superseded (a delete, which has no value to replace, always is), and a new one follows.
    fn write_again<I: Index>(&mut self, write: usize, key: KeyOf<'_, I>, value: Option<&[u8]>) {
        let write = &mut self.sets.writes[write];
        match value {
            Some(value) if !write.delete && value.len() == write.at.len as usize => {
                self.writer.overwrite(write.at, value);
            }
            _ => {
                self.writer.supersede(write.at);
                write.delete = value.is_none();
                write.at = match value {
                    Some(value) => self.writer.put(self.table, I::Keys::logged(key), value),
                    None => self.writer.delete(self.table, I::Keys::logged(key)),
                };
            }
        }
    }
}

/// Runs one expression with `$index` bound to the concrete index of a table and `$writing` to what writing needs.
macro_rules! write_with {
    ($occ:expr, $table:expr, $index:ident, $writing:ident => $body:expr) => {{
        let occ = $occ;
        let index = occ.store.table($table).ok_or(Abort::BadRequest)?;
        let mut $writing = Writing {
            table: $table,
            sets: &mut occ.sets,
            work: &mut occ.work,
            writer: &mut occ.writer,
            fingers: &mut occ.fingers[$table.0 as usize],
            heap: &mut occ.heap,
            latest: &mut occ.latest,
            room: occ.room,
        };
        let result = with_index!(index, $index => $body);
        occ.wrote = !occ.sets.writes.is_empty();
        result
    }};
}

impl Occ {
    /// Whether one more write is within all limits. Asked before any index is touched, so that a write which is refused
    /// leaves no placeholder.
    #[inline]
    fn check_write(&self, key_len: usize, value_len: usize) -> Result<(), Abort> {
        if value_len <= MAX_VALUE_BYTES && self.writer.fits(key_len, value_len) && !self.sets.are_full() {
            return Ok(());
        }
        let bad = key_len > MAX_KEY_BYTES || value_len > MAX_VALUE_BYTES;
        Err(if bad { Abort::BadRequest } else { Abort::TooLarge })
    }

    #[cold]
    fn why_not_writable(&self, table: TableId) -> Abort {
        match self.store.table(table) {
            None => Abort::BadRequest,
            Some(_) if table.0 >= self.tables => Abort::TooNew,
            Some(_) => Abort::DiskFull,
        }
    }

    /// What procedures write they have read, or announced, as a rule. So that is in one piece with the caller, and the index, of which there are
    /// four kinds, is not.
    #[inline]
    pub(super) fn write_put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        self.check_write(key.len(), value.len())?;
        self.begin_write(table)?;
        let index = self.store.table(table).ok_or(Abort::BadRequest)?;
        match index.has_integer_keys() {
            true => self.put_at::<IntegerKeys>(table, key, value),
            false => self.put_at::<ByteKeys>(table, key, value),
        }
    }

    #[inline(always)]
    fn put_at<K: Keys>(&mut self, table: TableId, bytes: &[u8], value: &[u8]) -> Result<(), Abort> {
        let key = K::parse(bytes).ok_or(Abort::BadRequest)?;
        let hash = K::hash(key);
        let touched = self.sets.find(table, hash, |record| K::same(K::stored(record), key));
        match touched.map(|at| (at, self.sets.accesses[at].write())) {
            Some((at, None)) => {
                let written = self.writer.put(table, K::logged(key), value);
                self.sets.add_write(at, written, false, false);
                self.wrote = true;
                Ok(())
            }
            Some((_, Some(write))) => self.put_again(table, bytes, value, write),
            None => self.put_new(table, bytes, value, hash),
        }
    }

    #[inline(never)]
    fn put_again(&mut self, table: TableId, key: &[u8], value: &[u8], write: usize) -> Result<(), Abort> {
        write_with!(self, table, index, writing => put_again_in(index, &mut writing, key, value, write))
    }

    #[inline(never)]
    fn put_new(&mut self, table: TableId, key: &[u8], value: &[u8], hash: u64) -> Result<(), Abort> {
        write_with!(self, table, index, writing => writing.put_new(index, key, value, hash))
    }

    /// What an operation that writes begins with.
    #[inline(always)]
    fn begin_write(&mut self, table: TableId) -> Result<(), Abort> {
        debug_assert_eq!(self.phase, super::Phase::Open, "transactions write while they run");
        hooks::point(EXECUTE);
        if table.0 >= self.writable {
            return Err(self.why_not_writable(table));
        }
        self.go_ahead();
        Ok(())
    }

    #[inline]
    pub(super) fn write_insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        self.check_write(key.len(), value.len())?;
        self.begin_write(table)?;
        write_with!(self, table, index, writing => writing.insert(index, key, value))
    }

    #[inline]
    pub(super) fn write_delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        self.check_write(key.len(), 0)?;
        let looked = self.look::<false>(table, key)?;
        self.begin_write(table)?;
        if let Looked::Live(at) = looked {
            self.check_removal(at)?;
        }
        write_with!(self, table, index, writing => delete_in(index, &mut writing, key, looked))
    }
}

fn delete_in<I: Index>(_: &I, writing: &mut Writing<'_>, key: &[u8], looked: Looked) -> Result<bool, Abort> {
    writing.delete::<I>(key, looked)
}

fn put_again_in<I: Index>(
    _: &I,
    writing: &mut Writing<'_>,
    key: &[u8],
    value: &[u8],
    write: usize,
) -> Result<(), Abort> {
    let key = I::Keys::parse(key).expect("it was parsed before");
    writing.write_again::<I>(write, key, Some(value));
    Ok(())
}
