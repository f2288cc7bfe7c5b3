//! Rows as packed structs, the way Silo's benchmark stores them: every column at a fixed place, texts in fields of their largest
//! width.
//!
//! Where a column's type would lose what the conditions need, it is wider here: money is in 64-bit cents where Silo has a
//! 32-bit float (balances and sums, the credit limit), and dates have 48 bits instead of 32.

use highwater_core::codec::{Malformed, Reader};

use crate::bytes::{Fields, Sink, StackBytes};
use crate::tpcc::rows::{
    Address, CUSTOMER_DATA_BYTES, Customer, CustomerInfo, DIST_INFO, History, Item, Order, OrderLine, Place,
    StockInfo,
};

/// W_YTD, W_TAX, then name and address.
pub type WarehouseRow = [u8; WAREHOUSE_TEXTS + PLACE_TEXTS];
/// D_YTD, D_TAX, D_NEXT_O_ID, then name and address.
pub type DistrictRow = [u8; DISTRICT_TEXTS + PLACE_TEXTS];
/// All columns of a customer.
pub type CustomerRow = [u8; DATA + 2 + CUSTOMER_DATA_BYTES + 1];

/// Where the texts of a warehouse begin.
pub const WAREHOUSE_TEXTS: usize = 8 + 4;
/// Where the texts of a district begin.
pub const DISTRICT_TEXTS: usize = 8 + 4 + 4;
const PLACE_TEXTS: usize = width(10) + ADDRESS;
const ADDRESS: usize = 3 * width(20) + 2 + 9;
/// Where the customer's sums are.
const SUMS: usize = 4 + 2 + 2 * width(16) + 8;
/// Where C_DATA is.
const DATA: usize = SUMS + Customer::BYTES + ADDRESS + 16 + 6 + 2;

/// Bytes of a text column of up to `characters`: its length, the characters, and a byte for a zero that C strings end in.
const fn width(characters: usize) -> usize {
    1 + characters + 1
}

/// The row, if it has the right size.
#[inline]
pub fn fixed<const N: usize>(row: &[u8]) -> Result<&[u8; N], Malformed> {
    row.try_into().map_err(|_| Malformed("row (of another size)"))
}

#[inline]
fn put_char(row: &mut impl Sink, text: &[u8], characters: usize) {
    const ZEROS: [u8; 64] = [0; 64];
    let text = &text[..text.len().min(characters)];
    row.put_u8(text.len() as u8);
    row.put(text);
    row.put(&ZEROS[..characters + 1 - text.len()]);
}

#[inline]
fn char<'a>(reader: &mut Reader<'a>, characters: usize) -> Result<&'a [u8], Malformed> {
    let len = usize::from(reader.u8()?);
    reader.take(characters + 1)?.get(..len).ok_or(Malformed("text column (longer than its field)"))
}

fn put_address(row: &mut impl Sink, address: &Address<'_>) {
    for text in [address.street_1, address.street_2, address.city] {
        put_char(row, text, 20);
    }
    row.put(&address.state);
    row.put(&address.zip);
}

#[inline]
fn address<'a>(reader: &mut Reader<'a>) -> Result<Address<'a>, Malformed> {
    Ok(Address {
        street_1: char(reader, 20)?,
        street_2: char(reader, 20)?,
        city: char(reader, 20)?,
        state: reader.array()?,
        zip: reader.array()?,
    })
}

pub fn warehouse_row(place: &Place<'_>, ytd: i64) -> WarehouseRow {
    let mut row = StackBytes::<{ WAREHOUSE_TEXTS + PLACE_TEXTS }>::new();
    row.put_i64(ytd);
    row.put_u32(place.tax.into());
    put_char(&mut row, place.name, 10);
    put_address(&mut row, &place.address);
    row.as_slice().try_into().expect("all columns")
}

pub fn district_row(place: &Place<'_>, ytd: i64, next_order: u32) -> DistrictRow {
    let mut row = StackBytes::<{ DISTRICT_TEXTS + PLACE_TEXTS }>::new();
    row.put_i64(ytd);
    row.put_u32(place.tax.into());
    row.put_u32(next_order);
    put_char(&mut row, place.name, 10);
    put_address(&mut row, &place.address);
    row.as_slice().try_into().expect("all columns")
}

/// YTD of a warehouse or a district.
#[inline]
pub fn ytd(row: &[u8]) -> Result<i64, Malformed> {
    Reader::new(row).i64()
}

/// Adds to YTD of a warehouse or a district.
#[inline]
pub fn add_ytd<const N: usize>(row: &mut [u8; N], amount: u32) -> Result<(), Malformed> {
    let sum = ytd(row)? + i64::from(amount);
    row[..8].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// TAX of a warehouse or a district.
#[inline]
pub fn tax(row: &[u8]) -> Result<u16, Malformed> {
    let mut reader = Reader::new(row);
    reader.take(8)?;
    Ok(reader.u32()? as u16)
}

/// D_NEXT_O_ID.
#[inline]
pub fn next_order(row: &DistrictRow) -> u32 {
    u32::from_le_bytes(row[12..16].try_into().expect("4 bytes"))
}

/// Sets D_NEXT_O_ID.
#[inline]
pub fn set_next_order(row: &mut DistrictRow, next: u32) {
    row[12..16].copy_from_slice(&next.to_le_bytes());
}

/// Name, address and tax of a warehouse or a district, whose texts begin at `texts`.
#[inline]
pub fn place(row: &[u8], texts: usize) -> Result<Place<'_>, Malformed> {
    let mut reader = Reader::new(row);
    let tax = tax(row)?;
    reader.take(texts)?;
    let place = Place { tax, name: char(&mut reader, 10)?, address: address(&mut reader)? };
    reader.end()?;
    Ok(place)
}

pub fn customer_row(info: &CustomerInfo<'_>, customer: &Customer, data: &[u8]) -> CustomerRow {
    let mut row = StackBytes::<{ DATA + 2 + CUSTOMER_DATA_BYTES + 1 }>::new();
    row.put_u32(info.discount.into());
    row.put(&info.credit);
    put_char(&mut row, info.last, 16);
    put_char(&mut row, info.first, 16);
    row.put_u64(info.credit_limit);
    row.put(&customer.encode());
    put_address(&mut row, &info.address);
    row.put(&info.phone);
    row.put_u48(info.since);
    row.put(&info.middle);
    row.put(&[0; 2 + CUSTOMER_DATA_BYTES + 1]);
    let mut row = row.as_slice().try_into().expect("all columns");
    set_data(&mut row, data);
    row
}

/// What never changes of a customer.
#[inline]
pub fn customer_info(row: &CustomerRow) -> Result<CustomerInfo<'_>, Malformed> {
    let mut reader = Reader::new(row);
    let discount = reader.u32()? as u16;
    let credit = reader.array()?;
    let (last, first) = (char(&mut reader, 16)?, char(&mut reader, 16)?);
    let credit_limit = reader.u64()? & ((1 << 48) - 1);
    reader.take(Customer::BYTES)?;
    let address = address(&mut reader)?;
    let (phone, since, middle) = (reader.array()?, reader.u48()?, reader.array()?);
    Ok(CustomerInfo { discount, credit, last, first, middle, credit_limit, since, phone, address })
}

/// A customer's sums.
#[inline]
pub fn customer(row: &CustomerRow) -> Result<Customer, Malformed> {
    Customer::decode(&row[SUMS..SUMS + Customer::BYTES])
}

/// Sets a customer's sums.
#[inline]
pub fn set_customer(row: &mut CustomerRow, customer: &Customer) {
    row[SUMS..SUMS + Customer::BYTES].copy_from_slice(&customer.encode());
}

/// C_DATA.
#[inline]
pub fn data(row: &CustomerRow) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(&row[DATA..]);
    let len = usize::from(reader.u16()?);
    reader.rest().get(..len).ok_or(Malformed("C_DATA (longer than its field)"))
}

/// Sets C_DATA.
#[inline]
pub fn set_data(row: &mut CustomerRow, data: &[u8]) {
    let data = &data[..data.len().min(CUSTOMER_DATA_BYTES)];
    row[DATA..DATA + 2].copy_from_slice(&(data.len() as u16).to_le_bytes());
    row[DATA + 2..DATA + 2 + data.len()].copy_from_slice(data);
}

#[inline]
pub fn order_row(order: &Order) -> [u8; 16] {
    let mut row = [0; 16];
    row[..2].copy_from_slice(&order.customer.to_le_bytes());
    row[4] = order.carrier;
    (row[8], row[9]) = (order.lines, order.all_local);
    row[10..].copy_from_slice(&order.entry_date.to_le_bytes()[..6]);
    row
}

#[inline]
pub fn order(row: &[u8]) -> Result<Order, Malformed> {
    let mut reader = Reader::new(fixed::<16>(row)?);
    Ok(Order {
        customer: reader.u32()? as u16,
        carrier: reader.u32()? as u8,
        lines: reader.u8()?,
        all_local: reader.u8()?,
        entry_date: reader.u48()?,
    })
}

/// An order line, which has no OL_DIST_INFO.
#[inline]
pub fn order_line_row(line: &OrderLine) -> [u8; 19] {
    let mut row = [0; 19];
    row[..4].copy_from_slice(&line.item.to_le_bytes());
    row[4..10].copy_from_slice(&line.delivery_date.to_le_bytes()[..6]);
    row[10..14].copy_from_slice(&line.amount.to_le_bytes());
    row[14..16].copy_from_slice(&line.supply_warehouse.to_le_bytes());
    row[18] = line.quantity;
    row
}

/// An order line, with blanks for OL_DIST_INFO.
#[inline]
pub fn order_line(row: &[u8]) -> Result<OrderLine, Malformed> {
    let mut reader = Reader::new(fixed::<19>(row)?);
    Ok(OrderLine {
        item: reader.u32()?,
        delivery_date: reader.u48()?,
        amount: reader.u32()?,
        supply_warehouse: reader.u32()? as u16,
        quantity: reader.u8()?,
        dist_info: [b' '; DIST_INFO],
    })
}

/// A payment.
#[inline]
pub fn history_row(history: &History<'_>) -> StackBytes<64> {
    let mut row = StackBytes::new();
    row.put_u16(history.warehouse);
    row.put_u8(history.district);
    row.put_u48(history.date);
    row.put_u32(history.amount);
    put_char(&mut row, history.data, 24);
    row
}

/// A payment.
pub fn history(row: &[u8]) -> Result<History<'_>, Malformed> {
    let mut reader = Reader::new(row);
    let history = History {
        warehouse: reader.u16()?,
        district: reader.u8()?,
        date: reader.u48()?,
        amount: reader.u32()?,
        data: char(&mut reader, 24)?,
    };
    reader.end()?;
    Ok(history)
}

pub fn item_row(item: &Item<'_>) -> StackBytes<96> {
    let mut row = StackBytes::new();
    put_char(&mut row, item.name, 24);
    row.put_u32(item.price);
    put_char(&mut row, item.data, 50);
    row.put_u32(item.image.into());
    row
}

#[inline]
pub fn item(row: &[u8]) -> Result<Item<'_>, Malformed> {
    let mut reader = Reader::new(fixed::<{ 2 * 4 + width(24) + width(50) }>(row)?);
    let (name, price) = (char(&mut reader, 24)?, reader.u32()?);
    let (data, image) = (char(&mut reader, 50)?, reader.u32()? as u16);
    Ok(Item { price, image, name, data })
}

/// S_DATA and the district strings.
pub fn stock_data_row(info: &StockInfo<'_>) -> StackBytes<320> {
    let mut row = StackBytes::new();
    put_char(&mut row, info.data, 50);
    row.put(info.dists);
    row
}

/// S_DATA and the district strings.
pub fn stock_data(row: &[u8]) -> Result<StockInfo<'_>, Malformed> {
    let mut reader = Reader::new(row);
    let data = char(&mut reader, 50)?;
    let dists = fixed(reader.rest())?;
    Ok(StockInfo { dists, data })
}
