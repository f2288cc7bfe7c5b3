//! When keys of which there is no trace were deleted last: what a store remembers of tombstones that it has unlinked.
//!
//! A key that was written and deleted again leaves a tombstone, and nothing once that is unlinked. Whoever compares versions later, as `WATCH` does,
//! would take it for a key that nobody touched; and a key that was deleted before the first look for one that was touched, because its version is
//! another one. So the latest timestamp is remembered in slots, by hash: several keys share one. A key may seem to have been deleted later than it
//! was, and never earlier.
//!
//! A state that was copied, or loaded from a checkpoint, comes without this: whoever brings it says up to when a delete may have left no trace in it, and
//! that is told of every key without a record.
//!
//! *Invariant.* What is told of a key without a record never shrinks, and is no less than the timestamp of any of its tombstones that was unlinked
//! here, or where the state came from. It is noted down before the record leaves its index, so whoever finds no record finds this.

use std::sync::OnceLock;

use highwater_core::{TableId, Timestamp};

use crate::keys::{ByteKeys, Keys};
use crate::sync::{AtomicU64, Ordering};

/// Half a megabyte of them, once a tombstone was unlinked. Beside 30,000 deletes in a second 1 of 200 keys has a slot in which something was deleted in
/// the last 10 ms.
const SLOTS: usize = if cfg!(any(shuttle, loom)) { 4 } else { 1 << 16 };

/// See the module's description.
#[derive(Default)]
pub(crate) struct Gone {
    slots: OnceLock<Box<[AtomicU64]>>,
    /// The same for all keys.
    base: AtomicU64,
}

impl Gone {
    /// A tombstone is about to be unlinked.
    pub fn note(&self, table: TableId, key: &[u8], ts: Timestamp) {
        if ts == Timestamp::ZERO {
            // A placeholder, which nobody ever saw.
            return;
        }
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| AtomicU64::new(0)).collect());
        // Release; pairs with the Acquire in `latest`.
        slots[slot(table, key)].fetch_max(ts.0, Ordering::Release);
    }

    /// Deletes up to this may have left no trace.
    pub fn note_all(&self, upto: Timestamp) {
        self.base.fetch_max(upto.0, Ordering::Release);
    }

    /// The latest timestamp of a tombstone of this key that was unlinked, or of another one of its slot; zero if there was none.
    pub fn latest(&self, table: TableId, key: &[u8]) -> Timestamp {
        let noted = self.slots.get().map_or(0, |slots| slots[slot(table, key)].load(Ordering::Acquire));
        Timestamp(noted.max(self.base.load(Ordering::Acquire)))
    }
}

fn slot(table: TableId, key: &[u8]) -> usize {
    let mixed = ByteKeys::hash(key) ^ u64::from(table.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed as usize & (SLOTS - 1)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Once: `WATCH` of a key that does not exist held though it was set and deleted, once the node that executes had
    /// copied its state or loaded a checkpoint: what it remembered of deleted keys went with the old store.
    #[test]
    fn a_state_that_came_from_elsewhere_lacks_deletes() {
        let gone = Gone::default();
        assert_eq!(gone.latest(TableId(0), b"k"), Timestamp::ZERO);
        gone.note_all(Timestamp(70));
        gone.note_all(Timestamp(50));
        assert_eq!(gone.latest(TableId(0), b"k"), Timestamp(70));
        gone.note(TableId(0), b"k", Timestamp(60));
        assert_eq!(gone.latest(TableId(0), b"k"), Timestamp(70));
        gone.note(TableId(0), b"k", Timestamp(90));
        assert_eq!(gone.latest(TableId(0), b"k"), Timestamp(90));
        assert_eq!(gone.latest(TableId(0), b"other"), Timestamp(70));
    }
}
