//! Reading: scans, versions, prefetching; and the [`Transaction`] trait. Point reads are looked up in [`super::look`].

use std::ops::ControlFlow;

use highwater_core::contain::unbroken;
use highwater_core::hooks;
use highwater_core::log::{TxWriter, WriteAt};
use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, TableId, Timestamp, Transaction, Work};

use super::look::Looked;
use super::sets::{Seen, Sets};
use super::{Occ, Phase};
use crate::hooks::EXECUTE;
use crate::keys::{Bounds, Keys, bounds};
use crate::record::{Record, Scratch};
use crate::store::AnyIndex;
use crate::tree::{Fingers, LeafCopy, Resume, Tree};
use crate::word::{DEAD, TIMESTAMP, TOMBSTONE};

/// So many records ahead a scan asks for the next one: some of them are in flight at any time, whatever a row costs its reader.
const SCAN_AHEAD: usize = 8;

/// The parts of an [`Occ`] that reading needs, apart from the store.
pub(super) struct Reading<'a> {
    pub sets: &'a mut Sets,
    pub work: &'a mut Work,
    pub value: &'a mut Scratch,
    pub fingers: &'a mut Fingers,
    pub latest: &'a mut u64,
    pub wrote: bool,
    pub writer: &'a TxWriter,
    pub leaf: &'a mut LeafCopy,
}

impl Reading<'_> {
    fn scan<K: Keys>(
        &mut self,
        table: TableId,
        tree: &Tree<K>,
        range: KeyRange<'_>,
        direction: Direction,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let range = bounds::<K>(range).ok_or(Abort::BadRequest)?;
        let mut resume: Option<Resume> = None;
        loop {
            let len = unbroken(|| self.come_to_leaf(tree, resume.as_ref(), direction, range))?;
            for at in 0..len {
                // `visit` is the procedure's code and may panic; everything else here is the engine's, whose panics are
                // broken invariants (`unbroken`).
                let (record, shown) = unbroken(|| self.examine::<K>(table, at, direction))?;
                let value = match shown {
                    Shown::Hidden => continue,
                    Shown::Own(at) => self.writer.value(at),
                    Shown::Live => self.value.bytes(),
                };
                if K::shown(K::stored(&record), |key| visit(key, value)).is_break() {
                    return Ok(());
                }
            }
            resume = unbroken(|| self.leaf.next::<K>(range, direction));
            if resume.is_none() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn come_to_leaf<K: Keys>(
        &mut self,
        tree: &Tree<K>,
        resume: Option<&Resume>,
        direction: Direction,
        range: Bounds<'_, K>,
    ) -> Result<usize, Abort> {
        tree.copy_leaf(resume, direction, range, self.fingers, self.leaf);
        if self.sets.are_full() {
            return Err(Abort::TooLarge);
        }
        // Some of a leaf may be passed and not looked at: a scan that is to find one row costs the leaf all the same.
        self.work.pass(self.leaf.len())?;
        self.sets.nodes.push(self.leaf.seen);
        hooks::point(EXECUTE);
        Ok(self.leaf.len())
    }

    /// Reads one record of a scan, and whether it is live for this transaction. Part of each loop over rows: with calls for it a row takes a sixth more instructions.
    #[inline(always)]
    fn examine<K: Keys>(
        &mut self,
        table: TableId,
        at: usize,
        direction: Direction,
    ) -> Result<(Record, Shown), Abort> {
        let record = self.leaf.record(at, direction);
        prefetch_ahead(self.leaf, at, direction, self.fingers.record_bytes());
        if self.wrote {
            let found = self.sets.find(table, K::hash(K::stored(&record)), |other| *other == record);
            if let Some(write) = found.and_then(|at| self.sets.accesses[at].write()) {
                let write = &self.sets.writes[write];
                return Ok((record, if write.delete { Shown::Hidden } else { Shown::Own(write.at) }));
            }
        }
        let word = record.read(self.value)?;
        if word == DEAD {
            // The record has left its leaf since the leaf was copied. So the leaf has changed, and this transaction
            // could not commit.
            return Err(Abort::Conflict);
        }
        *self.latest = (*self.latest).max(word & TIMESTAMP);
        self.fingers.saw(record.bytes_with(self.value.bytes().len()));
        self.sets.add_scanned(table, record, Seen::new(word));
        Ok((record, if word & TOMBSTONE == 0 { Shown::Live } else { Shown::Hidden }))
    }
}

/// What a scan shows of a record.
#[derive(Clone, Copy)]
enum Shown {
    /// Nothing: it is a tombstone, or deleted by this transaction.
    Hidden,
    /// The transaction's own write.
    Own(WriteAt),
    /// The value in `Occ::value`.
    Live,
}

impl Occ {
    /// What an operation that reads begins with.
    #[inline(always)]
    pub(super) fn begin_read(&mut self) {
        debug_assert_eq!(self.phase, Phase::Open, "transactions read while they run");
        hooks::point(EXECUTE);
        self.go_ahead();
    }

    /// The table's index, and what reading from it needs.
    #[inline]
    pub(super) fn reading(&mut self, table: TableId) -> Result<(&AnyIndex, Reading<'_>), Abort> {
        self.begin_read();
        let index = self.store.table(table).ok_or(Abort::BadRequest)?;
        let reading = Reading {
            sets: &mut self.sets,
            work: &mut self.work,
            value: &mut self.value,
            fingers: &mut self.fingers[table.0 as usize],
            latest: &mut self.latest,
            wrote: self.wrote,
            writer: &self.writer,
            leaf: &mut self.leaf,
        };
        Ok((index, reading))
    }
}

/// Asks for the record that the scan will come to so many records later; at the start of a leaf for all up to there.
#[inline(always)]
fn prefetch_ahead(leaf: &LeafCopy, at: usize, direction: Direction, record_bytes: usize) {
    let ahead = if at == 0 { 1..SCAN_AHEAD + 1 } else { at + SCAN_AHEAD..at + SCAN_AHEAD + 1 };
    for record in ahead.filter_map(|at| leaf.get(at, direction)) {
        record.prefetch_bytes(record_bytes);
    }
    if at * 2 == leaf.len() {
        leaf.prefetch_neighbour();
    }
}

impl Transaction for Occ {
    #[inline]
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        unbroken(move || {
            Ok(match self.look::<true>(table, key)? {
                Looked::Live(_) => {
                    self.work.read(self.value.bytes().len())?;
                    Some(self.value.bytes())
                }
                Looked::Gone(_) | Looked::Absent => None,
                Looked::Own(write) => {
                    let write = &self.sets.writes[write];
                    if write.delete {
                        return Ok(None);
                    }
                    let value = self.writer.value(write.at);
                    self.work.read(value.len())?;
                    Some(value)
                }
            })
        })
    }

    #[inline]
    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        unbroken(|| self.write_put(table, key, value))
    }

    #[inline]
    fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        unbroken(|| self.write_insert(table, key, value))
    }

    #[inline]
    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        unbroken(|| self.write_delete(table, key))
    }

    fn scan<F>(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: F,
    ) -> Result<(), Abort>
    where
        F: FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    {
        let (index, mut reading) = unbroken(|| self.reading(table))?;
        match index {
            AnyIndex::TreeU64(tree) => reading.scan(table, tree, range, direction, visit),
            AnyIndex::TreeBytes(tree) => reading.scan(table, tree, range, direction, visit),
            AnyIndex::HashU64(_) | AnyIndex::HashBytes(_) => Err(Abort::BadRequest),
        }
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<Timestamp, Abort> {
        unbroken(|| {
            let looked = self.look::<false>(table, key)?;
            Ok(match looked {
                Looked::Live(at) | Looked::Gone(at) => {
                    let seen = self.sets.accesses[at].seen.expect("it was just read");
                    let ts = Timestamp(seen.word() & TIMESTAMP);
                    // A tombstone may be an aborted insert's, in the place of one that was unlinked.
                    let gone = matches!(looked, Looked::Gone(_)).then(|| self.store.gone.latest(table, key));
                    ts.max(gone.unwrap_or_default())
                }
                Looked::Absent => self.store.gone.latest(table, key),
                // The version in front of this transaction's own write.
                Looked::Own(write) => {
                    let access = self.sets.writes[write].access as usize;
                    let seen = self.sets.accesses[access].seen;
                    Timestamp(seen.map_or(0, |seen| seen.word() & TIMESTAMP))
                }
            })
        })
    }

    fn goes_on(&mut self) -> Result<(), Abort> {
        self.work.go_on()
    }

    fn expects(&mut self, passed: u64, added: u64) -> Result<(), Abort> {
        self.work.expect(passed, added)
    }

    fn prefetch(&mut self, wanted: &[(TableId, u64)]) {
        unbroken(|| self.look_ahead(wanted));
    }
}
