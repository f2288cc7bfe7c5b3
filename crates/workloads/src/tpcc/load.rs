//! Populating the database: procedures that make rows from a seed and a range, so that their requests are a few bytes,
//! and the plan that covers the population with them.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Abort, Procedure, Registry, Transaction};

use super::layout::{Layout, LayoutKind, put, with_layout};
use super::population::{DISTRICTS, Population, stream};
use super::rows::{CustomerInfo, History, Item, Place, StockInfo};
use super::{customer, keys};
use crate::bytes::{Fields, Sink, bad_request};

/// Registers the load procedures.
pub fn register<T: Transaction>(registry: &mut Registry<T>) {
    registry.register::<LoadItems>();
    registry.register::<LoadWarehouse>();
    registry.register::<LoadStock>();
    registry.register::<LoadCustomers>();
    registry.register::<LoadOrders>();
}

/// The arguments of every load procedure: which rows of which population. Procedures ignore what they do not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The tables.
    pub layout: LayoutKind,
    /// Where the rows come from.
    pub population: Population,
    /// The warehouse, from 1.
    pub warehouse: u16,
    /// The district, from 1.
    pub district: u8,
    /// The first item, customer or order.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Chunk {
    /// As arguments.
    pub fn encode(&self) -> Vec<u8> {
        let mut args = Vec::with_capacity(Population::BYTES + 12);
        args.put_u8(self.layout.byte());
        self.population.encode(&mut args);
        args.put_u16(self.warehouse);
        args.put_u8(self.district);
        args.put_u32(self.first);
        args.put_u32(self.count);
        args
    }

    fn decode(args: &[u8]) -> Result<Chunk, Malformed> {
        let mut reader = Reader::new(args);
        let chunk = Chunk {
            layout: LayoutKind::decode(&mut reader)?,
            population: Population::decode(&mut reader)?,
            warehouse: reader.u16()?,
            district: reader.u8()?,
            first: reader.u32()?,
            count: reader.u32()?,
        };
        reader.end()?;
        let valid = chunk.warehouse >= 1 && (1..=DISTRICTS).contains(&chunk.district) && chunk.first >= 1;
        if valid { Ok(chunk) } else { Err(Malformed("load chunk (out of range)")) }
    }

    /// The rows asked for, up to `last`.
    fn range(&self, last: u32) -> std::ops::RangeInclusive<u32> {
        self.first..=(u64::from(self.first) + u64::from(self.count)).saturating_sub(1).min(last.into()) as u32
    }
}

/// The requests that make up a population, in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    layout: LayoutKind,
    population: Population,
    warehouses: u16,
}

/// Rows of their kind in one request, so that each writes up to about 1000 rows or 256 KiB.
const ITEMS_AT_ONCE: u32 = 1000;
const STOCKS_AT_ONCE: u32 = 500;
const CUSTOMERS_AT_ONCE: u32 = 200;
const ORDERS_AT_ONCE: u32 = 75;

impl Plan {
    /// The plan for warehouses 1 to `warehouses`.
    pub fn new(layout: LayoutKind, population: Population, warehouses: u16) -> Plan {
        Plan { layout, population, warehouses }
    }

    /// Every `parts`-th request from number `part` on.
    pub fn part(self, part: usize, parts: usize) -> impl Iterator<Item = (&'static str, Vec<u8>)> + Send {
        self.requests().skip(part).step_by(parts).map(|(name, chunk)| (name, chunk.encode()))
    }

    fn requests(self) -> impl Iterator<Item = (&'static str, Chunk)> + Send {
        let warehouses = (1..=self.warehouses).flat_map(move |w| self.warehouse(w));
        self.chunks(LoadItems::NAME, 1, 1, self.population.items, ITEMS_AT_ONCE).chain(warehouses)
    }

    fn warehouse(self, w: u16) -> impl Iterator<Item = (&'static str, Chunk)> + Send {
        let customers = u32::from(self.population.customers);
        let districts = (1..=DISTRICTS).flat_map(move |d| {
            self.chunks(LoadCustomers::NAME, w, d, customers, CUSTOMERS_AT_ONCE).chain(self.chunks(
                LoadOrders::NAME,
                w,
                d,
                customers,
                ORDERS_AT_ONCE,
            ))
        });
        self.chunks(LoadWarehouse::NAME, w, 1, 1, 1)
            .chain(self.chunks(LoadStock::NAME, w, 1, self.population.items, STOCKS_AT_ONCE))
            .chain(districts)
    }

    fn chunks(
        self,
        name: &'static str,
        warehouse: u16,
        district: u8,
        total: u32,
        size: u32,
    ) -> impl Iterator<Item = (&'static str, Chunk)> + Send {
        let Plan { layout, population, .. } = self;
        (1..=total).step_by(size as usize).map(move |first| {
            let count = size.min(total - first + 1);
            (name, Chunk { layout, population, warehouse, district, first, count })
        })
    }
}

/// Defines a load procedure: its name and what it does with its chunk.
macro_rules! load_procedure {
    ($(#[$doc:meta])* $name:ident, $text:literal, $load:ident) => {
        $(#[$doc])*
        pub struct $name;

        impl Procedure for $name {
            const NAME: &'static str = $text;
            const VERSION: u32 = 2;

            fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
                let chunk = Chunk::decode(args).map_err(|error| bad_request(reply, error.0))?;
                with_layout!(chunk.layout, $load(tx, &chunk, reply))
            }
        }
    };
}

load_procedure!(
    /// Items `first..first + count`.
    LoadItems, "tpcc.load_items", load_items
);
load_procedure!(
    /// A warehouse's own rows and its districts'.
    LoadWarehouse, "tpcc.load_warehouse", load_warehouse
);
load_procedure!(
    /// Stock of items `first..first + count`.
    LoadStock, "tpcc.load_stock", load_stock
);
load_procedure!(
    /// Customers `first..first + count` with their entries in the index by name and their first payments.
    LoadCustomers, "tpcc.load_customers", load_customers
);
load_procedure!(
    /// Orders `first..first + count` with their lines.
    LoadOrders, "tpcc.load_orders", load_orders
);

const OWN: &str = "the population's own row";

fn load_items<L: Layout, T: Transaction>(tx: &mut T, chunk: &Chunk, _: &mut Vec<u8>) -> Result<(), Abort> {
    for i in chunk.range(chunk.population.items) {
        let row = chunk.population.item(i);
        let item = Item::decode(row.as_slice()).expect(OWN);
        put(tx, L::TABLES.item, keys::item(i), L::item_row(&item).as_slice())?;
    }
    Ok(())
}

fn load_warehouse<L: Layout, T: Transaction>(
    tx: &mut T,
    chunk: &Chunk,
    _: &mut Vec<u8>,
) -> Result<(), Abort> {
    let (population, w) = (chunk.population, chunk.warehouse);
    let (ytd, next_order) = (population.district_ytd(), u32::from(population.customers) + 1);
    let row = population.place(stream::WAREHOUSE_INFO, keys::warehouse(w));
    L::put_warehouse(tx, w, &Place::decode(row.as_slice()).expect(OWN), ytd * i64::from(DISTRICTS))?;
    for key in (1..=DISTRICTS).map(|d| keys::district(w, d)) {
        let row = population.place(stream::DISTRICT_INFO, key);
        L::put_district(tx, key, &Place::decode(row.as_slice()).expect(OWN), ytd, next_order)?;
    }
    Ok(())
}

fn load_stock<L: Layout, T: Transaction>(tx: &mut T, chunk: &Chunk, _: &mut Vec<u8>) -> Result<(), Abort> {
    let (population, w) = (chunk.population, chunk.warehouse);
    for i in chunk.range(population.items) {
        let (key, stock) = (keys::stock(w, i), population.stock(w, i));
        put(tx, L::TABLES.stock, key, L::stock_row(&stock).as_ref())?;
        let row = population.stock_info(w, i);
        L::put_stock_info(tx, key, &StockInfo::decode(row.as_slice()).expect(OWN))?;
    }
    Ok(())
}

fn load_customers<L: Layout, T: Transaction>(
    tx: &mut T,
    chunk: &Chunk,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let (population, w, d) = (chunk.population, chunk.warehouse, chunk.district);
    for c in chunk.range(population.customers.into()) {
        let c = c as u16;
        let (row, sums) = (population.customer_info(w, d, c), population.customer());
        let info = CustomerInfo::decode(row.as_slice()).expect(OWN);
        let data = population.customer_data(w, d, c);
        customer::write::<L, T>(tx, (w, d, c), &info, &sums, data.as_slice(), reply)?;
        let row = population.history(w, d, c);
        let history = History::decode(row.as_slice()).expect(OWN);
        let key = keys::history(keys::customer(w, d, c), sums.payments);
        put(tx, L::TABLES.history, key, L::history_row(&history).as_slice())?;
    }
    Ok(())
}

fn load_orders<L: Layout, T: Transaction>(tx: &mut T, chunk: &Chunk, _: &mut Vec<u8>) -> Result<(), Abort> {
    let (population, w, d) = (chunk.population, chunk.warehouse, chunk.district);
    for o in chunk.range(population.customers.into()) {
        let (key, order) = (keys::order(w, d, o), population.order(w, d, o));
        put(tx, L::TABLES.order, key, L::order_row(&order).as_ref())?;
        if order.carrier == 0 {
            put(tx, L::TABLES.new_order, key, L::NEW_ORDER_ROW)?;
        }
        let entry = keys::order_by_customer(w, d, order.customer, o);
        put(tx, L::TABLES.order_by_customer, entry, L::ORDER_BY_CUSTOMER_ROW)?;
        for line in 1..=order.lines {
            let row = population.order_line(w, d, o, line);
            put(tx, L::TABLES.order_line, keys::order_line(w, d, o, line), L::order_line_row(&row).as_ref())?;
        }
    }
    Ok(())
}
