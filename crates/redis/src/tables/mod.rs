//! Users' tables: typed keys in their order, bytes as values. `HW.TABLE` `HW.GET` `HW.PUT` `HW.DEL` `HW.RANGE`.
//!
//! The store's tables are part of the build, so users' tables are rows of one of them, [`TABLES`]:
//!
//! ```text
//! 0 | name            id u64 | types: u8 *      a table, by name
//! 1                   id u64                    the last id that was given
//! 2 | id u64 | key    value                     a row
//! ```
//!
//! Integers of rows are big endian. What a key looks like: [`key`].
//!
//! # Invariants
//!
//! - An id is given once: a table that is dropped and created again has another one, and none of the old rows.
//! - Keys of one table compare as their tuples do, column by column; no key is the beginning of another.
//! - Rows of an id that no table has belong to a dropped table, and there is a row in [`DUE`](super::keyspace::DUE) that has them removed.
//! - Every command on rows reads its table's row first: it conflicts with `DROP`, whichever comes first.

pub mod key;

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::Reader;
use highwater_core::{Abort, Direction, Transaction};

use super::errors::CommandError;
use super::keyspace::{Failure, Room};
use key::Type;

pub use super::schema::TABLES;

/// Longest name of a table, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Most columns of a key.
pub const MAX_COLUMNS: usize = 16;

const CATALOGUE: u8 = 0;
const LAST_ID: u8 = 1;
const ROWS: u8 = 2;
/// The row of the secret of cursors, which has nothing to do with users' tables, in a range that theirs leave free.
pub const CURSORS: &[u8] = &[3];

/// A table, as the catalogue has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its rows stand under it.
    pub id: u64,
    /// The columns of its keys.
    pub types: Vec<Type>,
}

impl Table {
    /// The table of this name.
    pub fn find<T: Transaction>(tx: &mut T, name: &[u8]) -> Result<Option<Table>, Abort> {
        if name.len() > MAX_NAME_BYTES {
            return Ok(None);
        }
        Ok(tx.get(TABLES, &catalogue_row(name))?.map(Table::decode))
    }

    /// Adds a table; `None` if there is one of this name.
    pub fn create<T: Transaction>(tx: &mut T, name: &[u8], types: Vec<Type>) -> Result<Option<Table>, Abort> {
        if Table::find(tx, name)?.is_some() {
            return Ok(None);
        }
        let last = tx.get(TABLES, &[LAST_ID])?.map_or(0, number);
        let id = last + 1;
        tx.put(TABLES, &[LAST_ID], &id.to_be_bytes())?;
        let table = Table { id, types };
        let mut row = id.to_be_bytes().to_vec();
        row.extend(table.types.iter().map(|of| of.byte()));
        tx.put(TABLES, &catalogue_row(name), &row)?;
        Ok(Some(table))
    }

    /// Takes a table's name away; its rows are not removed yet.
    pub fn forget<T: Transaction>(&self, tx: &mut T, name: &[u8]) -> Result<(), Abort> {
        tx.delete(TABLES, &catalogue_row(name)).map(drop)
    }

    /// Every table, by name.
    pub fn all<T: Transaction>(tx: &mut T, mut visit: impl FnMut(&[u8], Table)) -> Result<(), Abort> {
        let range = (Bound::Included(&[CATALOGUE][..]), Bound::Excluded(&[LAST_ID][..]));
        tx.scan(TABLES, range, Direction::Forward, |key, row| {
            visit(&key[1..], Table::decode(row));
            ControlFlow::Continue(())
        })
    }

    fn decode(row: &[u8]) -> Table {
        let types = row[8..].iter().map(|byte| Type::of(*byte).expect("the catalogue is written here alone"));
        Table { id: number(row), types: types.collect() }
    }

    /// What every row's key begins with.
    pub fn front(&self) -> Vec<u8> {
        front(self.id)
    }

    /// The key of a row, in words.
    pub fn row<'a>(&self, words: impl ExactSizeIterator<Item = &'a [u8]>) -> Result<Vec<u8>, CommandError> {
        if words.len() != self.types.len() {
            return Err(CommandError::KeyColumns(self.types.len()));
        }
        let mut row = self.front();
        for (of, word) in self.types.iter().zip(words) {
            of.encode(word, &mut row)?;
        }
        key::check(row)
    }

    /// Removes rows of a dropped table for which there is room, from this one on (from the first, if empty); the last of them, and whether they were all.
    pub fn sweep<T: Transaction>(
        tx: &mut T,
        id: u64,
        from: &[u8],
        room: &mut Room,
    ) -> Result<(Option<Vec<u8>>, bool), Failure> {
        let (first, end) = (front(id), key::behind(front(id)));
        let from = if from.is_empty() { &first } else { from };
        let (mut found, mut all): (Vec<Vec<u8>>, bool) = (Vec::new(), true);
        tx.scan(TABLES, (Bound::Included(from), Bound::Excluded(&end)), Direction::Forward, |row, value| {
            all = room.take(row.len() + value.len());
            if !all {
                return ControlFlow::Break(());
            }
            found.push(row.to_vec());
            ControlFlow::Continue(())
        })?;
        for row in &found {
            tx.delete(TABLES, row)?;
        }
        Ok((found.pop(), all))
    }
}

fn catalogue_row(name: &[u8]) -> Vec<u8> {
    [&[CATALOGUE], name].concat()
}

fn front(id: u64) -> Vec<u8> {
    [&[ROWS][..], &id.to_be_bytes()].concat()
}

fn number(row: &[u8]) -> u64 {
    Reader::new(row).array().map(u64::from_be_bytes).expect("the catalogue is written here alone")
}
