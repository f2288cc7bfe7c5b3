//! The flags of `highwater bench`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use highwater_engines::EngineKind;

use super::redis::RedisArgs;
use super::workloads::{BankArgs, Row64Args, TpccArgs, YcsbArgs};
use crate::flags::{concat_help, key_value, share, survivor};

/// `highwater bench`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub what: BenchCommand,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// TPC-C: all five transactions with the specification's mix.
    #[command(after_help = concat_help("highwater bench tpcc --engine rolis --workers 2 --warehouses 2 --json tpcc.json\n  highwater bench tpcc --engine silo --fast-ids\n  highwater bench tpcc --engine silo --layout silo --set store.reserve_mb=800\n  highwater bench tpcc --rate 30000 --seconds 30\n  highwater bench tpcc --clients remote --connections 32 --in-flight 8\n  highwater bench tpcc --compare --neighbours --runs 5"))]
    Tpcc {
        /// How to run it.
        #[command(flatten)]
        run: RunArgs,
        /// TPC-C's own options.
        #[command(flatten)]
        workload: TpccArgs,
    },
    /// YCSB++ as in the Rolis paper: half reads, half read-modify-writes, four keys each.
    #[command(after_help = concat_help("highwater bench ycsb --engine rolis\n  highwater bench ycsb --engine silo --instructions\n  highwater bench ycsb --keys 100000 --zipfian --theta 0.9"))]
    Ycsb {
        /// How to run it.
        #[command(flatten)]
        run: RunArgs,
        /// YCSB's own options.
        #[command(flatten)]
        workload: YcsbArgs,
    },
    /// Bank: transfers between accounts; the total never changes.
    #[command(after_help = concat_help("highwater bench bank --engine rolis\n  highwater bench bank --accounts 100 --workers 2"))]
    Bank {
        /// How to run it.
        #[command(flatten)]
        run: RunArgs,
        /// Bank's own options.
        #[command(flatten)]
        workload: BankArgs,
    },
    /// YCSB-T as in the Meerkat paper: one read-modify-write of one row; keys and values of 64 bytes.
    #[command(after_help = concat_help("highwater bench ycsb-t --engine rolis\n  highwater bench ycsb-t --workers 2 --zipf 0.87 --json ycsb-t.json\n  highwater bench ycsb-t --scale 0.01 --seconds 2"))]
    YcsbT {
        /// How to run it.
        #[command(flatten)]
        run: RunArgs,
        /// Its own options.
        #[command(flatten)]
        workload: Row64Args,
    },
    /// Retwis as in the Meerkat paper: a small Twitter, half of it timelines; keys and values of 64 bytes.
    #[command(after_help = concat_help("highwater bench retwis --engine rolis\n  highwater bench retwis --workers 2 --zipf 0.6 --json retwis.json\n  highwater bench retwis --scale 0.01 --seconds 2"))]
    Retwis {
        /// How to run it.
        #[command(flatten)]
        run: RunArgs,
        /// Its own options.
        #[command(flatten)]
        workload: Row64Args,
    },
    /// Kill the leader (or, where none leads, a replica) again and again under load: the gaps, and what was lost (nothing, or exit code 1).
    #[command(after_help = concat_help("highwater bench failover --runs 20\n  highwater bench failover --engine meerkat --runs 5 --workload ycsb-t\n  highwater bench failover --runs 5 --workload bank --workers 2 --json failover.json"))]
    Failover(FailoverArgs),
    /// Apply pre-generated TPC-C logs to a fresh store, against executing them (the Rolis paper's figure 15).
    #[command(after_help = concat_help("highwater bench replay\n  highwater bench replay --transactions 500000 --workers 2"))]
    Replay(ReplayArgs),
    /// The remote load generator on a Redis server, or on nodes of Highwater: SET, GET, or a transfer by Lua.
    #[command(after_help = concat_help("highwater bench redis --target 127.0.0.1:6379 --load get --rate 20000\n  highwater bench redis --target 127.0.0.1:7200 --load transfer --connections 32 --in-flight 1"))]
    Redis(RedisArgs),
}

/// The engines, with a line about each; one that is not in this build says what to build.
fn engines() -> impl TypedValueParser<Value = EngineKind> {
    let shown = |kind: &EngineKind| {
        PossibleValue::new(kind.name()).help(kind.about()).hide(!EngineKind::ALL.contains(kind))
    };
    PossibleValuesParser::new(EngineKind::KNOWN.iter().map(shown)).try_map(|name| name.parse::<EngineKind>())
}

/// Where a load comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Clients {
    /// Generators inside the leader's workers, as in the papers.
    Workers,
    /// Connections from this process to the RESP ports, a transaction an HW.CALL.
    Remote,
}

/// How to run a workload.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// Which engine.
    #[arg(long, value_parser = engines(), default_value = "rolis")]
    pub engine: EngineKind,
    /// How many replicas [default: 3; 1 for an engine that does not replicate].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub replicas: Option<u8>,
    /// Workers per replica.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// Seconds to measure, after the warm-up.
    #[arg(long, default_value_t = 10.0, value_name = "S", value_parser = seconds)]
    pub seconds: f64,
    /// Seconds to run before counting.
    #[arg(long, default_value_t = 2.0, value_name = "S", value_parser = seconds)]
    pub warmup: f64,
    /// Unreleased transactions, at most: per worker [default: 1000], or of remote clients per connection [default: 16].
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: Option<u32>,
    /// Transactions per second over all workers or clients; as fast as possible if absent.
    #[arg(long, value_name = "TPS", value_parser = seconds)]
    pub rate: Option<f64>,
    /// Where the load comes from: from inside the leader's workers, or over RESP from this process.
    #[arg(long, value_enum, default_value_t = Clients::Workers)]
    pub clients: Clients,
    /// Connections of remote clients.
    #[arg(long, default_value_t = 16, value_name = "C", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub connections: u32,
    /// Threads of remote clients; no more than connections.
    #[arg(long, default_value_t = 1, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub client_threads: u32,
    /// How often to run all of it, each time on a fresh cluster: prints medians, smallest and largest.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: Option<u32>,
    /// Run silo and rolis alternately and print the ratio of transactions per leader CPU-second.
    #[arg(long, conflicts_with_all = ["engine", "replicas"])]
    pub compare: bool,
    /// With --compare: give silo two neighbours, which take as much of the machine as rolis's followers do.
    #[arg(long, requires = "compare")]
    pub neighbours: bool,
    /// Count the instructions of every replica over the measured seconds, by perf stat; refused where it has no counters.
    #[arg(long)]
    pub instructions: bool,
    /// Write the report as JSON too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Skip the consistency conditions and the digests afterwards.
    #[arg(long)]
    pub no_check: bool,
    /// Seed of the request streams.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Make every n-th request write an audit row; 0 for none.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub audit_every: u32,
    /// An option of the workload that has no flag; repeatable.
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value)]
    pub options: Vec<(String, String)>,
    /// Override a key of the replicas' config; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Keep the replicas' logs and configs even if all goes well.
    #[arg(long)]
    pub keep: bool,
}

impl RunArgs {
    /// Unreleased transactions per worker or connection.
    pub fn depth(&self) -> u32 {
        self.in_flight.unwrap_or(match self.clients {
            Clients::Workers => 1000,
            Clients::Remote => 16,
        })
    }
}

/// `highwater bench failover`.
#[derive(Clone, Debug, Args)]
pub struct FailoverArgs {
    /// Which engine: one that goes on when a replica is lost (rolis, strawman, meerkat, meerkat-strict). Where nobody leads, all
    /// replicas run the load and any is killed.
    #[arg(long, default_value = "rolis", value_name = "E", value_parser = survivor)]
    pub engine: EngineKind,
    /// How many kills.
    #[arg(long, default_value_t = 20, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub runs: u32,
    /// How many replicas.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=9))]
    pub replicas: u8,
    /// Workers per replica.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// Under which load.
    #[arg(long, default_value = "tpcc", value_parser = highwater_workloads::Options::NAMES)]
    pub workload: String,
    /// TPC-C warehouses [default: as many as workers].
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..))]
    pub warehouses: Option<u32>,
    /// Seconds of load before each kill.
    #[arg(long, default_value_t = 1.0, value_name = "S", value_parser = seconds)]
    pub seconds: f64,
    /// Unreleased transactions per worker, at most.
    #[arg(long, default_value_t = 200, value_name = "D", value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: u32,
    /// Transactions per second over all workers (where nobody leads, of all replicas); as fast as possible if absent.
    #[arg(long, value_name = "TPS", value_parser = seconds)]
    pub rate: Option<f64>,
    /// Make every n-th request write an audit row.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub audit_every: u32,
    /// An option of the workload; repeatable.
    #[arg(long = "option", value_name = "KEY=VALUE", value_parser = key_value)]
    pub options: Vec<(String, String)>,
    /// Override a key of the replicas' config; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Write the report as JSON too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Keep the replicas' logs and configs even if all goes well.
    #[arg(long)]
    pub keep: bool,
}

/// `highwater bench replay`.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// Transactions to execute and then to apply, over all workers.
    #[arg(long, default_value_t = 300_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: u64,
    /// Threads that execute, and then apply.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// Warehouses [default: as many as workers].
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u32).range(1..))]
    pub warehouses: Option<u32>,
    /// How often to do all of it: prints medians.
    #[arg(long, default_value_t = 3, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Share of the specification's population to load.
    #[arg(long, default_value_t = 1.0, value_name = "SHARE", value_parser = share)]
    pub scale: f64,
    /// Write the report as JSON too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// A number above 0 that is no infinity.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 1e6 => Ok(number),
        _ => Err("must be above 0 and at most 1000000".into()),
    }
}
