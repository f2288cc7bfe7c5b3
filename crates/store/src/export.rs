//! State transfer: a fuzzy scan in chunks while others write, and its import.
//!
//! Every record that is there all the time is exported, with its timestamp, tombstones included; of records that come,
//! change or go meanwhile, some version is or none: the log that is applied afterwards settles it.
//!
//! ```text
//! chunk   records
//! record  ts u64 (bit 62: tombstone) | table u8 | key length varint | key | value length varint | value
//! ```
//! Integer keys are 8 bytes, big endian.

use std::sync::Arc;

use highwater_core::codec::{Malformed, Reader, put_bytes};
use highwater_core::{Direction, TableId, Timestamp, planted};
use std::ops::Bound;

use crate::graveyard::Grave;
use crate::hash::Hash;
use crate::heap::Heap;
use crate::index::Index;
use crate::keys::Keys;
use crate::record::{Record, Scratch};
use crate::store::{AnyIndex, Store, with_index};
use crate::sync::Backoff;
use crate::tree::{Fingers, LeafCopy, Tree};
use crate::word::{Busy, DEAD, TIMESTAMP, TOMBSTONE};

/// One part of a store's state, read chunk by chunk.
pub struct Export {
    store: Arc<Store>,
    part: usize,
    parts: usize,
    table: TableId,
    cursor: Cursor,
    value: Scratch,
}

/// Where the scan of the current table goes on.
enum Cursor {
    Start,
    /// At this hash.
    Hash(u64),
    /// At this key.
    Key(Vec<u8>),
}

/// What became of one step.
enum Step {
    More(Cursor),
    /// A record was locked for long. Nothing was lost; try again later.
    Busy,
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
        }
    }

    /// Installs the records of a chunk that are newer than what is there. Returns how many there were.
    pub fn import(&self, chunk: &[u8]) -> Result<u64, Malformed> {
        let mut heap = Heap::new(&self.heaps);
        heap.pin();
        let mut graves = Vec::new();
        let mut reader = Reader::new(chunk);
        let mut count = 0;
        let outcome = loop {
            if reader.is_empty() {
                break Ok(count);
            }
            match self.import_one(&mut reader, &mut heap, &mut graves) {
                Ok(()) => count += 1,
                Err(malformed) => break Err(malformed),
            }
        };
        heap.unpin();
        if !graves.is_empty() {
            self.abandon(graves.into_iter());
        }
        outcome
    }

    fn import_one(
        &self,
        reader: &mut Reader<'_>,
        heap: &mut Heap,
        graves: &mut Vec<Grave>,
    ) -> Result<(), Malformed> {
        let word = reader.u64()?;
        let table = TableId(reader.u8()?);
        let (key, value) = (reader.bytes()?, reader.bytes()?);
        if word > TOMBSTONE | TIMESTAMP {
            return Err(Malformed("record word"));
        }
        let index = self.table(table).ok_or(Malformed("table"))?;
        let grave = with_index!(index, index => import_in(index, table, key, word, value, heap))?;
        graves.extend(grave);
        Ok(())
    }
}

fn import_in<I: Index>(
    index: &I,
    table: TableId,
    key: &[u8],
    word: u64,
    value: &[u8],
    heap: &mut Heap,
) -> Result<Option<Grave>, Malformed> {
    let key = I::Keys::parse(key).ok_or(Malformed("key (wrong kind for its table)"))?;
    let hash = I::Keys::hash(key);
    let mut backoff = Backoff::default();
    loop {
        let (record, _) =
            index.find_or_add(key, hash, value.len(), TOMBSTONE, &mut Fingers::default(), heap, &mut ());
        match record.word().lock() {
            Ok(DEAD) | Err(_) => backoff.wait(),
            Ok(before) if before & TIMESTAMP >= word & TIMESTAMP && !planted!(CopyUnordered) => {
                record.word().unlock(before);
                return Ok(None);
            }
            Ok(_) => {
                record.write_value(value, heap);
                record.word().unlock(word);
                let ts = Timestamp(word & TIMESTAMP);
                let gone = word & TOMBSTONE != 0;
                return Ok(gone.then(|| Grave { table, ts, key: I::Keys::logged(key).into() }));
            }
        }
    }
}

impl Export {
    /// Appends about `budget_bytes` of records (it may exceed that by one index node's) to `out`. Returns whether there
    /// is more. May append nothing and still return true, if it comes upon a record that is locked for long.
    pub fn next_chunk(&mut self, budget_bytes: usize, out: &mut Vec<u8>) -> bool {
        let end = out.len() + budget_bytes;
        let store = self.store.clone();
        let _pinned = store.heaps.visit();
        loop {
            let Some(index) = store.table(self.table) else { break false };
            let before = out.len();
            let step = match index {
                AnyIndex::HashU64(hash) => self.hash_step(hash, out),
                AnyIndex::HashBytes(hash) => self.hash_step(hash, out),
                AnyIndex::TreeU64(tree) => self.tree_step(tree, out),
                AnyIndex::TreeBytes(tree) => self.tree_step(tree, out),
            };
            match step {
                Step::More(cursor) => self.cursor = cursor,
                Step::Busy => {
                    out.truncate(before);
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
        }
    }

    /// Exports the rest of the segment at the cursor.
    fn hash_step<K: Keys>(&mut self, index: &Hash<K>, out: &mut Vec<u8>) -> Step {
        let (first, last) = self.hashes();
        let at = if let Cursor::Hash(at) = self.cursor { at } else { first };
        let (records, end) = index.scan(at);
        for record in records {
            let hash = K::hash(K::stored(&record));
            if (at..=last).contains(&hash) && self.append::<K>(record, out).is_err() {
                return Step::Busy;
            }
        }
        match end {
            Some(end) if end <= last => Step::More(Cursor::Hash(end)),
            _ => Step::Done,
        }
    }

    /// The hashes of this part, first and last.
    fn hashes(&self) -> (u64, u64) {
        let bound = |part: usize| ((part as u128) << 64) / self.parts as u128;
        (bound(self.part) as u64, (bound(self.part + 1) - 1) as u64)
    }

    /// Exports this part's records of the leaf at the cursor. Parts of an ordered table are by hash too, because
    /// key ranges that suit all parts would have to be agreed on.
    fn tree_step<K: Keys>(&mut self, tree: &Tree<K>, out: &mut Vec<u8>) -> Step {
        let cursor = std::mem::replace(&mut self.cursor, Cursor::Start);
        let from = match &cursor {
            Cursor::Key(key) => Bound::Included(K::parse(key).expect("cursors are keys of their table")),
            _ => Bound::Unbounded,
        };
        let mut leaf = LeafCopy::new();
        let range = (from, Bound::Unbounded);
        tree.copy_leaf(None, Direction::Forward, range, &mut Fingers::default(), &mut leaf);
        let (first, last) = self.hashes();
        for at in 0..leaf.len() {
            let record = leaf.record(at, Direction::Forward).expect("a checked copy is filled");
            let mine = (first..=last).contains(&K::hash(K::stored(&record)));
            if mine && self.append::<K>(record, out).is_err() {
                self.cursor = cursor;
                return Step::Busy;
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
        out.extend_from_slice(&word.to_le_bytes());
        out.push(self.table.0);
        K::shown(K::stored(&record), |key| put_bytes(out, key));
        put_bytes(out, if word & TOMBSTONE == 0 { self.value.bytes() } else { &[] });
        Ok(())
    }
}
