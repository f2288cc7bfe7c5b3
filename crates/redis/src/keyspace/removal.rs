//! How keys go, and the rows of collections with them: at once, or some of them, and the [`sweep`](super::sweep) removes the rest.

use std::ops::ControlFlow;

use highwater_core::{Direction, TableId, Transaction};

use super::head::{Head, Row};
use super::{DUE, Done, ELEMENTS, Failure, ITEMS, KEYSPACE, Keyspace, NAMES, Room, rows, sweep};

/// Up to so many elements of a collection that goes are removed with it, of as many such as a transaction names.
const REMOVED_AT_ONCE: usize = 64;
/// So many rows of larger ones are removed by the transaction in which they go, of 32 KiB ([`Room`]): whoever makes garbage pays for a part of it.
/// The [`sweep`](super::sweep) removes the rest.
pub const PAID_AT_ONCE: usize = 1024;

impl<T: Transaction> Keyspace<'_, T> {
    /// Removes a key; whether there was one. One that had expired is removed, too, and was none.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool, Failure> {
        let Some(head) = self.remove_rows(key)? else { return Ok(false) };
        self.drop_elements(&head)?;
        Ok(!head.is_expired(self.moment.unix_ms))
    }

    /// Removes a key, and leaves the rows of a collection to the sweep; whether there are any.
    pub(super) fn remove_later(&mut self, key: &[u8]) -> Result<bool, Failure> {
        self.remove_within(key, &mut Room::of(0))
    }

    /// Removes a key, and the rows of a collection for which there is room; whether it leaves any to the sweep.
    pub(super) fn remove_within(&mut self, key: &[u8], room: &mut Room) -> Result<bool, Failure> {
        match self.remove_rows(key)? {
            Some(head) if head.id != 0 => Ok(!self.drop_within(&head, room)?),
            _ => Ok(false),
        }
    }

    /// Removes keys for which there is room, of the names from this hash on; the hash from which on there are more. Rows of collections are left
    /// to the sweep.
    pub fn remove_some(&mut self, from: u64, most: usize, room: &mut Room) -> Result<Option<u64>, Failure> {
        let (mut names, mut next) = (Vec::new(), None);
        self.names(from, |hash, name| {
            if names.len() == most {
                next = Some(hash);
                return ControlFlow::Break(());
            }
            names.push((hash, name));
            ControlFlow::Continue(())
        })?;
        for (hash, name) in names {
            let value = self.tx.get(KEYSPACE, &name)?.map_or(0, <[u8]>::len);
            if !room.take(3 * name.len() + value) {
                return Ok(Some(hash));
            }
            self.remove_later(&name)?;
        }
        Ok(next)
    }

    /// Removes the rows of a key itself; what stood there.
    fn remove_rows(&mut self, key: &[u8]) -> Result<Option<Head>, Failure> {
        let Some(row) = self.tx.get(KEYSPACE, key)? else { return Ok(None) };
        let head = Row::decode(row).head;
        self.tx.delete(KEYSPACE, key)?;
        self.tx.delete(NAMES, &rows::name_row(key))?;
        self.forget_deadline(key, head.deadline)?;
        Ok(Some(head))
    }

    /// The rows of a collection that is gone: at once, or some of them, and the others are left to the sweep.
    ///
    /// Invariant: no transaction leaves rows to the sweep before it has removed as many as it may. So garbage comes no faster than whoever makes it
    /// removes a part of it.
    pub(super) fn drop_elements(&mut self, head: &Head) -> Done {
        if head.id == 0 {
            return Ok(());
        }
        if head.count <= REMOVED_AT_ONCE as u64 {
            return self.drop_within(head, &mut Room::of(2 * REMOVED_AT_ONCE)).map(drop);
        }
        let mut room = self.paying;
        self.drop_within(head, &mut room)?;
        self.paying = room;
        Ok(())
    }

    /// Removes rows of a collection that is gone, for which there is room, and leaves the others to the sweep; whether that was all.
    fn drop_within(&mut self, head: &Head, room: &mut Room) -> Result<bool, Failure> {
        let (table, due) = garbage(head);
        let (dropped, all) = self.drop_some(table, head.id, &rows::collection_start(head.id), room)?;
        if !all {
            self.tx.put(DUE, &due, dropped.last().map_or(&[][..], |last| sweep::noted(last)))?;
        }
        Ok(all)
    }

    /// Rows of a collection, from this one on, while there is room; and whether they are all.
    fn find_some(
        &mut self,
        table: TableId,
        id: u64,
        from: &[u8],
        room: &mut Room,
    ) -> Result<(Vec<Vec<u8>>, bool), Failure> {
        let (mut found, mut all) = (Vec::new(), true);
        self.scan(table, from, &rows::collection_end(id), Direction::Forward, |row, value| {
            all = room.take(row.len() + value.len());
            if !all {
                return ControlFlow::Break(());
            }
            found.push(row.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok((found, all))
    }

    /// Removes rows of a collection for which there is room, from this one on; which they were, and whether they were all.
    pub(super) fn drop_some(
        &mut self,
        table: TableId,
        id: u64,
        from: &[u8],
        room: &mut Room,
    ) -> Result<(Vec<Vec<u8>>, bool), Failure> {
        let (found, all) = self.find_some(table, id, from, room)?;
        for row in &found {
            self.tx.delete(table, row)?;
        }
        Ok((found, all))
    }
}

/// The place of a collection's rows, and the row that has the sweep remove them.
fn garbage(head: &Head) -> (TableId, [u8; 17]) {
    match head.has_items() {
        true => (ITEMS, rows::items_garbage_row(head.id)),
        false => (ELEMENTS, rows::garbage_row(head.id)),
    }
}
