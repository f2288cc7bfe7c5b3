//! Tombstones that wait to be unlinked.
//!
//! A worker remembers the tombstones that it made: the key, not the record, because another worker may have unlinked
//! and reused the record by the time we come back. A tombstone is looked up again and unlinked if it is still the one
//! that we made. Placeholders of aborted inserts (timestamp 0) never were visible and may go at once.

use std::collections::VecDeque;

use highwater_core::{TableId, Timestamp};

use crate::heap::Heap;
use crate::index::Index;
use crate::keys::Keys;
use crate::snapshot::Snapshots;
use crate::store::{Store, with_index};
use crate::tree::Fingers;
use crate::word::{Busy, TOMBSTONE};

/// So many are looked at in one call: an eighth of those that wait, between these bounds. (A fixed number would let them
/// grow without end under a load that deletes faster.)
const BUDGET: std::ops::RangeInclusive<usize> = 64..=1024;

/// A tombstone, by key. Ordered by its timestamp first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Grave {
    pub ts: Timestamp,
    pub table: TableId,
    pub key: GraveKey,
}

/// A key in its own memory.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GraveKey {
    U64(u64),
    Bytes(Box<[u8]>),
}

impl From<highwater_core::log::Key<'_>> for GraveKey {
    fn from(key: highwater_core::log::Key<'_>) -> GraveKey {
        match key {
            highwater_core::log::Key::U64(key) => GraveKey::U64(key),
            highwater_core::log::Key::Bytes(key) => GraveKey::Bytes(key.into()),
        }
    }
}

/// The tombstones of one worker.
#[derive(Default)]
pub(crate) struct Graveyard {
    /// Never visible.
    placeholders: VecDeque<Grave>,
    /// In the order of their timestamps: a worker's commits are.
    tombstones: VecDeque<Grave>,
}

impl Graveyard {
    #[inline]
    pub fn bury(&mut self, table: TableId, ts: Timestamp, key: highwater_core::log::Key<'_>) {
        let queue = if ts == Timestamp::ZERO { &mut self.placeholders } else { &mut self.tombstones };
        queue.push_back(Grave { table, ts, key: key.into() });
    }

    /// The tombstone may go at the next collection, whatever its timestamp.
    pub fn bury_at_once(&mut self, table: TableId, ts: Timestamp, key: highwater_core::log::Key<'_>) {
        self.placeholders.push_back(Grave { table, ts, key: key.into() });
    }

    /// Unlinks some of what nobody needs: tombstones at or below `floor` that no pinned snapshot has to see beyond and no
    /// before-image leads to, and placeholders.
    ///
    /// Says whether more is due: then the next call should come soon.
    #[inline]
    pub fn collect(
        &mut self,
        store: &Store,
        floor: Timestamp,
        fingers: &mut [Fingers],
        heap: &mut Heap,
    ) -> bool {
        let floor = floor.min(store.snapshots.oldest());
        let due = self.tombstones.front().is_some_and(|grave| grave.ts <= floor);
        if due || !self.placeholders.is_empty() || store.orphan_due(floor) {
            // Nor what a roll-back may have to find as it is.
            let floor = floor.min(Timestamp(store.heaps.guards.no_images_up_to()));
            let more = self.dig(store, floor, fingers, heap);
            heap.count_waiting(self.len());
            return more;
        }
        heap.count_waiting(self.len());
        false
    }

    #[inline]
    fn len(&self) -> usize {
        self.placeholders.len() + self.tombstones.len()
    }

    fn dig(&mut self, store: &Store, floor: Timestamp, fingers: &mut [Fingers], heap: &mut Heap) -> bool {
        if store.orphan_due(floor) {
            // They go to the placeholders, which need no order.
            self.placeholders.extend(store.adopt(floor, *BUDGET.end()));
        }
        heap.pin();
        let mut budget = (self.len() / 8).clamp(*BUDGET.start(), *BUDGET.end());
        let mut again = Vec::new();
        while budget > 0
            && let Some(grave) = self.next(floor)
        {
            budget -= 1;
            if unlink(store, &grave, &mut fingers[grave.table.0 as usize], heap) == Err(Busy) {
                again.push(grave);
            }
        }
        heap.unpin();
        // Somebody is about to write there. If nothing comes of it, the tombstone is ours still.
        self.placeholders.extend(again);
        if self.len() == 0 && self.tombstones.capacity() > *BUDGET.end() {
            // A large delete's room does not stay.
            self.tombstones = VecDeque::new();
        }
        budget == 0
    }

    fn next(&mut self, floor: Timestamp) -> Option<Grave> {
        self.placeholders.pop_front().or_else(|| self.tombstones.pop_front_if(|grave| grave.ts <= floor))
    }

    /// Leaves everything to the other workers.
    pub fn abandon(&mut self, store: &Store) {
        store.abandon(self.placeholders.drain(..).chain(self.tombstones.drain(..)));
    }
}

fn unlink(store: &Store, grave: &Grave, fingers: &mut Fingers, heap: &mut Heap) -> Result<(), Busy> {
    let index = store.table(grave.table).expect("graves are of tables of this store");
    let expected = TOMBSTONE | grave.ts.0;
    with_index!(index, index => unlink_in(index, &grave.key, expected, fingers, heap, &store.snapshots))
}

fn unlink_in<I: Index>(
    index: &I,
    key: &GraveKey,
    expected: u64,
    fingers: &mut Fingers,
    heap: &mut Heap,
    snapshots: &Snapshots,
) -> Result<(), Busy> {
    let mut unlink = |bytes: &[u8]| {
        let key = I::Keys::parse(bytes).expect("graves hold keys of their table's kind");
        if let Some(record) = index.unlink(key, I::Keys::hash(key), expected, fingers, heap)? {
            // Its memory is not reused before the caller unpins.
            snapshots.forget(record);
        }
        Ok(())
    };
    match key {
        GraveKey::U64(key) => unlink(&key.to_be_bytes()),
        GraveKey::Bytes(key) => unlink(key),
    }
}
