//! Populating the database: procedures that make rows from a seed and a range, so that their requests are a few bytes,
//! and the plan that covers the population with them.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Abort, Procedure, Registry, TableId, Transaction};

use super::keys;
use super::population::{DISTRICTS, Population};
use crate::bytes::{Fields, Sink, bad_request};
use crate::tables::tpcc as table;

/// Registers the load procedures.
pub fn register<T: Transaction>(registry: &mut Registry<T>) {
    registry.register::<LoadItems>();
    registry.register::<LoadWarehouse>();
    registry.register::<LoadStock>();
    registry.register::<LoadCustomers>();
    registry.register::<LoadNames>();
    registry.register::<LoadOrders>();
}

/// The arguments of every load procedure: which rows of which population. Procedures ignore what they do not need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
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
        let mut args = Vec::with_capacity(Population::BYTES + 11);
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
    population: Population,
    warehouses: u16,
}

/// Rows of their kind in one request, so that each writes up to about 1000 rows or 256 KiB.
const ITEMS_AT_ONCE: u32 = 1000;
const STOCKS_AT_ONCE: u32 = 500;
const CUSTOMERS_AT_ONCE: u32 = 250;
const ORDERS_AT_ONCE: u32 = 75;

impl Plan {
    /// The plan for warehouses 1 to `warehouses`.
    pub fn new(population: Population, warehouses: u16) -> Plan {
        Plan { population, warehouses }
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
            self.chunks(LoadCustomers::NAME, w, d, customers, CUSTOMERS_AT_ONCE)
                .chain(self.chunks(LoadNames::NAME, w, d, 1, 1))
                .chain(self.chunks(LoadOrders::NAME, w, d, customers, ORDERS_AT_ONCE))
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
        let population = self.population;
        (1..=total).step_by(size as usize).map(move |first| {
            let count = size.min(total - first + 1);
            (name, Chunk { population, warehouse, district, first, count })
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

            fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
                let chunk = Chunk::decode(args).map_err(|error| bad_request(reply, error.0))?;
                $load(tx, &chunk)
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
    /// Customers `first..first + count` with their first payments.
    LoadCustomers, "tpcc.load_customers", load_customers
);
load_procedure!(
    /// A district's index of customers by name.
    LoadNames, "tpcc.load_names", load_names
);
load_procedure!(
    /// Orders `first..first + count` with their lines and deliveries.
    LoadOrders, "tpcc.load_orders", load_orders
);

fn put<T: Transaction>(tx: &mut T, table: TableId, key: u64, value: &[u8]) -> Result<(), Abort> {
    tx.put(table, &key.to_be_bytes(), value)
}

fn load_items<T: Transaction>(tx: &mut T, chunk: &Chunk) -> Result<(), Abort> {
    for i in chunk.range(chunk.population.items) {
        put(tx, table::ITEM, keys::item(i), chunk.population.item(i).as_slice())?;
    }
    Ok(())
}

fn load_warehouse<T: Transaction>(tx: &mut T, chunk: &Chunk) -> Result<(), Abort> {
    let (population, w) = (chunk.population, chunk.warehouse);
    let (key, ytd) = (keys::warehouse(w), population.district_ytd());
    put(tx, table::WAREHOUSE_INFO, key, population.place(table::WAREHOUSE_INFO, key).as_slice())?;
    put(tx, table::WAREHOUSE_YTD, key, &(ytd * i64::from(DISTRICTS)).to_le_bytes())?;
    for d in 1..=DISTRICTS {
        let key = keys::district(w, d);
        let next = u32::from(population.customers) + 1;
        put(tx, table::DISTRICT_INFO, key, population.place(table::DISTRICT_INFO, key).as_slice())?;
        put(tx, table::DISTRICT_YTD, key, &ytd.to_le_bytes())?;
        put(tx, table::DISTRICT_NEXT, key, &next.to_le_bytes())?;
    }
    Ok(())
}

fn load_stock<T: Transaction>(tx: &mut T, chunk: &Chunk) -> Result<(), Abort> {
    let (population, w) = (chunk.population, chunk.warehouse);
    for i in chunk.range(population.items) {
        put(tx, table::STOCK, keys::stock(w, i), &population.stock(w, i).encode())?;
        put(tx, table::STOCK_INFO, keys::stock(w, i), population.stock_info(w, i).as_slice())?;
    }
    Ok(())
}

fn load_customers<T: Transaction>(tx: &mut T, chunk: &Chunk) -> Result<(), Abort> {
    let (population, w, d) = (chunk.population, chunk.warehouse, chunk.district);
    for c in chunk.range(population.customers.into()) {
        let c = c as u16;
        let key = keys::customer(w, d, c);
        let customer = population.customer();
        put(tx, table::CUSTOMER_INFO, key, population.customer_info(w, d, c).as_slice())?;
        put(tx, table::CUSTOMER, key, &customer.encode())?;
        put(tx, table::CUSTOMER_DATA, key, population.customer_data(w, d, c).as_slice())?;
        let history = keys::history(key, customer.payments);
        put(tx, table::HISTORY, history, population.history(w, d, c).as_slice())?;
    }
    Ok(())
}

fn load_names<T: Transaction>(tx: &mut T, chunk: &Chunk) -> Result<(), Abort> {
    let (population, w, d) = (chunk.population, chunk.warehouse, chunk.district);
    let name = |c| {
        let (last, first) = population.customer_name(w, d, c);
        (last, first.as_slice().to_vec(), c)
    };
    let mut customers: Vec<(u16, Vec<u8>, u16)> = (1..=population.customers).map(name).collect();
    customers.sort();
    for same_name in customers.chunk_by(|a, b| a.0 == b.0) {
        let ids: Vec<u8> = same_name.iter().flat_map(|(_, _, c)| c.to_le_bytes()).collect();
        put(tx, table::CUSTOMER_BY_NAME, keys::customer_by_name(w, d, same_name[0].0), &ids)?;
    }
    Ok(())
}

fn load_orders<T: Transaction>(tx: &mut T, chunk: &Chunk) -> Result<(), Abort> {
    let (population, w, d) = (chunk.population, chunk.warehouse, chunk.district);
    for o in chunk.range(population.customers.into()) {
        let (key, order) = (keys::order(w, d, o), population.order(w, d, o));
        put(tx, table::ORDER, key, &order.encode())?;
        match population.delivered(w, d, o, order.lines) {
            Some(delivered) => put(tx, table::DELIVERY, key, &delivered.encode())?,
            None => put(tx, table::NEW_ORDER, key, &[])?,
        }
        put(tx, table::ORDER_BY_CUSTOMER, keys::order_by_customer(w, d, order.customer, o), &[])?;
        for line in 1..=order.lines {
            let row = population.order_line(w, d, o, line).encode();
            put(tx, table::ORDER_LINE, keys::order_line(w, d, o, line), &row)?;
        }
    }
    Ok(())
}
