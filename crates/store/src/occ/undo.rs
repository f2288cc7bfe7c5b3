//! Before-images: how a deposed leader's store gets rid of what will never have happened.
//!
//! A leader that replicates after it commits runs ahead of what is safe. For every transaction above the watermark this
//! log keeps what it overwrote. When the final mark is known, [`Occ::roll_back`] restores, for each record, the value
//! that the mark preserves: the before-image whose own timestamp is at or below the mark while its transaction's is
//! above. There is exactly one such image per record that was overwritten beyond the mark, whichever worker keeps it; so
//! every worker rolls its own log back, in any order. Nothing newer may be written before all of them have: the
//! timestamps of the next leader come from another clock and need not exceed those that are rolled back.
//!
//! Images name their records by key: whatever else happens to the store, a roll-back finds what is there, or makes it.
//! That the marks are the same for all workers is the caller's affair; that no tombstone is unlinked while a before-image
//! of its record is kept is the store's ([`Guards::no_images_up_to`]), or two images of one key could both seem to be the
//! one that the mark preserves.
//!
//! [`Guards::no_images_up_to`]: crate::guard::Guards::no_images_up_to

use highwater_core::Timestamp;
use highwater_core::hooks;

use super::images::{Image, UndoLog, take_image};
use super::{Occ, Phase};
use crate::heap::Heap;
use crate::hooks::ROLL_BACK;
use crate::index::Index;
use crate::keys::Keys;
use crate::store::with_index;
use crate::sync::Backoff;
use crate::tree::Fingers;
use crate::word::{DEAD, TIMESTAMP, TOMBSTONE};

impl Occ {
    /// Keeps before-images of what commits from now on (or not). Forgets those kept before.
    pub fn keep_undo(&mut self, keep: bool) {
        if let Some(mut undo) = self.undo.take() {
            undo.clear(&self.heap);
        }
        self.undo = keep.then(UndoLog::default);
    }

    /// Bytes of before-images that are kept.
    #[inline]
    pub fn undo_bytes(&self) -> usize {
        self.undo.as_ref().map_or(0, |undo| undo.len())
    }

    /// Transactions at or below `mark` will never be rolled back.
    #[inline]
    pub fn forget_undo(&mut self, mark: Timestamp) {
        if let Some(undo) = &mut self.undo {
            undo.forget(mark, &self.heap);
        }
    }

    /// Restores what this worker's transactions above `preserved` overwrote. Other workers may roll back at the same
    /// time; nothing else may be written until all of them have. Says how many records it restored.
    ///
    /// # Panics
    /// While a transaction is open.
    pub fn roll_back(&mut self, preserved: Timestamp) -> u64 {
        assert_eq!(self.phase, Phase::Idle, "a roll-back comes between transactions");
        let Some(mut undo) = self.undo.take() else { return 0 };
        undo.forget(preserved, &self.heap);
        self.heap.pin();
        let mut images = undo.images();
        let mut restored = 0;
        while let Some(image) = take_image(&mut images, &self.store) {
            if image.before & TIMESTAMP <= preserved.0 {
                hooks::point(ROLL_BACK);
                restored += u64::from(self.restore(&image, preserved));
            }
        }
        self.heap.unpin();
        undo.clear(&self.heap);
        restored
    }

    fn restore(&mut self, image: &Image<'_>, preserved: Timestamp) -> bool {
        let store = self.store.clone();
        let index = store.table(image.table).expect("images are of tables of this store");
        let fingers = &mut self.fingers[image.table.0 as usize];
        let restored =
            with_index!(index, index => restore_in(index, image, preserved, fingers, &mut self.heap));
        if restored && image.before & TOMBSTONE != 0 {
            // Restored to a tombstone: bury it again. Its old grave is gone, given up by whoever found the record alive
            // there.
            self.graveyard.bury_at_once(image.table, Timestamp(image.before & TIMESTAMP), image.key);
        }
        restored
    }
}

fn restore_in<I: Index>(
    index: &I,
    image: &Image<'_>,
    preserved: Timestamp,
    fingers: &mut Fingers,
    heap: &mut Heap,
) -> bool {
    let key = I::Keys::logged_key(image.key).expect("images hold keys of their table's kind");
    let hash = I::Keys::hash(key);
    let mut backoff = Backoff::default();
    loop {
        let (record, added) =
            index.find_or_add(key, hash, image.value.len(), TOMBSTONE, fingers, heap, &mut ());
        match record.word().lock() {
            // It left the index, or another worker restores it: held for the length of an install only.
            Ok(DEAD) | Err(_) => backoff.wait(),
            Ok(current) if current & TIMESTAMP <= preserved.0 && !added => {
                record.word().unlock(current);
                return false;
            }
            Ok(_) => {
                if image.before & TOMBSTONE == 0 {
                    record.write_value(image.value, heap);
                }
                record.word().unlock(image.before);
                return true;
            }
        }
    }
}
