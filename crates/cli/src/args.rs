//! The command line: every subcommand. The flags of each stand beside what it does.

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Parser, Subcommand};
use highwater_core::Levels;

#[cfg(any(not(feature = "lab"), not(feature = "sim")))]
use crate::absent;
#[cfg(not(feature = "sim"))]
use crate::absent::AbsentArgs as SimArgs;
#[cfg(not(feature = "lab"))]
use crate::absent::{AbsentArgs as BenchArgs, AbsentArgs as CheckArgs, AbsentArgs as TortureArgs};
use crate::admin_stream::TlsArgs;
use crate::backup::BackupAction;
use crate::cert::CertAction;
use crate::checkpoint::CheckpointAction;
use crate::demo::DemoArgs;
use crate::flags::concat_help;
use crate::hand_over::HandOverArgs;
use crate::log::LogAction;
use crate::member::MemberAction;
use crate::recover::RecoverArgs;
use crate::reload::ReloadArgs;
use crate::serve::{ConfigAction, ServeArgs};
#[cfg(feature = "sim")]
use crate::sim::SimArgs;
use crate::status::StatusArgs;
use crate::top::TopArgs;
use crate::watching::{HotKeysArgs, WatchingArgs};
#[cfg(feature = "lab")]
use crate::{
    bench::args::BenchArgs,
    check::CheckArgs,
    torture::{ClientArgs, GuestArgs, NodeArgs, ProxyArgs, TortureArgs},
};

/// The release, and what it speaks.
static VERSION: LazyLock<String> =
    LazyLock::new(|| format!("{} ({})", env!("CARGO_PKG_VERSION"), Levels::default()));

/// A replicated, multi-core, in-memory transactional database.
#[derive(Debug, Parser)]
#[command(
    name = "highwater",
    version = VERSION.as_str(),
    arg_required_else_help = true,
    after_help = concat_help("highwater demo\n  highwater config default > highwater.toml && highwater serve --config highwater.toml\n  highwater top --config highwater.toml")
)]
pub struct Cli {
    /// A file whose first line is the token of the admin ports (admin.token); else HIGHWATER_ADMIN_TOKEN, else the config has it.
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How to speak to admin ports.
    #[command(flatten)]
    pub tls: TlsArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one replica until SIGTERM.
    #[command(after_help = concat_help("highwater config default > highwater.toml\n  highwater serve --config highwater.toml\n  highwater serve --config highwater.toml --set limits.memory_mb=2000 --set log.level=debug\n  highwater serve --config cluster.toml --node-id 1    # docs/configuration.md has such a file"))]
    Serve(ServeArgs),
    /// Check a config file, or print the default one with every key documented.
    #[command(after_help = concat_help("highwater config default > highwater.toml\n  highwater config check highwater.toml"))]
    Config {
        /// What to do with configs.
        #[command(subcommand)]
        action: ConfigAction,
    },
    /// Show a replica's role, epoch, mark, streams, lag and members; exit code 4 if it cannot serve.
    #[command(after_help = concat_help("highwater status --admin 127.0.0.1:7300\n  highwater status --config highwater.toml --cluster\n  highwater status --admin localhost:7300 --cluster --watch\n  highwater status --json | jq .role"))]
    Status(StatusArgs),
    /// Show all nodes of a cluster live: role, epoch, transactions per second, latency, lag, memory, clients.
    #[command(after_help = concat_help("highwater top --admin 127.0.0.1:7300\n  highwater top --config highwater.toml\n  highwater top --once"))]
    Top(TopArgs),
    /// Show the keys at which a replica's transactions meet most.
    #[command(after_help = concat_help("highwater hot-keys --admin 127.0.0.1:7300\n  highwater hot-keys --reset --json"))]
    HotKeys(HotKeysArgs),
    /// Show a replica's last slow transactions.
    #[command(after_help = concat_help("highwater slow --admin 127.0.0.1:7300\n  highwater slow --json | jq .[0].words"))]
    Slow(WatchingArgs),
    /// Have another node lead, without a request of unknown outcome; says for how long service paused.
    #[command(after_help = concat_help("highwater hand-over --admin 127.0.0.1:7300\n  highwater hand-over --config highwater.toml --to 2"))]
    HandOver(HandOverArgs),
    /// Make certificates for trials: an authority, nodes, clients.
    #[command(after_help = concat_help("highwater cert ca --dir certs\n  highwater cert node --dir certs --id 0 --host 127.0.0.1 --host db-0.example\n  highwater cert client --dir certs --name alice"))]
    Cert {
        /// Whose.
        #[command(subcommand)]
        action: CertAction,
    },
    /// Have a replica read its certificates again, for connections that come.
    #[command(after_help = concat_help("highwater reload --admin 127.0.0.1:7300\n  highwater reload --config highwater.toml"))]
    Reload(ReloadArgs),
    /// Who belongs to the cluster: show it, add, remove and replace nodes while it runs.
    #[command(after_help = concat_help("highwater member list --config highwater.toml\n  highwater member add 3 --config node-3.toml    # it lists node 3 and the members; start node 3 with it, too\n  highwater member add 3 --admin 10.0.0.1:7300 --addresses 10.0.0.4:7100,10.0.0.4:7200,10.0.0.4:7300\n  highwater member replace 2 --by 5 --config node-5.toml\n  highwater member remove 4 --admin 10.0.0.1:7300"))]
    Member {
        /// What to do.
        #[command(subcommand)]
        action: MemberAction,
    },
    /// Start three replicas, run TPC-C, kill the leader (or, where none leads, a replica), bring it back, check everything.
    #[command(after_help = concat_help("highwater demo\n  highwater demo --plain --seconds 10\n  highwater demo --engine meerkat-strict\n  highwater demo --workers 2 --warehouses 2"))]
    Demo(DemoArgs),
    /// Measure: throughput, latency and CPU time of an engine on a workload; failover; replay.
    #[cfg_attr(feature = "lab", command(after_help = concat_help("highwater bench tpcc --engine silo --workers 1 --seconds 10\n  highwater bench tpcc --compare --runs 5\n  highwater bench failover --runs 20\n  highwater bench replay")))]
    #[cfg_attr(not(feature = "lab"), command(disable_help_flag = true, after_help = absent::words("bench", "lab")))]
    Bench(BenchArgs),
    /// Real replicas under real faults (kills, pauses, cut and slow links) and hard use (sizes, full memory, floods, hogs), and
    /// a checker's verdict on what clients saw.
    #[cfg_attr(feature = "lab", command(after_help = concat_help("highwater torture --seconds 60\n  highwater torture --faults sizes,memory,floods,half-close,stalled,vanish,storms,hogs,memory-hogs\n  highwater torture --faults kill,pause --seed 7 --keep\n  highwater torture --engine meerkat-strict --seconds 60\n  highwater torture --means proxy --replicas 5 --json torture.json")))]
    #[cfg_attr(not(feature = "lab"), command(disable_help_flag = true, after_help = absent::words("torture", "lab")))]
    Torture(TortureArgs),
    /// One replica of a torture.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    TortureNode(NodeArgs),
    /// Clients of a torture.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    TortureClient(ClientArgs),
    /// What uses the cluster as nobody should, in a torture.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    TortureGuest(GuestArgs),
    /// Links of a torture.
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    TortureProxy(ProxyArgs),
    /// Simulate whole clusters under faults, each run drawn from one seed; judge, shrink and report what fails.
    #[cfg_attr(feature = "sim", command(after_help = concat_help("highwater sim --runs 1000\n  highwater sim --minutes 30 --from 100000\n  highwater sim --seed 42 --trace\n  highwater sim --plan sim-failures/seed-42.json")))]
    #[cfg_attr(not(feature = "sim"), command(disable_help_flag = true, after_help = absent::words("sim", "sim")))]
    Sim(SimArgs),
    /// Judge recorded histories: name and explain every isolation anomaly they prove.
    #[cfg_attr(feature = "lab", command(after_help = concat_help("highwater check run.jsonl\n  highwater check client-*.jsonl --level serializable\n  highwater check run.jsonl --session monotonic-reads,read-your-writes --edn run.edn\n  highwater check run.jsonl --json | jq .found")))]
    #[cfg_attr(not(feature = "lab"), command(disable_help_flag = true, after_help = absent::words("check", "lab")))]
    Check(CheckArgs),
    /// Look into checkpoints on disk, or find out whether they can be loaded.
    #[command(after_help = concat_help("highwater checkpoint verify highwater-data/node-0\n  highwater checkpoint dump highwater-data/node-0 --number 7\n  highwater checkpoint dump highwater-data/node-0 --records --json | jq .key"))]
    Checkpoint {
        /// What to do with checkpoints.
        #[command(subcommand)]
        action: CheckpointAction,
    },
    /// Look into a node's journal on disk: every record, or whether all that was synced is there.
    #[command(after_help = concat_help("highwater log verify highwater-data/node-0\n  highwater log dump highwater-data/node-0 --writer 0\n  highwater log dump highwater-data/node-0 --json --content | jq .position"))]
    Log {
        /// What to do with the journal.
        #[command(subcommand)]
        action: LogAction,
    },
    /// When a majority of the voters is lost for good: show what the disks that are left hold, and what would be lost; begin a new cluster
    /// from it only with --accept-loss.
    #[command(after_help = concat_help("highwater recover --from highwater-data/node-0\n  highwater recover --from node-0 node-3 --accept-loss --to recovered --cluster north-2\n  highwater recover --from node-0 --accept-loss --to recovered --cluster north-2 --nodes 0,1,2"))]
    Recover(RecoverArgs),
    /// Archive what a running node writes to its disk, and begin new clusters from any moment of it.
    #[command(after_help = concat_help("highwater backup create --from highwater-data/node-0 --to backups --follow\n  highwater backup list backups\n  highwater backup verify backups\n  highwater backup restore backups --to restored --cluster north-2\n  highwater backup restore backups --at 2026-11-22T10:00:00Z --to restored --cluster north-2 --nodes 0,1,2"))]
    Backup {
        /// What to do with backups.
        #[command(subcommand)]
        action: BackupAction,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
