//! What a scan passed: it travels with the transaction, so that a replica can tell whether the range is still as it was.

use std::ops::ControlFlow;

use highwater_core::Timestamp;
use highwater_core::codec::put_bytes;

use crate::validation::payload::put_version;

/// What a scan passed.
#[derive(Default)]
pub(super) struct Passed {
    /// Records of the store, encoded.
    pub items: Vec<u8>,
    pub count: u64,
    /// The latest version among them.
    pub seen: Timestamp,
    /// The last key that was visited.
    pub last: Option<Vec<u8>>,
    /// The visit ended there.
    pub broke: bool,
    /// So many more may be remembered.
    pub room: usize,
    /// And in so many bytes.
    pub room_bytes: usize,
    pub full: bool,
}

impl Passed {
    /// Remembers a record; whether that was one too many.
    pub fn take(&mut self, key: &[u8], version: Timestamp, deleted: bool) -> bool {
        self.full = self.count as usize >= self.room || self.items.len() >= self.room_bytes;
        if !self.full {
            put_bytes(&mut self.items, key);
            put_version(&mut self.items, version, deleted);
            self.count += 1;
            self.seen = self.seen.max(version);
        }
        self.full
    }

    /// Shows a pair, if it is one; whether the visit ends there.
    pub fn show(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
        visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> bool {
        if let Some(value) = value {
            self.broke = visit(key, value).is_break();
            if self.broke {
                self.last = Some(key.to_vec());
            }
        }
        self.broke
    }
}
