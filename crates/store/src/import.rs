//! State transfer, the receiving side: installs the records of chunks ([`export`](crate::export)).
//!
//! Installing is by timestamp, so the chunks may come in any order, twice, and beside the log.

use std::sync::Arc;

use highwater_core::codec::Malformed;
use highwater_core::planted;

use crate::exported::{ExportedRecord, ExportedRecords};
use crate::grave::Grave;
use crate::heap::Heap;
use crate::index::Index;
use crate::keys::Keys;
use crate::store::{Store, with_index};
use crate::sync::Backoff;
use crate::tree::Fingers;
use crate::word::{DEAD, TIMESTAMP, TOMBSTONE};

/// Installs one part of a state, chunk by chunk.
///
/// It lasts as long as the copy, so that what it allocates ahead serves the next chunk.
pub struct Importer {
    /// In front of the store: what it points to is returned to the store when it is dropped.
    heap: Heap,
    store: Arc<Store>,
    fingers: Box<[Fingers]>,
    /// Tombstones of the current chunk.
    graves: Vec<Grave>,
}

impl Importer {
    /// An importer into `store`.
    pub fn new(store: Arc<Store>) -> Importer {
        let heap = Heap::new(&store.heaps);
        Importer { heap, fingers: store.fingers(), store, graves: Vec::new() }
    }

    /// Installs the records of a chunk that are newer than what is there. Returns how many there were.
    ///
    /// # Errors
    /// If the chunk makes no sense. What precedes the nonsense has been installed.
    pub fn import(&mut self, chunk: &[u8]) -> Result<u64, Malformed> {
        self.heap.pin();
        let outcome = self.import_all(chunk);
        self.heap.unpin();
        self.heap.tend();
        if !self.graves.is_empty() {
            self.store.abandon(self.graves.drain(..));
        }
        outcome
    }

    fn import_all(&mut self, chunk: &[u8]) -> Result<u64, Malformed> {
        let mut count = 0;
        for record in ExportedRecords::new(chunk) {
            self.import_one(&record?)?;
            count += 1;
        }
        Ok(count)
    }

    fn import_one(&mut self, record: &ExportedRecord<'_>) -> Result<(), Malformed> {
        let index = self.store.table(record.table).ok_or(Malformed("table"))?;
        let fingers = &mut self.fingers[record.table.0 as usize];
        let heap = &mut self.heap;
        let grave = with_index!(index, index => import_in(index, record, fingers, heap))?;
        self.graves.extend(grave);
        Ok(())
    }
}

fn import_in<I: Index>(
    index: &I,
    imported: &ExportedRecord<'_>,
    fingers: &mut Fingers,
    heap: &mut Heap,
) -> Result<Option<Grave>, Malformed> {
    let key = I::Keys::parse(imported.key).ok_or(Malformed("key (wrong kind for its table)"))?;
    let hash = I::Keys::hash(key);
    let value = imported.value.unwrap_or_default();
    let word = imported.word();
    let mut backoff = Backoff::default();
    loop {
        let (record, _) = index.find_or_add(key, hash, value.len(), TOMBSTONE, fingers, heap, &mut ());
        match record.word().lock() {
            Ok(DEAD) | Err(_) => backoff.wait(),
            Ok(before) if before & TIMESTAMP >= word & TIMESTAMP && !planted!(CopyUnordered) => {
                record.word().unlock(before);
                return Ok(None);
            }
            Ok(_) => {
                record.write_value(value, heap);
                record.word().unlock(word);
                let ExportedRecord { ts, table, value, .. } = *imported;
                return Ok(value.is_none().then(|| Grave { table, ts, key: I::Keys::logged(key).into() }));
            }
        }
    }
}
