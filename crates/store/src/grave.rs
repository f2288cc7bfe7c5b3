//! A tombstone that somebody has to unlink.

use highwater_core::log::Key;
use highwater_core::{TableId, Timestamp};

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

impl GraveKey {
    /// Hands out the bytes that callers know it by.
    pub fn with<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            GraveKey::U64(key) => then(&key.to_be_bytes()),
            GraveKey::Bytes(key) => then(key),
        }
    }
}

impl From<Key<'_>> for GraveKey {
    fn from(key: Key<'_>) -> GraveKey {
        match key {
            Key::U64(key) => GraveKey::U64(key),
            Key::Bytes(key) => GraveKey::Bytes(key.into()),
        }
    }
}
