//! The layout `silo`: the tables, the rows and the writes of Silo's own TPC-C (benchmarks/tpcc.h and tpcc.cc of its public source).
//!
//! Twelve tables, all ordered. Rows are whole, with text columns of fixed width; Payment writes the rows of warehouse, district and
//! customer, C_DATA included; NewOrder writes the district's row; Delivery writes the rows of the order, of each line and of the
//! customer. As in Silo, order lines have no OL_DIST_INFO, and nobody reads *stock_data*: the brand-generic field of NewOrder's reply
//! is blank.
//!
//! What stays ours, because requests, replies and conditions are the same in both layouts: integer keys are packed into 64 bits
//! where Silo has 4 bytes a part; orders with an unused item do their work and are rolled back, which Silo leaves out; a row of
//! HISTORY is found by the number of the payment and holds the date, which is in the key there; C_DELIVERY_CNT and S_ORDER_CNT are
//! counted; OrderStatus reads the order; and what is known ahead is prefetched.

pub mod rows;

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Abort, TableId, Transaction};

use super::names::{Name, NameKey, put_name, take_name};
use super::{Demand, Layout, LayoutKind, LayoutTables, Supplied, get, put};
use crate::bytes::{Fields, Sink, StackBytes, bad_request, require};
use crate::tables::tpcc_silo as table;
use crate::tpcc::rows::{
    Customer, CustomerInfo, DIST_INFO, History, Item, Order, OrderLine, Place, Stock, StockInfo,
};
use crate::tpcc::{keys, payment, text};
use rows::{CustomerRow, DISTRICT_TEXTS, DistrictRow, WAREHOUSE_TEXTS, WarehouseRow, fixed};

/// The layout.
#[derive(Clone, Copy, Debug)]
pub struct Silo;

impl Layout for Silo {
    const KIND: LayoutKind = LayoutKind::Silo;
    const TABLES: LayoutTables = LayoutTables {
        warehouse_ytd: table::WAREHOUSE,
        district_ytd: table::DISTRICT,
        district_next: table::DISTRICT,
        customer: table::CUSTOMER,
        customer_info: table::CUSTOMER,
        customer_by_name: table::CUSTOMER_NAME_IDX,
        history: table::HISTORY,
        order: table::OORDER,
        order_by_customer: table::OORDER_C_ID_IDX,
        new_order: table::NEW_ORDER,
        order_line: table::ORDER_LINE,
        item: table::ITEM,
        stock: table::STOCK,
        per_warehouse: &[],
        per_district: &[],
        per_customer: &[],
        per_stock: &[table::STOCK_DATA],
    };
    // Silo's index cannot hold empty values, nor values smaller than a key of this table.
    const NEW_ORDER_ROW: &'static [u8] = &[b' '; 12];
    const ORDER_BY_CUSTOMER_ROW: &'static [u8] = &[0];

    #[inline]
    fn warehouse_ytd(row: &[u8]) -> Result<i64, Malformed> {
        rows::ytd(fixed::<{ size_of::<WarehouseRow>() }>(row)?)
    }

    #[inline]
    fn district_ytd(row: &[u8]) -> Result<i64, Malformed> {
        rows::ytd(fixed::<{ size_of::<DistrictRow>() }>(row)?)
    }

    #[inline]
    fn district_next(row: &[u8]) -> Result<u32, Malformed> {
        Ok(rows::next_order(fixed(row)?))
    }

    #[inline]
    fn customer(row: &[u8]) -> Result<Customer, Malformed> {
        rows::customer(fixed(row)?)
    }

    #[inline]
    fn customer_info(row: &[u8]) -> Result<CustomerInfo<'_>, Malformed> {
        rows::customer_info(fixed(row)?)
    }

    #[inline]
    fn order(row: &[u8]) -> Result<Order, Malformed> {
        rows::order(row)
    }

    #[inline]
    fn order_row(order: &Order) -> impl AsRef<[u8]> {
        rows::order_row(order)
    }

    #[inline]
    fn order_line(row: &[u8]) -> Result<OrderLine, Malformed> {
        rows::order_line(row)
    }

    #[inline]
    fn order_line_row(line: &OrderLine) -> impl AsRef<[u8]> {
        rows::order_line_row(line)
    }

    #[inline]
    fn history(row: &[u8]) -> Result<History<'_>, Malformed> {
        rows::history(row)
    }

    #[inline]
    fn history_row(history: &History<'_>) -> StackBytes<64> {
        rows::history_row(history)
    }

    #[inline]
    fn item(row: &[u8]) -> Result<Item<'_>, Malformed> {
        rows::item(row)
    }

    fn item_row(item: &Item<'_>) -> StackBytes<96> {
        rows::item_row(item)
    }

    #[inline]
    fn stock(row: &[u8]) -> Result<Stock, Malformed> {
        Stock::decode(row)
    }

    #[inline]
    fn stock_row(stock: &Stock) -> impl AsRef<[u8]> {
        stock.encode()
    }

    #[inline]
    fn name_key(w: u16, d: u8, last: &[u8], first: &[u8], _: u16) -> NameKey {
        let mut key = NameKey::new();
        key.put(&u32::from(w).to_be_bytes());
        key.put(&u32::from(d).to_be_bytes());
        put_name(&mut key, last);
        put_name(&mut key, first);
        key
    }

    fn name_row(c: u16) -> StackBytes<4> {
        let mut row = StackBytes::new();
        row.put_u32(c.into());
        row
    }

    #[inline]
    fn name<'a>(key: &'a [u8], row: &[u8]) -> Result<Name<'a>, Malformed> {
        let mut reader = Reader::new(key);
        let warehouse = u32::from_be_bytes(reader.array()?) as u16;
        let district = u32::from_be_bytes(reader.array()?) as u8;
        let (last, first) = (take_name(&mut reader)?, take_name(&mut reader)?);
        reader.end()?;
        let customer = u32::from_le_bytes(*fixed(row)?) as u16;
        Ok(Name { warehouse, district, last, first, customer })
    }

    type District = DistrictRow;

    #[inline]
    fn taxes<T: Transaction>(
        tx: &mut T,
        w: u16,
        d: u8,
        reply: &mut Vec<u8>,
    ) -> Result<(u16, u16, DistrictRow), Abort> {
        let row = get(tx, table::WAREHOUSE, keys::warehouse(w))?;
        let w_tax = require(row, rows::tax, "no such warehouse", reply)?;
        let row = get(tx, table::DISTRICT, keys::district(w, d))?;
        let district = *require(row, fixed, "no such district", reply)?;
        let d_tax = rows::tax(&district).map_err(|error| bad_request(reply, error.0))?;
        Ok((w_tax, d_tax, district))
    }

    #[inline]
    fn draw_id<T: Transaction>(
        tx: &mut T,
        key: u64,
        mut district: DistrictRow,
        _: &mut Vec<u8>,
    ) -> Result<u32, Abort> {
        let next = rows::next_order(&district);
        rows::set_next_order(&mut district, next.wrapping_add(1));
        put(tx, table::DISTRICT, key, &district)?;
        Ok(next)
    }

    #[inline]
    fn take_stock<T: Transaction>(
        tx: &mut T,
        demand: &Demand,
        reply: &mut Vec<u8>,
    ) -> Result<Supplied, Abort> {
        let row = get(tx, table::STOCK, demand.stock)?;
        let mut stock = require(row, Stock::decode, "no such supply warehouse", reply)?;
        stock.take(demand);
        put(tx, table::STOCK, demand.stock, &stock.encode())?;
        Ok(Supplied { quantity: stock.quantity, dist_info: [b' '; DIST_INFO], original: None })
    }

    #[inline]
    fn pay<T: Transaction>(
        tx: &mut T,
        c: u16,
        request: &payment::Request<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<u32, Abort> {
        let key = keys::customer(request.customer_warehouse, request.customer_district, c);
        let row = get(tx, table::CUSTOMER, key)?;
        let mut row: CustomerRow = *require(row, fixed, "no such customer", reply)?;
        let mut customer = rows::customer(&row).map_err(|error| bad_request(reply, error.0))?;
        customer.pay(request.amount);
        rows::set_customer(&mut row, &customer);
        let info = rows::customer_info(&row).map_err(|error| bad_request(reply, error.0))?;
        reply.put_u16(c);
        reply.put_i64(customer.balance);
        reply.put_text(info.encode().as_slice());
        if info.credit == text::BAD_CREDIT {
            let old = rows::data(&row).map_err(|error| bad_request(reply, error.0))?;
            let data = request.noted(c, old);
            rows::set_data(&mut row, data.as_slice());
            reply.put_text(payment::shown(data.as_slice()));
        } else {
            reply.put_text(&[]);
        }
        put(tx, table::CUSTOMER, key, &row)?;
        Ok(customer.payments)
    }

    #[inline]
    fn pay_district<T: Transaction>(
        tx: &mut T,
        key: u64,
        amount: u32,
        reply: &mut Vec<u8>,
    ) -> Result<StackBytes<10>, Abort> {
        pay_place::<{ size_of::<DistrictRow>() }, T>(
            tx,
            (table::DISTRICT, key),
            DISTRICT_TEXTS,
            amount,
            reply,
        )
    }

    #[inline]
    fn pay_warehouse<T: Transaction>(
        tx: &mut T,
        key: u64,
        amount: u32,
        reply: &mut Vec<u8>,
    ) -> Result<StackBytes<10>, Abort> {
        pay_place::<{ size_of::<WarehouseRow>() }, T>(
            tx,
            (table::WAREHOUSE, key),
            WAREHOUSE_TEXTS,
            amount,
            reply,
        )
    }

    #[inline]
    fn show_customer<T: Transaction>(tx: &mut T, key: u64, reply: &mut Vec<u8>) -> Result<(), Abort> {
        let row = get(tx, table::CUSTOMER, key)?;
        let row: &CustomerRow = require(row, fixed, "no such customer", reply)?;
        let customer = rows::customer(row).map_err(|error| bad_request(reply, error.0))?;
        reply.put_i64(customer.balance);
        rows::customer_info(row).map_err(|error| bad_request(reply, error.0))?.put_names(reply);
        Ok(())
    }

    #[inline]
    fn bill<T: Transaction>(tx: &mut T, key: u64, amount: i64, reply: &mut Vec<u8>) -> Result<(), Abort> {
        let row = get(tx, table::CUSTOMER, key)?;
        let mut row: CustomerRow = *require(row, fixed, "no such customer", reply)?;
        let mut customer = rows::customer(&row).map_err(|error| bad_request(reply, error.0))?;
        customer.bill(amount);
        rows::set_customer(&mut row, &customer);
        put(tx, table::CUSTOMER, key, &row)
    }

    #[inline]
    fn customer_rows(key: u64) -> impl AsRef<[(TableId, u64)]> {
        [(table::CUSTOMER, key)]
    }

    #[inline]
    fn paying_rows(key: u64) -> impl AsRef<[(TableId, u64)]> {
        // The row will go to the end of the customer's: the key that bounds them finds the same leaf.
        [(table::CUSTOMER, key), (table::HISTORY, keys::history(key, u32::MAX))]
    }

    #[inline]
    fn history_rows(_: u64) -> impl AsRef<[(TableId, u64)]> {
        []
    }

    #[inline]
    fn district_rows(w: u16, d: u8) -> impl AsRef<[(TableId, u64)]> {
        Silo::place_rows(w, d)
    }

    #[inline]
    fn place_rows(w: u16, d: u8) -> impl AsRef<[(TableId, u64)]> {
        [(table::WAREHOUSE, keys::warehouse(w)), (table::DISTRICT, keys::district(w, d))]
    }

    #[inline]
    fn stock_rows(stock: u64) -> impl AsRef<[(TableId, u64)]> {
        [(table::STOCK, stock)]
    }

    fn put_warehouse<T: Transaction>(tx: &mut T, w: u16, place: &Place<'_>, ytd: i64) -> Result<(), Abort> {
        put(tx, table::WAREHOUSE, keys::warehouse(w), &rows::warehouse_row(place, ytd))
    }

    fn put_district<T: Transaction>(
        tx: &mut T,
        key: u64,
        place: &Place<'_>,
        ytd: i64,
        next_order: u32,
    ) -> Result<(), Abort> {
        put(tx, table::DISTRICT, key, &rows::district_row(place, ytd, next_order))
    }

    fn put_customer<T: Transaction>(
        tx: &mut T,
        key: u64,
        info: &CustomerInfo<'_>,
        customer: &Customer,
        data: &[u8],
    ) -> Result<(), Abort> {
        put(tx, table::CUSTOMER, key, &rows::customer_row(info, customer, data))
    }

    fn put_stock_info<T: Transaction>(tx: &mut T, key: u64, info: &StockInfo<'_>) -> Result<(), Abort> {
        put(tx, table::STOCK_DATA, key, rows::stock_data_row(info).as_slice())
    }
}

/// Adds to YTD of a warehouse or a district whose row has `N` bytes and its texts from `texts` on, shows it and returns its name.
#[inline]
fn pay_place<const N: usize, T: Transaction>(
    tx: &mut T,
    (table, key): (TableId, u64),
    texts: usize,
    amount: u32,
    reply: &mut Vec<u8>,
) -> Result<StackBytes<10>, Abort> {
    let row = get(tx, table, key)?;
    let mut row: [u8; N] = *require(row, fixed, "no such warehouse", reply)?;
    rows::add_ytd(&mut row, amount).map_err(|error| bad_request(reply, error.0))?;
    put(tx, table, key, &row)?;
    let place = rows::place(&row, texts).map_err(|error| bad_request(reply, error.0))?;
    let mut name = StackBytes::new();
    name.put(place.name);
    reply.put_text(place.encode().as_slice());
    Ok(name)
}
