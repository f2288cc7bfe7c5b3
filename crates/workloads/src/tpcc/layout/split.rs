//! The layout `split`: the rows of [`rows`](crate::tpcc::rows), in the tables of [`tables::tpcc`](crate::tables::tpcc).
//!
//! NewOrder reads taxes and terms from rows that nobody writes, so that it does not conflict with Payment; the hottest rows of the
//! benchmark, the sums of warehouse and district and the district's counter, hold nothing else.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Abort, TableId, Transaction};

use super::names::{Name, NameKey, put_name, take_name};
use super::{Demand, Layout, LayoutKind, LayoutTables, Supplied, get, put};
use crate::bytes::{Fields, Sink, StackBytes, require};
use crate::tables::tpcc as table;
use crate::tpcc::rows::{Customer, CustomerInfo, History, Item, Order, OrderLine, Place, Stock, StockInfo};
use crate::tpcc::{keys, payment, text};

/// The layout.
#[derive(Clone, Copy, Debug)]
pub struct Split;

impl Layout for Split {
    const KIND: LayoutKind = LayoutKind::Split;
    const TABLES: LayoutTables = LayoutTables {
        warehouse_ytd: table::WAREHOUSE_YTD,
        district_ytd: table::DISTRICT_YTD,
        district_next: table::DISTRICT_NEXT,
        customer: table::CUSTOMER,
        customer_info: table::CUSTOMER_INFO,
        customer_by_name: table::CUSTOMER_BY_NAME,
        history: table::HISTORY,
        order: table::ORDER,
        order_by_customer: table::ORDER_BY_CUSTOMER,
        new_order: table::NEW_ORDER,
        order_line: table::ORDER_LINE,
        item: table::ITEM,
        stock: table::STOCK,
        per_warehouse: &[table::WAREHOUSE_INFO],
        per_district: &[table::DISTRICT_INFO],
        per_customer: &[table::CUSTOMER_DATA],
        per_stock: &[table::STOCK_INFO],
    };
    const NEW_ORDER_ROW: &'static [u8] = &[];
    const ORDER_BY_CUSTOMER_ROW: &'static [u8] = &[];

    #[inline]
    fn warehouse_ytd(row: &[u8]) -> Result<i64, Malformed> {
        let mut reader = Reader::new(row);
        let ytd = reader.i64()?;
        reader.end()?;
        Ok(ytd)
    }

    #[inline]
    fn district_ytd(row: &[u8]) -> Result<i64, Malformed> {
        Split::warehouse_ytd(row)
    }

    #[inline]
    fn district_next(row: &[u8]) -> Result<u32, Malformed> {
        let mut reader = Reader::new(row);
        let next = reader.u32()?;
        reader.end()?;
        Ok(next)
    }

    #[inline]
    fn customer(row: &[u8]) -> Result<Customer, Malformed> {
        Customer::decode(row)
    }

    #[inline]
    fn customer_info(row: &[u8]) -> Result<CustomerInfo<'_>, Malformed> {
        CustomerInfo::decode(row)
    }

    #[inline]
    fn order(row: &[u8]) -> Result<Order, Malformed> {
        Order::decode(row)
    }

    #[inline]
    fn order_row(order: &Order) -> impl AsRef<[u8]> {
        order.encode()
    }

    #[inline]
    fn order_line(row: &[u8]) -> Result<OrderLine, Malformed> {
        OrderLine::decode(row)
    }

    #[inline]
    fn order_line_row(line: &OrderLine) -> impl AsRef<[u8]> {
        line.encode()
    }

    #[inline]
    fn history(row: &[u8]) -> Result<History<'_>, Malformed> {
        History::decode(row)
    }

    #[inline]
    fn history_row(history: &History<'_>) -> StackBytes<64> {
        history.encode()
    }

    #[inline]
    fn item(row: &[u8]) -> Result<Item<'_>, Malformed> {
        Item::decode(row)
    }

    fn item_row(item: &Item<'_>) -> StackBytes<96> {
        item.encode()
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
    fn name_key(w: u16, d: u8, last: &[u8], first: &[u8], c: u16) -> NameKey {
        let mut key = NameKey::new();
        key.put(&w.to_be_bytes());
        key.put_u8(d);
        put_name(&mut key, last);
        put_name(&mut key, first);
        key.put(&c.to_be_bytes());
        key
    }

    fn name_row(_: u16) -> StackBytes<4> {
        StackBytes::new()
    }

    #[inline]
    fn name<'a>(key: &'a [u8], row: &[u8]) -> Result<Name<'a>, Malformed> {
        let mut reader = Reader::new(key);
        let (warehouse, district) = (u16::from_be_bytes(reader.array()?), reader.u8()?);
        let (last, first) = (take_name(&mut reader)?, take_name(&mut reader)?);
        let customer = u16::from_be_bytes(reader.array()?);
        reader.end()?;
        Reader::new(row).end()?;
        Ok(Name { warehouse, district, last, first, customer })
    }

    type District = ();

    #[inline]
    fn taxes<T: Transaction>(
        tx: &mut T,
        w: u16,
        d: u8,
        reply: &mut Vec<u8>,
    ) -> Result<(u16, u16, ()), Abort> {
        let row = get(tx, table::WAREHOUSE_INFO, keys::warehouse(w))?;
        let w_tax = require(row, Place::decode, "no such warehouse", reply)?.tax;
        let row = get(tx, table::DISTRICT_INFO, keys::district(w, d))?;
        let d_tax = require(row, Place::decode, "no such district", reply)?.tax;
        Ok((w_tax, d_tax, ()))
    }

    #[inline]
    fn draw_id<T: Transaction>(tx: &mut T, district: u64, (): (), reply: &mut Vec<u8>) -> Result<u32, Abort> {
        let row = get(tx, table::DISTRICT_NEXT, district)?;
        let next = require(row, Split::district_next, "no such district", reply)?;
        put(tx, table::DISTRICT_NEXT, district, &next.wrapping_add(1).to_le_bytes())?;
        Ok(next)
    }

    #[inline]
    fn take_stock<T: Transaction>(
        tx: &mut T,
        demand: &Demand,
        reply: &mut Vec<u8>,
    ) -> Result<Supplied, Abort> {
        let row = get(tx, table::STOCK_INFO, demand.stock)?;
        let info = require(row, StockInfo::decode, "no such supply warehouse", reply)?;
        let (dist_info, original) = (info.dist(demand.district), text::is_original(info.data));
        let row = get(tx, table::STOCK, demand.stock)?;
        let mut stock = require(row, Stock::decode, "no such supply warehouse", reply)?;
        stock.take(demand);
        put(tx, table::STOCK, demand.stock, &stock.encode())?;
        Ok(Supplied { quantity: stock.quantity, dist_info, original: Some(original) })
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
        let mut customer = require(row, Customer::decode, "no such customer", reply)?;
        customer.pay(request.amount);
        put(tx, table::CUSTOMER, key, &customer.encode())?;
        reply.put_u16(c);
        reply.put_i64(customer.balance);
        let row = get(tx, table::CUSTOMER_INFO, key)?;
        let credit = require(row, CustomerInfo::decode, "no such customer", reply)?.credit;
        // The row is what the reply asks for.
        reply.put_text(row.unwrap_or_default());
        if credit == text::BAD_CREDIT {
            let row = get(tx, table::CUSTOMER_DATA, key)?;
            let data = request.noted(c, require(row, Ok, "no such customer", reply)?);
            put(tx, table::CUSTOMER_DATA, key, data.as_slice())?;
            reply.put_text(payment::shown(data.as_slice()));
        } else {
            reply.put_text(&[]);
        }
        Ok(customer.payments)
    }

    #[inline]
    fn pay_district<T: Transaction>(
        tx: &mut T,
        key: u64,
        amount: u32,
        reply: &mut Vec<u8>,
    ) -> Result<StackBytes<10>, Abort> {
        let name = show_place(tx, table::DISTRICT_INFO, key, reply)?;
        add(tx, table::DISTRICT_YTD, key, amount, reply)?;
        Ok(name)
    }

    #[inline]
    fn pay_warehouse<T: Transaction>(
        tx: &mut T,
        key: u64,
        amount: u32,
        reply: &mut Vec<u8>,
    ) -> Result<StackBytes<10>, Abort> {
        let name = show_place(tx, table::WAREHOUSE_INFO, key, reply)?;
        add(tx, table::WAREHOUSE_YTD, key, amount, reply)?;
        Ok(name)
    }

    #[inline]
    fn show_customer<T: Transaction>(tx: &mut T, key: u64, reply: &mut Vec<u8>) -> Result<(), Abort> {
        let row = get(tx, table::CUSTOMER, key)?;
        let balance = require(row, Customer::decode, "no such customer", reply)?.balance;
        reply.put_i64(balance);
        let row = get(tx, table::CUSTOMER_INFO, key)?;
        require(row, CustomerInfo::decode, "no such customer", reply)?.put_names(reply);
        Ok(())
    }

    #[inline]
    fn bill<T: Transaction>(tx: &mut T, key: u64, amount: i64, reply: &mut Vec<u8>) -> Result<(), Abort> {
        let row = get(tx, table::CUSTOMER, key)?;
        let mut customer = require(row, Customer::decode, "no such customer", reply)?;
        customer.bill(amount);
        put(tx, table::CUSTOMER, key, &customer.encode())
    }

    #[inline]
    fn customer_rows(key: u64) -> impl AsRef<[(TableId, u64)]> {
        [(table::CUSTOMER, key), (table::CUSTOMER_INFO, key)]
    }

    #[inline]
    fn paying_rows(key: u64) -> impl AsRef<[(TableId, u64)]> {
        Split::customer_rows(key)
    }

    #[inline]
    fn history_rows(key: u64) -> impl AsRef<[(TableId, u64)]> {
        [(table::HISTORY, key)]
    }

    #[inline]
    fn district_rows(w: u16, d: u8) -> impl AsRef<[(TableId, u64)]> {
        let district = keys::district(w, d);
        [
            (table::WAREHOUSE_INFO, keys::warehouse(w)),
            (table::DISTRICT_INFO, district),
            (table::DISTRICT_NEXT, district),
        ]
    }

    #[inline]
    fn place_rows(w: u16, d: u8) -> impl AsRef<[(TableId, u64)]> {
        let (warehouse, district) = (keys::warehouse(w), keys::district(w, d));
        [
            (table::DISTRICT_INFO, district),
            (table::DISTRICT_YTD, district),
            (table::WAREHOUSE_INFO, warehouse),
            (table::WAREHOUSE_YTD, warehouse),
        ]
    }

    #[inline]
    fn stock_rows(stock: u64) -> impl AsRef<[(TableId, u64)]> {
        [(table::STOCK, stock), (table::STOCK_INFO, stock)]
    }

    fn put_warehouse<T: Transaction>(tx: &mut T, w: u16, place: &Place<'_>, ytd: i64) -> Result<(), Abort> {
        let key = keys::warehouse(w);
        put(tx, table::WAREHOUSE_INFO, key, place.encode().as_slice())?;
        put(tx, table::WAREHOUSE_YTD, key, &ytd.to_le_bytes())
    }

    fn put_district<T: Transaction>(
        tx: &mut T,
        key: u64,
        place: &Place<'_>,
        ytd: i64,
        next_order: u32,
    ) -> Result<(), Abort> {
        put(tx, table::DISTRICT_INFO, key, place.encode().as_slice())?;
        put(tx, table::DISTRICT_YTD, key, &ytd.to_le_bytes())?;
        put(tx, table::DISTRICT_NEXT, key, &next_order.to_le_bytes())
    }

    fn put_customer<T: Transaction>(
        tx: &mut T,
        key: u64,
        info: &CustomerInfo<'_>,
        customer: &Customer,
        data: &[u8],
    ) -> Result<(), Abort> {
        put(tx, table::CUSTOMER_INFO, key, info.encode().as_slice())?;
        put(tx, table::CUSTOMER, key, &customer.encode())?;
        put(tx, table::CUSTOMER_DATA, key, data)
    }

    fn put_stock_info<T: Transaction>(tx: &mut T, key: u64, info: &StockInfo<'_>) -> Result<(), Abort> {
        put(tx, table::STOCK_INFO, key, info.encode().as_slice())
    }
}

/// Shows a warehouse or district and returns its name.
#[inline]
fn show_place<T: Transaction>(
    tx: &mut T,
    table: TableId,
    key: u64,
    reply: &mut Vec<u8>,
) -> Result<StackBytes<10>, Abort> {
    let row = get(tx, table, key)?;
    let mut name = StackBytes::new();
    name.put(require(row, Place::decode, "no such warehouse", reply)?.name);
    // The row is what the reply asks for.
    reply.put_text(row.unwrap_or_default());
    Ok(name)
}

/// Adds to a year-to-date sum.
#[inline]
fn add<T: Transaction>(
    tx: &mut T,
    table: TableId,
    key: u64,
    amount: u32,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let row = get(tx, table, key)?;
    let ytd = require(row, Split::warehouse_ytd, "no such warehouse", reply)?;
    put(tx, table, key, &(ytd + i64::from(amount)).to_le_bytes())
}
