//! What a transaction has seen of an index where a key was absent.

use crate::sync::{AtomicU64, Ordering};

/// The version of a bucket or leaf: it changes with every key that comes or goes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeSeen {
    /// Valid while the guard is pinned under which the node was found.
    pub version: *const AtomicU64,
    pub seen: u64,
}

impl NodeSeen {
    /// Whether the node is still as it was seen.
    #[inline]
    pub fn unchanged(&self) -> bool {
        // SAFETY: the field's invariant. Acquire; pairs with the Release that published a later version.
        unsafe { &*self.version }.load(Ordering::Acquire) == self.seen
    }
}
