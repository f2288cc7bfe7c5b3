//! Keys at which transactions meet, as people read them.

use highwater_seam::hot::{Hot, HotKey as Key};
use serde::{Deserialize, Serialize};

use super::slow::shown;
use crate::keyspace::{KEYSPACE, NAMES};

/// A key at which transactions meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HotKey {
    pub table: String,
    /// As people read it, its first 256 bytes at most; of a key of Redis's, that.
    pub key: String,
    /// Attempts that failed there, at most,
    pub conflicts: u64,
    /// and by how many that may be too many.
    pub error: u64,
}

impl HotKey {
    /// `tables`: names by id.
    pub fn of(hot: Hot, tables: &[&str]) -> HotKey {
        let key = match &hot.key {
            Key::U64(number) => number.to_string(),
            Key::Bytes(bytes) if hot.table == KEYSPACE => shown(bytes),
            // In front of a name stands its hash.
            Key::Bytes(bytes) if hot.table == NAMES && bytes.len() >= 8 => shown(&bytes[8..]),
            Key::Bytes(bytes) => shown(bytes),
        };
        let table = tables
            .get(usize::from(hot.table.0))
            .map_or_else(|| hot.table.0.to_string(), |name| name.to_string());
        HotKey { table, key, conflicts: hot.met, error: hot.error }
    }
}
