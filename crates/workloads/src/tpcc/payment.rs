//! Payment (clause 2.5): a customer pays, at home or elsewhere.
//!
//! The two hottest rows of the benchmark, the year-to-date sums of district and warehouse, hold nothing else and are
//! touched last.

use std::fmt::Write;

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{I64, Kind, Signature, U8, U16, U24, U48, field};
use highwater_core::{Abort, Procedure, TableId, Transaction};

use super::customer::Who;
use super::keys;
use super::population::DISTRICTS;
use super::rows::{CUSTOMER_DATA_BYTES, Customer, CustomerInfo, History, Place};
use super::text;
use crate::bytes::{Fields, Sink, StackBytes, bad_request, require};
use crate::tables::tpcc as table;

/// How much of C_DATA the terminal shows.
const SHOWN_DATA: usize = 200;

/// `tpcc.payment`. Arguments: [`Request`].
///
/// Reply: C_ID u16, C_BALANCE i64 (cents), then the info rows of customer, district and warehouse as texts (they are
/// what the terminal shows), and for a customer of bad credit the first 200 characters of C_DATA, to the end.
pub struct Payment;

/// The arguments, 18 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where it is paid.
    pub warehouse: u16,
    /// Where it is paid.
    pub district: u8,
    /// Where the customer is at home.
    pub customer_warehouse: u16,
    /// Where the customer is at home.
    pub customer_district: u8,
    /// Who pays.
    pub who: Who,
    /// H_AMOUNT, cents.
    pub amount: u32,
    /// H_DATE.
    pub date: u64,
}

impl Request {
    /// Appends the arguments.
    #[inline]
    pub fn encode(&self, args: &mut Vec<u8>) {
        args.put_u16(self.warehouse);
        args.put_u8(self.district);
        args.put_u16(self.customer_warehouse);
        args.put_u8(self.customer_district);
        self.who.encode(args);
        args.put_u24(self.amount);
        args.put_u48(self.date);
    }

    #[inline]
    fn decode(args: &[u8]) -> Result<Request, Malformed> {
        let mut reader = Reader::new(args);
        let request = Request {
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
}

impl Procedure for Payment {
    const NAME: &'static str = "tpcc.payment";

    fn signature() -> Option<&'static Signature> {
        static SIGNATURE: Signature = Signature {
            reads: false,
            args: &[
                field("warehouse", U16),
                field("district", U8),
                field("customer_warehouse", U16),
                field("customer_district", U8),
                field("by", Kind::Word(&["id", "name"])),
                field("customer", U16),
                field("amount", U24),
                field("date", U48),
            ],
            reply: &[
                field("customer", U16),
                field("balance", I64),
                field("customer_row", Kind::Text),
                field("district_row", Kind::Text),
                field("warehouse_row", Kind::Text),
                field("data", Kind::Rest),
            ],
        };
        Some(&SIGNATURE)
    }

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let request = Request::decode(args).map_err(|error| bad_request(reply, error.0))?;
        let (w, d) = (request.warehouse, request.district);
        let (c_w, c_d) = (request.customer_warehouse, request.customer_district);
        request.who.prefetch(c_w, c_d, tx);
        tx.prefetch(&[
            (table::DISTRICT_INFO, keys::district(w, d)),
            (table::DISTRICT_YTD, keys::district(w, d)),
            (table::WAREHOUSE_INFO, keys::warehouse(w)),
            (table::WAREHOUSE_YTD, keys::warehouse(w)),
        ]);
        let c = request.who.find(tx, c_w, c_d, reply)?;
        let key = keys::customer(c_w, c_d, c);
        let payments = pay(tx, key, c, &request, reply)?;
        tx.prefetch(&[(table::HISTORY, keys::history(key, payments))]);
        let credit = show_customer(tx, key, reply)?;
        let d_name = show_place(tx, table::DISTRICT_INFO, keys::district(w, d), reply)?;
        let w_name = show_place(tx, table::WAREHOUSE_INFO, keys::warehouse(w), reply)?;
        record(tx, keys::history(key, payments), &request, &w_name, &d_name)?;
        if credit == text::BAD_CREDIT {
            note_bad_credit(tx, key, c, &request, reply)?;
        }
        add(tx, table::DISTRICT_YTD, keys::district(w, d), request.amount, reply)?;
        add(tx, table::WAREHOUSE_YTD, keys::warehouse(w), request.amount, reply)
    }
}

/// Books the payment with the customer and returns how many there were, this one included.
#[inline]
fn pay<T: Transaction>(
    tx: &mut T,
    key: u64,
    c: u16,
    request: &Request,
    reply: &mut Vec<u8>,
) -> Result<u32, Abort> {
    let row = tx.get(table::CUSTOMER, &key.to_be_bytes())?;
    let mut customer = require(row, Customer::decode, "no such customer", reply)?;
    customer.balance -= i64::from(request.amount);
    customer.ytd_payment += i64::from(request.amount);
    customer.payments = customer.payments.wrapping_add(1);
    tx.put(table::CUSTOMER, &key.to_be_bytes(), &customer.encode())?;
    reply.put_u16(c);
    reply.put_i64(customer.balance);
    Ok(customer.payments)
}

#[inline]
fn show_customer<T: Transaction>(tx: &mut T, key: u64, reply: &mut Vec<u8>) -> Result<[u8; 2], Abort> {
    let row = tx.get(table::CUSTOMER_INFO, &key.to_be_bytes())?;
    let credit = require(row, CustomerInfo::decode, "no such customer", reply)?.credit;
    reply.put_text(row.unwrap_or_default());
    Ok(credit)
}

/// Shows a warehouse or district and returns its name.
#[inline]
fn show_place<T: Transaction>(
    tx: &mut T,
    table: TableId,
    key: u64,
    reply: &mut Vec<u8>,
) -> Result<StackBytes<10>, Abort> {
    let row = tx.get(table, &key.to_be_bytes())?;
    let mut name = StackBytes::new();
    name.put(require(row, Place::decode, "no such warehouse", reply)?.name);
    reply.put_text(row.unwrap_or_default());
    Ok(name)
}

/// Writes the history row. Its key is unique (see [`keys`]), so it is written blindly.
#[inline]
fn record<T: Transaction>(
    tx: &mut T,
    key: u64,
    request: &Request,
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
    tx.put(table::HISTORY, &key.to_be_bytes(), history.encode().as_slice())
}

/// Puts the payment in front of C_DATA, whose end falls off (clause 2.5.2.2).
fn note_bad_credit<T: Transaction>(
    tx: &mut T,
    key: u64,
    c: u16,
    request: &Request,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let mut data = StackBytes::<CUSTOMER_DATA_BYTES>::new();
    let Request { warehouse, district, customer_warehouse, customer_district, amount, .. } = request;
    let (units, cents) = (amount / 100, amount % 100);
    write!(data, "{c} {customer_district} {customer_warehouse} {district} {warehouse} {units}.{cents:02} ")
        .expect("writing to the stack cuts off, it does not fail");
    let row = tx.get(table::CUSTOMER_DATA, &key.to_be_bytes())?;
    data.put(require(row, Ok, "no such customer", reply)?);
    tx.put(table::CUSTOMER_DATA, &key.to_be_bytes(), data.as_slice())?;
    reply.put(&data.as_slice()[..data.as_slice().len().min(SHOWN_DATA)]);
    Ok(())
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
    let row = tx.get(table, &key.to_be_bytes())?;
    let ytd = require(row, |row| Reader::new(row).i64(), "no such warehouse", reply)?;
    tx.put(table, &key.to_be_bytes(), &(ytd + i64::from(amount)).to_le_bytes())
}
