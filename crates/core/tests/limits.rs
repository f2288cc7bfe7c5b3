//! docs/limits.md is what people read; `core::limits` is what holds.

use std::collections::BTreeMap;

use highwater_core::limits::*;

/// Name and value of every row of a table whose first cell is a constant's name.
fn documented(text: &str) -> BTreeMap<&str, &str> {
    let row = |line| -> Option<(_, _)> {
        let mut cells = str::split(line, '|').map(str::trim);
        let name = cells.nth(1)?.strip_prefix('`')?.strip_suffix('`')?;
        Some((name, cells.next()?))
    };
    text.lines().filter_map(row).collect()
}

#[test]
fn the_table_says_what_the_constants_say() {
    let table = documented(include_str!("../../../docs/limits.md"));
    let mut expected = BTreeMap::new();
    macro_rules! limits {
        ($($name:ident)*) => { $(expected.insert(stringify!($name), $name.to_string());)* };
    }
    limits! {
        MAX_KEY_BYTES MAX_REDIS_KEY_BYTES MAX_VALUE_BYTES WRITE_HEAD_BYTES MAX_WRITE_BYTES MAX_TRANSACTION_BYTES MAX_OPERATIONS
        DEFAULT_TRANSACTION_ROWS MAX_REPLY_BYTES MAX_SESSION_REPLY_BYTES MAX_COMMAND_BYTES MAX_COMMAND_PARTS MAX_BLOCK_PARTS MAX_LINE_BYTES MAX_REQUEST_BYTES MAX_WORKERS MAX_NODES MAX_NODE_ID
        MAX_SEAL_BYTES MAX_ENTRY_BYTES CHUNK_BYTES MAX_RECORD_BYTES MAX_CHUNK_BYTES COPY_WINDOW_BYTES MAX_FRAME_HEAD_BYTES
        MAX_FRAME_BODY_BYTES
    }
    let declared =
        include_str!("../src/limits.rs").lines().filter(|line| line.starts_with("pub const")).count();
    assert_eq!(declared, expected.len(), "a new limit belongs into this test, too");
    let expected: BTreeMap<&str, &str> =
        expected.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(table, expected);
}
