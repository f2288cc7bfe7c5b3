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

impl From<Key<'_>> for GraveKey {
    fn from(key: Key<'_>) -> GraveKey {
        match key {
            Key::U64(key) => GraveKey::U64(key),
            Key::Bytes(key) => GraveKey::Bytes(key.into()),
        }
    }
}
