//! Up to which size `OBJECT ENCODING` calls a collection small: Redis's thresholds, which `CONFIG SET` changes.
//!
//! Nothing is stored differently for it; what depends on them is a mark in a collection's head that says that it has outgrown them. They are the
//! process's, not a node's, because they are looked at inside of transactions: replicas within one program share them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A threshold.
#[derive(Debug)]
pub struct Most(AtomicU64);

impl Most {
    const fn new(most: u64) -> Most {
        Most(AtomicU64::new(most))
    }

    /// The largest number that is still small.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Another one.
    pub fn set(&self, most: u64) {
        self.0.store(most, Ordering::Relaxed);
    }
}

/// The longest string that Redis keeps in its object; nothing changes it.
pub const MAX_EMBEDDED_BYTES: usize = 44;
/// Fields of a small hash.
pub static HASH_ENTRIES: Most = Most::new(512);
/// Bytes of a field or value of a small hash.
pub static HASH_BYTES: Most = Most::new(64);
/// Members of a small set, all of them integers.
pub static SET_ENTRIES: Most = Most::new(512);
/// Members of a small sorted set.
pub static SORTED_SET_ENTRIES: Most = Most::new(128);
/// Bytes of a member of a small sorted set.
pub static SORTED_SET_BYTES: Most = Most::new(64);
