//! What each workload of `highwater bench` can be told besides how to run it.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use highwater_node::admin::protocol::WorkloadSpec;
use highwater_workloads::retwis;
use highwater_workloads::tpcc::layout::LayoutKind;

use crate::flags::share;
use crate::workload::{spec, tpcc};

/// TPC-C's own options.
#[derive(Clone, Debug, Args)]
pub struct TpccArgs {
    /// Warehouses [default: as many as workers].
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..))]
    pub warehouses: Option<u32>,
    /// Draw order ids outside the transaction, as Silo's option of that name does.
    #[arg(long)]
    pub fast_ids: bool,
    /// Share of the specification's population to load.
    #[arg(long, default_value_t = 1.0, value_name = "SHARE", value_parser = share)]
    pub scale: f64,
    /// How the columns lie in tables (docs/workloads.md).
    #[arg(long, default_value_t = LayoutKind::Split, value_parser = layouts())]
    pub layout: LayoutKind,
}

impl TpccArgs {
    /// As the replicas are told.
    pub fn spec(&self, workers: u16) -> WorkloadSpec {
        let mut spec = tpcc(self.warehouses.unwrap_or(u32::from(workers)), self.fast_ids, self.scale);
        if self.layout != LayoutKind::default() {
            spec.options.push(("layout".into(), self.layout.to_string()));
        }
        spec
    }
}

/// The layouts, with a line about each.
fn layouts() -> impl TypedValueParser<Value = LayoutKind> {
    let layout = |kind: LayoutKind| PossibleValue::new(kind.name()).help(kind.about());
    PossibleValuesParser::new(LayoutKind::ALL.map(layout))
        .map(|name| name.parse().expect("it is one of them"))
}

/// YCSB's own options.
#[derive(Clone, Debug, Args)]
pub struct YcsbArgs {
    /// How many keys.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: u64,
    /// Share of read-only transactions.
    #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
    pub reads: f64,
    /// Draw keys by a zipfian distribution instead of a uniform one.
    #[arg(long)]
    pub zipfian: bool,
    /// Skew of the zipfian distribution.
    #[arg(long, default_value_t = 0.99, value_name = "THETA")]
    pub theta: f64,
}

impl YcsbArgs {
    /// As the replicas are told.
    pub fn spec(&self) -> WorkloadSpec {
        let mut options = vec![("keys", self.keys.to_string()), ("read_fraction", self.reads.to_string())];
        if self.zipfian {
            options.push(("distribution", "zipfian".into()));
            options.push(("theta", self.theta.to_string()));
        }
        spec("ycsb", options)
    }
}

/// Bank's own options.
#[derive(Clone, Debug, Args)]
pub struct BankArgs {
    /// How many accounts.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    pub accounts: u64,
}

impl BankArgs {
    /// As the replicas are told.
    pub fn spec(&self) -> WorkloadSpec {
        spec("bank", vec![("accounts", self.accounts.to_string())])
    }
}

/// Rows per worker, as in the Meerkat paper: the same contention with any number of them.
const ROWS_PER_WORKER: u64 = 1_000_000;

/// The options of YCSB-T and of Retwis.
#[derive(Clone, Debug, Args)]
pub struct Row64Args {
    /// How many rows [default: 1000000 for each worker].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub keys: Option<u64>,
    /// Share of these rows to load and to use.
    #[arg(long, default_value_t = 1.0, value_name = "SHARE", value_parser = share)]
    pub scale: f64,
    /// Zipf coefficient of the choice of rows: 0 is uniform, the paper goes up to 0.99.
    #[arg(long, default_value_t = 0.0, value_name = "X")]
    pub zipf: f64,
}

impl Row64Args {
    /// As the replicas are told, of the workload with this name.
    pub fn spec(&self, name: &str, workers: u16) -> WorkloadSpec {
        spec(name, vec![("keys", self.rows(workers).to_string()), ("zipf", self.zipf.to_string())])
    }

    /// Of a share, an even number, because Retwis has pairs, and enough for any transaction.
    fn rows(&self, workers: u16) -> u64 {
        let all = self.keys.unwrap_or(ROWS_PER_WORKER * u64::from(workers));
        if self.scale == 1.0 {
            return all;
        }
        let pairs = (all as f64 * self.scale / 2.0).round() as u64;
        (2 * pairs).max(retwis::MIN_KEYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::effective_options;

    #[test]
    fn flags_become_options_that_the_workloads_know() {
        let ycsb = YcsbArgs { keys: 1000, reads: 0.5, zipfian: true, theta: 0.9 };
        let row64 = Row64Args { keys: None, scale: 0.001, zipf: 0.6 };
        let row64 = ["ycsb-t", "retwis"].map(|name| row64.spec(name, 2));
        for spec in [tpcc(2, true, 0.1), ycsb.spec(), BankArgs { accounts: 10 }.spec()].iter().chain(&row64) {
            effective_options(spec).unwrap();
        }
        for layout in LayoutKind::ALL {
            let args = TpccArgs { warehouses: None, fast_ids: false, scale: 1.0, layout };
            let options = effective_options(&args.spec(3)).unwrap();
            assert_eq!((options["layout"].as_str(), options["warehouses"].as_str()), (layout.name(), "3"));
        }
    }

    #[test]
    fn rows_grow_with_workers_unless_they_are_counted() {
        let rows = |keys, scale, workers| Row64Args { keys, scale, zipf: 0.0 }.rows(workers);
        assert_eq!(rows(None, 1.0, 1), 1_000_000);
        assert_eq!(rows(None, 1.0, 4), 4_000_000);
        assert_eq!(rows(None, 0.001, 4), 4000);
        assert_eq!(rows(Some(77), 1.0, 4), 77);
        assert_eq!(rows(Some(77), 0.5, 4), 38);
        assert_eq!(rows(None, 1e-9, 1), 10);
    }
}
