//! State transfer: a fuzzy scan in chunks while others write. [`import`](crate::import) is the other side.
//!
//! Every record that is there all the time is exported, with its timestamp, tombstones included; of records that come,
//! change or go meanwhile, some version is or none: the log that is applied afterwards settles it.
//!
//! A chunk ends with the record that reaches its budget, wherever that stands: so it exceeds the budget by less than
//! [`MAX_RECORD_BYTES`](highwater_core::limits::MAX_RECORD_BYTES), whatever the values. The scan goes on at a place in an
//! order that nothing changes: hash and then key in a hash table, the key in an ordered one. Splits and merges move
//! records between segments and leaves, never in that order; so a record that is there all the time is neither passed
//! over nor seen twice.
//!
//! [`exported`](crate::exported) has the bytes.

use std::ops::Bound;
use std::sync::Arc;

use highwater_core::{Direction, TableId, Timestamp};

use crate::exported::ExportedRecord;
use crate::hash::Hash;
use crate::keys::Keys;
use crate::record::{Record, Scratch};
use crate::store::{AnyIndex, Store};
use crate::tree::{Fingers, LeafCopy, Tree};
use crate::word::{Busy, DEAD, TIMESTAMP, TOMBSTONE};

/// Memory for one large value that a scan keeps from one chunk to the next.
const KEPT_SCRATCH: usize = 1 << 20;

/// A value is asked for so many records before it is read.
const AHEAD: usize = 4;

/// One part of a store's state, read chunk by chunk.
pub struct Export {
    store: Arc<Store>,
    part: usize,
    parts: usize,
    table: TableId,
    cursor: Cursor,
    value: Scratch,
    newest: Timestamp,
    records: u64,
}

/// Where the scan of the current table goes on: at the first record of this part that is not below this place.
enum Cursor {
    Start,
    /// This hash, and of the keys with this hash, this key.
    Hash(u64, Vec<u8>),
    Key(Vec<u8>),
}

/// What became of one step.
enum Step {
    /// The node at the cursor is done, or the chunk is full.
    More(Cursor),
    /// The record at the cursor was locked for long. Nothing was lost; try again later.
    Busy(Cursor),
    Done,
}

impl Store {
    /// Part `part` of `parts` of the state. The parts are disjoint, and together complete, whenever each is read.
    ///
    /// # Panics
    /// Unless `part < parts`.
    pub fn export(self: &Arc<Store>, part: usize, parts: usize) -> Export {
        assert!(part < parts, "parts are numbered from 0");
        Export {
            store: self.clone(),
            part,
            parts,
            table: TableId(0),
            cursor: Cursor::Start,
            value: Scratch::default(),
            newest: Timestamp::ZERO,
            records: 0,
        }
    }
}

impl Export {
    /// The largest timestamp of what was read so far.
    pub fn newest(&self) -> Timestamp {
        self.newest
    }

    /// How many records were read so far, tombstones included.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Appends about `budget_bytes` of records to `out`: less than one record more than that. Returns whether
    /// there is more. May append nothing and still return true, if it comes upon a record that is locked for long.
    pub fn next_chunk(&mut self, budget_bytes: usize, out: &mut Vec<u8>) -> bool {
        let end = out.len() + budget_bytes.max(1);
        let store = self.store.clone();
        let _pinned = store.heaps.visit();
        let more = loop {
            let Some(index) = store.table(self.table) else { break false };
            let step = match index {
                AnyIndex::HashU64(hash) => self.hash_step(hash, end, out),
                AnyIndex::HashBytes(hash) => self.hash_step(hash, end, out),
                AnyIndex::TreeU64(tree) => self.tree_step(tree, end, out),
                AnyIndex::TreeBytes(tree) => self.tree_step(tree, end, out),
            };
            match step {
                Step::More(cursor) => self.cursor = cursor,
                Step::Busy(cursor) => {
                    self.cursor = cursor;
                    break true;
                }
                Step::Done => {
                    self.table.0 += 1;
                    self.cursor = Cursor::Start;
                }
            }
            if out.len() >= end {
                break true;
            }
        };
        self.value.shrink(KEPT_SCRATCH);
        more
    }

    /// Exports from the cursor on: the rest of its segment, or what the chunk has room for.
    fn hash_step<K: Keys>(&mut self, index: &Hash<K>, end: usize, out: &mut Vec<u8>) -> Step {
        let (first, last) = self.hashes();
        let (from, key) = match std::mem::replace(&mut self.cursor, Cursor::Start) {
            Cursor::Hash(hash, key) => (hash, key),
            _ => (first, Vec::new()),
        };
        let (records, behind) = index.scan(from);
        // All of them are asked for before the first is looked at.
        let records: Vec<Record> = records.inspect(Record::prefetch).collect();
        let hashed = records.iter().map(|record| (K::hash(K::stored(record)), *record));
        let mut records: Vec<(u64, Record)> =
            hashed.filter(|(hash, _)| (from..=last).contains(hash)).collect();
        records.sort_unstable_by(|(a_hash, a), (b_hash, b)| {
            a_hash.cmp(b_hash).then_with(|| K::compare(K::stored(a), K::stored(b)))
        });
        let passed = |(hash, record): &(u64, Record)| {
            *hash == from && K::shown(K::stored(record), |shown| shown < key.as_slice())
        };
        let start = records.partition_point(passed);
        for (at, (hash, record)) in records.iter().enumerate().skip(start) {
            if let Some((_, ahead)) = records.get(at + AHEAD) {
                ahead.prefetch_value();
            }
            let here = || Cursor::Hash(*hash, K::shown(K::stored(record), <[u8]>::to_vec));
            if out.len() >= end {
                return Step::More(here());
            }
            if self.append::<K>(*record, out).is_err() {
                return Step::Busy(here());
            }
        }
        match behind {
            Some(behind) if behind <= last => Step::More(Cursor::Hash(behind, Vec::new())),
            _ => Step::Done,
        }
    }

    /// The hashes of this part, first and last.
    fn hashes(&self) -> (u64, u64) {
        let bound = |part: usize| ((part as u128) << 64) / self.parts as u128;
        (bound(self.part) as u64, (bound(self.part + 1) - 1) as u64)
    }

    /// Exports this part's records of the leaf at the cursor, or what the chunk has room for. Parts of an ordered table
    /// are by hash too, because key ranges that suit all parts would have to be agreed on.
    fn tree_step<K: Keys>(&mut self, tree: &Tree<K>, end: usize, out: &mut Vec<u8>) -> Step {
        let cursor = std::mem::replace(&mut self.cursor, Cursor::Start);
        let from = match &cursor {
            Cursor::Key(key) => Bound::Included(K::parse(key).expect("cursors are keys of their table")),
            _ => Bound::Unbounded,
        };
        let mut leaf = LeafCopy::new();
        let range = (from, Bound::Unbounded);
        tree.copy_leaf(None, Direction::Forward, range, &mut Fingers::default(), &mut leaf);
        let (first, last) = self.hashes();
        (0..leaf.len()).for_each(|at| leaf.record(at, Direction::Forward).prefetch());
        for at in 0..leaf.len() {
            if at + AHEAD < leaf.len() {
                leaf.record(at + AHEAD, Direction::Forward).prefetch_value();
            }
            let record = leaf.record(at, Direction::Forward);
            if !(first..=last).contains(&K::hash(K::stored(&record))) {
                continue;
            }
            let here = || Cursor::Key(K::shown(K::stored(&record), <[u8]>::to_vec));
            if out.len() >= end {
                return Step::More(here());
            }
            if self.append::<K>(record, out).is_err() {
                return Step::Busy(here());
            }
        }
        match leaf.next::<K>(range, Direction::Forward) {
            None => Step::Done,
            Some(resume) => Step::More(Cursor::Key(resume.key_bytes::<K>())),
        }
    }

    fn append<K: Keys>(&mut self, record: Record, out: &mut Vec<u8>) -> Result<(), Busy> {
        let word = record.read(&mut self.value)?;
        if word == DEAD || word == TOMBSTONE {
            return Ok(());
        }
        let (ts, table) = (Timestamp(word & TIMESTAMP), self.table);
        let value = (word & TOMBSTONE == 0).then(|| self.value.bytes());
        K::shown(K::stored(&record), |key| ExportedRecord { ts, table, key, value }.encode(out));
        self.newest = self.newest.max(ts);
        self.records += 1;
        Ok(())
    }
}
