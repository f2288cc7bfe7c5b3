//! A program's own tables.

use std::fmt;
use std::marker::PhantomData;

use highwater_core::library::FIRST_PROGRAM_TABLE;
use highwater_core::{IndexKind, TableId, TableSpec};

use crate::keys::Key;
use crate::values::Value;

/// The first table of a program, by id. Those before it are the product's own, with room for more to come, and the
/// catalogue: what a program wrote to disk is found again by later builds.
pub const FIRST_TABLE: u8 = FIRST_PROGRAM_TABLE + 1;
/// How many tables a program may have.
pub const MAX_TABLES: u8 = 128;

/// Table `number` of the program, for procedures that do without types.
///
/// # Panics
/// If it is not below [`MAX_TABLES`]: at compile time, in a constant.
pub const fn table_id(number: u8) -> TableId {
    assert!(number < MAX_TABLES, "a program's tables have numbers below MAX_TABLES");
    TableId(FIRST_TABLE + number)
}

/// How rows are found: by their key only, in one or two cache lines.
#[derive(Clone, Copy, Debug)]
pub struct Hashed;

/// How rows are found: by their key, and in order.
#[derive(Clone, Copy, Debug)]
pub struct Ordered;

/// What a table can do.
pub trait Index: 'static {
    /// As the store calls it.
    const KIND: IndexKind;
}

impl Index for Hashed {
    const KIND: IndexKind = IndexKind::Hash;
}

impl Index for Ordered {
    const KIND: IndexKind = IndexKind::Ordered;
}

/// A table of rows `V` by keys `K`: a constant of the program, and a number. The tables of a program are numbered 0, 1, 2, ..; number,
/// types and index stay the same for as long as there are disks that know them.
pub struct Table<K, V, I = Ordered> {
    number: u8,
    name: &'static str,
    #[allow(clippy::type_complexity, reason = "it says what it stands for")]
    types: PhantomData<fn() -> (K, V, I)>,
}

impl<K, V, I> Clone for Table<K, V, I> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V, I> Copy for Table<K, V, I> {}

impl<K, V, I> fmt::Debug for Table<K, V, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {} ({})", self.number, self.name)
    }
}

impl<K: Key, V: Value> Table<K, V, Ordered> {
    /// One that can be scanned.
    ///
    /// # Panics
    /// If the number is not below [`MAX_TABLES`]: at compile time, in a constant.
    pub const fn ordered(number: u8, name: &'static str) -> Self {
        Table { number: table_id(number).0 - FIRST_TABLE, name, types: PhantomData }
    }
}

impl<K: Key, V: Value> Table<K, V, Hashed> {
    /// One that cannot, and is faster.
    ///
    /// # Panics
    /// If the number is not below [`MAX_TABLES`]: at compile time, in a constant.
    pub const fn hashed(number: u8, name: &'static str) -> Self {
        Table { number: table_id(number).0 - FIRST_TABLE, name, types: PhantomData }
    }
}

impl<K: Key, V: Value, I: Index> Table<K, V, I> {
    /// Its number among the program's tables.
    pub const fn number(self) -> u8 {
        self.number
    }

    /// Its id in the store.
    pub const fn id(self) -> TableId {
        table_id(self.number)
    }

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// As the store describes it.
    pub const fn spec(self) -> TableSpec {
        TableSpec { name: self.name, keys: K::KIND, index: I::KIND }
    }
}
