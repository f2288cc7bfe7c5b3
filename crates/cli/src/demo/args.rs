//! The flags of `highwater demo`.

use clap::Args;
use highwater_engines::EngineKind;

use crate::flags::{share, survivor};

/// `highwater demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Which engine: one that goes on when a replica is lost (rolis, strawman, meerkat, meerkat-strict). Where nobody leads, all
    /// replicas take transactions and any is killed.
    #[arg(long, default_value = "rolis", value_name = "E", value_parser = survivor)]
    pub engine: EngineKind,
    /// How many replicas.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=9))]
    pub replicas: u8,
    /// Workers per replica.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// TPC-C warehouses.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub warehouses: u32,
    /// Seconds of load, the failover included.
    #[arg(long, default_value_t = 15, value_name = "S", value_parser = clap::value_parser!(u64).range(3..=86_400))]
    pub seconds: u64,
    /// Transactions per second over all workers; 0 for as fast as possible (then the replica that comes back has to
    /// fight for its share of the CPU) [default: 20000; 500 where nobody leads].
    #[arg(long, value_name = "TPS", value_parser = rate)]
    pub rate: Option<f64>,
    /// Unreleased transactions per worker, at most [default: 200; 4 where nobody leads].
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: Option<u32>,
    /// Share of the specification's population to load, for quick looks: 0.01 to 1.
    #[arg(long, default_value_t = 1.0, value_name = "SHARE", value_parser = share)]
    pub scale: f64,
    /// Print plain lines even if this is a terminal.
    #[arg(long)]
    pub plain: bool,
    /// Keep the replicas' logs and configs even if all goes well.
    #[arg(long)]
    pub keep: bool,
}

/// A number of at least 0 that is no infinity.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate >= 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("must be a number of at least 0".into()),
    }
}
