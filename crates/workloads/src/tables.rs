//! Every table of the workloads, under fixed ids: the log names tables by number.
//!
//! Workloads are a program as any other: their tables stand behind the places of the product's ([`highwater_core::library`]), and a node has them if it is
//! started with them.

use highwater_core::library::{FIRST_PROGRAM_TABLE, program_tables};
use highwater_core::{IndexKind, KeyKind, TableId, TableSpec};

/// The table at a place among the workloads'.
const fn at(place: u8) -> TableId {
    TableId(FIRST_PROGRAM_TABLE + place)
}

/// Sequence numbers of acknowledged requests; see [`audit`](crate::audit).
pub const AUDIT: TableId = at(0);

/// TPC-C's nine tables, split by what is written together, and two indexes; [`rows`](crate::tpcc::rows) has the columns of each and
/// [`keys`](crate::tpcc::keys) the bits of each key.
pub mod tpcc {
    use super::{TableId, at};

    /// WAREHOUSE: name, address, tax. Never written after the load.
    pub const WAREHOUSE_INFO: TableId = at(1);
    /// WAREHOUSE: year-to-date payments.
    pub const WAREHOUSE_YTD: TableId = at(2);
    /// DISTRICT: name, address, tax. Never written after the load.
    pub const DISTRICT_INFO: TableId = at(3);
    /// DISTRICT: year-to-date payments.
    pub const DISTRICT_YTD: TableId = at(4);
    /// DISTRICT: the next order's id.
    pub const DISTRICT_NEXT: TableId = at(5);
    /// CUSTOMER: discount, credit, names, address. Never written after the load.
    pub const CUSTOMER_INFO: TableId = at(6);
    /// CUSTOMER: balance and counters.
    pub const CUSTOMER: TableId = at(7);
    /// CUSTOMER: the 500 characters of C_DATA.
    pub const CUSTOMER_DATA: TableId = at(8);
    pub const HISTORY: TableId = at(9);
    pub const ORDER: TableId = at(10);
    /// Index of orders by customer.
    pub const ORDER_BY_CUSTOMER: TableId = at(11);
    pub const NEW_ORDER: TableId = at(12);
    pub const ORDER_LINE: TableId = at(13);
    pub const ITEM: TableId = at(14);
    /// STOCK: quantity and counters.
    pub const STOCK: TableId = at(15);
    /// STOCK: the district strings and S_DATA. Never written after the load.
    pub const STOCK_INFO: TableId = at(16);
    /// Index of customers by last and first name.
    pub const CUSTOMER_BY_NAME: TableId = at(17);
}

/// TPC-C's tables as Silo's benchmark has them: whole rows, all of them ordered. [`silo`](crate::tpcc::layout::silo) has the columns.
pub mod tpcc_silo {
    use super::{TableId, at};

    pub const WAREHOUSE: TableId = at(18);
    pub const DISTRICT: TableId = at(19);
    /// CUSTOMER, C_DATA included.
    pub const CUSTOMER: TableId = at(20);
    /// Index of customers by last and first name.
    pub const CUSTOMER_NAME_IDX: TableId = at(21);
    pub const HISTORY: TableId = at(22);
    pub const NEW_ORDER: TableId = at(23);
    /// ORDER.
    pub const OORDER: TableId = at(24);
    /// Index of orders by customer.
    pub const OORDER_C_ID_IDX: TableId = at(25);
    pub const ORDER_LINE: TableId = at(26);
    pub const ITEM: TableId = at(27);
    /// STOCK: what orders change.
    pub const STOCK: TableId = at(28);
    /// STOCK: the district strings and S_DATA.
    pub const STOCK_DATA: TableId = at(29);
}

/// YCSB++'s rows.
pub const YCSB: TableId = at(30);
/// The bank's accounts.
pub const BANK: TableId = at(31);
/// YCSB-T's rows.
pub const YCSB_T: TableId = at(32);
/// Retwis' rows.
pub const RETWIS: TableId = at(33);

use IndexKind::{Hash, Ordered};
use KeyKind::{Bytes, U64};

const TABLES: [(TableId, &str, KeyKind, IndexKind); 34] = [
    (AUDIT, "audit", U64, Hash),
    (tpcc::WAREHOUSE_INFO, "tpcc.warehouse_info", U64, Hash),
    (tpcc::WAREHOUSE_YTD, "tpcc.warehouse_ytd", U64, Hash),
    (tpcc::DISTRICT_INFO, "tpcc.district_info", U64, Hash),
    (tpcc::DISTRICT_YTD, "tpcc.district_ytd", U64, Hash),
    (tpcc::DISTRICT_NEXT, "tpcc.district_next", U64, Hash),
    (tpcc::CUSTOMER_INFO, "tpcc.customer_info", U64, Hash),
    (tpcc::CUSTOMER, "tpcc.customer", U64, Hash),
    (tpcc::CUSTOMER_DATA, "tpcc.customer_data", U64, Hash),
    (tpcc::HISTORY, "tpcc.history", U64, Hash),
    (tpcc::ORDER, "tpcc.order", U64, Hash),
    (tpcc::ORDER_BY_CUSTOMER, "tpcc.order_by_customer", U64, Ordered),
    (tpcc::NEW_ORDER, "tpcc.new_order", U64, Ordered),
    (tpcc::ORDER_LINE, "tpcc.order_line", U64, Ordered),
    (tpcc::ITEM, "tpcc.item", U64, Hash),
    (tpcc::STOCK, "tpcc.stock", U64, Hash),
    (tpcc::STOCK_INFO, "tpcc.stock_info", U64, Hash),
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
    (YCSB, "ycsb.row", U64, Hash),
    (BANK, "bank.account", U64, Hash),
    (YCSB_T, "ycsb_t.row", Bytes, Hash),
    (RETWIS, "retwis.row", Bytes, Hash),
];

/// Every table, in the order of the ids, behind the places of the product's.
pub fn all() -> Vec<TableSpec> {
    program_tables(TABLES.iter().map(|&(_, name, keys, index)| TableSpec { name, keys, index }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_positions_and_names_are_unique() {
        for (at, (id, name, ..)) in TABLES.iter().enumerate() {
            assert_eq!(*id, super::at(at as u8), "{name}");
            assert!(TABLES[..at].iter().all(|(_, other, ..)| other != name), "{name}");
        }
    }
}
