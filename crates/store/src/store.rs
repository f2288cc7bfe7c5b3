//! The store: tables, and what their users share.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use highwater_core::{IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, View};

use crate::gone::Gone;
use crate::grave::Grave;
use crate::hash::Hash;
use crate::heap::{self, Heap, Heaps, Memory, Provision, lock};
use crate::index::{Found, Index};
use crate::keys::{ByteKeys, IntegerKeys, Keys};
use crate::record::{Record, Scratch};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::tree::{Fingers, LeafCopy, Tree};
use crate::versions::Snapshots;
use crate::word::TOMBSTONE;

/// A table's index, by kind.
pub(crate) enum AnyIndex {
    HashU64(Hash<IntegerKeys>),
    HashBytes(Hash<ByteKeys>),
    TreeU64(Tree<IntegerKeys>),
    TreeBytes(Tree<ByteKeys>),
}

impl AnyIndex {
    /// Whether keys are integers: eight bytes each.
    #[inline]
    pub fn has_integer_keys(&self) -> bool {
        matches!(self, AnyIndex::HashU64(_) | AnyIndex::TreeU64(_))
    }
}

/// Runs one expression with `$index` bound to the concrete index.
macro_rules! with_index {
    ($any:expr, $index:ident => $body:expr) => {
        match $any {
            $crate::store::AnyIndex::HashU64($index) => $body,
            $crate::store::AnyIndex::HashBytes($index) => $body,
            $crate::store::AnyIndex::TreeU64($index) => $body,
            $crate::store::AnyIndex::TreeBytes($index) => $body,
        }
    };
}
pub(crate) use with_index;

/// In-memory tables, shared by all threads of a replica.
pub struct Store {
    schema: Schema,
    tables: Box<[AnyIndex]>,
    pub(crate) heaps: Arc<Heaps>,
    /// Tombstones that no worker looks after: those of workers that are gone, and imported ones; oldest first.
    orphans: Mutex<BinaryHeap<Reverse<Grave>>>,
    /// The smallest timestamp among them, so that a worker sees without the lock that none is due.
    oldest_orphan: AtomicU64,
    pub(crate) snapshots: Snapshots,
    /// The memory of tombstones that were unlinked.
    pub(crate) gone: Gone,
}

impl Store {
    /// An empty store.
    pub fn new(schema: Schema) -> Arc<Store> {
        let heaps = Heaps::new();
        let mut heap = Heap::new(&heaps);
        let tables = schema.iter().map(|(id, spec)| AnyIndex::new(id, spec, &mut heap)).collect();
        Arc::new(Store {
            schema,
            tables,
            snapshots: Snapshots::new(heaps.clone()),
            heaps,
            orphans: Mutex::new(BinaryHeap::new()),
            oldest_orphan: AtomicU64::new(u64::MAX),
            gone: Gone::default(),
        })
    }

    /// The tables' descriptions.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The state that is put into this empty store was copied or kept: deletes up to a timestamp may have left no trace in it. So no key without a record is told to
    /// have been deleted earlier.
    pub fn lacks_deletes_until(&self, upto: Timestamp) {
        self.gone.note_all(upto);
    }

    /// Takes memory from the system ahead of its use, and touches it: the kernel clears pages when they are first
    /// touched, which can cost a transaction as much as everything else that it does.
    pub fn reserve(&self, bytes: u64) {
        self.heaps.reserve(bytes);
    }

    /// Bytes that count against a budget: everything that holds something, and the free pieces scattered among it as
    /// far as they are more than an eighth of it, for these may be of no use to what comes next. Other free memory does
    /// not count, since it serves anything. Before-images do not count either: they are bounded by themselves.
    pub fn used(&self) -> u64 {
        let memory = self.memory();
        let used = memory.used() - memory.before_images;
        let scattered = memory.free.saturating_sub(memory.spare);
        used + scattered.saturating_sub(used / 8)
    }

    /// To be called every few milliseconds, off the hot path: touches memory ahead of need, as long as the store has
    /// not reserved `limit` bytes, and gives back what an idle store does not need.
    pub fn provision(&self, limit: u64) -> Provision {
        let orphans = self.oldest_orphan.load(Ordering::Relaxed) != u64::MAX;
        self.heaps.provision(limit, orphans)
    }

    /// Whether there is a tombstone, or what an aborted insert left, that somebody has yet to unlink.
    pub fn has_tombstones(&self) -> bool {
        self.heaps.any_waiting() || self.oldest_orphan.load(Ordering::Relaxed) != u64::MAX
    }

    /// The account of the memory in use. Cheap enough for every few milliseconds.
    pub fn memory(&self) -> Memory {
        self.heaps.memory()
    }

    /// What storing a value under a key may add to [`Memory::used`], at most: rounded up, index included. What becomes
    /// free at the same time (a value that is replaced) is not taken off.
    pub fn cost(key_len: usize, value_len: usize) -> u64 {
        heap::cost(key_len, value_len)
    }

    #[inline]
    pub(crate) fn table(&self, table: TableId) -> Option<&AnyIndex> {
        self.tables.get(table.0 as usize)
    }

    /// One finger for each table.
    pub(crate) fn fingers(&self) -> Box<[Fingers]> {
        vec![Fingers::default(); self.tables.len()].into()
    }

    /// Leaves tombstones to the other workers: whoever collects next takes them over.
    pub(crate) fn abandon(&self, graves: impl Iterator<Item = Grave>) {
        let mut orphans = lock(&self.orphans);
        orphans.extend(graves.map(Reverse));
        self.note_oldest(&orphans);
    }

    /// Whether some abandoned tombstone is at or below `floor`.
    #[inline]
    pub(crate) fn orphan_due(&self, floor: Timestamp) -> bool {
        // Relaxed: a hint; the mutex orders the graves themselves.
        self.oldest_orphan.load(Ordering::Relaxed) <= floor.0
    }

    /// Takes up to `most` abandoned tombstones over that are at or below `floor`.
    pub(crate) fn adopt(&self, floor: Timestamp, most: usize) -> Vec<Grave> {
        let mut orphans = lock(&self.orphans);
        let mut adopted = Vec::new();
        while adopted.len() < most && orphans.peek().is_some_and(|Reverse(grave)| grave.ts <= floor) {
            adopted.extend(orphans.pop().map(|Reverse(grave)| grave));
        }
        self.note_oldest(&orphans);
        adopted
    }

    fn note_oldest(&self, orphans: &BinaryHeap<Reverse<Grave>>) {
        let oldest = orphans.peek().map_or(u64::MAX, |Reverse(grave)| grave.ts.0);
        self.oldest_orphan.store(oldest, Ordering::Relaxed);
    }

    /// How many rows of a table of byte strings there are whose keys fit, while others write: each row that is there all the time counts, and
    /// once; what comes or goes meanwhile, or is not committed yet, may.
    pub fn count(&self, table: TableId, fits: impl Fn(&[u8]) -> bool) -> u64 {
        let mut count = 0;
        self.for_each_record(table, &mut |record| {
            let live = record.word().load() & TOMBSTONE == 0;
            count += u64::from(live && fits(record.key_bytes()));
        });
        count
    }

    /// Visits every record of a table, tombstones included; in key order if the table is ordered.
    fn for_each_record(&self, table: TableId, visit: &mut dyn FnMut(Record)) {
        let Some(index) = self.table(table) else { return };
        let _pinned = self.heaps.visit();
        match index {
            AnyIndex::HashU64(hash) => hash.for_each(visit),
            AnyIndex::HashBytes(hash) => hash.for_each(visit),
            AnyIndex::TreeU64(tree) => for_each_in_tree(tree, visit),
            AnyIndex::TreeBytes(tree) => for_each_in_tree(tree, visit),
        }
    }

    /// Visits every live pair with the timestamp that wrote it: `(timestamp, key, value)`. The store is quiescent.
    pub(crate) fn for_each_live(&self, table: TableId, mut visit: impl FnMut(u64, &[u8], &[u8])) {
        let integers = self.schema.get(table).is_some_and(|spec| spec.keys == KeyKind::U64);
        let mut value = Scratch::default();
        self.for_each_record(table, &mut |record| {
            let word = read_quiescent(record, &mut value);
            if word & TOMBSTONE == 0 {
                if integers {
                    visit(word, &record.key_u64().to_be_bytes(), value.bytes());
                } else {
                    visit(word, record.key_bytes(), value.bytes());
                }
            }
        });
    }
}

/// The record's word, and its value in `value`.
fn read_quiescent(record: Record, value: &mut Scratch) -> u64 {
    record.read(value).expect("nobody writes to a quiescent store")
}

fn for_each_in_tree<K: Keys>(tree: &Tree<K>, visit: &mut dyn FnMut(Record)) {
    use std::ops::Bound::Unbounded;
    let (direction, range) = (highwater_core::Direction::Forward, (Unbounded, Unbounded));
    let mut leaf = LeafCopy::new();
    let mut fingers = Fingers::default();
    let mut resume = None;
    loop {
        tree.copy_leaf(resume.as_ref(), direction, range, &mut fingers, &mut leaf);
        (0..leaf.len()).map(|at| leaf.record(at, direction)).for_each(&mut *visit);
        resume = leaf.next::<K>(range, direction);
        if resume.is_none() {
            return;
        }
    }
}

impl AnyIndex {
    fn new(id: TableId, spec: &TableSpec, heap: &mut Heap) -> AnyIndex {
        let tree = u64::from(id.0) + 1;
        match (spec.index, spec.keys) {
            (IndexKind::Hash, KeyKind::U64) => AnyIndex::HashU64(Hash::new(heap)),
            (IndexKind::Hash, KeyKind::Bytes) => AnyIndex::HashBytes(Hash::new(heap)),
            (IndexKind::Ordered, KeyKind::U64) => AnyIndex::TreeU64(Tree::new(tree, heap)),
            (IndexKind::Ordered, KeyKind::Bytes) => AnyIndex::TreeBytes(Tree::new(tree, heap)),
        }
    }
}

fn value_of<I: Index>(index: &I, key: &[u8]) -> Option<Vec<u8>> {
    let key = I::Keys::parse(key)?;
    let mut value = Scratch::default();
    match index.find(key, I::Keys::hash(key), &mut Fingers::default()) {
        Found::Record(record) => {
            let word = read_quiescent(record, &mut value);
            (word & TOMBSTONE == 0).then(|| value.bytes().to_vec())
        }
        Found::Absent(_) => None,
    }
}

impl View for Store {
    fn get(&self, table: TableId, key: &[u8]) -> Option<Vec<u8>> {
        let index = self.table(table)?;
        let _pinned = self.heaps.visit();
        with_index!(index, index => value_of(index, key))
    }

    fn for_each(&self, table: TableId, visit: &mut dyn FnMut(&[u8], &[u8])) {
        self.for_each_live(table, |_, key, value| visit(key, value));
    }
}
