//! One library for all workloads: a cluster that hosts it can run any of them.

use highwater_core::{Library, Registry, TableSpec, Transaction};

use crate::{audit, bank, retwis, tables, tpcc, ycsb, ycsb_t};

/// All tables and all procedures. Ids depend on the order here, and replicas must agree on them: new ones go to the
/// end.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllWorkloads;

impl Library for AllWorkloads {
    fn tables(&self) -> Vec<TableSpec> {
        tables::all()
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        audit::register(registry);
        tpcc::register(registry);
        ycsb::register(registry);
        bank::register(registry);
        ycsb_t::register(registry);
        retwis::register(registry);
    }
}
