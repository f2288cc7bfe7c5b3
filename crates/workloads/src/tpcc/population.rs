//! The initial population (clause 4.3.3): every row as a function of a seed and the row's key, so that any part of it
//! can be made anywhere, in any order. Rows with texts come in the bytes of [`rows`](super::rows), whatever the layout.

use highwater_core::codec::{Malformed, Reader};

use super::keys;
use super::rows::{
    CUSTOMER_DATA_BYTES, Customer, CustomerInfo, DIST_INFO, History, Item, Order, OrderLine, Place, Row,
    Stock, StockInfo,
};
use super::text;
use crate::bytes::{Sink, StackBytes};
use crate::random::{Permutation, Rng, mix};

/// Districts of a warehouse.
pub const DISTRICTS: u8 = 10;
/// Items at full scale.
pub const ITEMS: u32 = 100_000;
/// Customers of a district, and orders in it, at full scale.
pub const CUSTOMERS: u16 = 3000;
/// What every customer has paid at the start, in cents.
pub const INITIAL_PAYMENT: u32 = 1000;
/// Last names.
pub const NAMES: u16 = 1000;
/// 2026-01-01 as a date: when the population was entered.
pub const LOAD_DATE: u64 = 46_021 * 86_400_000;

/// The numbers by which rows of one key are told apart when they are drawn, in all layouts: a population is a function of its seed, whatever ids tables have.
pub mod stream {
    /// The info row of a warehouse.
    pub const WAREHOUSE_INFO: u64 = 4;
    /// The info row of a district.
    pub const DISTRICT_INFO: u64 = 6;
    pub(super) const CUSTOMER_INFO: u64 = 9;
    pub(super) const CUSTOMER_DATA: u64 = 11;
    pub(super) const HISTORY: u64 = 13;
    pub(super) const ORDER: u64 = 14;
    pub(super) const ORDER_LINE: u64 = 18;
    pub(super) const ITEM: u64 = 19;
    pub(super) const STOCK: u64 = 20;
    pub(super) const STOCK_INFO: u64 = 21;
    pub(super) const CUSTOMER_BY_NAME: u64 = 33;
}

/// What the population depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Population {
    /// Of everything random.
    pub seed: u64,
    /// Items, and stock rows of each warehouse.
    pub items: u32,
    /// Customers of each district, and its initial orders.
    pub customers: u16,
}

/// The run-time constants of NURand, one per column (clause 2.1.6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NuRandConstants {
    /// C of C_LAST when loading.
    pub last_at_load: u64,
    /// C of C_LAST when running: at a distance from `last_at_load` of 65 to 119, but not 96 or 112.
    pub last_at_run: u64,
    /// C of C_ID.
    pub customer: u64,
    /// C of OL_I_ID.
    pub item: u64,
}

impl NuRandConstants {
    /// Valid constants, chosen by the seed.
    pub fn new(seed: u64) -> NuRandConstants {
        let mut rng = Rng::new(mix(seed ^ 0x6e75_7261_6e64));
        let last_at_load = rng.below(256);
        let fits = |run: &u64| {
            matches!(run.abs_diff(last_at_load), 65..=119) && !matches!(run.abs_diff(last_at_load), 96 | 112)
        };
        let last_at_run = std::iter::repeat_with(|| rng.below(256))
            .find(fits)
            .expect("half of the values lie at such a distance");
        NuRandConstants { last_at_load, last_at_run, customer: rng.below(1024), item: rng.below(8192) }
    }
}

impl Population {
    /// Size in arguments.
    pub const BYTES: usize = 14;

    /// Items and customers at `scale`, 1.0 being the specification's.
    pub fn new(seed: u64, scale: f64) -> Population {
        let items = (f64::from(ITEMS) * scale).round().clamp(100.0, f64::from(ITEMS)) as u32;
        let customers = (f64::from(CUSTOMERS) * scale).round().clamp(30.0, f64::from(CUSTOMERS)) as u16;
        Population { seed, items, customers }
    }

    /// The last names in use: a small district does not reach all.
    pub fn names(&self) -> u16 {
        self.customers.min(NAMES)
    }

    /// The first order that is not yet delivered: the last 30 % are new.
    pub fn first_new_order(&self) -> u32 {
        u32::from(self.customers) * 7 / 10 + 1
    }

    /// Appends it to arguments.
    pub fn encode(&self, args: &mut Vec<u8>) {
        args.put_u64(self.seed);
        args.put_u32(self.items);
        args.put_u16(self.customers);
    }

    /// Takes it from arguments.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Population, Malformed> {
        let population = Population { seed: reader.u64()?, items: reader.u32()?, customers: reader.u16()? };
        let valid =
            (1..=ITEMS).contains(&population.items) && (1..=CUSTOMERS).contains(&population.customers);
        if valid { Ok(population) } else { Err(Malformed("population (sizes out of range)")) }
    }

    /// The randomness of one row.
    fn rng(&self, stream: u64, key: u64) -> Rng {
        Rng::new(mix(self.seed ^ mix(key ^ stream << 56)))
    }

    pub fn item(&self, i: u32) -> StackBytes<96> {
        let rng = &mut self.rng(stream::ITEM, keys::item(i));
        let (price, image) = (rng.within(100, 10_000) as u32, rng.within(1, 10_000) as u16);
        let (name, data) = (text::letters(rng, 14, 24), text::data(rng));
        Item { price, image, name: name.as_slice(), data: data.as_slice() }.encode()
    }

    /// The info row of a warehouse or a district.
    pub fn place(&self, stream: u64, key: u64) -> Row {
        let rng = &mut self.rng(stream, key);
        let (tax, name, address) = (rng.below(2001) as u16, text::letters(rng, 6, 10), text::address(rng));
        Place { tax, name: name.as_slice(), address: address.columns() }.encode()
    }

    /// What a district has been paid; a warehouse ten times as much.
    pub fn district_ytd(&self) -> i64 {
        i64::from(self.customers) * i64::from(INITIAL_PAYMENT)
    }

    /// STOCK, the changing part.
    pub fn stock(&self, w: u16, i: u32) -> Stock {
        let rng = &mut self.rng(stream::STOCK, keys::stock(w, i));
        Stock { quantity: rng.within(10, 100) as u16, ytd: 0, orders: 0, remote_orders: 0 }
    }

    /// STOCK, the constant part.
    pub fn stock_info(&self, w: u16, i: u32) -> Row {
        let rng = &mut self.rng(stream::STOCK_INFO, keys::stock(w, i));
        let mut dists = StackBytes::<{ 10 * DIST_INFO }>::new();
        text::put_letters(&mut dists, rng, 10 * DIST_INFO as u64, 10 * DIST_INFO as u64);
        let (dists, data) = (dists.as_slice().try_into().expect("as many were asked for"), text::data(rng));
        StockInfo { dists, data: data.as_slice() }.encode()
    }

    /// C_LAST as its number, and C_FIRST.
    pub fn customer_name(&self, w: u16, d: u8, c: u16) -> (u16, StackBytes<64>) {
        let rng = &mut self.rng(stream::CUSTOMER_BY_NAME, keys::customer(w, d, c));
        let constant = NuRandConstants::new(self.seed).last_at_load;
        let random = rng.nurand(255, constant, 0, u64::from(self.names()) - 1) as u16;
        let last = if c <= NAMES { c - 1 } else { random };
        (last, text::letters(rng, 8, 16))
    }

    /// CUSTOMER, the constant part.
    pub fn customer_info(&self, w: u16, d: u8, c: u16) -> Row {
        let rng = &mut self.rng(stream::CUSTOMER_INFO, keys::customer(w, d, c));
        let (last, first) = self.customer_name(w, d, c);
        let credit = if rng.percent(10) { text::BAD_CREDIT } else { text::GOOD_CREDIT };
        let mut phone = StackBytes::<16>::new();
        text::put_digits(&mut phone, rng, 16);
        CustomerInfo {
            discount: rng.below(5001) as u16,
            credit,
            last: text::last_name(last).as_slice(),
            first: first.as_slice(),
            middle: *b"OE",
            credit_limit: 5_000_000,
            since: LOAD_DATE,
            phone: phone.as_slice().try_into().expect("16 digits were asked for"),
            address: text::address(rng).columns(),
        }
        .encode()
    }

    /// CUSTOMER, the changing part.
    pub fn customer(&self) -> Customer {
        let paid = i64::from(INITIAL_PAYMENT);
        Customer { balance: -paid, ytd_payment: paid, payments: 1, deliveries: 0 }
    }

    pub fn customer_data(&self, w: u16, d: u8, c: u16) -> StackBytes<CUSTOMER_DATA_BYTES> {
        let mut row = StackBytes::new();
        let rng = &mut self.rng(stream::CUSTOMER_DATA, keys::customer(w, d, c));
        text::put_letters(&mut row, rng, 300, 500);
        row
    }

    /// The one payment that each customer starts with.
    pub fn history(&self, w: u16, d: u8, c: u16) -> StackBytes<64> {
        let rng = &mut self.rng(stream::HISTORY, keys::customer(w, d, c));
        let data = text::letters(rng, 12, 24);
        History { warehouse: w, district: d, date: LOAD_DATE, amount: INITIAL_PAYMENT, data: data.as_slice() }
            .encode()
    }

    /// ORDER. Its customers are a permutation: each has exactly one.
    pub fn order(&self, w: u16, d: u8, o: u32) -> Order {
        let rng = &mut self.rng(stream::ORDER, keys::order(w, d, o));
        let customers = Permutation::new(self.customers.into(), mix(self.seed ^ keys::district(w, d)));
        let customer = customers.at(u64::from(o) - 1) as u16 + 1;
        let (lines, carrier) = (rng.within(5, 15) as u8, rng.within(1, 10) as u8);
        let carrier = if self.is_delivered(o) { carrier } else { 0 };
        Order { entry_date: LOAD_DATE, customer, lines, all_local: 1, carrier }
    }

    fn is_delivered(&self, o: u32) -> bool {
        o < self.first_new_order()
    }

    pub fn order_line(&self, w: u16, d: u8, o: u32, line: u8) -> OrderLine {
        let rng = &mut self.rng(stream::ORDER_LINE, keys::order_line(w, d, o, line));
        let item = rng.within(1, self.items.into()) as u32;
        let price = rng.within(1, 999_999) as u32;
        let (amount, delivery_date) = if self.is_delivered(o) { (0, LOAD_DATE) } else { (price, 0) };
        let info = text::letters(rng, DIST_INFO as u64, DIST_INFO as u64);
        let dist_info = info.as_slice().try_into().expect("24 characters were asked for");
        OrderLine { item, amount, supply_warehouse: w, quantity: 5, delivery_date, dist_info }
    }
}

/// The mask of lines 1 to `lines`.
#[inline]
pub fn line_mask(lines: u8) -> u16 {
    (((1u32 << lines.min(15)) - 1) << 1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nurand_constants_obey_clause_2_1_6_1() {
        for seed in 0..2000 {
            let constants = NuRandConstants::new(seed);
            let delta = constants.last_at_run.abs_diff(constants.last_at_load);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{delta}");
        }
    }

    #[test]
    fn every_row_is_a_function_of_seed_and_key() {
        let (a, b) = (Population::new(1, 1.0), Population::new(2, 1.0));
        assert_eq!(a.stock_info(1, 5).as_slice(), a.stock_info(1, 5).as_slice());
        assert_ne!(a.stock_info(1, 5).as_slice(), a.stock_info(1, 6).as_slice());
        assert_ne!(a.stock_info(1, 5).as_slice(), b.stock_info(1, 5).as_slice());
    }

    #[test]
    fn line_masks_start_at_line_1() {
        assert_eq!((line_mask(1), line_mask(5), line_mask(15)), (0b10, 0b11_1110, 0xfffe));
    }
}
