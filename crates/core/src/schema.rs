//! Tables: how their keys are stored and which index finds them.

use crate::ids::TableId;
use crate::level::Level;

/// How a table stores its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Exactly 8 bytes, big endian: compared and hashed as one integer.
    U64,
    /// Any bytes, up to [`MAX_KEY_BYTES`](crate::limits::MAX_KEY_BYTES).
    Bytes,
}

/// How a table finds its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// One or two cache lines a lookup; no scans.
    Hash,
    /// Range scans both ways.
    Ordered,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSpec {
    /// For people and reports.
    pub name: &'static str,
    /// How keys are stored.
    pub keys: KeyKind,
    /// How records are found.
    pub index: IndexKind,
}

/// All tables, by id. The same on every replica, but for those of a later level: the log names tables by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    tables: Vec<TableSpec>,
    /// Of each level that added some, how many there were before.
    added: Vec<(Level, usize)>,
}

impl Schema {
    /// A schema of these tables, numbered from 0.
    ///
    /// # Panics
    /// With more than 255 tables.
    pub fn new(tables: Vec<TableSpec>) -> Schema {
        assert!(tables.len() < 256, "a schema holds at most 255 tables");
        Schema { tables, added: Vec::new() }
    }

    /// The same with tables behind the last one that are written from `level` on, and that a build which does not know that level may
    /// lack.
    ///
    /// # Panics
    /// With more than 255 tables; or if later levels have added some.
    pub fn with_tables_of(mut self, level: Level, tables: Vec<TableSpec>) -> Schema {
        assert!(self.added.last().is_none_or(|(last, _)| *last < level), "tables of {level} come too late");
        self.added.push((level, self.tables.len()));
        self.tables.extend(tables);
        assert!(self.tables.len() < 256, "a schema holds at most 255 tables");
        self
    }

    /// How many tables there are, and may be written, at a level: the first ones.
    pub fn tables_at(&self, level: Level) -> usize {
        let later = self.added.iter().find(|(since, _)| *since > level);
        later.map_or(self.tables.len(), |(_, before)| *before)
    }

    /// The table's description, if there is such a table.
    #[inline]
    pub fn get(&self, table: TableId) -> Option<&TableSpec> {
        self.tables.get(table.0 as usize)
    }

    /// Every table with its id.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, &TableSpec)> {
        self.tables.iter().enumerate().map(|(id, table)| (TableId(id as u8), table))
    }

    /// How many tables there are.
    pub fn len(&self) -> usize {
        self.tables.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_has_the_tables_of_those_before_it() {
        let table = |name| TableSpec { name, keys: KeyKind::U64, index: IndexKind::Hash };
        let first = Schema::new(vec![table("a"), table("b")]);
        assert_eq!(first.tables_at(Level(1)), 2);
        assert_eq!(first.tables_at(Level(9)), 2);
        let grown =
            first.with_tables_of(Level(2), vec![table("c")]).with_tables_of(Level(4), vec![table("d")]);
        let counts = [1, 2, 3, 4, 5].map(|level| grown.tables_at(Level(level)));
        assert_eq!(counts, [2, 3, 3, 4, 4]);
        assert_eq!(grown.len(), 4);
    }
}
