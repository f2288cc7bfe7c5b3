//! Tables: how their keys are stored and which index finds them.

use crate::ids::TableId;

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

/// All tables, by id. The same on every replica: the log names tables by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    tables: Vec<TableSpec>,
}

impl Schema {
    /// A schema of these tables, numbered from 0.
    ///
    /// # Panics
    /// With more than 255 tables.
    pub fn new(tables: Vec<TableSpec>) -> Schema {
        assert!(tables.len() < 256, "a schema holds at most 255 tables");
        Schema { tables }
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
