//! Tombstones that wait to be unlinked.
//!
//! A worker remembers the tombstones that it made: the key, not the record, because another worker may have unlinked
//! and reused the record by the time we come back. A tombstone is looked up again and unlinked if it is still the one
//! that we made. Placeholders of aborted inserts (timestamp 0) never were visible and may go at once.

use std::collections::VecDeque;

use highwater_core::log::Key;
use highwater_core::{TableId, Timestamp};

use crate::grave::{Grave, GraveKey};
use crate::heap::Heap;
use crate::index::Index;
use crate::keys::Keys;
use crate::store::{Store, with_index};
use crate::tree::Fingers;
use crate::versions::Snapshots;
use crate::word::{Busy, TOMBSTONE};

/// So many are looked at in one call: an eighth of those that wait, between these bounds. (A fixed number would let them
/// grow without end under a load that deletes faster.)
const BUDGET: std::ops::RangeInclusive<usize> = 64..=1024;

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
    pub fn bury(&mut self, table: TableId, ts: Timestamp, key: Key<'_>) {
        let queue = if ts == Timestamp::ZERO { &mut self.placeholders } else { &mut self.tombstones };
        queue.push_back(Grave { table, ts, key: key.into() });
    }

    /// The tombstone may go at the next collection, whatever its timestamp.
    pub fn bury_at_once(&mut self, table: TableId, ts: Timestamp, key: Key<'_>) {
        self.placeholders.push_back(Grave { table, ts, key: key.into() });
    }

    /// Unlinks some of what nobody needs: tombstones at or below `floor` that no pinned snapshot has to see beyond and no
    /// before-image leads to, and placeholders.
    ///
    /// `told` hears of each before it goes. Says whether more is due: then the next call should come soon.
    #[inline]
    pub fn collect(
        &mut self,
        store: &Store,
        floor: Timestamp,
        (fingers, heap): (&mut [Fingers], &mut Heap),
        told: impl FnMut(TableId, &[u8], Timestamp),
    ) -> bool {
        let floor = floor.min(store.snapshots.oldest());
        let due = self.tombstones.front().is_some_and(|grave| grave.ts <= floor);
        if due || !self.placeholders.is_empty() || store.orphan_due(floor) {
            // Not beyond the oldest before-image either: a roll-back has to find that record's tombstone as it is.
            let floor = floor.min(Timestamp(store.heaps.guards.no_images_up_to()));
            let more = self.dig(store, floor, (fingers, heap), told);
            heap.count_waiting(self.len());
            return more;
        }
        heap.count_waiting(self.len());
        false
    }

    /// How many wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.placeholders.len() + self.tombstones.len()
    }

    fn dig(
        &mut self,
        store: &Store,
        floor: Timestamp,
        (fingers, heap): (&mut [Fingers], &mut Heap),
        mut told: impl FnMut(TableId, &[u8], Timestamp),
    ) -> bool {
        if store.orphan_due(floor) {
            // They come in no order that suits `tombstones`, so they go to the placeholders, which need none.
            self.placeholders.extend(store.adopt(floor, *BUDGET.end()));
        }
        heap.pin();
        let mut budget = (self.len() / 8).clamp(*BUDGET.start(), *BUDGET.end());
        let mut again = Vec::new();
        while budget > 0
            && let Some(grave) = self.next(floor)
        {
            budget -= 1;
            grave.key.with(|key| {
                store.gone.note(grave.table, key, grave.ts);
                told(grave.table, key, grave.ts);
            });
            if unlink(store, &grave, &mut fingers[grave.table.0 as usize], heap) == Err(Busy) {
                again.push(grave);
            }
        }
        heap.unpin();
        // Somebody holds these records' locks, and is about to write there. If that fails, the tombstones stay, and are
        // this worker's to unlink: it looks at them again.
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
    let unlink = |bytes: &[u8]| {
        let key = I::Keys::parse(bytes).expect("graves hold keys of their table's kind");
        if let Some(record) = index.unlink(key, I::Keys::hash(key), expected, fingers, heap)? {
            // The address is still this record's, for its memory is not used again before the caller unpins.
            snapshots.forget(record);
        }
        Ok(())
    };
    key.with(unlink)
}
