//! The account of a store's memory: what is used for what, and what a record costs.

use std::sync::Arc;

use super::classes::{MAX_SIZED, NODE_BYTES, SEGMENT_BYTES, taken};
use crate::sync::{AtomicU64, Ordering};

/// Memory in use, in bytes, each counted where it is taken and as large as it was rounded up.
///
/// The parts that are used, and what is free, make up what is reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Records with their keys and values.
    pub records: u64,
    /// Index nodes, segments and directories.
    pub index: u64,
    /// Old versions, kept for pinned snapshots.
    pub versions: u64,
    /// What unreleased transactions overwrote, kept for a roll-back.
    pub before_images: u64,
    /// Unlinked, but perhaps still being read. Free soon.
    pub retired: u64,
    /// Taken from the system and not in use.
    pub free: u64,
    /// The part of `free` that is of use for anything; the rest is scattered among pieces that are used, for others of
    /// their sizes.
    pub spare: u64,
    /// Taken from the system.
    pub reserved: u64,
}

impl Memory {
    /// What holds something.
    pub fn used(&self) -> u64 {
        self.records + self.index + self.versions + self.before_images + self.retired
    }

    pub(super) fn sum(counters: &[Arc<Counters>], versions: u64, mapped: u64, spare: u64) -> Memory {
        let sum = |of: fn(&Counters) -> &AtomicU64| {
            // One worker's count may be negative, for it may free what another allocated. The sum may be negative for a
            // moment, if a worker counts while the others are read.
            let sum = counters.iter().map(|each| of(each).load(Ordering::Relaxed)).fold(0, u64::wrapping_add);
            (sum as i64).max(0) as u64
        };
        let before_images = sum(|each| &each.before_images);
        let memory = Memory {
            records: sum(|each| &each.records),
            index: sum(|each| &each.index),
            versions,
            before_images,
            retired: sum(|each| &each.retired),
            free: 0,
            spare,
            reserved: mapped + versions + before_images,
        };
        Memory { free: memory.reserved.saturating_sub(memory.used()), ..memory }
    }
}

/// Bytes by use, written by one worker only (relaxed loads and stores, no shared line), summed up by reports.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub records: AtomicU64,
    pub index: AtomicU64,
    pub before_images: AtomicU64,
    pub retired: AtomicU64,
    /// Tombstones that the worker is to unlink. Not bytes; a worker that goes leaves none.
    pub waiting: AtomicU64,
}

impl Counters {
    fn all(&self) -> [&AtomicU64; 4] {
        [&self.records, &self.index, &self.before_images, &self.retired]
    }

    /// Adds another's figures.
    pub fn absorb(&self, other: &Counters) {
        for (sum, other) in self.all().into_iter().zip(other.all()) {
            bump(sum, other.load(Ordering::Relaxed) as usize, true);
        }
    }
}

#[inline]
pub(super) fn bump(counter: &AtomicU64, by: usize, up: bool) {
    let now = counter.load(Ordering::Relaxed);
    let next = if up { now.wrapping_add(by as u64) } else { now.wrapping_sub(by as u64) };
    counter.store(next, Ordering::Relaxed);
}

/// Bytes in front of a record's key, and the key's own padding at most.
const RECORD_HEAD: usize = 16;
/// Keys of a hash segment right after its split, when there are fewest for what it takes, overflow buckets included.
const FEWEST_IN_SEGMENT: usize = 120;
/// Keys of a leaf right after its split.
const FEWEST_IN_LEAF: usize = 30;

/// What storing a value of `value_len` bytes under a key of `key_len` may add to [`Memory::used`]: a new record with its
/// share of the index, whichever kind, or a new buffer for a record that is there, whichever is more. What becomes free
/// at the same time is not taken off.
pub fn cost(key_len: usize, value_len: usize) -> u64 {
    let front = RECORD_HEAD + key_len.next_multiple_of(8);
    let room = value_len.next_multiple_of(8).max(8);
    let buffer = if value_len == 0 { 0 } else { taken(8 + value_len + value_len / 8) };
    let record =
        if front + room <= MAX_SIZED { taken(front + room).max(buffer) } else { taken(front + 8) + buffer };
    // A leaf, its part of a node above, its fences and the separator; or a segment and its directory entries.
    let leaf = (NODE_BYTES + NODE_BYTES / 16 + 3 * taken(8 + key_len)) / FEWEST_IN_LEAF;
    let segment = (SEGMENT_BYTES + 8 * 16) / FEWEST_IN_SEGMENT;
    (record + leaf.max(segment)) as u64
}
