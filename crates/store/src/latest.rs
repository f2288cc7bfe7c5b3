//! Reading what is committed, with the timestamp that wrote it: for whoever validates by timestamps and not by
//! [`Occ`](crate::Occ), whose read set knows records and words of this very store.
//!
//! A [`Latest`] reads one record at a time: its newest version, and which it is. Two readings need not be of one moment; who
//! wants that validates the versions. Tombstones are shown, because their timestamps are versions, too.

use std::ops::ControlFlow;
use std::sync::Arc;

use highwater_core::contain::unbroken;
use highwater_core::hooks;
use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, TableId, Timestamp};

use crate::hooks::EXECUTE;
use crate::index::{Found, Index, KeyOf};
use crate::keys::{Keys, bounds};
use crate::reader::{Pinned, Reader};
use crate::record::{Record, Scratch};
use crate::store::{AnyIndex, Store, with_index};
use crate::sync::Backoff;
use crate::tree::{Fingers, LeafCopy, Resume, Tree};
use crate::word::{DEAD, TIMESTAMP, TOMBSTONE};

/// What stands under a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// Which commit wrote it, or deleted it; [`Timestamp::ZERO`]: there is no trace of the key.
    pub ts: Timestamp,
    /// The value, if the key exists.
    pub value: Option<&'a [u8]>,
}

/// Reads the newest versions of one store.
pub struct Latest {
    reader: Reader,
    store: Arc<Store>,
}

impl Latest {
    /// A reader of `store`.
    pub fn new(store: Arc<Store>) -> Latest {
        let reader = Reader::new(&store);
        Latest { reader, store }
    }

    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What stands under a key.
    ///
    /// # Errors
    /// [`Abort::BadRequest`], if there is no such table or the key is none of its keys.
    #[inline]
    pub fn get(&mut self, table: TableId, key: &[u8]) -> Result<Version<'_>, Abort> {
        let word = self.look::<true>(table, key)?;
        let live = word & TIMESTAMP != 0 && word & TOMBSTONE == 0;
        Ok(Version { ts: Timestamp(word & TIMESTAMP), value: live.then(|| self.reader.value.bytes()) })
    }

    /// The same without the value: the timestamp, and whether the key exists.
    ///
    /// # Errors
    /// As [`get`](Latest::get).
    #[inline]
    pub fn version(&mut self, table: TableId, key: &[u8]) -> Result<(Timestamp, bool), Abort> {
        let word = self.look::<false>(table, key)?;
        Ok((Timestamp(word & TIMESTAMP), word & TIMESTAMP != 0 && word & TOMBSTONE == 0))
    }

    /// For a key that does not exist: no later than this it was deleted last, as far as this store remembers. It grows only with deletes, of this key or
    /// of one that shares a slot with it.
    pub fn gone(&self, table: TableId, key: &[u8]) -> Timestamp {
        self.store.gone.latest(table, key)
    }

    #[inline]
    fn look<const COPY: bool>(&mut self, table: TableId, key: &[u8]) -> Result<u64, Abort> {
        let index = self.store.table(table).ok_or(Abort::BadRequest)?;
        let Reader { heap, value, fingers } = &mut self.reader;
        let _pinned = Pinned::new(heap);
        let fingers = &mut fingers[table.0 as usize];
        with_index!(index, index => {
            let key = parse(index, key)?;
            Ok(look_in::<_, COPY>(index, key, fingers, value))
        })
    }

    /// Visits the records of a range in order, tombstones included, until `visit` breaks: key, timestamp, and the value if the
    /// key exists. The table must be ordered.
    ///
    /// # Errors
    /// [`Abort::BadRequest`], if it is not, or a bound is none of its keys.
    pub fn scan(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: impl FnMut(&[u8], Version<'_>) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let index = self.store.table(table).ok_or(Abort::BadRequest)?;
        let Reader { heap, value, fingers } = &mut self.reader;
        let _pinned = Pinned::new(heap);
        let (wanted, fingers) = ((range, direction), &mut fingers[table.0 as usize]);
        match index {
            AnyIndex::TreeU64(tree) => scan(tree, wanted, fingers, value, visit),
            AnyIndex::TreeBytes(tree) => scan(tree, wanted, fingers, value, visit),
            AnyIndex::HashU64(_) | AnyIndex::HashBytes(_) => Err(Abort::BadRequest),
        }
    }
}

#[inline]
fn parse<'k, I: Index>(_: &I, key: &'k [u8]) -> Result<KeyOf<'k, I>, Abort> {
    I::Keys::parse(key).ok_or(Abort::BadRequest)
}

/// The word of a key's record, and its value in `value` if it is wanted; 0 if there is none.
#[inline]
fn look_in<I: Index, const COPY: bool>(
    index: &I,
    key: KeyOf<'_, I>,
    fingers: &mut Fingers,
    value: &mut Scratch,
) -> u64 {
    hooks::point(EXECUTE);
    let hash = I::Keys::hash(key);
    let mut backoff = Backoff::default();
    loop {
        match index.find(key, hash, fingers) {
            Found::Absent(_) => return 0,
            Found::Record(record) => match read::<COPY>(record, value) {
                // The record is being taken out of the index at this moment: look the key up again.
                DEAD => backoff.wait(),
                word => return word,
            },
        }
    }
}

/// The record's word, and its value; [`DEAD`] if the record left its index.
#[inline]
fn read<const COPY: bool>(record: Record, value: &mut Scratch) -> u64 {
    let mut backoff = Backoff::default();
    loop {
        match if COPY { record.read(value) } else { record.word().read(|| ()) } {
            Ok(word) => return word,
            Err(_) => backoff.wait(),
        }
    }
}

fn scan<K: Keys>(
    tree: &Tree<K>,
    (range, direction): (KeyRange<'_>, Direction),
    fingers: &mut Fingers,
    value: &mut Scratch,
    mut visit: impl FnMut(&[u8], Version<'_>) -> ControlFlow<()>,
) -> Result<(), Abort> {
    let range = bounds::<K>(range).ok_or(Abort::BadRequest)?;
    let mut leaf = LeafCopy::new();
    let mut resume: Option<Resume> = None;
    loop {
        unbroken(|| {
            hooks::point(EXECUTE);
            tree.copy_leaf(resume.as_ref(), direction, range, fingers, &mut leaf);
        });
        for at in 0..leaf.len() {
            // `visit` is the procedure's code and may panic; everything else here is the engine's (`unbroken`).
            let (record, word) = unbroken(|| {
                let record = leaf.record(at, direction);
                (record, read::<true>(record, value))
            });
            // One that died since the leaf was copied was a tombstone to which nothing older can come any more; a placeholder
            // was never written.
            if word == DEAD || word & TIMESTAMP == 0 {
                continue;
            }
            let live = word & TOMBSTONE == 0;
            let version = Version { ts: Timestamp(word & TIMESTAMP), value: live.then(|| value.bytes()) };
            if K::shown(K::stored(&record), |key| visit(key, version)).is_break() {
                return Ok(());
            }
        }
        resume = unbroken(|| leaf.next::<K>(range, direction));
        if resume.is_none() {
            return Ok(());
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::ops::Bound::Unbounded;

    use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableSpec, Transaction};

    use super::*;
    use crate::Occ;

    const HASH: TableId = TableId(0);
    const TREE: TableId = TableId(1);

    fn store() -> Arc<Store> {
        let spec = |name, index| TableSpec { name, keys: KeyKind::Bytes, index };
        Store::new(Schema::new(vec![spec("hash", IndexKind::Hash), spec("tree", IndexKind::Ordered)]))
    }

    #[test]
    fn what_is_read_names_the_commit_that_wrote_it() {
        let store = store();
        let mut occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
        let mut latest = Latest::new(store);
        let absent = Version { ts: Timestamp::ZERO, value: None };
        assert_eq!(latest.get(HASH, b"a"), Ok(absent));
        occ.begin();
        occ.put(HASH, b"a", b"one").unwrap();
        let first = occ.commit().unwrap();
        assert_eq!(latest.get(HASH, b"a"), Ok(Version { ts: first, value: Some(b"one") }));
        assert_eq!(latest.version(HASH, b"a"), Ok((first, true)));
        occ.begin();
        occ.delete(HASH, b"a").unwrap();
        let second = occ.commit().unwrap();
        assert_eq!(latest.get(HASH, b"a"), Ok(Version { ts: second, value: None }));
        assert_eq!(latest.get(TableId(9), b"a"), Err(Abort::BadRequest));
    }

    #[test]
    fn a_scan_shows_tombstones_and_no_placeholders_both_ways() {
        let store = store();
        let mut occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
        let mut latest = Latest::new(store);
        occ.begin();
        for key in [b"a", b"b", b"c"] {
            occ.put(TREE, key, key).unwrap();
        }
        let first = occ.commit().unwrap();
        occ.begin();
        occ.delete(TREE, b"b").unwrap();
        let second = occ.commit().unwrap();
        // An aborted insert leaves a placeholder.
        occ.begin();
        occ.put(TREE, b"bb", b"x").unwrap();
        occ.abort();
        for direction in [Direction::Forward, Direction::Backward] {
            let mut seen = Vec::new();
            latest
                .scan(TREE, (Unbounded, Unbounded), direction, |key, version| {
                    seen.push((key.to_vec(), version.ts, version.value.is_some()));
                    ControlFlow::Continue(())
                })
                .unwrap();
            let mut expected = vec![
                (b"a".to_vec(), first, true),
                (b"b".to_vec(), second, false),
                (b"c".to_vec(), first, true),
            ];
            if direction == Direction::Backward {
                expected.reverse();
            }
            assert_eq!(seen, expected);
        }
        let refused = latest.scan(HASH, (Unbounded, Unbounded), Direction::Forward, |_, _| unreachable!());
        assert_eq!(refused, Err(Abort::BadRequest));
    }
}
