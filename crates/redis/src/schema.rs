//! The product's own tables, by id. The log names tables by number, so these are part of the format: new ones go to the end. A program's stand behind
//! them ([`highwater_core::library`]).

use highwater_core::{IndexKind, KeyKind, TableId, TableSpec};
use highwater_kit::sessions;

/// The Redis keyspace: keys, and the values of those that fit into a row.
pub const KEYSPACE: TableId = TableId(0);
/// Clients' sessions.
pub const SESSIONS: TableId = TableId(SESSIONS_AT);
/// The same, where a constant is a number.
pub const SESSIONS_AT: u8 = 1;
/// The names of the keyspace, in the order of their hashes.
pub const NAMES: TableId = TableId(2);
/// The elements of collections, a row each.
pub const ELEMENTS: TableId = TableId(3);
/// The items of lists between their ends, some items a row.
pub const ITEMS: TableId = TableId(4);
/// Keys and collections that are to be removed, and when.
pub const DUE: TableId = TableId(5);
/// Scripts, by the SHA-1 of their text.
pub const SCRIPTS: TableId = TableId(6);
/// Libraries of functions, by name.
pub const FUNCTIONS: TableId = TableId(7);
/// Users and what each may do, by name.
pub const USERS: TableId = TableId(8);
/// Modules, by name and version.
pub const MODULES: TableId = TableId(9);
/// Users' tables: their catalogue and their rows.
pub const TABLES: TableId = TableId(10);

/// All of them, by id.
const ALL: [(TableId, TableSpec); 11] = [
    (KEYSPACE, table("keyspace", IndexKind::Hash)),
    (SESSIONS, sessions::TABLE),
    (NAMES, table("redis.names", IndexKind::Ordered)),
    (ELEMENTS, table("redis.elements", IndexKind::Ordered)),
    (ITEMS, table("redis.items", IndexKind::Ordered)),
    (DUE, table("redis.due", IndexKind::Ordered)),
    (SCRIPTS, table("redis.scripts", IndexKind::Ordered)),
    (FUNCTIONS, table("redis.functions", IndexKind::Ordered)),
    (USERS, table("redis.users", IndexKind::Ordered)),
    (MODULES, table("modules", IndexKind::Ordered)),
    (TABLES, table("tables", IndexKind::Ordered)),
];

/// One whose keys are any bytes.
const fn table(name: &'static str, index: IndexKind) -> TableSpec {
    TableSpec { name, keys: KeyKind::Bytes, index }
}

/// All of them, in the order of their ids.
pub fn tables() -> Vec<TableSpec> {
    ALL.iter().map(|(_, spec)| spec.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positions_and_names_are_unique() {
        for (at, (id, spec)) in ALL.iter().enumerate() {
            assert_eq!(usize::from(id.0), at, "{}", spec.name);
            assert!(ALL[..at].iter().all(|(_, other)| other.name != spec.name), "{}", spec.name);
        }
    }
}
