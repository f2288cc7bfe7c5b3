//! The command line: every subcommand, flag and default.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::bench::args::BenchArgs;
use crate::failure::EXIT_CODES;
use crate::sim::SimArgs;
use crate::torture::{ClientArgs, GuestArgs, NodeArgs, ProxyArgs, TortureArgs};

/// A replicated, multi-core, in-memory transactional database.
#[derive(Debug, Parser)]
#[command(
    name = "highwater",
    version,
    arg_required_else_help = true,
    after_help = concat_help("highwater demo\n  highwater config default > highwater.toml && highwater serve --config highwater.toml\n  highwater bench tpcc --engine rolis --workers 1 --seconds 10")
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one replica until SIGTERM.
    #[command(after_help = concat_help("highwater config default > highwater.toml\n  highwater serve --config highwater.toml\n  highwater serve --config highwater.toml --set cluster.workers=4 --set log.level=debug\n  highwater serve --config cluster.toml --node-id 1    # docs/configuration.md has such a file"))]
    Serve(ServeArgs),
    /// Check a config file, or print the default one with every key documented.
    #[command(after_help = concat_help("highwater config default > highwater.toml\n  highwater config check highwater.toml"))]
    Config {
        /// What to do with configs.
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Show a replica's role, epoch, mark, streams, lag and members; exit code 4 if it cannot serve.
    #[command(after_help = concat_help("highwater status --admin 127.0.0.1:7300\n  highwater status --config highwater.toml --cluster\n  highwater status --admin localhost:7300 --cluster --watch\n  highwater status --json | jq .mark"))]
    Status(StatusArgs),
    /// Start three replicas, run TPC-C, kill the leader, bring it back, check everything.
    #[command(after_help = concat_help("highwater demo\n  highwater demo --plain --seconds 10\n  highwater demo --workers 2 --warehouses 2"))]
    Demo(DemoArgs),
    /// Measure: throughput, latency and CPU time of an engine on a workload; failover; replay.
    #[command(after_help = concat_help("highwater bench tpcc --engine silo --workers 1 --seconds 10\n  highwater bench tpcc --compare --runs 5\n  highwater bench failover --runs 20\n  highwater bench replay"))]
    Bench(BenchArgs),
    /// Real replicas under real faults (kills, pauses, cut and slow links) and hard use (sizes, full memory, floods, hogs), and
    /// a checker's verdict on what clients saw.
    #[command(after_help = concat_help("highwater torture --seconds 60\n  highwater torture --faults sizes,memory,floods,half-close,stalled,vanish,storms,hogs,memory-hogs\n  highwater torture --faults kill,pause --seed 7 --keep\n  highwater torture --means proxy --replicas 5 --json torture.json"))]
    Torture(TortureArgs),
    /// One replica of a torture.
    #[command(hide = true)]
    TortureNode(NodeArgs),
    /// Clients of a torture.
    #[command(hide = true)]
    TortureClient(ClientArgs),
    /// What uses the cluster as nobody should, in a torture.
    #[command(hide = true)]
    TortureGuest(GuestArgs),
    /// Links of a torture.
    #[command(hide = true)]
    TortureProxy(ProxyArgs),
    /// Simulate whole clusters under faults, each run drawn from one seed; judge, shrink and report what fails.
    #[command(after_help = concat_help("highwater sim --runs 1000\n  highwater sim --minutes 30 --from 100000\n  highwater sim --seed 42 --trace\n  highwater sim --plan sim-failures/seed-42.json"))]
    Sim(SimArgs),
    /// Judge recorded histories: name and explain every isolation anomaly they prove.
    #[command(after_help = concat_help("highwater check run.jsonl\n  highwater check client-*.jsonl --level serializable\n  highwater check run.jsonl --session monotonic-reads,read-your-writes --edn run.edn\n  highwater check run.jsonl --json | jq .found"))]
    Check(CheckArgs),
}

/// `highwater serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// The TOML config; the defaults if absent.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Which node of the config this is; overrides the config.
    #[arg(long, value_name = "N")]
    pub node_id: Option<u8>,
    /// Override one config key; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
}

/// `highwater config`.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Say whether a config is good, and if not, what to change.
    #[command(after_help = EXIT_CODES)]
    Check {
        /// The TOML config.
        file: PathBuf,
    },
    /// Print the default config, every key documented.
    #[command(after_help = EXIT_CODES)]
    Default,
}

/// `highwater status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Ask the replica of this config.
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// Ask the replica at this admin address; names are resolved.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub admin: Option<String>,
    /// Show all nodes of the cluster, one line each; exit code 4 if the cluster cannot serve.
    #[arg(long)]
    pub cluster: bool,
    /// Print the report as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Ask again every second until interrupted.
    #[arg(long)]
    pub watch: bool,
}

/// `highwater demo`.
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
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
    #[arg(long, default_value_t = 20, value_name = "S", value_parser = clap::value_parser!(u64).range(3..=86_400))]
    pub seconds: u64,
    /// Transactions per second over all workers; 0 for as fast as possible (then the replica that comes back has to
    /// fight for its share of the CPU).
    #[arg(long, default_value_t = 20_000.0, value_name = "TPS", value_parser = rate)]
    pub rate: f64,
    /// Unreleased transactions per worker, at most.
    #[arg(long, default_value_t = 200, value_name = "D", value_parser = clap::value_parser!(u32).range(1..))]
    pub in_flight: u32,
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

/// `highwater check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// Files of JSON lines, one transaction a line; together they are one history.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The isolation level. Snapshot reads are held against `serializable` at most, except at `session`.
    #[arg(long, value_enum, default_value_t = CheckLevel::Strict)]
    pub level: CheckLevel,
    /// What clients may ask of their snapshot reads besides; repeatable.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "GUARANTEE")]
    pub session: Vec<CheckSession>,
    /// Also write the history as the EDN events that Elle reads.
    #[arg(long, value_name = "OUT")]
    pub edn: Option<PathBuf>,
    /// Also write the history as events in JSON.
    #[arg(long, value_name = "OUT")]
    pub events: Option<PathBuf>,
    /// Print the verdict as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Explain at most so many anomalies of one kind.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub explain: usize,
}

/// What to hold a history against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CheckLevel {
    /// Some serial order that agrees with real time; snapshot reads need only be serializable.
    Strict,
    /// Some serial order that agrees with each client's own, snapshot reads included.
    Session,
    /// Some serial order.
    Serializable,
}

/// What clients may ask of snapshot reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CheckSession {
    /// A client's reads never go back in time, be they served by a follower or not.
    MonotonicReads,
    /// A snapshot read shows what its client wrote before.
    ReadYourWrites,
}

/// Examples, then the exit codes.
pub fn concat_help(examples: &str) -> String {
    format!("Examples:\n  {examples}\n\n{EXIT_CODES}")
}

/// `key=value`.
pub fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_string(), value.trim().to_string()))
        }
        _ => Err(format!("{text:?} is not KEY=VALUE")),
    }
}

/// `host:port`; whether there is such a host is found out when it is asked.
fn host_and_port(text: &str) -> Result<String, String> {
    let well_formed = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !host.contains(|c: char| c.is_whitespace() || c == '/')
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if well_formed { Ok(text.to_string()) } else { Err("write host:port, e.g. localhost:7300".into()) }
}

/// A number of at least 0 that is no infinity.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate >= 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("must be a number of at least 0".into()),
    }
}

/// A share of something: above 0, at most 1.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("must be above 0 and at most 1".into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn overrides_need_a_key_and_an_equals_sign() {
        assert_eq!(key_value("a.b = c=d"), Ok(("a.b".into(), "c=d".into())));
        assert!(key_value("=1").is_err() && key_value("workers").is_err());
    }
}
