//! Delivery (clause 2.7): the oldest new order of each district is delivered, all ten in one transaction.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{Kind, Signature, U8, U16, U32, U48, field};
use highwater_core::{Abort, Direction, Procedure, TableId, Transaction};

use super::keys;
use super::layout::{LAYOUT, Layout, LayoutKind, get, put, with_layout};
use super::new_order::MAX_LINES;
use super::population::DISTRICTS;
use super::rows::OrderLine;
use crate::bytes::{Fields, Sink, bad_request};

const N: usize = DISTRICTS as usize;

/// `tpcc.delivery`. Arguments: [`Request`].
///
/// Reply: for each district the O_ID u32 that was delivered, 0 where there was no new order.
pub struct Delivery;

/// The arguments, 10 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The tables.
    pub layout: LayoutKind,
    pub warehouse: u16,
    /// O_CARRIER_ID, 1 to 10.
    pub carrier: u8,
    /// OL_DELIVERY_D.
    pub date: u64,
}

impl Request {
    /// Appends the arguments.
    #[inline]
    pub fn encode(&self, args: &mut Vec<u8>) {
        args.put_u8(self.layout.byte());
        args.put_u16(self.warehouse);
        args.put_u8(self.carrier);
        args.put_u48(self.date);
    }

    fn decode(args: &[u8]) -> Result<Request, Malformed> {
        let mut reader = Reader::new(args);
        let request = Request {
            layout: LayoutKind::decode(&mut reader)?,
            warehouse: reader.u16()?,
            carrier: reader.u8()?,
            date: reader.u48()?,
        };
        reader.end()?;
        let valid = (1..=10).contains(&request.carrier) && request.date != 0;
        if valid { Ok(request) } else { Err(Malformed("delivery (carrier or date out of range)")) }
    }
}

/// What is known of one district's order on the way.
#[derive(Clone, Copy, Default)]
struct Parcel {
    district: u8,
    order: u32,
    customer: u64,
    amount: i64,
}

impl Procedure for Delivery {
    const NAME: &'static str = "tpcc.delivery";
    const VERSION: u32 = 2;

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[LAYOUT, field("warehouse", U16), field("carrier", U8), field("date", U48)],
            reply: &[field("orders", Kind::Groups(&[field("order", U32)]))],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let request = Request::decode(args).map_err(|error| bad_request(reply, error.0))?;
        with_layout!(request.layout, run(tx, &request, reply))
    }
}

fn run<L: Layout, T: Transaction>(tx: &mut T, request: &Request, reply: &mut Vec<u8>) -> Result<(), Abort> {
    let w = request.warehouse;
    let mut parcels = [Parcel::default(); N];
    let mut count = 0;
    for district in 1..=DISTRICTS {
        let order = oldest_new_order::<L, T>(tx, w, district)?;
        reply.put_u32(order.unwrap_or(0));
        if let Some(order) = order {
            parcels[count] = Parcel { district, order, ..Parcel::default() };
            count += 1;
        }
    }
    let parcels = &mut parcels[..count];
    // Each pass over the districts knows the keys of the next ones.
    prefetch(tx, parcels, |parcel| (L::TABLES.order, keys::order(w, parcel.district, parcel.order)));
    prefetch(tx, parcels, |parcel| {
        (L::TABLES.order_line, keys::order_line(w, parcel.district, parcel.order, 1))
    });
    for parcel in parcels.iter_mut() {
        deliver_order::<L, T>(tx, request, parcel, reply)?;
    }
    prefetch(tx, parcels, |parcel| (L::TABLES.customer, parcel.customer));
    for parcel in parcels.iter_mut() {
        parcel.amount = deliver_lines::<L, T>(tx, request, parcel, reply)?;
    }
    parcels.iter().try_for_each(|parcel| L::bill(tx, parcel.customer, parcel.amount, reply))
}

#[inline]
fn prefetch<T: Transaction>(tx: &mut T, parcels: &[Parcel], key: impl Fn(&Parcel) -> (TableId, u64)) {
    let mut wanted = [(TableId(0), 0); N];
    wanted.iter_mut().zip(parcels).for_each(|(slot, parcel)| *slot = key(parcel));
    tx.prefetch(&wanted[..parcels.len()]);
}

fn oldest_new_order<L: Layout, T: Transaction>(tx: &mut T, w: u16, d: u8) -> Result<Option<u32>, Abort> {
    let first = keys::order(w, d, 0).to_be_bytes();
    let last = keys::order(w, d, u32::MAX).to_be_bytes();
    let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
    let mut oldest = None;
    tx.scan(L::TABLES.new_order, range, Direction::Forward, |key, _| {
        oldest = Reader::new(key).array().ok().map(|key| keys::order_number(u64::from_be_bytes(key)));
        ControlFlow::Break(())
    })?;
    Ok(oldest)
}

/// Takes the order out of the new ones and sets O_CARRIER_ID.
fn deliver_order<L: Layout, T: Transaction>(
    tx: &mut T,
    request: &Request,
    parcel: &mut Parcel,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let (w, d) = (request.warehouse, parcel.district);
    let key = keys::order(w, d, parcel.order);
    // A new order without its order: we saw half of somebody's commit. Start over. Likewise if it is gone by now.
    let row = get(tx, L::TABLES.order, key)?.ok_or(Abort::Conflict)?;
    let mut order = L::order(row).map_err(|error| bad_request(reply, error.0))?;
    parcel.customer = keys::customer(w, d, order.customer);
    if !tx.delete(L::TABLES.new_order, &key.to_be_bytes())? {
        return Err(Abort::Conflict);
    }
    order.carrier = request.carrier;
    put(tx, L::TABLES.order, key, L::order_row(&order).as_ref())
}

/// Sets OL_DELIVERY_D of each line, and returns the sum of OL_AMOUNT in cents.
fn deliver_lines<L: Layout, T: Transaction>(
    tx: &mut T,
    request: &Request,
    parcel: &Parcel,
    reply: &mut Vec<u8>,
) -> Result<i64, Abort> {
    let (w, d, o) = (request.warehouse, parcel.district, parcel.order);
    let first = keys::order_line(w, d, o, 1).to_be_bytes();
    let last = keys::order_line(w, d, o, MAX_LINES as u8).to_be_bytes();
    let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
    let mut lines: [Option<OrderLine>; MAX_LINES] = [None; MAX_LINES];
    let mut malformed = None;
    tx.scan(L::TABLES.order_line, range, Direction::Forward, |key, row| {
        let number = usize::from(key.last().map_or(0, |byte| byte & 0xf));
        match (L::order_line(row), lines.get_mut(number.wrapping_sub(1))) {
            (Ok(line), Some(slot)) => *slot = Some(line),
            (Err(error), _) => malformed = Some(error),
            (Ok(_), None) => {}
        }
        ControlFlow::Continue(())
    })?;
    if let Some(error) = malformed {
        return Err(bad_request(reply, error.0));
    }
    let mut amount = 0;
    for (number, line) in (1..).zip(lines) {
        let Some(mut line) = line else { continue };
        amount += i64::from(line.amount);
        line.delivery_date = request.date;
        put(tx, L::TABLES.order_line, keys::order_line(w, d, o, number), L::order_line_row(&line).as_ref())?;
    }
    Ok(amount)
}
