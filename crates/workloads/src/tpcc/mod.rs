//! TPC-C, revision 5.11: an order-entry system of warehouses, districts and customers.
//!
//! Complete in what the database sees: nine tables with all columns, five transactions, the mix, the non-uniform
//! distributions, the initial population, the twelve consistency conditions. Left out is what surrounds it in an
//! audited run: terminals, think times, the deferred queue of Delivery, the response-time rules.
//!
//! - [`keys`] packs composite keys into integers; [`rows`] says how the columns are grouped.
//! - [`population`] makes the initial rows, [`load`] puts them in.
//! - [`new_order`], [`payment`], [`order_status`], [`delivery`], [`stock_level`] are the transactions; [`customer`] is
//!   how two of them find theirs.
//! - [`generator`] makes requests; [`facts`] and [`check`] verify the conditions.
//!
//! # Where the tables differ from the specification's
//!
//! Columns that are written stand apart from those that are only read (clause 1.4 permits vertical partitions): less is
//! read, locked, logged and applied, and transactions that touch different columns do not conflict. Silo does the same.
//! Two representations go further:
//!
//! - An order's carrier and the delivery date of its lines form one *delivery* row, which Delivery adds; neither the
//!   order nor its lines are rewritten. All lines get one date by one transaction; a mask says which lines have it.
//! - The index by last name holds one row a name: the customers' ids in the order of their first names. Names never
//!   change, and the middle one is found with one look-up instead of a scan.

pub mod check;
mod config;
pub mod customer;
pub mod delivery;
pub mod facts;
pub mod generator;
pub mod keys;
pub mod load;
pub mod new_order;
pub mod order_status;
pub mod payment;
pub mod population;
pub mod rows;
pub mod stock_level;
pub mod text;

use highwater_core::{Registry, Transaction, View};

use crate::tables::tpcc as table;
use crate::workload::{Check, Generator, Requests, Workload};
pub use config::Config;
use generator::{KINDS, OrderIds, TpccGenerator};
use load::Plan;

/// Registers the load procedures and the five transactions.
pub fn register<T: Transaction>(registry: &mut Registry<T>) {
    load::register(registry);
    registry.register::<new_order::NewOrder>();
    registry.register::<payment::Payment>();
    registry.register::<order_status::OrderStatus>();
    registry.register::<delivery::Delivery>();
    registry.register::<stock_level::StockLevel>();
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Tpcc {
    config: Config,
    ids: Option<OrderIds>,
}

impl Tpcc {
    /// The workload of a valid configuration.
    pub fn new(config: Config) -> Tpcc {
        let first = u32::from(config.population().customers) + 1;
        let ids = config.fast_ids.then(|| OrderIds::new(config.warehouses, first));
        Tpcc { config, ids }
    }
}

impl Workload for Tpcc {
    fn name(&self) -> &'static str {
        "tpcc"
    }

    fn load(&self, part: usize, parts: usize) -> Requests {
        assert!(part < parts, "loader {part} of {parts}");
        Box::new(Plan::new(self.config.population(), self.config.warehouses).part(part, parts))
    }

    /// Makes fast ids continue behind the orders that exist. Without fast ids there is nothing to do: the districts
    /// know.
    fn resume(&self, view: &dyn View) {
        let Some(ids) = &self.ids else { return };
        view.for_each(table::ORDER, &mut |key, _| {
            let Ok(key) = key.try_into().map(u64::from_be_bytes) else { return };
            let district = keys::district_of(key);
            let (w, d) = (keys::warehouse_of(district) as u16, (district & 0xf) as u8);
            if (1..=self.config.warehouses).contains(&w) && (1..=population::DISTRICTS).contains(&d) {
                ids.skip_past(w, d, keys::order_number(key));
            }
        });
    }

    fn generator(&self, worker: usize, workers: usize, seed: u64) -> Box<dyn Generator> {
        Box::new(TpccGenerator::new(&self.config, self.ids.clone(), worker, workers, seed))
    }

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn check(&self, view: &dyn View) -> Vec<Check> {
        check::check(&self.config, view)
    }

    fn describe(&self) -> Vec<(&'static str, String)> {
        vec![
            ("warehouses", self.config.warehouses.to_string()),
            ("fast_ids", self.config.fast_ids.to_string()),
            ("scale", self.config.scale.to_string()),
            ("seed", self.config.seed.to_string()),
        ]
    }
}
