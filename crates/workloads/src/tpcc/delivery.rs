//! Delivery (clause 2.7): the oldest new order of each district is delivered, all ten in one transaction.
//!
//! Order and order lines are not rewritten: carrier and date go into the order's delivery row.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{Kind, Signature, U8, U16, U32, U48, field};
use highwater_core::{Abort, Direction, Procedure, TableId, Transaction};

use super::keys;
use super::population::{DISTRICTS, line_mask};
use super::rows::{Customer, Delivered, Order, OrderLine};
use crate::bytes::{Fields, Sink, bad_request, require};
use crate::tables::tpcc as table;

const N: usize = DISTRICTS as usize;

/// `tpcc.delivery`. Arguments: [`Request`].
///
/// Reply: for each district the O_ID u32 that was delivered, 0 where there was no new order.
pub struct Delivery;

/// The arguments, 9 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The warehouse.
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
        args.put_u16(self.warehouse);
        args.put_u8(self.carrier);
        args.put_u48(self.date);
    }

    fn decode(args: &[u8]) -> Result<Request, Malformed> {
        let mut reader = Reader::new(args);
        let request = Request { warehouse: reader.u16()?, carrier: reader.u8()?, date: reader.u48()? };
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

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[field("warehouse", U16), field("carrier", U8), field("date", U48)],
            reply: &[field("orders", Kind::Groups(&[field("order", U32)]))],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let request = Request::decode(args).map_err(|error| bad_request(reply, error.0))?;
        let w = request.warehouse;
        let mut parcels = [Parcel::default(); N];
        let mut count = 0;
        for district in 1..=DISTRICTS {
            let order = oldest_new_order(tx, w, district)?;
            reply.put_u32(order.unwrap_or(0));
            if let Some(order) = order {
                parcels[count] = Parcel { district, order, ..Parcel::default() };
                count += 1;
            }
        }
        let parcels = &mut parcels[..count];
        // Each pass over the districts knows the keys of the next one.
        prefetch(tx, parcels, |parcel| (table::ORDER, keys::order(w, parcel.district, parcel.order)));
        for parcel in parcels.iter_mut() {
            deliver(tx, &request, parcel, reply)?;
        }
        prefetch(tx, parcels, |parcel| (table::CUSTOMER, parcel.customer));
        for parcel in parcels.iter_mut() {
            parcel.amount = total(tx, w, parcel, reply)?;
        }
        parcels.iter().try_for_each(|parcel| bill(tx, parcel, reply))
    }
}

#[inline]
fn prefetch<T: Transaction>(tx: &mut T, parcels: &[Parcel], key: impl Fn(&Parcel) -> (TableId, u64)) {
    let mut wanted = [(TableId(0), 0); N];
    wanted.iter_mut().zip(parcels).for_each(|(slot, parcel)| *slot = key(parcel));
    tx.prefetch(&wanted[..parcels.len()]);
}

fn oldest_new_order<T: Transaction>(tx: &mut T, w: u16, d: u8) -> Result<Option<u32>, Abort> {
    let first = keys::order(w, d, 0).to_be_bytes();
    let last = keys::order(w, d, u32::MAX).to_be_bytes();
    let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
    let mut oldest = None;
    tx.scan(table::NEW_ORDER, range, Direction::Forward, |key, _| {
        oldest = Reader::new(key).array().ok().map(|key| keys::order_number(u64::from_be_bytes(key)));
        ControlFlow::Break(())
    })?;
    Ok(oldest)
}

/// Takes the order out of the new ones and says who carries it and when.
fn deliver<T: Transaction>(
    tx: &mut T,
    request: &Request,
    parcel: &mut Parcel,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let (w, d) = (request.warehouse, parcel.district);
    let key = keys::order(w, d, parcel.order).to_be_bytes();
    // A new order without its order: we saw half of somebody's commit. Start over. Likewise if it is gone by now.
    let row = tx.get(table::ORDER, &key)?.ok_or(Abort::Conflict)?;
    let order = Order::decode(row).map_err(|error| bad_request(reply, error.0))?;
    parcel.customer = keys::customer(w, d, order.customer);
    if !tx.delete(table::NEW_ORDER, &key)? {
        return Err(Abort::Conflict);
    }
    let Request { carrier, date, .. } = *request;
    let delivered = Delivered { carrier, date, line_mask: line_mask(order.lines) };
    tx.put(table::DELIVERY, &key, &delivered.encode())
}

/// The sum of OL_AMOUNT, in cents.
fn total<T: Transaction>(tx: &mut T, w: u16, parcel: &Parcel, reply: &mut Vec<u8>) -> Result<i64, Abort> {
    let first = keys::order_line(w, parcel.district, parcel.order, 1).to_be_bytes();
    let last = keys::order_line(w, parcel.district, parcel.order, 15).to_be_bytes();
    let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
    let mut amount: Result<i64, Malformed> = Ok(0);
    tx.scan(table::ORDER_LINE, range, Direction::Forward, |_, row| {
        let line = OrderLine::decode_head(row);
        amount = amount.and_then(|sum| Ok(sum + i64::from(line?.amount)));
        ControlFlow::Continue(())
    })?;
    amount.map_err(|error| bad_request(reply, error.0))
}

fn bill<T: Transaction>(tx: &mut T, parcel: &Parcel, reply: &mut Vec<u8>) -> Result<(), Abort> {
    let key = parcel.customer.to_be_bytes();
    let row = tx.get(table::CUSTOMER, &key)?;
    let mut customer = require(row, Customer::decode, "no such customer", reply)?;
    customer.balance += parcel.amount;
    customer.deliveries = customer.deliveries.wrapping_add(1);
    tx.put(table::CUSTOMER, &key, &customer.encode())
}
