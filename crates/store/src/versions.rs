//! Pinned snapshots, and the versions that are kept for them: see [`snapshot`](crate::snapshot).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use highwater_core::Timestamp;

use crate::heap::{Heaps, VERSION_PARTS, lock};
use crate::record::{Record, Scratch};
use crate::sync::{AtomicU64, Mutex, Ordering, Padded};
use crate::word::{TIMESTAMP, TOMBSTONE};

/// A version that a pinned snapshot reads, though the record has moved on.
struct Version {
    /// Timestamp of the version, and the tombstone's bit if the key did not exist.
    word: u64,
    /// Timestamp of the version that replaced it.
    until: u64,
    /// Shared with readers that copy it: they let go of the shard's lock first.
    value: Arc<[u8]>,
}

/// A part of the versions, by the addresses of their records, and how many they are.
///
/// Neither that nor [what they take](Heaps::versions) is counted for all parts together: every applier would write there with each version.
#[derive(Default)]
struct Shard {
    versions: Mutex<Versions>,
    kept: AtomicU64,
}

/// By the address of their record, oldest first: the order of their timestamps.
type Versions = HashMap<usize, Vec<Version>>;

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
    heaps: Arc<Heaps>,
    shards: Box<[Padded<Shard>]>,
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
            heaps,
            shards: (0..VERSION_PARTS).map(|_| Padded::default()).collect(),
        }
    }

    /// Tombstones above this may not be collected.
    #[inline]
    pub fn oldest(&self) -> Timestamp {
        // Acquire; pairs with the Release in `changed`.
        Timestamp(self.oldest.load(Ordering::Acquire))
    }

    /// The part of a record.
    fn part(record: Record) -> usize {
        (record.as_ptr().addr() >> 5) % VERSION_PARTS
    }

    fn shard(&self, record: Record) -> &Shard {
        &self.shards[Snapshots::part(record)].0
    }

    /// A version has come to a part or gone. The caller holds the part's lock, and nobody else writes there.
    fn count(&self, part: usize, version: &Version, kept: bool) {
        let add = |to: &AtomicU64, by: u64| {
            let now = to.load(Ordering::Relaxed);
            to.store(if kept { now + by } else { now - by }, Ordering::Relaxed);
        };
        add(&self.shards[part].0.kept, 1);
        add(&self.heaps.versions[part].0, version.bytes());
    }

    /// Keeps the record's version before it is replaced. The caller holds the record's lock; `before` is its word.
    #[cold]
    pub fn keep(&self, record: Record, before: u64, until: u64) {
        if before == TOMBSTONE {
            // The record was never written. A reader that finds nothing kept concludes the same: the key did not exist.
            return;
        }
        let mut value = Scratch::default();
        if before & TOMBSTONE == 0 {
            record.copy_locked_value(&mut value);
        }
        let value = value.bytes().into();
        let version = Version { word: before, until, value };
        let shard = self.shard(record);
        let mut versions = lock(&shard.versions);
        self.count(Snapshots::part(record), &version, true);
        versions.entry(record.as_ptr().addr()).or_default().push(version);
    }

    /// Keeps a version that was replaced before it came: the record holds `after` already. The caller holds its lock.
    #[cold]
    pub fn keep_late(&self, record: Record, ts: Timestamp, value: Option<&[u8]>, after: u64) {
        let word = ts.0 | if value.is_none() { TOMBSTONE } else { 0 };
        let value: Arc<[u8]> = value.unwrap_or_default().into();
        let shard = self.shard(record);
        let mut all = lock(&shard.versions);
        let versions = all.entry(record.as_ptr().addr()).or_default();
        let at = versions.partition_point(|version| version.word & TIMESTAMP < ts.0);
        let next = versions.get(at).map_or(after, |version| version.word) & TIMESTAMP;
        if next == ts.0 {
            // The same version is kept already: the log was applied twice.
            return;
        }
        if let Some(previous) = at.checked_sub(1) {
            versions[previous].until = ts.0;
        }
        let version = Version { word, until: next, value };
        self.count(Snapshots::part(record), &version, true);
        versions.insert(at, version);
    }

    /// The record's version at `ts`, if one is kept: copies the value and returns the word.
    pub fn find(&self, record: Record, ts: u64, value: &mut Scratch) -> Option<u64> {
        let (word, bytes) = {
            let all = lock(&self.shard(record).versions);
            let versions = all.get(&record.as_ptr().addr())?;
            let version = versions.iter().rev().find(|version| version.word & TIMESTAMP <= ts)?;
            (version.word, version.value.clone())
        };
        value.set(&bytes);
        Some(word)
    }

    /// Drops what is kept for a record that has left its index.
    #[inline]
    pub fn forget(&self, record: Record) {
        let shard = self.shard(record);
        if shard.kept.load(Ordering::Relaxed) > 0 {
            let mut versions = lock(&shard.versions);
            let gone = versions.remove(&record.as_ptr().addr());
            gone.iter().flatten().for_each(|version| self.count(Snapshots::part(record), version, false));
        }
    }

    pub fn pin(&self, ts: Timestamp) {
        let mut pins = lock(&self.pins);
        *pins.entry(ts.0).or_default() += 1;
        self.changed(&pins);
    }

    pub fn unpin(&self, ts: Timestamp) {
        let mut pins = lock(&self.pins);
        let count = pins.get_mut(&ts.0).expect("a snapshot is pinned until it is dropped");
        *count -= 1;
        if *count > 0 {
            return;
        }
        pins.remove(&ts.0);
        self.changed(&pins);
        let pins = Pins { pinned: pins.keys().copied().collect(), changes: 0 };
        for part in 0..VERSION_PARTS {
            self.sweep(part, &pins);
        }
    }

    /// Drops what no pin needs.
    fn sweep(&self, part: usize, pins: &Pins) {
        let mut all = lock(&self.shards[part].0.versions);
        all.retain(|_, versions| {
            versions.retain(|version| {
                let stays = pins.separate(version.word, version.until);
                if !stays {
                    self.count(part, version, false);
                }
                stays
            });
            !versions.is_empty()
        });
        // A map keeps the room that it once needed; give it back when hardly any of it is used.
        if all.capacity() > 1024 && all.len() < all.capacity() / 8 {
            all.shrink_to_fit();
        }
    }

    fn changed(&self, pins: &BTreeMap<u64, usize>) {
        // Releases; pair with the Acquires in `oldest` and `Pins::refresh`.
        self.oldest.store(pins.keys().next().copied().unwrap_or(u64::MAX), Ordering::Release);
        self.changes.fetch_add(1, Ordering::Release);
    }
}

impl Snapshots {
    /// How many versions are kept.
    pub fn kept(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.kept.load(Ordering::Relaxed)).sum()
    }
}
