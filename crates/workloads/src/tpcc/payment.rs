//! Payment (clause 2.5): a customer pays, at home or elsewhere.
//!
//! The two hottest rows of the benchmark, the year-to-date sums of district and warehouse, are touched last.

use std::fmt::Write;

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{I64, Kind, Signature, U8, U16, U24, U48, field};
use highwater_core::{Abort, Procedure, Transaction};

use super::customer::{WHO, Who};
use super::keys;
use super::layout::{LAYOUT, Layout, LayoutKind, put, with_layout};
use super::population::DISTRICTS;
use super::rows::{CUSTOMER_DATA_BYTES, History};
use crate::bytes::{Fields, Sink, StackBytes, bad_request};

/// How much of C_DATA the terminal shows.
const SHOWN_DATA: usize = 200;

/// `tpcc.payment`. Arguments: [`Request`].
///
/// Reply: C_ID u16, C_BALANCE i64 (cents); as a text each, the customer's further columns ([`CustomerInfo`]), up to 200 characters
/// of C_DATA for a customer of bad credit (else none), and tax, name and address of district and warehouse ([`Place`]).
///
/// [`CustomerInfo`]: super::rows::CustomerInfo
/// [`Place`]: super::rows::Place
pub struct Payment;

/// The arguments, up to 34 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The tables.
    pub layout: LayoutKind,
    /// Where it is paid.
    pub warehouse: u16,
    /// Where it is paid.
    pub district: u8,
    /// Where the customer is at home.
    pub customer_warehouse: u16,
    /// Where the customer is at home.
    pub customer_district: u8,
    /// Who pays.
    pub who: Who<'a>,
    /// H_AMOUNT, cents.
    pub amount: u32,
    /// H_DATE.
    pub date: u64,
}

impl<'a> Request<'a> {
    /// Appends the arguments.
    #[inline]
    pub fn encode(&self, args: &mut Vec<u8>) {
        args.put_u8(self.layout.byte());
        args.put_u16(self.warehouse);
        args.put_u8(self.district);
        args.put_u16(self.customer_warehouse);
        args.put_u8(self.customer_district);
        self.who.encode(args);
        args.put_u24(self.amount);
        args.put_u48(self.date);
    }

    #[inline]
    fn decode(args: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut reader = Reader::new(args);
        let request = Request {
            layout: LayoutKind::decode(&mut reader)?,
            warehouse: reader.u16()?,
            district: reader.u8()?,
            customer_warehouse: reader.u16()?,
            customer_district: reader.u8()?,
            who: Who::decode(&mut reader)?,
            amount: reader.u24()?,
            date: reader.u48()?,
        };
        reader.end()?;
        let districts = 1..=DISTRICTS;
        if districts.contains(&request.district) && districts.contains(&request.customer_district) {
            Ok(request)
        } else {
            Err(Malformed("payment (district out of range)"))
        }
    }

    /// C_DATA with this payment noted in front of it; its end falls off (clause 2.5.2.2).
    pub(super) fn noted(&self, c: u16, old: &[u8]) -> StackBytes<CUSTOMER_DATA_BYTES> {
        let mut data = StackBytes::new();
        let Request { warehouse, district, customer_warehouse, customer_district, amount, .. } = self;
        let (units, cents) = (amount / 100, amount % 100);
        write!(
            data,
            "{c} {customer_district} {customer_warehouse} {district} {warehouse} {units}.{cents:02} "
        )
        .expect("writing to the stack cuts off, it does not fail");
        data.put(old);
        data
    }
}

/// The part of C_DATA that the terminal shows.
pub(super) fn shown(data: &[u8]) -> &[u8] {
    &data[..data.len().min(SHOWN_DATA)]
}

impl Procedure for Payment {
    const NAME: &'static str = "tpcc.payment";
    const VERSION: u32 = 2;

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[
                LAYOUT,
                field("warehouse", U16),
                field("district", U8),
                field("customer_warehouse", U16),
                field("customer_district", U8),
                WHO,
                field("amount", U24),
                field("date", U48),
            ],
            reply: &[
                field("customer", U16),
                field("balance", I64),
                field("customer_row", Kind::Text),
                field("data", Kind::Text),
                field("district_row", Kind::Text),
                field("warehouse_row", Kind::Text),
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
    let (c_w, c_d) = (request.customer_warehouse, request.customer_district);
    let beside = L::place_rows(w, d);
    let c = request.who.find::<L, T, _>(tx, (c_w, c_d), L::paying_rows, beside.as_ref(), reply)?;
    let payments = L::pay(tx, c, request, reply)?;
    let key = keys::history(keys::customer(c_w, c_d, c), payments);
    tx.prefetch(L::history_rows(key).as_ref());
    let d_name = L::pay_district(tx, keys::district(w, d), request.amount, reply)?;
    let w_name = L::pay_warehouse(tx, keys::warehouse(w), request.amount, reply)?;
    record::<L, T>(tx, key, request, &w_name, &d_name)
}

/// Writes the history row. Its key is unique (see [`keys`]), so it is written blindly.
#[inline]
fn record<L: Layout, T: Transaction>(
    tx: &mut T,
    key: u64,
    request: &Request<'_>,
    w_name: &StackBytes<10>,
    d_name: &StackBytes<10>,
) -> Result<(), Abort> {
    let mut data = StackBytes::<24>::new();
    data.put(w_name.as_slice());
    data.put(b"    ");
    data.put(d_name.as_slice());
    let history = History {
        warehouse: request.warehouse,
        district: request.district,
        date: request.date,
        amount: request.amount,
        data: data.as_slice(),
    };
    put(tx, L::TABLES.history, key, L::history_row(&history).as_slice())
}
