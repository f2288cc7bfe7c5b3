//! The settings of a TPC-C load.

use super::layout::LayoutKind;
use super::population::Population;

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Which tables.
    pub layout: LayoutKind,
    /// How many, from 1 to 65535.
    pub warehouses: u16,
    /// Order ids come from counters outside of transactions, as with Silo's option: NewOrders of one district do not
    /// conflict, but rolled-back ones leave gaps. The generators of one process share the counters, so that only one
    /// process may generate at a time; on a database that ran before, [`Workload::resume`](crate::workload::Workload::resume) comes first.
    pub fast_ids: bool,
    /// Share of the specification's items and customers, above 0.0 and up to 1.0. For tests.
    pub scale: f64,
    /// Of the population and of NURand's constants.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config { layout: LayoutKind::default(), warehouses: 1, fast_ids: false, scale: 1.0, seed: 1 }
    }
}

impl Config {
    /// The population that follows from it.
    pub fn population(&self) -> Population {
        Population::new(self.seed, self.scale)
    }
}
