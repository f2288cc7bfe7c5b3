//! Which tables a program has, so that none is taken for another.
//!
//! A table is a number in the store, and a name and types in the program. Three comparisons keep them together:
//!
//! - *In the process*: each access compares the table's name and types with what [`Builder::table`](crate::Builder::table) was told under
//!   that number. A closure's tables are those of its database, a procedure's those of any database that this process has opened.
//! - *With what is stored*: before the first transaction of a database the procedure [`Agree`] compares the program's tables with the rows of
//!   the catalogue, a table of its own, and adds rows for those that it has none of. The rows are replicated, and on the disks.
//! - *With a checkpoint*: names and kinds of keys, as the store itself does.
//!
//! A row has what outlives a program's types: the table's name, index and kind of keys, and the [codecs](crate::Key::codec) of keys and
//! values. Names of Rust's types are not in it: they change when a program is tidied up. See docs/decisions/0041.

use std::any::TypeId;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use highwater_core::library::FIRST_PROGRAM_TABLE;
use highwater_core::{Abort, IndexKind, KeyKind, Procedure, TableId, TableSpec, Transaction};

use crate::keys::Key;
use crate::tables::{Index, Table};
use crate::values::Value;

/// The table that has the rows: the first behind the product's. Keys are numbers of tables.
pub const CATALOGUE: TableId = TableId(FIRST_PROGRAM_TABLE);

/// As the store describes it.
pub const CATALOGUE_SPEC: TableSpec =
    TableSpec { name: "catalogue", keys: KeyKind::U64, index: IndexKind::Hash };

/// One table of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub number: u8,
    /// As the store describes it.
    pub spec: TableSpec,
    /// The kinds of keys, values and index.
    types: TypeId,
    /// As people read it, and as the row has it.
    shape: String,
}

impl Entry {
    /// A program's word on a table.
    pub fn of<K: Key, V: Value, I: Index>(table: Table<K, V, I>) -> Entry {
        Entry {
            number: table.number(),
            spec: table.spec(),
            types: TypeId::of::<(K, V, I)>(),
            shape: shape(table),
        }
    }
}

/// A table in words.
fn shape<K: Key, V: Value, I: Index>(table: Table<K, V, I>) -> String {
    let index = match I::KIND {
        IndexKind::Hash => "hashed",
        IndexKind::Ordered => "ordered",
    };
    let keys = match K::KIND {
        KeyKind::U64 => " in 8 bytes",
        KeyKind::Bytes => "",
    };
    // A line each: see `Catalogue::args`.
    let codec = |codec: String| codec.replace(char::is_control, " ");
    format!("{:?} ({index}, keys {}{keys}, values {})", table.name(), codec(K::codec()), codec(V::codec()))
}

/// The tables of a program, by number; of several programs in a process, all that have the number.
#[derive(Clone, Debug, Default)]
pub struct Catalogue(Vec<Vec<Entry>>);

/// All that any database of this process was told.
static KNOWN: RwLock<Option<Arc<Catalogue>>> = RwLock::new(None);

impl Catalogue {
    /// The tables of one program, in the order of their numbers.
    pub fn of(entries: Vec<Entry>) -> Catalogue {
        Catalogue(entries.into_iter().map(|entry| vec![entry]).collect())
    }

    /// All that any database of this process was told.
    pub fn known() -> Arc<Catalogue> {
        KNOWN.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
    }

    /// Has procedures know it, too.
    pub fn share(&self) {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = known.as_deref().cloned().unwrap_or_default();
        all.0.resize(all.0.len().max(self.0.len()), Vec::new());
        for (place, entries) in all.0.iter_mut().zip(&self.0) {
            let new = entries.iter().filter(|entry| !place.contains(entry)).cloned().collect::<Vec<_>>();
            place.extend(new);
        }
        *known = Some(Arc::new(all));
    }

    /// Looks whether the table is one of these.
    ///
    /// # Panics
    /// If it is not: with what is there under its number. A panic of a procedure is contained, and its transaction fails with these words.
    #[inline]
    pub fn check<K: Key, V: Value, I: Index>(&self, table: Table<K, V, I>) {
        let entries = self.0.get(usize::from(table.number())).map_or(&[][..], Vec::as_slice);
        let types = TypeId::of::<(K, V, I)>();
        if !entries.iter().any(|entry| entry.types == types && entry.spec.name == table.name()) {
            refuse(table.number(), &shape(table), entries);
        }
    }

    /// The arguments of [`Agree`]: of each table its number, and its shape in words, a line each.
    pub fn args(&self) -> Vec<u8> {
        let lines = self.0.iter().flatten().map(|entry| format!("{} {}\n", entry.number, entry.shape));
        lines.collect::<String>().into_bytes()
    }
}

#[cold]
fn refuse(number: u8, asked: &str, entries: &[Entry]) -> ! {
    match entries.first() {
        None => panic!("table {number}, {asked}, is not known: give it to Builder::table"),
        Some(Entry { shape, .. }) => panic!(
            "table {number} is {shape}, and was asked for as {asked}: give each table a number of its own, and one constant"
        ),
    }
}

/// Compares the tables of a program with what was stored of them, and stores what is new.
pub struct Agree;

impl Procedure for Agree {
    const NAME: &'static str = "local.catalogue";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        for (key, shape) in compare(tx, args, reply)? {
            tx.put(CATALOGUE, &key, shape.as_bytes())?;
        }
        Ok(())
    }
}

/// The reply of [`Compare`] if no row is missing.
pub const ALL: &[u8] = b"all";

/// The same for snapshots: stores nothing.
pub struct Compare;

impl Procedure for Compare {
    const NAME: &'static str = "local.compare";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        if compare(tx, args, reply)?.is_empty() {
            reply.extend_from_slice(ALL);
        }
        Ok(())
    }
}

/// The rows that are missing.
fn compare<'a, T: Transaction>(
    tx: &mut T,
    args: &'a [u8],
    reply: &mut Vec<u8>,
) -> Result<Vec<([u8; 8], &'a str)>, Abort> {
    let mut missing = Vec::new();
    for line in str::from_utf8(args).map_err(|_| Abort::BadRequest)?.lines() {
        let (number, shape) = line.split_once(' ').ok_or(Abort::BadRequest)?;
        let number: u8 = number.parse().map_err(|_| Abort::BadRequest)?;
        let key = u64::from(number).to_be_bytes();
        match tx.get(CATALOGUE, &key)? {
            None => missing.push((key, shape)),
            Some(stored) if stored == shape.as_bytes() => {}
            Some(stored) => {
                let other = Other { number, stored: &String::from_utf8_lossy(stored), asked: shape };
                reply.extend_from_slice(other.to_string().as_bytes());
                return Err(Abort::BadRequest);
            }
        }
    }
    Ok(missing)
}

struct Other<'a> {
    number: u8,
    stored: &'a str,
    asked: &'a str,
}

impl fmt::Display for Other<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Other { number, stored, asked } = self;
        write!(
            f,
            "table {number} was written as {stored}, and this program has {asked} under that number: give the new table a new number, or \
             open the data with the program that wrote them"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Hashed, Ordered};

    const COUNTS: Table<String, i64, Hashed> = Table::hashed(0, "counts");
    const PAIRS: Table<(u64, String), Vec<u8>, Ordered> = Table::ordered(1, "pairs");

    struct Odd;
    impl Value for Odd {
        fn codec() -> String {
            "odd\n1 x".into()
        }
        fn encode(&self, _: &mut Vec<u8>) {}
        fn decode(_: &[u8]) -> Option<Odd> {
            Some(Odd)
        }
    }
    const ODD: Table<u64, Odd> = Table::ordered(0, "a\nb");

    #[test]
    fn shapes_are_what_disks_remember() {
        // Data that were written before are refused if one of these changes.
        let args =
            String::from_utf8(Catalogue::of(vec![Entry::of(COUNTS), Entry::of(PAIRS)]).args()).unwrap();
        let odd = String::from_utf8(Catalogue::of(vec![Entry::of(ODD)]).args()).unwrap();
        assert_eq!(odd, "0 \"a\\nb\" (ordered, keys u64 in 8 bytes, values odd 1 x)\n");
        assert_eq!(
            args,
            "0 \"counts\" (hashed, keys string, values i64)\n1 \"pairs\" (ordered, keys (u64, string), values bytes)\n"
        );
    }

    #[test]
    fn programs_of_one_process_may_differ_in_their_tables() {
        const OTHERS: Table<u64, bool> = Table::ordered(1, "others");
        Catalogue::of(vec![Entry::of(COUNTS), Entry::of(PAIRS)]).share();
        Catalogue::of(vec![Entry::of(COUNTS), Entry::of(OTHERS)]).share();
        let known = Catalogue::known();
        known.check(COUNTS);
        known.check(PAIRS);
        known.check(OTHERS);
        assert_eq!(known.0.iter().map(Vec::len).collect::<Vec<_>>()[..2], [1, 2]);
    }
}
