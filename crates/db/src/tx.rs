//! A transaction, with typed tables.

use std::ops::{Bound, ControlFlow, Deref, DerefMut, RangeBounds};
use std::sync::Arc;

use highwater_core::transaction::KeyRange;
use highwater_core::{Abort, Direction, TableId, Transaction};

use crate::catalogue::Catalogue;
use crate::keys::Key;
use crate::tables::{Index, Ordered, Table};
use crate::values::Value;

type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// What of an engine's transaction is used, behind a pointer: closures are not compiled for each engine.
trait Raw {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort>;
    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort>;
    fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort>;
    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort>;
    fn scan(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), Abort>;
}

impl<T: Transaction> Raw for T {
    fn get(&mut self, table: TableId, key: &[u8]) -> Result<Option<&[u8]>, Abort> {
        Transaction::get(self, table, key)
    }

    fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<(), Abort> {
        Transaction::put(self, table, key, value)
    }

    fn insert(&mut self, table: TableId, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        Transaction::insert(self, table, key, value)
    }

    fn delete(&mut self, table: TableId, key: &[u8]) -> Result<bool, Abort> {
        Transaction::delete(self, table, key)
    }

    fn scan(
        &mut self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), Abort> {
        Transaction::scan(self, table, range, direction, visit)
    }
}

/// The part of a transaction that only reads. Every method may say that it cannot go on ([`Abort`]): pass that on with `?`. (Code that does not is
/// ended all the same.) What it may see of others': [`Transaction`].
///
/// Code that takes `&mut ReadTx<'_>` serves both [`Database::read`](crate::Database::read) and, because a [`Tx`] is one, transactions that
/// write. A `ReadTx` has no way to write:
///
/// ```compile_fail,E0599
/// # use highwater_db::{Database, Table};
/// # const COUNTS: Table<u64, u64> = Table::ordered(0, "counts");
/// # fn example(db: &Database) {
/// let _ = db.read(|tx| tx.put(COUNTS, &1, &2));
/// # }
/// ```
///
/// # Panics
/// All methods, if the table is not one that [`Builder::table`](crate::Builder::table) was told of, by its number, name and types; and if what
/// is there cannot be decoded. The transaction ends with [`Error::Failed`](crate::Error::Failed) then, and nothing is done.
pub struct ReadTx<'a> {
    raw: &'a mut dyn Raw,
    tables: Arc<Catalogue>,
    /// Why it cannot go on.
    ended: Option<Abort>,
    key: Vec<u8>,
}

/// A transaction under way: reads as a [`ReadTx`] does, sees its own writes, and writes.
pub struct Tx<'a> {
    reads: ReadTx<'a>,
    value: Vec<u8>,
}

impl<'a> Deref for Tx<'a> {
    type Target = ReadTx<'a>;

    fn deref(&self) -> &ReadTx<'a> {
        &self.reads
    }
}

impl<'a> DerefMut for Tx<'a> {
    fn deref_mut(&mut self) -> &mut ReadTx<'a> {
        &mut self.reads
    }
}

impl<'a> Tx<'a> {
    /// Typed tables for a procedure, over its transaction: those of any database that this process has opened.
    pub fn over<T: Transaction>(tx: &'a mut T) -> Tx<'a> {
        Tx::of(Catalogue::known(), tx)
    }

    /// The same with these tables.
    pub(crate) fn of<T: Transaction>(tables: Arc<Catalogue>, tx: &'a mut T) -> Tx<'a> {
        Tx { reads: ReadTx { raw: tx, tables, ended: None, key: Vec::new() }, value: Vec::new() }
    }

    /// Sets the value under a key, whether or not there is one.
    pub fn put<K: Key, V: Value, I: Index>(
        &mut self,
        table: Table<K, V, I>,
        key: &K::Ask,
        value: &V,
    ) -> Result<(), Abort> {
        self.encode_row(table, key, value);
        let put = self.reads.raw.put(table.id(), &self.reads.key, &self.value);
        self.keep(put)
    }

    /// Sets the value under a key that must not exist. `false`: it does, and nothing was written.
    pub fn insert<K: Key, V: Value, I: Index>(
        &mut self,
        table: Table<K, V, I>,
        key: &K::Ask,
        value: &V,
    ) -> Result<bool, Abort> {
        self.encode_row(table, key, value);
        let inserted = self.reads.raw.insert(table.id(), &self.reads.key, &self.value);
        self.keep(inserted)
    }

    /// Removes a key. `false`: there was none.
    pub fn delete<K: Key, V: Value, I: Index>(
        &mut self,
        table: Table<K, V, I>,
        key: &K::Ask,
    ) -> Result<bool, Abort> {
        self.encode_key(table, key);
        let deleted = self.reads.raw.delete(table.id(), &self.reads.key);
        self.keep(deleted)
    }

    fn encode_row<K: Key, V: Value, I: Index>(&mut self, table: Table<K, V, I>, key: &K::Ask, value: &V) {
        self.encode_key(table, key);
        self.value.clear();
        value.encode(&mut self.value);
    }
}

impl ReadTx<'_> {
    /// The value under a key, if there is one.
    pub fn get<K: Key, V: Value, I: Index>(
        &mut self,
        table: Table<K, V, I>,
        key: &K::Ask,
    ) -> Result<Option<V>, Abort> {
        self.encode_key(table, key);
        let found = self.raw.get(table.id(), &self.key);
        let found = found.map(|value| value.map(|value| value_of(table, value)));
        self.keep(found)
    }

    /// The rows of a range of keys in order, up to so many. Nobody adds or removes one of them, or one between them, before this
    /// transaction.
    ///
    /// ```no_run
    /// # use highwater_db::{Table, Tx, Abort};
    /// # const ORDERS: Table<(u64, u64), String> = Table::ordered(0, "orders");
    /// # fn example(tx: &mut Tx<'_>) -> Result<(), Abort> {
    /// let of_customer_7 = tx.scan(ORDERS, (7, 0)..(8, 0), usize::MAX)?;
    /// let first_ten = tx.scan(ORDERS, .., 10)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<K: Key + std::borrow::Borrow<K::Ask>, V: Value>(
        &mut self,
        table: Table<K, V, Ordered>,
        range: impl RangeBounds<K>,
        limit: usize,
    ) -> Result<Vec<(K, V)>, Abort> {
        self.rows(table, &range, Direction::Forward, limit)
    }

    /// The same from the range's end.
    pub fn scan_back<K: Key + std::borrow::Borrow<K::Ask>, V: Value>(
        &mut self,
        table: Table<K, V, Ordered>,
        range: impl RangeBounds<K>,
        limit: usize,
    ) -> Result<Vec<(K, V)>, Abort> {
        self.rows(table, &range, Direction::Backward, limit)
    }

    /// Why it cannot go on, if it cannot: what its code says after that does not count.
    pub(crate) fn ended(&self) -> Option<Abort> {
        self.ended
    }

    fn rows<K: Key + std::borrow::Borrow<K::Ask>, V: Value>(
        &mut self,
        table: Table<K, V, Ordered>,
        range: &impl RangeBounds<K>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<(K, V)>, Abort> {
        self.tables.check(table);
        let mut rows = Vec::new();
        let (from, to) = (bound::<K>(range.start_bound()), bound::<K>(range.end_bound()));
        let range = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
        if limit == 0 || is_empty(range) {
            return Ok(rows);
        }
        let mut visit = |key: &[u8], value: &[u8]| {
            let key =
                K::decode(key).unwrap_or_else(|| panic!("{table:?} has a key that is none of its type"));
            rows.push((key, value_of(table, value)));
            if rows.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let scanned = self.raw.scan(table.id(), range, direction, &mut visit);
        self.keep(scanned)?;
        Ok(rows)
    }

    fn keep<R>(&mut self, result: Result<R, Abort>) -> Result<R, Abort> {
        if let Err(abort) = result {
            self.ended.get_or_insert(abort);
        }
        result
    }

    /// The place of a table that there is.
    fn encode_key<K: Key, V: Value, I: Index>(&mut self, table: Table<K, V, I>, key: &K::Ask) {
        self.tables.check(table);
        self.key.clear();
        K::encode(key, &mut self.key);
    }
}

fn value_of<K: Key, V: Value, I: Index>(table: Table<K, V, I>, bytes: &[u8]) -> V {
    V::decode(bytes).unwrap_or_else(|| panic!("{table:?} has a value that is none of its type"))
}

fn bound<K: Key + std::borrow::Borrow<K::Ask>>(bound: Bound<&K>) -> Bound<Vec<u8>> {
    bound.map(|key| {
        let mut bytes = Vec::new();
        K::encode(key.borrow(), &mut bytes);
        bytes
    })
}

/// Of a range that begins behind its end there is nothing, and nobody is asked.
fn is_empty(range: KeyRange<'_>) -> bool {
    match range {
        (Bound::Included(from), Bound::Included(to)) => from > to,
        (Bound::Included(from) | Bound::Excluded(from), Bound::Excluded(to) | Bound::Included(to)) => {
            from >= to
        }
        _ => false,
    }
}
