//! The columns of TPC-C (clause 1.3), and their bytes: in requests' replies whatever the [layout](super::layout), in tables
//! with the `split` one, whose rows these are.
//!
//! Money is in cents, rates (tax, discount) in hundredths of a percent, dates in milliseconds since 1900-01-01 with 0
//! for null. Fixed columns come first; texts carry their length, the last one reaches to the row's end.
//!
//! | row | table | columns | who writes it |
//! |---|---|---|---|
//! | [`Place`] | warehouse_info, district_info | TAX, NAME, STREET_1, STREET_2, CITY, STATE, ZIP | nobody |
//! | i64 | warehouse_ytd, district_ytd | YTD | Payment |
//! | u32 | district_next | D_NEXT_O_ID | NewOrder |
//! | [`CustomerInfo`] | customer_info | all but the following two rows' | nobody |
//! | [`Customer`] | customer | C_BALANCE, C_YTD_PAYMENT, C_PAYMENT_CNT, C_DELIVERY_CNT | Payment, Delivery |
//! | text | customer_data | C_DATA | Payment (bad credit) |
//! | empty | customer_by_name | the names and C_ID stand in the key | who writes customer_info |
//! | [`History`] | history | all; the customer stands in the key | Payment |
//! | [`Order`] | order | all | NewOrder, Delivery |
//! | empty | order_by_customer, new_order | | NewOrder, Delivery |
//! | [`OrderLine`] | order_line | all | NewOrder, Delivery |
//! | [`Item`] | item | all | nobody |
//! | [`Stock`] | stock | S_QUANTITY, S_YTD, S_ORDER_CNT, S_REMOTE_CNT | NewOrder |
//! | [`StockInfo`] | stock_info | S_DIST_01 to S_DIST_10, S_DATA | nobody |

use highwater_core::codec::{Malformed, Reader};

use crate::bytes::{Fields, Sink, StackBytes};

/// Characters of S_DIST_xx and OL_DIST_INFO.
pub const DIST_INFO: usize = 24;
/// Longest C_DATA.
pub const CUSTOMER_DATA_BYTES: usize = 500;

/// A row as bytes.
pub type Row = StackBytes<320>;

/// Where a warehouse, a district or a customer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// STREET_1, 10 to 20 characters.
    pub street_1: &'a [u8],
    /// STREET_2, 10 to 20 characters.
    pub street_2: &'a [u8],
    /// CITY, 10 to 20 characters.
    pub city: &'a [u8],
    pub state: [u8; 2],
    pub zip: [u8; 9],
}

impl<'a> Address<'a> {
    #[inline]
    fn read(reader: &mut Reader<'a>) -> Result<Address<'a>, Malformed> {
        Ok(Address {
            street_1: reader.text()?,
            street_2: reader.text()?,
            city: reader.text()?,
            state: reader.array()?,
            zip: reader.array()?,
        })
    }

    #[inline]
    fn put(&self, row: &mut impl Sink) {
        for text in [self.street_1, self.street_2, self.city] {
            row.put_text(text);
        }
        row.put(&self.state);
        row.put(&self.zip);
    }
}

/// What a warehouse and a district have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Rate, 0 to 2000 for up to 20 %.
    pub tax: u16,
    /// 6 to 10 characters.
    pub name: &'a [u8],
    /// Where it is.
    pub address: Address<'a>,
}

impl<'a> Place<'a> {
    /// The row's columns.
    #[inline]
    pub fn decode(row: &'a [u8]) -> Result<Place<'a>, Malformed> {
        let mut reader = Reader::new(row);
        let place = Place { tax: reader.u16()?, name: reader.text()?, address: Address::read(&mut reader)? };
        reader.end()?;
        Ok(place)
    }

    #[inline]
    pub fn encode(&self) -> Row {
        let mut row = Row::new();
        row.put_u16(self.tax);
        row.put_text(self.name);
        self.address.put(&mut row);
        row
    }
}

/// The part of a customer that never changes; the columns of NewOrder first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomerInfo<'a> {
    /// C_DISCOUNT: rate, 0 to 5000.
    pub discount: u16,
    /// C_CREDIT: `GC` or `BC`.
    pub credit: [u8; 2],
    /// C_LAST, up to 16 characters.
    pub last: &'a [u8],
    /// C_FIRST, 8 to 16 characters.
    pub first: &'a [u8],
    /// C_MIDDLE.
    pub middle: [u8; 2],
    /// C_CREDIT_LIM, cents; below 2^48.
    pub credit_limit: u64,
    /// C_SINCE.
    pub since: u64,
    /// C_PHONE.
    pub phone: [u8; 16],
    /// C_STREET_1 to C_ZIP.
    pub address: Address<'a>,
}

impl<'a> CustomerInfo<'a> {
    /// The row's columns.
    #[inline]
    pub fn decode(row: &'a [u8]) -> Result<CustomerInfo<'a>, Malformed> {
        let mut reader = Reader::new(row);
        let info = CustomerInfo {
            discount: reader.u16()?,
            credit: reader.array()?,
            last: reader.text()?,
            first: reader.text()?,
            middle: reader.array()?,
            credit_limit: reader.u48()?,
            since: reader.u48()?,
            phone: reader.array()?,
            address: Address::read(&mut reader)?,
        };
        reader.end()?;
        Ok(info)
    }

    /// Appends C_FIRST text, C_MIDDLE (2), C_LAST text.
    #[inline]
    pub fn put_names(&self, out: &mut impl Sink) {
        out.put_text(self.first);
        out.put(&self.middle);
        out.put_text(self.last);
    }

    #[inline]
    pub fn encode(&self) -> Row {
        let mut row = Row::new();
        row.put_u16(self.discount);
        row.put(&self.credit);
        row.put_text(self.last);
        row.put_text(self.first);
        row.put(&self.middle);
        row.put_u48(self.credit_limit);
        row.put_u48(self.since);
        row.put(&self.phone);
        self.address.put(&mut row);
        row
    }
}

/// The fixed-size rows: a struct, its size, and its fields in order with their readers and writers.
macro_rules! fixed_row {
    ($(#[$doc:meta])* $name:ident, $bytes:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty = $read:ident / $write:ident,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }

        impl $name {
            /// Size of the row.
            pub const BYTES: usize = $bytes;

            /// The row's columns.
            #[inline]
            pub fn decode(row: &[u8]) -> Result<$name, Malformed> {
                // One length check here lets the compiler drop those of the fields.
                let row: &[u8; $bytes] = row.try_into().map_err(|_| Malformed(concat!(stringify!($name), " row")))?;
                let mut reader = Reader::new(row);
                Ok($name { $($field: reader.$read()?,)* })
            }

            /// The row.
            #[inline]
            pub fn encode(&self) -> [u8; $bytes] {
                let mut bytes = Cursor { bytes: [0; $bytes], at: 0 };
                $(bytes.$write(self.$field);)*
                debug_assert_eq!(bytes.at, $bytes);
                bytes.bytes
            }
        }
    };
}

fixed_row! {
    /// The part of a customer that payments and deliveries change.
    Customer, 24 {
        /// C_BALANCE, cents.
        balance: i64 = i64 / put_i64,
        /// C_YTD_PAYMENT, cents.
        ytd_payment: i64 = i64 / put_i64,
        /// C_PAYMENT_CNT.
        payments: u32 = u32 / put_u32,
        /// C_DELIVERY_CNT.
        deliveries: u32 = u32 / put_u32,
    }
}

fixed_row! {
    Order, 11 {
        /// O_ENTRY_D.
        entry_date: u64 = u48 / put_u48,
        /// O_C_ID.
        customer: u16 = u16 / put_u16,
        /// O_OL_CNT.
        lines: u8 = u8 / put_u8,
        /// O_ALL_LOCAL.
        all_local: u8 = u8 / put_u8,
        /// O_CARRIER_ID, 0 for null.
        carrier: u8 = u8 / put_u8,
    }
}

fixed_row! {
    /// The part of a stock row that orders change.
    Stock, 14 {
        /// S_QUANTITY.
        quantity: u16 = u16 / put_u16,
        /// S_YTD.
        ytd: u32 = u32 / put_u32,
        /// S_ORDER_CNT.
        orders: u32 = u32 / put_u32,
        /// S_REMOTE_CNT.
        remote_orders: u32 = u32 / put_u32,
    }
}

fixed_row! {
    OrderLine, 39 {
        /// OL_I_ID.
        item: u32 = u24 / put_u24,
        /// OL_AMOUNT, cents.
        amount: u32 = u24 / put_u24,
        /// OL_SUPPLY_W_ID.
        supply_warehouse: u16 = u16 / put_u16,
        /// OL_QUANTITY.
        quantity: u8 = u8 / put_u8,
        /// OL_DELIVERY_D, 0 for null.
        delivery_date: u64 = u48 / put_u48,
        /// OL_DIST_INFO.
        dist_info: [u8; DIST_INFO] = array / put_array,
    }
}

/// A payment; the customer who made it stands in the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History<'a> {
    /// H_W_ID: where it was made.
    pub warehouse: u16,
    /// H_D_ID.
    pub district: u8,
    /// H_DATE.
    pub date: u64,
    /// H_AMOUNT, cents.
    pub amount: u32,
    /// H_DATA: the names of warehouse and district, 4 blanks between them.
    pub data: &'a [u8],
}

impl<'a> History<'a> {
    /// The row's columns.
    pub fn decode(row: &'a [u8]) -> Result<History<'a>, Malformed> {
        let mut reader = Reader::new(row);
        Ok(History {
            warehouse: reader.u16()?,
            district: reader.u8()?,
            date: reader.u48()?,
            amount: reader.u24()?,
            data: reader.rest(),
        })
    }

    /// The row.
    #[inline]
    pub fn encode(&self) -> StackBytes<64> {
        let mut row = StackBytes::new();
        row.put_u16(self.warehouse);
        row.put_u8(self.district);
        row.put_u48(self.date);
        row.put_u24(self.amount);
        row.put(self.data);
        row
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// I_PRICE, cents.
    pub price: u32,
    /// I_IM_ID.
    pub image: u16,
    /// I_NAME.
    pub name: &'a [u8],
    /// I_DATA.
    pub data: &'a [u8],
}

impl<'a> Item<'a> {
    /// The row's columns.
    #[inline]
    pub fn decode(row: &'a [u8]) -> Result<Item<'a>, Malformed> {
        let mut reader = Reader::new(row);
        Ok(Item { price: reader.u24()?, image: reader.u16()?, name: reader.text()?, data: reader.rest() })
    }

    /// The row.
    pub fn encode(&self) -> StackBytes<96> {
        let mut row = StackBytes::new();
        row.put_u24(self.price);
        row.put_u16(self.image);
        row.put_text(self.name);
        row.put(self.data);
        row
    }
}

/// The part of a stock row that never changes: the ten district strings, then S_DATA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockInfo<'a> {
    /// S_DIST_01 to S_DIST_10, one behind the other.
    pub dists: &'a [u8; 10 * DIST_INFO],
    /// S_DATA.
    pub data: &'a [u8],
}

impl<'a> StockInfo<'a> {
    /// The row's columns.
    #[inline]
    pub fn decode(row: &'a [u8]) -> Result<StockInfo<'a>, Malformed> {
        let (dists, data) = row.split_first_chunk().ok_or(Malformed("StockInfo row"))?;
        Ok(StockInfo { dists, data })
    }

    pub fn encode(&self) -> Row {
        let mut row = Row::new();
        row.put(self.dists);
        row.put(self.data);
        row
    }

    /// S_DIST_xx of district `d`, 1 to 10.
    #[inline]
    pub fn dist(&self, d: u8) -> [u8; DIST_INFO] {
        let at = (usize::from(d) - 1) * DIST_INFO;
        self.dists[at..at + DIST_INFO].try_into().expect("a slice of this length")
    }
}

/// Writes the fields of a fixed-size row; overflow is a programming error that every use would show.
struct Cursor<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Cursor<N> {
    #[inline(always)]
    fn put_array<const M: usize>(&mut self, bytes: [u8; M]) {
        self.put(&bytes);
    }
}

impl<const N: usize> Sink for Cursor<N> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
}
