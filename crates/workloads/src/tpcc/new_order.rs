//! NewOrder (clause 2.4): a customer orders 5 to 15 items.
//!
//! It touches the district's order counter last, so that two of the same district overlap only briefly; with *fast ids* (Silo's
//! option) the id comes with the arguments and the counter is not touched at all.
//!
//! One in a hundred has an unused item and rolls back. That nobody has such an item is known when its line's turn comes, and
//! spares nothing (clause 2.4.2.3): the valid lines are processed, the id is drawn, the order, its entries and the valid lines are
//! written, and then all of it is undone.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{Kind, Signature, U8, U16, U24, U32, U48, field};
use highwater_core::{Abort, Procedure, TableId, Transaction};

use super::layout::{Demand, LAYOUT, Layout, LayoutKind, get, put, with_layout};
use super::population::{CUSTOMERS, DISTRICTS};
use super::rows::{Order, OrderLine};
use super::{keys, text};
use crate::bytes::{Fields, Sink, bad_request, require, rollback};

/// Most lines of an order.
pub const MAX_LINES: usize = 15;

/// `tpcc.new_order`. Arguments: [`Request`].
///
/// Reply: O_ID u32, total amount u32 (cents, discount and taxes included), C_DISCOUNT u16, C_CREDIT (2), C_LAST text,
/// W_TAX u16, D_TAX u16; then of each line I_PRICE u24, I_NAME text, brand-generic (`B` or `G`; blank if the layout does not
/// read S_DATA), S_QUANTITY u16, OL_AMOUNT u24. What the client said itself is not repeated. An order with an unused item
/// rolls back with the specification's message.
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

/// The arguments: this head (16 bytes), then the lines to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The tables.
    pub layout: LayoutKind,
    /// The home warehouse.
    pub warehouse: u16,
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
        args.put_u8(self.layout.byte());
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
            layout: LayoutKind::decode(&mut reader)?,
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
    const VERSION: u32 = 2;

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[
                LAYOUT,
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
        with_layout!(request.layout, run(tx, &request, lines, reply))
    }
}

fn run<L: Layout, T: Transaction>(
    tx: &mut T,
    request: &Request,
    lines: &[[u8; Line::BYTES]],
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    prefetch::<L, T>(tx, request, lines);
    // Order id and total are known at the end.
    reply.put(&[0; 8]);
    let (terms, district) = read_terms::<L, T>(tx, request, reply)?;
    let mut taken = [None; MAX_LINES];
    let (mut amount, mut all_local) = (0, true);
    for (line, slot) in lines.iter().map(Line::decode).zip(&mut taken) {
        *slot = take_line::<L, T>(tx, request, line, reply)?;
        amount += slot.as_ref().map_or(0, |line| u64::from(line.amount));
        all_local &= line.supply_warehouse == request.warehouse;
    }
    let taken = &taken[..lines.len()];
    let key = keys::district(request.warehouse, request.district);
    let o = if request.order == 0 { L::draw_id(tx, key, district, reply)? } else { request.order };
    let order = Order {
        entry_date: request.entry_date,
        customer: request.customer,
        lines: lines.len() as u8,
        all_local: all_local.into(),
        carrier: 0,
    };
    write_order::<L, T>(tx, request, o, &order, taken, reply)?;
    if taken.iter().any(Option::is_none) {
        return Err(rollback(reply, "Item number is not valid"));
    }
    reply[..4].copy_from_slice(&o.to_le_bytes());
    reply[4..8].copy_from_slice(&terms.total(amount).to_le_bytes());
    Ok(())
}

/// All keys are known: ask for all rows at once, so that their cache misses overlap.
#[inline]
fn prefetch<L: Layout, T: Transaction>(tx: &mut T, request: &Request, lines: &[[u8; Line::BYTES]]) {
    const MOST: usize = 8 + 3 * MAX_LINES;
    let (w, d, c) = (request.warehouse, request.district, request.customer);
    let (mut wanted, mut count) = ([(TableId(0), 0); MOST], 0);
    let mut want = |rows: &[(TableId, u64)]| {
        wanted[count..count + rows.len()].copy_from_slice(rows);
        count += rows.len();
    };
    want(L::district_rows(w, d).as_ref());
    want(&[(L::TABLES.customer_info, keys::customer(w, d, c))]);
    // The entry will go to the end of the customer's: the key that bounds them finds the same leaf.
    want(&[(L::TABLES.order_by_customer, keys::order_by_customer(w, d, c, u32::MAX))]);
    for line in lines.iter().map(Line::decode) {
        want(&[(L::TABLES.item, keys::item(line.item))]);
        want(L::stock_rows(keys::stock(line.supply_warehouse, line.item)).as_ref());
    }
    tx.prefetch(&wanted[..count]);
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
fn read_terms<L: Layout, T: Transaction>(
    tx: &mut T,
    request: &Request,
    reply: &mut Vec<u8>,
) -> Result<(Terms, L::District), Abort> {
    let (w, d) = (request.warehouse, request.district);
    let row = get(tx, L::TABLES.customer_info, keys::customer(w, d, request.customer))?;
    let customer = require(row, L::customer_info, "no such customer", reply)?;
    let discount = customer.discount;
    reply.put_u16(discount);
    reply.put(&customer.credit);
    reply.put_text(customer.last);
    let (w_tax, d_tax, district) = L::taxes(tx, w, d, reply)?;
    reply.put_u16(w_tax);
    reply.put_u16(d_tax);
    Ok((Terms { discount, taxes: w_tax.saturating_add(d_tax) }, district))
}

/// Takes one line's items out of the stock and makes its order line; `None` if there is no such item.
#[inline]
fn take_line<L: Layout, T: Transaction>(
    tx: &mut T,
    request: &Request,
    line: Line,
    reply: &mut Vec<u8>,
) -> Result<Option<OrderLine>, Abort> {
    let Some(row) = get(tx, L::TABLES.item, keys::item(line.item))? else { return Ok(None) };
    let item = L::item(row).map_err(|error| bad_request(reply, error.0))?;
    let (price, item_is_original) = (item.price, text::is_original(item.data));
    let ([a, b, c, _], name) = (price.to_le_bytes(), &item.name[..item.name.len().min(255)]);
    reply.put(&[a, b, c, name.len() as u8]);
    reply.put(name);

    let demand = Demand {
        stock: keys::stock(line.supply_warehouse, line.item),
        district: request.district,
        quantity: line.quantity,
        remote: line.supply_warehouse != request.warehouse,
    };
    let supplied = L::take_stock(tx, &demand, reply)?;
    let amount = (price * u32::from(line.quantity)).min((1 << 24) - 1);
    let brand = match supplied.original {
        Some(original) if original && item_is_original => b'B',
        Some(_) => b'G',
        None => b' ',
    };
    let ([q, r], [a, b, c, _]) = (supplied.quantity.to_le_bytes(), amount.to_le_bytes());
    reply.put(&[brand, q, r, a, b, c]);
    let (Line { item, supply_warehouse, quantity }, dist_info) = (line, supplied.dist_info);
    Ok(Some(OrderLine { item, amount, supply_warehouse, quantity, delivery_date: 0, dist_info }))
}

/// Writes the order, its index entries and its lines but those of unused items; the keys of neighbours differ in few bytes.
#[inline]
fn write_order<L: Layout, T: Transaction>(
    tx: &mut T,
    request: &Request,
    o: u32,
    order: &Order,
    lines: &[Option<OrderLine>],
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let (w, d) = (request.warehouse, request.district);
    let (key, row) = (keys::order(w, d, o), L::order_row(order));
    if request.order == 0 {
        // Nobody else can have drawn this id: no need to look whether the key exists.
        put(tx, L::TABLES.order, key, row.as_ref())?;
    } else if !tx.insert(L::TABLES.order, &key.to_be_bytes(), row.as_ref())? {
        return Err(bad_request(reply, "the order id is taken"));
    }
    put(tx, L::TABLES.new_order, key, L::NEW_ORDER_ROW)?;
    let entry = keys::order_by_customer(w, d, request.customer, o);
    put(tx, L::TABLES.order_by_customer, entry, L::ORDER_BY_CUSTOMER_ROW)?;
    for (number, line) in (1..).zip(lines) {
        if let Some(line) = line {
            put(
                tx,
                L::TABLES.order_line,
                keys::order_line(w, d, o, number),
                L::order_line_row(line).as_ref(),
            )?;
        }
    }
    Ok(())
}
