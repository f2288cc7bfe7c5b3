//! The tables, and what is asked of them on a quiescent replica.

use highwater_core::{IndexKind, KeyKind, TableId, TableSpec, View};
use highwater_kit::sessions;

use super::op::numbers;

pub(super) const LISTS: TableId = TableId(0);
pub(super) const ROWS: TableId = TableId(1);
pub(super) const REGISTERS: TableId = TableId(2);
pub(super) const TOGGLES: TableId = TableId(3);
pub(super) const BANK: TableId = TableId(4);
pub(super) const AUDIT: TableId = TableId(5);
pub(super) const HASHED_BLOBS: TableId = TableId(6);
pub(super) const ORDERED_BLOBS: TableId = TableId(7);
pub(super) const COUNTERS: TableId = TableId(8);
/// Where clients' sessions are kept.
pub const SESSIONS: u8 = 9;
/// How many tables there are.
pub const TABLES: u8 = 10;

/// How many accounts there are, and what each holds before anybody writes to it.
pub const ACCOUNTS: u32 = 12;
/// An account that nobody has written to holds this.
pub const OPENING: u32 = 100;
/// Lists that count toggles stand behind the ordinary ones.
pub const TOGGLE_LISTS: u32 = 1 << 20;

/// All tables, by their ids.
pub(super) fn specs() -> Vec<TableSpec> {
    let table = |name, index| TableSpec { name, keys: KeyKind::U64, index };
    vec![
        table("lists", IndexKind::Hash),
        table("rows", IndexKind::Ordered),
        table("registers", IndexKind::Ordered),
        table("toggles", IndexKind::Ordered),
        table("bank", IndexKind::Hash),
        table("audit", IndexKind::Hash),
        TableSpec { name: "hashed blobs", keys: KeyKind::Bytes, index: IndexKind::Hash },
        TableSpec { name: "ordered blobs", keys: KeyKind::Bytes, index: IndexKind::Ordered },
        table("counters", IndexKind::Hash),
        sessions::TABLE,
    ]
}

/// The sum over all accounts of a quiescent replica.
pub fn total(view: &dyn View) -> u64 {
    let balance =
        |at: u32| view.get(BANK, &u64::from(at).to_be_bytes()).map_or(OPENING, |row| numbers(&row)[0]);
    (0..ACCOUNTS).map(|at| u64::from(balance(at))).sum()
}

/// What a counter of a quiescent replica shows.
pub fn counted(view: &dyn View, key: u32) -> u32 {
    view.get(COUNTERS, &u64::from(key).to_be_bytes()).map_or(0, |row| numbers(&row)[0])
}

/// Whether a quiescent replica holds an audit row.
pub fn audited(view: &dyn View, row: u32) -> bool {
    view.get(AUDIT, &u64::from(row).to_be_bytes()).is_some()
}
