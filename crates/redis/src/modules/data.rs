//! What a procedure of a module may do to the data: users' tables by the bytes of their keys, strings of the Redis keyspace by their names.
//! Everything else goes through [`Host::call`](crate::scripts::bridge::Host::call), as a script's commands do.

use std::ops::{Bound, ControlFlow};

use highwater_core::limits::MAX_KEY_BYTES;
use highwater_core::{Abort, Direction, Transaction};

use crate::commands::scripts::Commands;
use crate::errors::CommandError;
use crate::keyspace::{Done, Failure, check_key, check_value};
use crate::tables::{TABLES, Table, key};

/// Visits what is read.
pub type Take<'a> = &'a mut dyn FnMut(&[u8]);
/// Visits rows of a table, by the bytes of their keys.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// See the module.
pub trait Data {
    /// A number by the request's chance.
    fn random(&mut self) -> u64;

    /// The table of this name.
    fn table(&mut self, name: &[u8]) -> Result<Option<Table>, Abort>;

    /// The value of a row; whether there is one.
    fn get(&mut self, table: &Table, key: &[u8], take: Take<'_>) -> Result<bool, Failure>;

    /// Sets a row.
    fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Done;

    /// Deletes a row; whether there was one.
    fn delete(&mut self, table: &Table, key: &[u8]) -> Result<bool, Failure>;

    /// Visits rows in order. The keys are between two cuts, of any bytes; `to`: `None` is behind all of them.
    fn scan(
        &mut self,
        table: &Table,
        range: (&[u8], Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Done;

    /// The value of a string; whether there is one.
    fn string(&mut self, key: &[u8], take: Take<'_>) -> Result<bool, Failure>;

    /// Sets a string, as `SET` does.
    fn set_string(&mut self, key: &[u8], value: &[u8]) -> Done;

    /// Deletes a key, whatever it holds; whether there was one.
    fn delete_key(&mut self, key: &[u8]) -> Result<bool, Failure>;
}

impl<T: Transaction> Data for Commands<'_, '_, T> {
    fn random(&mut self) -> u64 {
        self.keyspace.random().bits()
    }

    fn table(&mut self, name: &[u8]) -> Result<Option<Table>, Abort> {
        Table::find(self.keyspace.transaction(), name)
    }

    fn get(&mut self, table: &Table, key: &[u8], take: Take<'_>) -> Result<bool, Failure> {
        let value = self.keyspace.transaction().get(TABLES, &row_of(table, key)?)?;
        Ok(value.map(take).is_some())
    }

    fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Done {
        check_value(value.len())?;
        Ok(self.keyspace.transaction().put(TABLES, &row_of(table, key)?, value)?)
    }

    fn delete(&mut self, table: &Table, key: &[u8]) -> Result<bool, Failure> {
        Ok(self.keyspace.transaction().delete(TABLES, &row_of(table, key)?)?)
    }

    fn scan(
        &mut self,
        table: &Table,
        (from, to): (&[u8], Option<&[u8]>),
        direction: Direction,
        visit: Visit<'_>,
    ) -> Done {
        let front = table.front();
        let cut = |bytes: &[u8]| key::check([&front, bytes].concat());
        let from = cut(from)?;
        let to = to.map_or_else(|| Ok(key::behind(front.clone())), cut)?;
        if from >= to {
            return Ok(());
        }
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let visit = |key: &[u8], value: &[u8]| visit(&key[front.len()..], value);
        Ok(self.keyspace.transaction().scan(TABLES, range, direction, visit)?)
    }

    fn string(&mut self, key: &[u8], take: Take<'_>) -> Result<bool, Failure> {
        check_key(key)?;
        Ok(self.keyspace.get(key)?.map(take).is_some())
    }

    fn set_string(&mut self, key: &[u8], value: &[u8]) -> Done {
        check_key(key)?;
        check_value(value.len())?;
        self.keyspace.set(key, value)
    }

    fn delete_key(&mut self, key: &[u8]) -> Result<bool, Failure> {
        check_key(key)?;
        self.keyspace.remove(key)
    }
}

/// The row of a key that a module put together: it has to be one of the table.
fn row_of(table: &Table, bytes: &[u8]) -> Result<Vec<u8>, CommandError> {
    if bytes.len() > MAX_KEY_BYTES {
        return Err(CommandError::TableKeyTooLong);
    }
    if !key::is_key(&table.types, bytes) {
        return Err(CommandError::KeyBytes);
    }
    let mut row = table.front();
    row.extend_from_slice(bytes);
    key::check(row)
}
