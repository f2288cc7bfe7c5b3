//! Where a transaction reads.

use std::ops::ControlFlow;

use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, TableId, TableSpec, Timestamp};
use highwater_store::{Latest, Version};

/// Where a transaction reads: whatever shows the newest committed versions, one at a time. Two readings need not be of one moment:
/// replicas validate what was read.
pub trait Source {
    /// What a table is like; `None`: there is no such table.
    fn spec(&self, table: TableId) -> Option<&TableSpec>;

    /// What stands under a key.
    ///
    /// # Errors
    /// [`Abort::BadRequest`], if there is no such table or the key is none of its keys; [`Abort::Conflict`], if it cannot be read now.
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Version<'_>, Abort>;

    /// The same without the value: the timestamp, and whether the key exists.
    ///
    /// # Errors
    /// As [`get`](Source::get).
    fn version(&mut self, table: TableId, key: &[u8]) -> Result<(Timestamp, bool), Abort>;

    /// For a key without a trace: no later than this it was deleted, as far as is known here.
    fn gone(&self, table: TableId, key: &[u8]) -> Timestamp {
        let _ = (table, key);
        Timestamp::ZERO
    }

    /// Visits the records of a range of an ordered table in order, tombstones included, until `visit` breaks.
    ///
    /// # Errors
    /// As [`get`](Source::get).
    fn scan(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: impl FnMut(&[u8], Version<'_>) -> ControlFlow<()>,
    ) -> Result<(), Abort>;
}

impl Source for Latest {
    fn spec(&self, table: TableId) -> Option<&TableSpec> {
        self.store().schema().get(table)
    }

    #[inline]
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Version<'_>, Abort> {
        Latest::get(self, table, key)
    }

    #[inline]
    fn version(&mut self, table: TableId, key: &[u8]) -> Result<(Timestamp, bool), Abort> {
        Latest::version(self, table, key)
    }

    fn gone(&self, table: TableId, key: &[u8]) -> Timestamp {
        Latest::gone(self, table, key)
    }

    #[inline]
    fn scan(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: impl FnMut(&[u8], Version<'_>) -> ControlFlow<()>,
    ) -> Result<(), Abort> {
        Latest::scan(self, table, range, direction, visit)
    }
}
