//! Follower reads: transactions on the state as of a timestamp, while appliers go on.
//!
//! A snapshot at R is *pinned* before any applier passes R: the caller sees to that by publishing to the appliers how
//! far they may go only afterwards. Each stream's applier may pass R as soon as it likes, the others behind it or not. The
//! snapshot is complete once all streams have been applied up to R; from then on it may be read, by any number of
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

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use highwater_core::contain::unbroken;
use highwater_core::hooks::{self, Point};
use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, TableId, Timestamp, Transaction};

use crate::heap::{Heap, Heaps, lock};
use crate::index::{Found, Index};
use crate::keys::{Keys, bounds};
use crate::record::{Record, Scratch};
use crate::store::{AnyIndex, Store, with_index};
use crate::sync::{AtomicU64, Backoff, Mutex, Ordering, Padded};
use crate::tree::{Fingers, LeafCopy, Resume, Tree};
use crate::word::{DEAD, TIMESTAMP, TOMBSTONE};

const SHARDS: usize = 64;

/// A version that a pinned snapshot reads, though the record has moved on.
struct Version {
    /// Timestamp, and the tombstone's bit.
    word: u64,
    /// Timestamp of the version that replaced it.
    until: u64,
    /// Shared with whoever copies it out: nobody holds a shard while copying.
    value: Arc<[u8]>,
}

type Shard = HashMap<usize, Vec<Version>>;

/// What a kept version takes besides its value: itself, in a vector that may be half empty, and its share of the map.
const VERSION_BYTES: usize = 2 * size_of::<Version>() + 64;

impl Version {
    /// What it takes, about.
    fn bytes(&self) -> u64 {
        (self.value.len() + VERSION_BYTES) as u64
    }
}

/// The pins of a store and the versions kept for them.
pub(crate) struct Snapshots {
    /// Pinned timestamps and how often each is.
    pins: Mutex<BTreeMap<u64, usize>>,
    /// Moves when `pins` does.
    changes: AtomicU64,
    /// The smallest pin; the largest number if there is none.
    oldest: AtomicU64,
    /// How many versions are kept. On a line of its own: it moves with every one of them, its neighbours with the pins.
    kept: Padded<AtomicU64>,
    /// What they take; the heaps' account of it.
    heaps: Arc<Heaps>,
    /// Versions by the address of their record, oldest first: the order of their timestamps.
    shards: Box<[Padded<Mutex<Shard>>]>,
}

/// What one applier knows of the pins.
#[derive(Default)]
pub(crate) struct Pins {
    /// In ascending order.
    pinned: Vec<u64>,
    changes: u64,
}

impl Pins {
    /// Looks whether the pins have changed. Enough at the start of each call, but for writes that come too late: a
    /// snapshot that is pinned later is not below what this call may apply.
    #[inline]
    pub fn refresh(&mut self, snapshots: &Snapshots) {
        // Acquire; pairs with the Release in `changed`.
        let changes = snapshots.changes.load(Ordering::Acquire);
        if changes != self.changes {
            self.changes = changes;
            self.pinned = lock(&snapshots.pins).keys().copied().collect();
        }
    }

    /// Whether a snapshot needs the version `old` after it is replaced by `new`.
    #[inline]
    pub fn separate(&self, old: u64, new: u64) -> bool {
        !self.pinned.is_empty() && self.separate_any(old, new)
    }

    fn separate_any(&self, old: u64, new: u64) -> bool {
        let at = self.pinned.partition_point(|&pin| pin < old & TIMESTAMP);
        self.pinned.get(at).is_some_and(|&pin| pin < new)
    }
}

impl Snapshots {
    pub fn new(heaps: Arc<Heaps>) -> Snapshots {
        Snapshots {
            pins: Mutex::new(BTreeMap::new()),
            changes: AtomicU64::new(0),
            oldest: AtomicU64::new(u64::MAX),
            kept: Padded(AtomicU64::new(0)),
            heaps,
            shards: (0..SHARDS).map(|_| Padded(Mutex::new(HashMap::new()))).collect(),
        }
    }

    /// Tombstones above this may not be collected.
    #[inline]
    pub fn oldest(&self) -> Timestamp {
        // Acquire; pairs with the Release in `changed`.
        Timestamp(self.oldest.load(Ordering::Acquire))
    }

    fn shard(&self, record: Record) -> &Mutex<Shard> {
        &self.shards[(record.as_ptr().addr() >> 5) % SHARDS]
    }

    /// Keeps the record's version before it is replaced. The caller holds the record's lock; `before` is its word.
    #[cold]
    pub fn keep(&self, record: Record, before: u64, until: u64) {
        if before == TOMBSTONE {
            // Never written: to find nothing says the same.
            return;
        }
        let mut value = Scratch::default();
        if before & TOMBSTONE == 0 {
            record.copy_locked_value(&mut value);
        }
        let value = value.bytes().into();
        let mut shard = lock(self.shard(record));
        let version = Version { word: before, until, value };
        self.count(&version, true);
        shard.entry(record.as_ptr().addr()).or_default().push(version);
    }

    /// Keeps a version that was replaced before it came: the record holds `after` already. The caller holds its lock.
    #[cold]
    pub fn keep_late(&self, record: Record, ts: Timestamp, value: Option<&[u8]>, after: u64) {
        let word = ts.0 | if value.is_none() { TOMBSTONE } else { 0 };
        let value: Arc<[u8]> = value.unwrap_or_default().into();
        let mut shard = lock(self.shard(record));
        let versions = shard.entry(record.as_ptr().addr()).or_default();
        let at = versions.partition_point(|version| version.word & TIMESTAMP < ts.0);
        let next = versions.get(at).map_or(after, |version| version.word) & TIMESTAMP;
        if next == ts.0 {
            // Applied twice.
            return;
        }
        if let Some(previous) = at.checked_sub(1) {
            versions[previous].until = ts.0;
        }
        let version = Version { word, until: next, value };
        self.count(&version, true);
        versions.insert(at, version);
    }

    fn count(&self, version: &Version, kept: bool) {
        if kept {
            self.kept.fetch_add(1, Ordering::Relaxed);
            self.heaps.versions.fetch_add(version.bytes(), Ordering::Relaxed);
        } else {
            self.kept.fetch_sub(1, Ordering::Relaxed);
            self.heaps.versions.fetch_sub(version.bytes(), Ordering::Relaxed);
        }
    }

    /// The record's version at `ts`, if one is kept: copies the value and returns the word.
    fn find(&self, record: Record, ts: u64, value: &mut Scratch) -> Option<u64> {
        let (word, bytes) = {
            let shard = lock(self.shard(record));
            let versions = shard.get(&record.as_ptr().addr())?;
            let version = versions.iter().rev().find(|version| version.word & TIMESTAMP <= ts)?;
            (version.word, version.value.clone())
        };
        value.set(&bytes);
        Some(word)
    }

    /// Drops what is kept for a record that has left its index.
    #[inline]
    pub fn forget(&self, record: Record) {
        if self.kept.load(Ordering::Relaxed) > 0 {
            let gone = lock(self.shard(record)).remove(&record.as_ptr().addr());
            gone.iter().flatten().for_each(|version| self.count(version, false));
        }
    }

    fn pin(&self, ts: Timestamp) {
        let mut pins = lock(&self.pins);
        *pins.entry(ts.0).or_default() += 1;
        self.changed(&pins);
    }

    fn unpin(&self, ts: Timestamp) {
        let mut pins = lock(&self.pins);
        let count = pins.get_mut(&ts.0).expect("a snapshot is pinned until it is dropped");
        *count -= 1;
        if *count > 0 {
            return;
        }
        pins.remove(&ts.0);
        self.changed(&pins);
        let pins = Pins { pinned: pins.keys().copied().collect(), changes: 0 };
        for shard in &self.shards {
            self.sweep(&mut lock(&shard.0), &pins);
        }
    }

    fn sweep(&self, shard: &mut Shard, pins: &Pins) {
        shard.retain(|_, versions| {
            versions.retain(|version| {
                let stays = pins.separate(version.word, version.until);
                if !stays {
                    self.count(version, false);
                }
                stays
            });
            !versions.is_empty()
        });
        // Maps keep the room that they once needed.
        if shard.capacity() > 1024 && shard.len() < shard.capacity() / 8 {
            shard.shrink_to_fit();
        }
    }

    fn changed(&self, pins: &BTreeMap<u64, usize>) {
        // Releases; pair with the Acquires in `oldest` and `Pins::refresh`.
        self.oldest.store(pins.keys().next().copied().unwrap_or(u64::MAX), Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }
}

impl Store {
    /// Pins the state at `ts` until the result is dropped. To be called before any applier passes `ts`; to be read when
    /// all streams have been applied up to there.
    pub fn pin_snapshot(self: &Arc<Store>, ts: Timestamp) -> Arc<Snapshot> {
        self.snapshots.pin(ts);
        Arc::new(Snapshot { store: self.clone(), ts })
    }

    /// How many old versions are kept for pinned snapshots.
    pub fn versions_kept(&self) -> u64 {
        self.snapshots.kept.load(Ordering::Relaxed)
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
}

/// What reading needs, apart from the store: which a read borrows, since all readers count its references on one line.
struct Reader {
    heap: Heap,
    value: Scratch,
    fingers: Box<[Fingers]>,
}

/// A pinned guard, also if the procedure that is shown what was found panics.
struct Pinned<'a>(&'a mut Heap);

impl<'a> Pinned<'a> {
    fn new(heap: &'a mut Heap) -> Pinned<'a> {
        heap.pin();
        Pinned(heap)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.0.unpin();
    }
}

impl SnapshotTx {
    /// A reader of `snapshot`.
    pub fn new(snapshot: Arc<Snapshot>) -> SnapshotTx {
        let store = snapshot.store.clone();
        let reader =
            Reader { heap: Heap::new(&store.heaps), fingers: store.fingers(), value: Scratch::default() };
        SnapshotTx { reader, snapshot: Some(snapshot), store }
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

    /// Whose snapshots it reads.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Finds the key's version; its value is in `self.reader.value` then. 0: the key never existed.
    fn look(&mut self, table: TableId, key: &[u8]) -> Result<u64, Abort> {
        hooks::point(Point::Execute);
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
        fingers: &mut Fingers,
        value: &mut Scratch,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        let range = bounds::<K>(range).ok_or(Abort::BadRequest)?;
        let mut leaf = LeafCopy::new();
        let mut resume: Option<Resume> = None;
        loop {
            unbroken(|| tree.copy_leaf(resume.as_ref(), direction, range, fingers, &mut leaf));
            for at in 0..leaf.len() {
                // Only what is shown to the caller is his.
                let (record, word) = unbroken(|| {
                    let record = leaf.record(at, direction).expect("a checked copy is filled");
                    (record, self.version_of(record, value))
                });
                // A record that died since was a tombstone for this snapshot.
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
        Ok((word & TIMESTAMP != 0 && word & TOMBSTONE == 0).then(|| self.reader.value.bytes()))
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
        hooks::point(Point::Execute);
        let index = self.store.table(table).ok_or(Abort::BadRequest)?;
        let state = State::of(&self.snapshot, &self.store);
        let Reader { heap, value, fingers } = &mut self.reader;
        let _pinned = Pinned::new(heap);
        let (wanted, fingers) = ((range, direction), &mut fingers[table.0 as usize]);
        match index {
            AnyIndex::TreeU64(tree) => state.scan(tree, wanted, fingers, value, visit),
            AnyIndex::TreeBytes(tree) => state.scan(tree, wanted, fingers, value, visit),
            AnyIndex::HashU64(_) | AnyIndex::HashBytes(_) => Err(Abort::BadRequest),
        }
    }

    fn version(&mut self, table: TableId, key: &[u8]) -> Result<Timestamp, Abort> {
        Ok(Timestamp(unbroken(|| self.look(table, key))? & TIMESTAMP))
    }
}
