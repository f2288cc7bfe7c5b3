//! OrderStatus (clause 2.6): a customer asks for his last order. Read-only.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{I64, Kind, Signature, U8, U16, U24, U32, U48, field};
use highwater_core::{Abort, Direction, Procedure, Transaction};

use super::customer::{WHO, Who};
use super::keys;
use super::layout::{LAYOUT, Layout, LayoutKind, get, with_layout};
use super::population::DISTRICTS;
use crate::bytes::{Fields, Sink, bad_request};

/// `tpcc.order_status`. Arguments: [`Request`].
///
/// Reply: C_ID u16, C_BALANCE i64 (cents), C_FIRST text, C_MIDDLE (2), C_LAST text, O_ID u32, O_ENTRY_D u48,
/// O_CARRIER_ID u8 (0 for null); then of each line OL_SUPPLY_W_ID u16, OL_I_ID u24, OL_QUANTITY u8, OL_AMOUNT u24,
/// OL_DELIVERY_D u48 (0 for null). Ends behind the names if the customer never ordered.
pub struct OrderStatus;

/// The arguments, up to 22 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The tables.
    pub layout: LayoutKind,
    /// The customer's warehouse.
    pub warehouse: u16,
    /// The customer's district.
    pub district: u8,
    /// Who asks.
    pub who: Who<'a>,
}

impl<'a> Request<'a> {
    /// Appends the arguments.
    #[inline]
    pub fn encode(&self, args: &mut Vec<u8>) {
        args.put_u8(self.layout.byte());
        args.put_u16(self.warehouse);
        args.put_u8(self.district);
        self.who.encode(args);
    }

    fn decode(args: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut reader = Reader::new(args);
        let request = Request {
            layout: LayoutKind::decode(&mut reader)?,
            warehouse: reader.u16()?,
            district: reader.u8()?,
            who: Who::decode(&mut reader)?,
        };
        reader.end()?;
        let valid = (1..=DISTRICTS).contains(&request.district);
        if valid { Ok(request) } else { Err(Malformed("order status (district out of range)")) }
    }
}

impl Procedure for OrderStatus {
    const NAME: &'static str = "tpcc.order_status";
    const VERSION: u32 = 2;

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: true,
            args: &[LAYOUT, field("warehouse", U16), field("district", U8), WHO],
            reply: &[
                field("customer", U16),
                field("balance", I64),
                field("first", Kind::Text),
                field("middle", Kind::Bytes(2)),
                field("last", Kind::Text),
                field("order", U32),
                field("entry_date", U48),
                field("carrier", U8),
                field(
                    "lines",
                    Kind::Groups(&[
                        field("supply_warehouse", U16),
                        field("item", U24),
                        field("quantity", U8),
                        field("amount", U24),
                        field("delivery_date", U48),
                    ]),
                ),
            ],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let request = Request::decode(args).map_err(|error| bad_request(reply, error.0))?;
        with_layout!(request.layout, run(tx, &request, reply))
    }
}

fn run<L: Layout, T: Transaction>(
    tx: &mut T,
    request: &Request<'_>,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let (w, d) = (request.warehouse, request.district);
    let c = request.who.find::<L, T, _>(tx, (w, d), L::customer_rows, &[], reply)?;
    reply.put_u16(c);
    L::show_customer(tx, keys::customer(w, d, c), reply)?;
    let Some(o) = last_order::<L, T>(tx, w, d, c)? else {
        return Ok(());
    };
    tx.prefetch(&[
        (L::TABLES.order, keys::order(w, d, o)),
        (L::TABLES.order_line, keys::order_line(w, d, o, 1)),
    ]);
    show_order::<L, T>(tx, w, d, o, reply)
}

/// The customer's order with the largest id.
fn last_order<L: Layout, T: Transaction>(tx: &mut T, w: u16, d: u8, c: u16) -> Result<Option<u32>, Abort> {
    let first = keys::order_by_customer(w, d, c, 0).to_be_bytes();
    let last = keys::order_by_customer(w, d, c, u32::MAX).to_be_bytes();
    let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
    let mut found = None;
    tx.scan(L::TABLES.order_by_customer, range, Direction::Backward, |key, _| {
        found = Reader::new(key).array().ok().map(|key| keys::order_number(u64::from_be_bytes(key)));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

fn show_order<L: Layout, T: Transaction>(
    tx: &mut T,
    w: u16,
    d: u8,
    o: u32,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    // The index names an order that is not there: we saw half of somebody's commit. Start over.
    let row = get(tx, L::TABLES.order, keys::order(w, d, o))?.ok_or(Abort::Conflict)?;
    let order = L::order(row).map_err(|error| bad_request(reply, error.0))?;
    reply.put_u32(o);
    reply.put_u48(order.entry_date);
    reply.put_u8(order.carrier);
    let first = keys::order_line(w, d, o, 1).to_be_bytes();
    let last = keys::order_line(w, d, o, 15).to_be_bytes();
    let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
    let mut malformed = None;
    tx.scan(L::TABLES.order_line, range, Direction::Forward, |_, row| match L::order_line(row) {
        Ok(line) => {
            reply.put_u16(line.supply_warehouse);
            reply.put_u24(line.item);
            reply.put_u8(line.quantity);
            reply.put_u24(line.amount);
            reply.put_u48(line.delivery_date);
            ControlFlow::Continue(())
        }
        Err(error) => {
            malformed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    malformed.map_or(Ok(()), |error| Err(bad_request(reply, error.0)))
}
