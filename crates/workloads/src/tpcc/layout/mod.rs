//! How the nine tables of the specification lie in tables of the store, and what that makes of each access.
//!
//! Two layouts, with the same requests, the same population, the same replies and the same conditions:
//!
//! - [`Split`]: columns that are written stand apart from those that are only read (clause 1.4 permits vertical partitions),
//!   and what is never scanned is hashed. Less is read, locked, logged and applied, and transactions that touch different columns
//!   do not conflict.
//! - [`Silo`]: the tables of Silo's benchmark. Whole rows with character columns of fixed width, all of them in ordered indexes.
//!   For comparing engines like with like.
//!
//! A transaction is written once, over the trait [`Layout`]; each layout gets its own instance of the code. Which one a request
//! means stands in its arguments, a [`LayoutKind`] in the first byte.

mod names;
pub mod silo;
mod split;

use std::fmt;
use std::str::FromStr;

use highwater_core::codec::{Malformed, Reader};
use highwater_core::signature::{Field, Kind, field};
use highwater_core::{Abort, TableId, Transaction};

use super::payment;
use super::rows::{
    Customer, CustomerInfo, DIST_INFO, History, Item, Order, OrderLine, Place, Stock, StockInfo,
};
use crate::bytes::StackBytes;
pub use names::{Name, NameKey};
pub use silo::Silo;
pub use split::Split;

/// [`LayoutKind`], in a signature.
pub const LAYOUT: Field = field("layout", Kind::Word(&["split", "silo"]));

/// The choice of a layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayoutKind {
    /// [`Split`].
    #[default]
    Split,
    /// [`Silo`].
    Silo,
}

impl LayoutKind {
    /// Both.
    pub const ALL: [LayoutKind; 2] = [LayoutKind::Split, LayoutKind::Silo];

    /// As the command line names it.
    pub fn name(self) -> &'static str {
        match self {
            LayoutKind::Split => "split",
            LayoutKind::Silo => "silo",
        }
    }

    /// For people, in a line.
    pub fn about(self) -> &'static str {
        match self {
            LayoutKind::Split => {
                "columns that are written stand apart; hash indexes where nothing is scanned"
            }
            LayoutKind::Silo => {
                "Silo's tables: whole rows, text columns of fixed width, ordered indexes throughout"
            }
        }
    }

    /// As the first byte of the arguments.
    #[inline]
    pub fn byte(self) -> u8 {
        self as u8
    }

    /// From the first byte of the arguments.
    #[inline]
    pub fn decode(reader: &mut Reader<'_>) -> Result<LayoutKind, Malformed> {
        match reader.u8()? {
            0 => Ok(LayoutKind::Split),
            1 => Ok(LayoutKind::Silo),
            _ => Err(Malformed("layout (neither 0 for split nor 1 for silo)")),
        }
    }
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for LayoutKind {
    type Err = ();

    fn from_str(text: &str) -> Result<LayoutKind, ()> {
        LayoutKind::ALL.into_iter().find(|kind| kind.name() == text).ok_or(())
    }
}

/// Calls a function that is generic over [`Layout`] with the one that is asked for.
macro_rules! with_layout {
    ($kind:expr, $function:ident ( $($argument:expr),* )) => {
        match $kind {
            $crate::tpcc::layout::LayoutKind::Split => $function::<$crate::tpcc::layout::Split, _>($($argument),*),
            $crate::tpcc::layout::LayoutKind::Silo => $function::<$crate::tpcc::layout::Silo, _>($($argument),*),
        }
    };
}
pub(super) use with_layout;

/// The tables that transactions use alike in every layout, and where the conditions find their columns: two of these may be one
/// table. Keys are those of [`keys`](super::keys).
#[derive(Clone, Copy, Debug)]
pub struct LayoutTables {
    /// Has W_YTD.
    pub warehouse_ytd: TableId,
    /// Has D_YTD.
    pub district_ytd: TableId,
    /// Has D_NEXT_O_ID.
    pub district_next: TableId,
    /// Has the columns of [`Customer`].
    pub customer: TableId,
    /// Has the columns of [`CustomerInfo`].
    pub customer_info: TableId,
    /// Customers by last and first name; ordered, the keys are [`NameKey`]s.
    pub customer_by_name: TableId,
    pub history: TableId,
    pub order: TableId,
    /// Orders by customer; ordered.
    pub order_by_customer: TableId,
    /// NEW-ORDER; ordered.
    pub new_order: TableId,
    /// ORDER-LINE; ordered.
    pub order_line: TableId,
    pub item: TableId,
    /// Has the columns of [`Stock`].
    pub stock: TableId,
    /// All further tables that have a row per warehouse.
    pub per_warehouse: &'static [TableId],
    /// All further tables that have a row per district.
    pub per_district: &'static [TableId],
    /// All further tables that have a row per customer.
    pub per_customer: &'static [TableId],
    /// All further tables that have a row per item of a warehouse.
    pub per_stock: &'static [TableId],
}

/// What an order line gets from the stock.
#[derive(Clone, Copy, Debug)]
pub struct Supplied {
    /// S_QUANTITY afterwards.
    pub quantity: u16,
    /// S_DIST_xx of the district that orders; blanks if the layout has no OL_DIST_INFO.
    pub dist_info: [u8; DIST_INFO],
    /// Whether S_DATA has "ORIGINAL" in it, if the layout reads it.
    pub original: Option<bool>,
}

/// What a line takes from the stock.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// The key of the stock row.
    pub stock: u64,
    /// The district that orders, 1 to 10.
    pub district: u8,
    /// OL_QUANTITY.
    pub quantity: u8,
    /// Whether the supplying warehouse is another one.
    pub remote: bool,
}

/// The rows of a layout, and every access of a transaction that takes different rows in different layouts.
///
/// Functions that take a `reply` explain in it why a request makes no sense: that rows are absent, or malformed.
pub trait Layout: 'static {
    /// Its name.
    const KIND: LayoutKind;
    const TABLES: LayoutTables;
    /// The value of a row in NEW-ORDER.
    const NEW_ORDER_ROW: &'static [u8];
    /// The value of an entry in the index of orders by customer.
    const ORDER_BY_CUSTOMER_ROW: &'static [u8];

    /// W_YTD.
    fn warehouse_ytd(row: &[u8]) -> Result<i64, Malformed>;
    /// D_YTD.
    fn district_ytd(row: &[u8]) -> Result<i64, Malformed>;
    /// D_NEXT_O_ID.
    fn district_next(row: &[u8]) -> Result<u32, Malformed>;
    /// A customer's sums.
    fn customer(row: &[u8]) -> Result<Customer, Malformed>;
    /// What never changes of a customer.
    fn customer_info(row: &[u8]) -> Result<CustomerInfo<'_>, Malformed>;
    fn order(row: &[u8]) -> Result<Order, Malformed>;
    /// ORDER, to be written.
    fn order_row(order: &Order) -> impl AsRef<[u8]>;
    /// ORDER-LINE; a layout may not have OL_DIST_INFO.
    fn order_line(row: &[u8]) -> Result<OrderLine, Malformed>;
    /// ORDER-LINE, to be written.
    fn order_line_row(line: &OrderLine) -> impl AsRef<[u8]>;
    fn history(row: &[u8]) -> Result<History<'_>, Malformed>;
    /// HISTORY, to be written.
    fn history_row(history: &History<'_>) -> StackBytes<64>;
    fn item(row: &[u8]) -> Result<Item<'_>, Malformed>;
    /// ITEM, to be written.
    fn item_row(item: &Item<'_>) -> StackBytes<96>;
    /// STOCK, the changing part.
    fn stock(row: &[u8]) -> Result<Stock, Malformed>;
    /// STOCK, the changing part, to be written.
    fn stock_row(stock: &Stock) -> impl AsRef<[u8]>;
    /// The key of a customer in the index by name.
    fn name_key(w: u16, d: u8, last: &[u8], first: &[u8], c: u16) -> NameKey;
    /// The value of a customer in the index by name.
    fn name_row(c: u16) -> StackBytes<4>;
    /// An entry of the index by name.
    fn name<'a>(key: &'a [u8], row: &[u8]) -> Result<Name<'a>, Malformed>;

    /// What NewOrder keeps of the district until it draws the order's id.
    type District: Copy;
    /// NewOrder: W_TAX, D_TAX.
    fn taxes<T: Transaction>(
        tx: &mut T,
        w: u16,
        d: u8,
        reply: &mut Vec<u8>,
    ) -> Result<(u16, u16, Self::District), Abort>;
    /// NewOrder: takes D_NEXT_O_ID and advances it.
    fn draw_id<T: Transaction>(
        tx: &mut T,
        district: u64,
        read: Self::District,
        reply: &mut Vec<u8>,
    ) -> Result<u32, Abort>;
    /// NewOrder: takes from the stock.
    fn take_stock<T: Transaction>(
        tx: &mut T,
        demand: &Demand,
        reply: &mut Vec<u8>,
    ) -> Result<Supplied, Abort>;
    /// Payment: books with the customer, which includes a note in C_DATA if the credit is bad. Replies C_ID u16, C_BALANCE i64,
    /// [`CustomerInfo`] as a text, and the part of C_DATA that is shown as a text. Returns C_PAYMENT_CNT, this one included.
    fn pay<T: Transaction>(
        tx: &mut T,
        c: u16,
        request: &payment::Request<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<u32, Abort>;
    /// Payment: adds to D_YTD, replies the [`Place`] as a text and returns D_NAME.
    fn pay_district<T: Transaction>(
        tx: &mut T,
        key: u64,
        amount: u32,
        reply: &mut Vec<u8>,
    ) -> Result<StackBytes<10>, Abort>;
    /// Payment: adds to W_YTD, replies the [`Place`] as a text and returns W_NAME.
    fn pay_warehouse<T: Transaction>(
        tx: &mut T,
        key: u64,
        amount: u32,
        reply: &mut Vec<u8>,
    ) -> Result<StackBytes<10>, Abort>;
    /// OrderStatus: replies C_BALANCE i64, C_FIRST text, C_MIDDLE (2), C_LAST text.
    fn show_customer<T: Transaction>(tx: &mut T, key: u64, reply: &mut Vec<u8>) -> Result<(), Abort>;
    /// Delivery: adds to C_BALANCE and counts in C_DELIVERY_CNT.
    fn bill<T: Transaction>(tx: &mut T, key: u64, amount: i64, reply: &mut Vec<u8>) -> Result<(), Abort>;

    /// Where a customer's rows are, for prefetching.
    fn customer_rows(key: u64) -> impl AsRef<[(TableId, u64)]>;
    /// The rows of [`Layout::pay`], for prefetching; and where the history row will go, if that is known as soon as the customer is.
    fn paying_rows(key: u64) -> impl AsRef<[(TableId, u64)]>;
    /// The history row, for prefetching, if only its key tells where it will go.
    fn history_rows(key: u64) -> impl AsRef<[(TableId, u64)]>;
    /// The rows of [`Layout::taxes`] and [`Layout::draw_id`], for prefetching.
    fn district_rows(w: u16, d: u8) -> impl AsRef<[(TableId, u64)]>;
    /// The rows of [`Layout::pay_district`] and [`Layout::pay_warehouse`], for prefetching.
    fn place_rows(w: u16, d: u8) -> impl AsRef<[(TableId, u64)]>;
    /// The rows of [`Layout::take_stock`], for prefetching.
    fn stock_rows(stock: u64) -> impl AsRef<[(TableId, u64)]>;

    /// Load: a warehouse.
    fn put_warehouse<T: Transaction>(tx: &mut T, w: u16, place: &Place<'_>, ytd: i64) -> Result<(), Abort>;
    /// Load: a district.
    fn put_district<T: Transaction>(
        tx: &mut T,
        key: u64,
        place: &Place<'_>,
        ytd: i64,
        next_order: u32,
    ) -> Result<(), Abort>;
    /// Load: a customer, but for the index.
    fn put_customer<T: Transaction>(
        tx: &mut T,
        key: u64,
        info: &CustomerInfo<'_>,
        customer: &Customer,
        data: &[u8],
    ) -> Result<(), Abort>;
    /// Load: the constant part of a stock row.
    fn put_stock_info<T: Transaction>(tx: &mut T, key: u64, info: &StockInfo<'_>) -> Result<(), Abort>;
}

/// Under an integer key.
#[inline]
pub(super) fn get<T: Transaction>(tx: &mut T, table: TableId, key: u64) -> Result<Option<&[u8]>, Abort> {
    tx.get(table, &key.to_be_bytes())
}

/// Under an integer key.
#[inline]
pub(super) fn put<T: Transaction>(tx: &mut T, table: TableId, key: u64, row: &[u8]) -> Result<(), Abort> {
    tx.put(table, &key.to_be_bytes(), row)
}

impl Stock {
    /// What NewOrder does to it (clause 2.4.2.2): takes the quantity, and orders 91 more if fewer than 10 would remain.
    #[inline]
    fn take(&mut self, demand: &Demand) {
        let quantity = u16::from(demand.quantity);
        let restocked = if self.quantity >= quantity.saturating_add(10) { 0 } else { 91 };
        self.quantity = (self.quantity.saturating_add(restocked)).saturating_sub(quantity);
        self.ytd = self.ytd.wrapping_add(quantity.into());
        self.orders = self.orders.wrapping_add(1);
        self.remote_orders = self.remote_orders.wrapping_add(demand.remote.into());
    }
}

impl Customer {
    /// What Payment does to it.
    #[inline]
    fn pay(&mut self, amount: u32) {
        self.balance -= i64::from(amount);
        self.ytd_payment += i64::from(amount);
        self.payments = self.payments.wrapping_add(1);
    }

    /// What Delivery does to it.
    #[inline]
    fn bill(&mut self, amount: i64) {
        self.balance += amount;
        self.deliveries = self.deliveries.wrapping_add(1);
    }
}
