//! What reading without a transaction needs, beside the store: for [`SnapshotTx`](crate::SnapshotTx) and
//! [`Latest`](crate::Latest).

use crate::heap::Heap;
use crate::record::Scratch;
use crate::store::Store;
use crate::tree::Fingers;

/// Apart from the store, so that a read can borrow that while it changes these. To clone the store's `Arc` for each read instead would
/// have all readers write to the cache line of its count.
pub(crate) struct Reader {
    pub heap: Heap,
    pub value: Scratch,
    pub fingers: Box<[Fingers]>,
}

impl Reader {
    /// Of `store`.
    pub fn new(store: &Store) -> Reader {
        Reader { heap: Heap::new(&store.heaps), fingers: store.fingers(), value: Scratch::default() }
    }
}

/// A pinned guard that is unpinned when it is dropped: also if the procedure panics that is shown what was found.
pub(crate) struct Pinned<'a>(&'a mut Heap);

impl<'a> Pinned<'a> {
    pub fn new(heap: &'a mut Heap) -> Pinned<'a> {
        heap.pin();
        Pinned(heap)
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        self.0.unpin();
    }
}
