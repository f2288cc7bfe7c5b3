//! Libraries: the tables and procedures that a replica hosts, and how the product's stand beside a program's.
//!
//! | ids | tables |
//! |---|---|
//! | 0 to 63 | the product's own, and places for more of them: [reserved](RESERVED) |
//! | from 64 on | those of whatever a node is started with: a program, or the workloads |
//!
//! The log names tables by number, and a later build of the product finds a program's tables where they were. So a program's library has [`RESERVED`]
//! in the places of the product ([`program_tables`]), and [`With`] puts the two together. Both are part of a cluster's configuration: nodes that host
//! other tables or procedures refuse each other.

use crate::procedure::Registry;
use crate::schema::{IndexKind, KeyKind, Schema, TableSpec};
use crate::transaction::Transaction;

/// The first table of a program.
pub const FIRST_PROGRAM_TABLE: u8 = 64;

/// The name of a table that nobody writes, in a place that is kept for a later build's.
pub const RESERVED: &str = "reserved";

/// A set of tables and of procedures over them, that any engine can host.
pub trait Library: Send + Sync {
    /// The tables, in the order of their ids.
    fn tables(&self) -> Vec<TableSpec>;

    /// Those and any that came with a later [level](crate::level).
    fn schema(&self) -> Schema {
        Schema::new(self.tables())
    }

    /// Registers every procedure, always in the same order: ids are part of the cluster's configuration.
    fn register<T: Transaction>(&self, registry: &mut Registry<T>);
}

/// The tables of a program, behind the places of the product's.
pub fn program_tables(tables: impl IntoIterator<Item = TableSpec>) -> Vec<TableSpec> {
    let places = std::iter::repeat_n(reserved(), FIRST_PROGRAM_TABLE.into());
    places.chain(tables).collect()
}

fn reserved() -> TableSpec {
    TableSpec { name: RESERVED, keys: KeyKind::U64, index: IndexKind::Hash }
}

/// The product and a program: the tables of the first in the places that the second leaves to it, and the procedures of both, in this order.
#[derive(Clone, Copy, Debug, Default)]
pub struct With<A, B>(pub A, pub B);

impl<A: Library, B: Library> Library for With<A, B> {
    /// # Panics
    /// If the product has more tables than there is room for, or a program has one in a place of the product's.
    fn tables(&self) -> Vec<TableSpec> {
        let (mut tables, program) = (self.0.tables(), self.1.tables());
        let (places, own) = program.split_at_checked(FIRST_PROGRAM_TABLE.into()).unwrap_or((&program, &[]));
        assert!(
            tables.len() <= FIRST_PROGRAM_TABLE.into(),
            "programs leave room for {FIRST_PROGRAM_TABLE} tables"
        );
        assert!(
            places.iter().all(|table| *table == reserved()),
            "a program's tables stand from {FIRST_PROGRAM_TABLE} on"
        );
        tables.resize(FIRST_PROGRAM_TABLE.into(), reserved());
        tables.extend(own.iter().cloned());
        tables
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        self.0.register(registry);
        self.1.register(registry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tables(Vec<&'static str>, bool);

    impl Library for Tables {
        fn tables(&self) -> Vec<TableSpec> {
            let own = self.0.iter().map(|name| TableSpec { name, ..reserved() });
            if self.1 { program_tables(own) } else { own.collect() }
        }

        fn register<T: Transaction>(&self, _: &mut Registry<T>) {}
    }

    #[test]
    fn a_programs_tables_stand_behind_the_places_of_the_products() {
        let tables = With(Tables(vec!["a", "b"], false), Tables(vec!["c", "d"], true)).tables();
        let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
        assert_eq!(names.len(), 66);
        assert_eq!((names[0], names[1], names[64], names[65]), ("a", "b", "c", "d"));
        assert!(names[2..64].iter().all(|name| *name == RESERVED));
    }

    #[test]
    #[should_panic(expected = "stand from 64 on")]
    fn a_program_has_no_table_in_a_place_of_the_products() {
        let _ = With(Tables(vec!["a"], false), Tables(vec!["c"], false)).tables();
    }
}
