//! Every table of the product, under fixed ids: the log names tables by number, so these are part of the format.
//!
//! Ids 0 to 3 belong to the node, and 26 to 33, which came later; workloads start at 4. New tables go to the end.

use highwater_core::{IndexKind, KeyKind, TableId, TableSpec};

/// The Redis keyspace: byte-string keys, hashed.
pub const KEYSPACE: TableId = TableId(0);
/// Sequence numbers of acknowledged requests; see [`audit`](crate::audit).
pub const AUDIT: TableId = TableId(1);
/// Clients' sessions.
pub const SESSIONS: TableId = TableId(2);
/// Reserved for the node.
pub const RESERVED_3: TableId = TableId(3);

/// TPC-C's nine tables, split by what is written together, and two indexes; [`rows`](crate::tpcc::rows) has the columns of each and
/// [`keys`](crate::tpcc::keys) the bits of each key.
pub mod tpcc {
    use super::TableId;

    /// WAREHOUSE: name, address, tax. Never written after the load.
    pub const WAREHOUSE_INFO: TableId = TableId(4);
    /// WAREHOUSE: year-to-date payments.
    pub const WAREHOUSE_YTD: TableId = TableId(5);
    /// DISTRICT: name, address, tax. Never written after the load.
    pub const DISTRICT_INFO: TableId = TableId(6);
    /// DISTRICT: year-to-date payments.
    pub const DISTRICT_YTD: TableId = TableId(7);
    /// DISTRICT: the next order's id.
    pub const DISTRICT_NEXT: TableId = TableId(8);
    /// CUSTOMER: discount, credit, names, address. Never written after the load.
    pub const CUSTOMER_INFO: TableId = TableId(9);
    /// CUSTOMER: balance and counters.
    pub const CUSTOMER: TableId = TableId(10);
    /// CUSTOMER: the 500 characters of C_DATA.
    pub const CUSTOMER_DATA: TableId = TableId(11);
    /// Reserved: an index by the numbers of last names, of builds before the one with [`CUSTOMER_BY_NAME`].
    pub const RESERVED_12: TableId = TableId(12);
    /// HISTORY.
    pub const HISTORY: TableId = TableId(13);
    /// ORDER.
    pub const ORDER: TableId = TableId(14);
    /// Index of orders by customer.
    pub const ORDER_BY_CUSTOMER: TableId = TableId(15);
    /// NEW-ORDER.
    pub const NEW_ORDER: TableId = TableId(16);
    /// Reserved: a row a delivery, of builds that did not write it into ORDER and ORDER-LINE.
    pub const RESERVED_17: TableId = TableId(17);
    /// ORDER-LINE.
    pub const ORDER_LINE: TableId = TableId(18);
    /// ITEM.
    pub const ITEM: TableId = TableId(19);
    /// STOCK: quantity and counters.
    pub const STOCK: TableId = TableId(20);
    /// STOCK: the district strings and S_DATA. Never written after the load.
    pub const STOCK_INFO: TableId = TableId(21);
    /// Index of customers by last and first name.
    pub const CUSTOMER_BY_NAME: TableId = TableId(33);
}

/// TPC-C's tables as Silo's benchmark has them: whole rows, all of them ordered. [`silo`](crate::tpcc::layout::silo) has the columns.
pub mod tpcc_silo {
    use super::TableId;

    /// WAREHOUSE.
    pub const WAREHOUSE: TableId = TableId(34);
    /// DISTRICT.
    pub const DISTRICT: TableId = TableId(35);
    /// CUSTOMER, C_DATA included.
    pub const CUSTOMER: TableId = TableId(36);
    /// Index of customers by last and first name.
    pub const CUSTOMER_NAME_IDX: TableId = TableId(37);
    /// HISTORY.
    pub const HISTORY: TableId = TableId(38);
    /// NEW-ORDER.
    pub const NEW_ORDER: TableId = TableId(39);
    /// ORDER.
    pub const OORDER: TableId = TableId(40);
    /// Index of orders by customer.
    pub const OORDER_C_ID_IDX: TableId = TableId(41);
    /// ORDER-LINE.
    pub const ORDER_LINE: TableId = TableId(42);
    /// ITEM.
    pub const ITEM: TableId = TableId(43);
    /// STOCK: what orders change.
    pub const STOCK: TableId = TableId(44);
    /// STOCK: the district strings and S_DATA.
    pub const STOCK_DATA: TableId = TableId(45);
}

/// YCSB++'s rows.
pub const YCSB: TableId = TableId(22);
/// The bank's accounts.
pub const BANK: TableId = TableId(23);
/// YCSB-T's rows.
pub const YCSB_T: TableId = TableId(24);
/// Retwis' rows.
pub const RETWIS: TableId = TableId(25);

/// The names of the Redis keyspace, in the order of their hashes.
pub const NAMES: TableId = TableId(26);
/// What Redis collections hold, an element a row.
pub const ELEMENTS: TableId = TableId(27);
/// What of the Redis keyspace is to be removed, and when.
pub const DUE: TableId = TableId(28);
/// Scripts by the SHA-1 of their text.
pub const SCRIPTS: TableId = TableId(29);
/// Libraries of functions, by name.
pub const FUNCTIONS: TableId = TableId(30);
/// Users and what each may do, by name.
pub const USERS: TableId = TableId(31);
/// Procedures that came at run time, by name and version.
pub const MODULES: TableId = TableId(32);

/// Users' tables: their catalogue and their rows.
pub const TABLES_OF_USERS: TableId = TableId(46);
/// What Redis lists hold between their ends, some items a row.
pub const ITEMS: TableId = TableId(47);

use IndexKind::{Hash, Ordered};
use KeyKind::{Bytes, U64};

const TABLES: [(TableId, &str, KeyKind, IndexKind); 48] = [
    (KEYSPACE, "keyspace", Bytes, Hash),
    (AUDIT, "audit", U64, Hash),
    (SESSIONS, "sessions", U64, Ordered),
    (RESERVED_3, "reserved_3", U64, Hash),
    (tpcc::WAREHOUSE_INFO, "tpcc.warehouse_info", U64, Hash),
    (tpcc::WAREHOUSE_YTD, "tpcc.warehouse_ytd", U64, Hash),
    (tpcc::DISTRICT_INFO, "tpcc.district_info", U64, Hash),
    (tpcc::DISTRICT_YTD, "tpcc.district_ytd", U64, Hash),
    (tpcc::DISTRICT_NEXT, "tpcc.district_next", U64, Hash),
    (tpcc::CUSTOMER_INFO, "tpcc.customer_info", U64, Hash),
    (tpcc::CUSTOMER, "tpcc.customer", U64, Hash),
    (tpcc::CUSTOMER_DATA, "tpcc.customer_data", U64, Hash),
    (tpcc::RESERVED_12, "tpcc.reserved_12", U64, Hash),
    (tpcc::HISTORY, "tpcc.history", U64, Hash),
    (tpcc::ORDER, "tpcc.order", U64, Hash),
    (tpcc::ORDER_BY_CUSTOMER, "tpcc.order_by_customer", U64, Ordered),
    (tpcc::NEW_ORDER, "tpcc.new_order", U64, Ordered),
    (tpcc::RESERVED_17, "tpcc.reserved_17", U64, Hash),
    (tpcc::ORDER_LINE, "tpcc.order_line", U64, Ordered),
    (tpcc::ITEM, "tpcc.item", U64, Hash),
    (tpcc::STOCK, "tpcc.stock", U64, Hash),
    (tpcc::STOCK_INFO, "tpcc.stock_info", U64, Hash),
    (YCSB, "ycsb.row", U64, Hash),
    (BANK, "bank.account", U64, Hash),
    (YCSB_T, "ycsb_t.row", Bytes, Hash),
    (RETWIS, "retwis.row", Bytes, Hash),
    (NAMES, "redis.names", Bytes, Ordered),
    (ELEMENTS, "redis.elements", Bytes, Ordered),
    (DUE, "redis.due", Bytes, Ordered),
    (SCRIPTS, "redis.scripts", Bytes, Ordered),
    (FUNCTIONS, "redis.functions", Bytes, Ordered),
    (USERS, "redis.users", Bytes, Ordered),
    (MODULES, "modules", Bytes, Ordered),
    (tpcc::CUSTOMER_BY_NAME, "tpcc.customer_by_name", Bytes, Ordered),
    (tpcc_silo::WAREHOUSE, "tpcc_silo.warehouse", U64, Ordered),
    (tpcc_silo::DISTRICT, "tpcc_silo.district", U64, Ordered),
    (tpcc_silo::CUSTOMER, "tpcc_silo.customer", U64, Ordered),
    (tpcc_silo::CUSTOMER_NAME_IDX, "tpcc_silo.customer_name_idx", Bytes, Ordered),
    (tpcc_silo::HISTORY, "tpcc_silo.history", U64, Ordered),
    (tpcc_silo::NEW_ORDER, "tpcc_silo.new_order", U64, Ordered),
    (tpcc_silo::OORDER, "tpcc_silo.oorder", U64, Ordered),
    (tpcc_silo::OORDER_C_ID_IDX, "tpcc_silo.oorder_c_id_idx", U64, Ordered),
    (tpcc_silo::ORDER_LINE, "tpcc_silo.order_line", U64, Ordered),
    (tpcc_silo::ITEM, "tpcc_silo.item", U64, Ordered),
    (tpcc_silo::STOCK, "tpcc_silo.stock", U64, Ordered),
    (tpcc_silo::STOCK_DATA, "tpcc_silo.stock_data", U64, Ordered),
    (TABLES_OF_USERS, "tables", Bytes, Ordered),
    (ITEMS, "redis.items", Bytes, Ordered),
];

/// Every table, in the order of the ids.
pub fn all() -> Vec<TableSpec> {
    TABLES.iter().map(|&(_, name, keys, index)| TableSpec { name, keys, index }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positions_and_names_are_unique() {
        for (at, (id, name, ..)) in TABLES.iter().enumerate() {
            assert_eq!(id.0 as usize, at, "{name}");
            assert!(TABLES[..at].iter().all(|(_, other, ..)| other != name), "{name}");
        }
    }
}
