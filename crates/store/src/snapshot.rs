//! Follower reads: transactions on the state as of a timestamp, while appliers go on.
//!
//! A snapshot at R is *pinned* before any applier passes R: the caller sees to that by publishing to the appliers how
//! far they may go only afterwards. Each stream's applier may pass R as soon as it likes, the others behind it or not.
//! The snapshot is complete once all streams have been applied up to R; from then on it may be read, by any number of
//! [`SnapshotTx`], without ever blocking an applier.
//!
//! Records hold their newest version only. An applier that overwrites a version which some pinned snapshot separates
//! from its successor (`old <= R < new`) first keeps it in a table at the side, by the record's address. A reader that
//! finds a record newer than its snapshot looks there; if there is nothing, the key did not exist. An applier that comes
//! too late with a version at or below R, because another stream's has replaced it already, puts it there, too. So
//! snapshots cost nothing in the records, and next to nothing while none is pinned: an applier looks once a call, and at
//! each write that comes too late, whether the pins have changed.
//!
//! Tombstones that a pinned snapshot may still have to see beyond are not collected. Versions that no pin separates any
//! more are dropped when a snapshot is unpinned.

use std::ops::ControlFlow;
use std::sync::Arc;

use highwater_core::contain::unbroken;
use highwater_core::hooks;
use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, TableId, Timestamp, Transaction, Work};

use crate::hooks::EXECUTE;
use crate::index::{Found, Index};
use crate::keys::{Keys, bounds};
use crate::reader::{Pinned, Reader};
use crate::record::{Record, Scratch};
use crate::store::{AnyIndex, Store, with_index};
use crate::sync::Backoff;
use crate::tree::{Fingers, LeafCopy, Resume, Tree};
use crate::versions::Snapshots;
use crate::word::{DEAD, TIMESTAMP, TOMBSTONE};

impl Store {
    /// Pins the state at `ts` until the result is dropped. To be called before any applier passes `ts`; to be read when
    /// all streams have been applied up to there.
    pub fn pin_snapshot(self: &Arc<Store>, ts: Timestamp) -> Arc<Snapshot> {
        self.snapshots.pin(ts);
        Arc::new(Snapshot { store: self.clone(), ts })
    }

    /// How many old versions are kept for pinned snapshots.
    pub fn versions_kept(&self) -> u64 {
        self.snapshots.kept()
    }
}

/// A pinned state.
pub struct Snapshot {
    store: Arc<Store>,
    ts: Timestamp,
}

impl Snapshot {
    /// The state is the one after all commits up to here.
    pub fn ts(&self) -> Timestamp {
        self.ts
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.store.snapshots.unpin(self.ts);
    }
}

/// Reads snapshots of one store, one after another. Writes are [`Abort::BadRequest`]; nothing ever conflicts.
pub struct SnapshotTx {
    reader: Reader,
    /// What is read now.
    snapshot: Option<Arc<Snapshot>>,
    store: Arc<Store>,
    work: Work,
}

impl SnapshotTx {
    /// A reader of `snapshot`.
    pub fn new(snapshot: Arc<Snapshot>) -> SnapshotTx {
        let store = snapshot.store.clone();
        let reader = Reader::new(&store);
        SnapshotTx { reader, snapshot: Some(snapshot), store, work: Work::default() }
    }

    /// Goes on with another snapshot of the same store.
    pub fn move_to(&mut self, snapshot: Arc<Snapshot>) {
        assert!(Arc::ptr_eq(&snapshot.store, &self.store), "a reader belongs to its store");
        self.snapshot = Some(snapshot);
    }

    /// Gives its snapshot up; to be moved to another one before it reads again.
    pub fn rest(&mut self) {
        self.snapshot = None;
    }

    /// The work of each of its transactions, and how much one may: whoever runs one has it [begin](Work::begin).
    #[inline]
    pub fn work(&mut self) -> &mut Work {
        &mut self.work
    }

    /// Whose snapshots it reads.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Finds the key's version; its value is in `self.reader.value` then. 0: the key never existed.
    fn look(&mut self, table: TableId, key: &[u8]) -> Result<u64, Abort> {
        hooks::point(EXECUTE);
        self.work.pass(1)?;
        let index = self.store.table(table).ok_or(Abort::BadRequest)?;
        let state = State::of(&self.snapshot, &self.store);
        let Reader { heap, value, fingers } = &mut self.reader;
        let _pinned = Pinned::new(heap);
        let fingers = &mut fingers[table.0 as usize];
        with_index!(index, index => state.look(index, key, fingers, value))
    }
}

/// The state that is read.
#[derive(Clone, Copy)]
struct State<'a> {
    snapshots: &'a Snapshots,
    ts: u64,
}

impl<'a> State<'a> {
    fn of(snapshot: &Option<Arc<Snapshot>>, store: &'a Store) -> State<'a> {
        let ts = snapshot.as_ref().expect("a reader that rests is moved to a snapshot first").ts.0;
        State { snapshots: &store.snapshots, ts }
    }

    fn look<I: Index>(
        self,
        index: &I,
        key: &[u8],
        fingers: &mut Fingers,
        value: &mut Scratch,
    ) -> Result<u64, Abort> {
        let key = I::Keys::parse(key).ok_or(Abort::BadRequest)?;
        let hash = I::Keys::hash(key);
        let mut backoff = Backoff::default();
        loop {
            match index.find(key, hash, fingers) {
                Found::Absent(_) => return Ok(0),
                Found::Record(record) => match self.version_of(record, value) {
                    DEAD => backoff.wait(),
                    word => return Ok(word),
                },
            }
        }
    }

    /// The word of the record's version in this state: 0 if there is none, [`DEAD`] if the record left its index.
    fn version_of(self, record: Record, value: &mut Scratch) -> u64 {
        let mut backoff = Backoff::default();
        let word = loop {
            match record.read(value) {
                Ok(word) => break word,
                Err(_) => backoff.wait(),
            }
        };
        if word == DEAD || word & TIMESTAMP <= self.ts {
            return word;
        }
        self.snapshots.find(record, self.ts, value).unwrap_or(0)
    }

    fn scan<K: Keys>(
        self,
        tree: &Tree<K>,
        (range, direction): (KeyRange<'_>, Direction),
        (fingers, value): (&mut Fingers, &mut Scratch),
        work: &mut Work,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let range = bounds::<K>(range).ok_or(Abort::BadRequest)?;
        let mut leaf = LeafCopy::new();
        let mut resume: Option<Resume> = None;
        loop {
            unbroken(|| tree.copy_leaf(resume.as_ref(), direction, range, fingers, &mut leaf));
            work.pass(leaf.len())?;
            for at in 0..leaf.len() {
                // `visit` is the procedure's code and may panic; everything else here is the engine's (`unbroken`).
                let (record, word) = unbroken(|| {
                    let record = leaf.record(at, direction);
                    (record, self.version_of(record, value))
                });
                // A record that has died since the leaf was copied was a tombstone for this snapshot, or it would have
                // been kept.
                if word & TIMESTAMP == 0 || word & TOMBSTONE != 0 {
                    continue;
                }
                let value = value.bytes();
                if K::shown(K::stored(&record), |key| visit(key, value)).is_break() {
                    return Ok(());
                }
            }
            resume = unbroken(|| leaf.next::<K>(range, direction));
            if resume.is_none() {
                return Ok(());
            }
        }
    }
}

impl Transaction for SnapshotTx {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        let word = unbroken(|| self.look(table, key))?;
        if word & TIMESTAMP == 0 || word & TOMBSTONE != 0 {
            return Ok(None);
        }
        let value = self.reader.value.bytes();
        self.work.read(value.len())?;
        Ok(Some(value))
    }

    fn put(&mut self, _: TableId, _: &[u8], _: &[u8]) -> Result<(), Abort> {
        Err(Abort::BadRequest)
    }

    fn insert(&mut self, _: TableId, _: &[u8], _: &[u8]) -> Result<bool, Abort> {
        Err(Abort::BadRequest)
    }

    fn delete(&mut self, _: TableId, _: &[u8]) -> Result<bool, Abort> {
        Err(Abort::BadRequest)
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
        hooks::point(EXECUTE);
        let index = self.store.table(table).ok_or(Abort::BadRequest)?;
        let state = State::of(&self.snapshot, &self.store);
        let Reader { heap, value, fingers } = &mut self.reader;
        let _pinned = Pinned::new(heap);
        let (wanted, work) = ((range, direction), &mut self.work);
        let parts = (&mut fingers[table.0 as usize], value);
        match index {
            AnyIndex::TreeU64(tree) => state.scan(tree, wanted, parts, work, visit),
            AnyIndex::TreeBytes(tree) => state.scan(tree, wanted, parts, work, visit),
            AnyIndex::HashU64(_) | AnyIndex::HashBytes(_) => Err(Abort::BadRequest),
        }
    }

    fn goes_on(&mut self) -> Result<(), Abort> {
        self.work.go_on()
    }

    fn expects(&mut self, passed: u64, added: u64) -> Result<(), Abort> {
        self.work.expect(passed, added)
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<Timestamp, Abort> {
        let word = unbroken(|| self.look(table, key))?;
        let ts = Timestamp(word & TIMESTAMP);
        let lives = ts > Timestamp::ZERO && word & TOMBSTONE == 0;
        Ok(if lives { ts } else { ts.max(self.store.gone.latest(table, key)) })
    }
}
