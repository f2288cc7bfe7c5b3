//! NewOrder (clause 2.4): a customer orders 5 to 15 items.
//!
//! Two things keep it out of others' way. It reads taxes from rows that nobody writes, so that it does not conflict
//! with Payment. And it touches the district's order counter last, so that two of the same district overlap only
//! briefly; with *fast ids* (Silo's option) the id comes with the arguments and the counter is not touched at all.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{Kind, Signature, U8, U16, U24, U32, U48, field};
use highwater_core::{Abort, Procedure, TableId, Transaction};

use super::keys;
use super::population::{CUSTOMERS, DISTRICTS};
use super::rows::{CustomerInfo, Item, LineHead, Order, OrderLine, Place, Stock, StockInfo};
use super::text;
use crate::bytes::{Fields, Sink, bad_request, require, rollback};
use crate::tables::tpcc as table;

/// Most lines of an order.
pub const MAX_LINES: usize = 15;

/// `tpcc.new_order`. Arguments: [`Request`].
///
/// Reply: O_ID u32, total amount u32 (cents, discount and taxes included), C_DISCOUNT u16, C_CREDIT (2), C_LAST text,
/// W_TAX u16, D_TAX u16; then of each line I_PRICE u24, I_NAME text, brand-generic (`B` or `G`), S_QUANTITY u16,
/// OL_AMOUNT u24. What the client said itself is not repeated. An order with an unused item rolls back with the
/// specification's message.
pub struct NewOrder;

/// One line as ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// OL_I_ID.
    pub item: u32,
    /// OL_SUPPLY_W_ID.
    pub supply_warehouse: u16,
    /// OL_QUANTITY.
    pub quantity: u8,
}

impl Line {
    const BYTES: usize = 6;

    /// Appends 6 bytes.
    #[inline]
    pub fn encode(&self, args: &mut Vec<u8>) {
        let ([a, b, c, _], [d, e]) = (self.item.to_le_bytes(), self.supply_warehouse.to_le_bytes());
        args.put(&[a, b, c, d, e, self.quantity]);
    }

    #[inline]
    fn decode(bytes: &[u8; Line::BYTES]) -> Line {
        let [a, b, c, d, e, quantity] = *bytes;
        Line {
            item: u32::from_le_bytes([a, b, c, 0]),
            supply_warehouse: u16::from_le_bytes([d, e]),
            quantity,
        }
    }
}

/// The arguments: this head (15 bytes), then the lines to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The home warehouse.
    pub warehouse: u16,
    /// The district.
    pub district: u8,
    /// C_ID.
    pub customer: u16,
    /// The order's id if it was drawn outside (fast ids), or 0 to draw it from the district.
    pub order: u32,
    /// O_ENTRY_D.
    pub entry_date: u64,
}

impl Request {
    /// Appends the head.
    #[inline]
    pub fn encode(&self, args: &mut Vec<u8>) {
        args.put_u16(self.warehouse);
        args.put_u8(self.district);
        args.put_u16(self.customer);
        args.put_u32(self.order);
        args.put_u48(self.entry_date);
    }

    #[inline]
    fn decode(args: &[u8]) -> Result<(Request, &[[u8; Line::BYTES]]), Malformed> {
        let mut reader = Reader::new(args);
        let request = Request {
            warehouse: reader.u16()?,
            district: reader.u8()?,
            customer: reader.u16()?,
            order: reader.u32()?,
            entry_date: reader.u48()?,
        };
        let (lines, trailing) = reader.rest().as_chunks();
        if !(trailing.is_empty() && (1..=MAX_LINES).contains(&lines.len())) {
            return Err(Malformed("new order (1 to 15 lines of 6 bytes)"));
        }
        if !((1..=DISTRICTS).contains(&request.district) && (1..=CUSTOMERS).contains(&request.customer)) {
            return Err(Malformed("new order (district or customer out of range)"));
        }
        Ok((request, lines))
    }
}

impl Procedure for NewOrder {
    const NAME: &'static str = "tpcc.new_order";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[
                field("warehouse", U16),
                field("district", U8),
                field("customer", U16),
                field("order", U32),
                field("entry_date", U48),
                field(
                    "lines",
                    Kind::Groups(&[
                        field("item", U24),
                        field("supply_warehouse", U16),
                        field("quantity", U8),
                    ]),
                ),
            ],
            reply: &[
                field("order", U32),
                field("total", U32),
                field("discount", U16),
                field("credit", Kind::Bytes(2)),
                field("last", Kind::Text),
                field("w_tax", U16),
                field("d_tax", U16),
                field(
                    "lines",
                    Kind::Groups(&[
                        field("price", U24),
                        field("name", Kind::Text),
                        field("brand", Kind::Bytes(1)),
                        field("stock", U16),
                        field("amount", U24),
                    ]),
                ),
            ],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let (request, lines) = Request::decode(args).map_err(|error| bad_request(reply, error.0))?;
        prefetch(tx, &request, lines);
        // Order id and total are known at the end.
        reply.put(&[0; 8]);
        let terms = read_terms(tx, &request, reply)?;
        let mut rows = [[0; OrderLine::BYTES]; MAX_LINES];
        let (mut amount, mut all_local) = (0, true);
        for (line, row) in lines.iter().map(Line::decode).zip(&mut rows) {
            let order_line = take_line(tx, &request, line, reply)?;
            amount += u64::from(order_line.head.amount);
            all_local &= line.supply_warehouse == request.warehouse;
            *row = order_line.encode();
        }
        let o = draw_id(tx, &request, reply)?;
        let order = Order {
            entry_date: request.entry_date,
            customer: request.customer,
            lines: lines.len() as u8,
            all_local: all_local.into(),
        };
        write_order(tx, &request, o, &order, &rows[..lines.len()], reply)?;
        reply[..4].copy_from_slice(&o.to_le_bytes());
        reply[4..8].copy_from_slice(&terms.total(amount).to_le_bytes());
        Ok(())
    }
}

/// All keys are known: ask for all rows at once, so that their cache misses overlap.
#[inline]
fn prefetch<T: Transaction>(tx: &mut T, request: &Request, lines: &[[u8; Line::BYTES]]) {
    const OTHERS: usize = 5;
    let (w, d, c) = (request.warehouse, request.district, request.customer);
    let mut wanted = [(TableId(0), 0); OTHERS + 3 * MAX_LINES];
    wanted[..OTHERS].copy_from_slice(&[
        (table::WAREHOUSE_INFO, keys::warehouse(w)),
        (table::DISTRICT_INFO, keys::district(w, d)),
        (table::DISTRICT_NEXT, keys::district(w, d)),
        (table::CUSTOMER_INFO, keys::customer(w, d, c)),
        // The entry will go to the end of the customer's: the key that bounds them finds the same leaf.
        (table::ORDER_BY_CUSTOMER, keys::order_by_customer(w, d, c, u32::MAX)),
    ]);
    for (line, slots) in lines.iter().map(Line::decode).zip(wanted[OTHERS..].chunks_exact_mut(3)) {
        let stock = keys::stock(line.supply_warehouse, line.item);
        slots[0] = (table::ITEM, keys::item(line.item));
        slots[1] = (table::STOCK, stock);
        slots[2] = (table::STOCK_INFO, stock);
    }
    tx.prefetch(&wanted[..OTHERS + 3 * lines.len()]);
}

/// What the price depends on besides the items; rates in hundredths of a percent.
struct Terms {
    discount: u16,
    taxes: u16,
}

impl Terms {
    /// `amount * (1 - discount) * (1 + taxes)`, in cents.
    fn total(&self, amount: u64) -> u32 {
        let discounted = amount * u64::from(10_000u16.saturating_sub(self.discount));
        (discounted * (10_000 + u64::from(self.taxes)) / 100_000_000).min(u32::MAX.into()) as u32
    }
}

#[inline]
fn read_terms<T: Transaction>(tx: &mut T, request: &Request, reply: &mut Vec<u8>) -> Result<Terms, Abort> {
    let (w, d) = (request.warehouse, request.district);
    let key = keys::customer(w, d, request.customer).to_be_bytes();
    let row = tx.get(table::CUSTOMER_INFO, &key)?;
    let customer = require(row, CustomerInfo::decode, "no such customer", reply)?;
    let discount = customer.discount;
    reply.put_u16(discount);
    reply.put(&customer.credit);
    reply.put_text(customer.last);
    let row = tx.get(table::WAREHOUSE_INFO, &keys::warehouse(w).to_be_bytes())?;
    let w_tax = require(row, Place::decode, "no such warehouse", reply)?.tax;
    let row = tx.get(table::DISTRICT_INFO, &keys::district(w, d).to_be_bytes())?;
    let d_tax = require(row, Place::decode, "no such district", reply)?.tax;
    reply.put_u16(w_tax);
    reply.put_u16(d_tax);
    Ok(Terms { discount, taxes: w_tax.saturating_add(d_tax) })
}

/// Takes one line's items out of the stock and makes its order line.
#[inline]
fn take_line<T: Transaction>(
    tx: &mut T,
    request: &Request,
    line: Line,
    reply: &mut Vec<u8>,
) -> Result<OrderLine, Abort> {
    let Some(row) = tx.get(table::ITEM, &keys::item(line.item).to_be_bytes())? else {
        return Err(rollback(reply, "Item number is not valid"));
    };
    let item = Item::decode(row).map_err(|error| bad_request(reply, error.0))?;
    let (price, item_is_original) = (item.price, text::is_original(item.data));
    let ([a, b, c, _], name) = (price.to_le_bytes(), &item.name[..item.name.len().min(255)]);
    reply.put(&[a, b, c, name.len() as u8]);
    reply.put(name);

    let key = keys::stock(line.supply_warehouse, line.item).to_be_bytes();
    let row = tx.get(table::STOCK_INFO, &key)?;
    let info = require(row, StockInfo::decode, "no such supply warehouse", reply)?;
    let dist_info = info.dist(request.district);
    let brand = item_is_original && text::is_original(info.data);

    let row = tx.get(table::STOCK, &key)?;
    let mut stock = require(row, Stock::decode, "no such supply warehouse", reply)?;
    let ordered = u16::from(line.quantity);
    let restocked = if stock.quantity >= ordered.saturating_add(10) { 0 } else { 91 };
    stock.quantity = (stock.quantity + restocked).saturating_sub(ordered);
    stock.ytd = stock.ytd.wrapping_add(ordered.into());
    stock.orders = stock.orders.wrapping_add(1);
    stock.remote_orders =
        stock.remote_orders.wrapping_add((line.supply_warehouse != request.warehouse).into());
    tx.put(table::STOCK, &key, &stock.encode())?;

    let amount = (price * u32::from(line.quantity)).min((1 << 24) - 1);
    let brand = if brand { b'B' } else { b'G' };
    let ([q, r], [a, b, c, _]) = (stock.quantity.to_le_bytes(), amount.to_le_bytes());
    reply.put(&[brand, q, r, a, b, c]);
    let Line { item, supply_warehouse, quantity } = line;
    Ok(OrderLine { head: LineHead { item, amount, supply_warehouse, quantity }, dist_info })
}

/// The order's id: the one that came along, or the district's next.
#[inline]
fn draw_id<T: Transaction>(tx: &mut T, request: &Request, reply: &mut Vec<u8>) -> Result<u32, Abort> {
    if request.order != 0 {
        return Ok(request.order);
    }
    let key = keys::district(request.warehouse, request.district).to_be_bytes();
    let row = tx.get(table::DISTRICT_NEXT, &key)?;
    let next = require(row, |row| Reader::new(row).u32(), "no such district", reply)?;
    tx.put(table::DISTRICT_NEXT, &key, &next.wrapping_add(1).to_le_bytes())?;
    Ok(next)
}

/// Writes the order, its index entries and its lines; the keys of neighbours differ in few bytes.
#[inline]
fn write_order<T: Transaction>(
    tx: &mut T,
    request: &Request,
    o: u32,
    order: &Order,
    lines: &[[u8; OrderLine::BYTES]],
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let (w, d) = (request.warehouse, request.district);
    let key = keys::order(w, d, o).to_be_bytes();
    if request.order == 0 {
        // Nobody else can have drawn this id: no need to look whether the key exists.
        tx.put(table::ORDER, &key, &order.encode())?;
    } else if !tx.insert(table::ORDER, &key, &order.encode())? {
        return Err(bad_request(reply, "the order id is taken"));
    }
    tx.put(table::NEW_ORDER, &key, &[])?;
    let index = keys::order_by_customer(w, d, request.customer, o);
    tx.put(table::ORDER_BY_CUSTOMER, &index.to_be_bytes(), &[])?;
    for (line, row) in (1..).zip(lines) {
        tx.put(table::ORDER_LINE, &keys::order_line(w, d, o, line).to_be_bytes(), row)?;
    }
    Ok(())
}
