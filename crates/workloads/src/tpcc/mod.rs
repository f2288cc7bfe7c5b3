//! TPC-C, revision 5.11: an order-entry system of warehouses, districts and customers.
//!
//! Complete in what the database sees: nine tables with all columns, five transactions, the mix, the non-uniform
//! distributions, the initial population, the twelve consistency conditions. Left out is what surrounds it in an
//! audited run: terminals, think times, the deferred queue of Delivery, the response-time rules.
//!
//! - [`layout`] says in which tables the columns lie: `split` by what is written together, or `silo`, as Silo's benchmark has them.
//! - [`keys`] packs composite keys into integers; [`rows`] has the columns.
//! - [`population`] makes the initial rows, [`load`] puts them in.
//! - [`new_order`], [`payment`], [`order_status`], [`delivery`], [`stock_level`] are the transactions, once for all layouts;
//!   [`customer`] is how two of them find theirs.
//! - [`generator`] makes requests; [`facts`] and [`check`] verify the conditions.
//!
//! docs/workloads.md has what each transaction reads, writes and logs in both layouts.

pub mod check;
mod config;
pub mod count;
pub mod customer;
pub mod delivery;
pub mod facts;
pub mod generator;
pub mod keys;
pub mod layout;
pub mod load;
pub mod new_order;
pub mod order_status;
pub mod payment;
pub mod population;
pub mod rows;
pub mod stock_level;
pub mod text;

use highwater_core::{Registry, Transaction, View};

use crate::workload::{Check, Generator, Requests, Workload};
pub use config::Config;
use generator::{KINDS, OrderIds, TpccGenerator};
use layout::{Layout, LayoutKind, Silo, Split};
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
        Box::new(
            Plan::new(self.config.layout, self.config.population(), self.config.warehouses).part(part, parts),
        )
    }

    /// Makes fast ids continue behind the orders that exist. Without fast ids there is nothing to do: the districts
    /// know.
    fn resume(&self, view: &dyn View) {
        let Some(ids) = &self.ids else { return };
        let order = match self.config.layout {
            LayoutKind::Split => Split::TABLES.order,
            LayoutKind::Silo => Silo::TABLES.order,
        };
        view.for_each(order, &mut |key, _| {
            let Ok(key) = key.try_into().map(u64::from_be_bytes) else { return };
            let (w, d) = keys::parts_of_district(keys::district_of(key));
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
            ("layout", self.config.layout.to_string()),
            ("warehouses", self.config.warehouses.to_string()),
            ("fast_ids", self.config.fast_ids.to_string()),
            ("scale", self.config.scale.to_string()),
            ("seed", self.config.seed.to_string()),
        ]
    }
}
