//! The flags of `highwater torture`, and of the processes that it starts.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use highwater_engines::EngineKind;

use super::network::Means;
use super::schedule::{FaultKind, Obstacle};
use crate::failure::{self, Failure};
use crate::flags::{key_value, survivor};
use crate::serve::ServeArgs;

/// `highwater torture`.
#[derive(Clone, Debug, Args)]
pub struct TortureArgs {
    /// Seconds of load and faults.
    #[arg(long, default_value_t = 60, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Which engine: one that goes on when a replica is lost (rolis, strawman, meerkat, meerkat-strict).
    #[arg(long, default_value = "rolis", value_name = "E", value_parser = survivor)]
    pub engine: EngineKind,
    /// Kinds of faults; all that the engine can be struck by if absent (`kill-all` and `disk-full` only with disks: `--set
    /// cluster.durability=sync`, or `async`; `kill-leader` only where one leads).
    #[arg(long, value_name = "KINDS", value_delimiter = ',')]
    pub faults: Vec<FaultKind>,
    /// Seed of the schedule and the clients; a fresh one if absent. Processes have their own time: a seed repeats what
    /// is tried, not what comes of it.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Clients, each with a connection of its own.
    #[arg(long, default_value_t = 16, value_name = "C", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub clients: u16,
    /// Transactions per second of all clients, at most.
    #[arg(long, default_value_t = 2000.0, value_name = "TPS", value_parser = positive)]
    pub rate: f64,
    /// How many replicas.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(3..=9))]
    pub replicas: u8,
    /// Workers per replica.
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,
    /// How links between replicas are broken.
    #[arg(long, default_value = "auto", value_name = "MEANS")]
    pub means: Means,
    /// Write the history here, an empty or new directory; else it goes with a run that went well.
    #[arg(long, value_name = "DIR")]
    pub history: Option<PathBuf>,
    /// Keep configs, logs and history even if all goes well.
    #[arg(long)]
    pub keep: bool,
    /// Write the report as JSON, too.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// MiB that each replica may take, if `memory` is among the kinds.
    #[arg(long, default_value_t = 512, value_name = "MIB", value_parser = clap::value_parser!(u64).range(128..=65_536))]
    pub memory_mb: u64,
    /// Descriptors that each replica may open, if `storms` is among the kinds.
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u64).range(64..=65_536))]
    pub descriptors: u64,
    /// MiB of each replica's disk, if `disk-full` is among the kinds.
    #[arg(long, default_value_t = 1536, value_name = "MIB", value_parser = clap::value_parser!(u64).range(512..=65_536))]
    pub disk_mb: u64,
    /// Override one config key of the replicas; repeatable. With `tls.peer` and no certificates named, they are made.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
}

impl TortureArgs {
    /// The kinds asked for.
    ///
    /// # Errors
    /// If one of them cannot be: the engine has not what it strikes, or there are no disks.
    pub fn kinds(&self) -> failure::Result<Vec<FaultKind>> {
        let disks = matches!(self.durability(), Some("sync" | "async"));
        let obstacle = |fault: FaultKind| fault.obstacle(self.engine.abilities(), disks);
        if self.faults.is_empty() {
            let all = FaultKind::value_variants().iter().copied();
            return Ok(all.filter(|fault| obstacle(*fault).is_none()).collect());
        }
        let found = self.faults.iter().find_map(|fault| Some((fault.name(), obstacle(*fault)?)));
        let engine = self.engine;
        match found {
            None => Ok(self.faults.clone()),
            Some((fault, Obstacle::NoDisks)) => Err(Failure::usage(format!("--faults {fault} needs disks"))
                .hint("add --set cluster.durability=sync, or async")),
            Some((fault, Obstacle::NothingDurable)) => Err(Failure::usage(format!(
                "--faults {fault} needs disks, and engine {engine} keeps nothing on them"
            ))),
            Some((fault, Obstacle::NobodyLeads)) => {
                Err(Failure::usage(format!("--faults {fault}: nobody leads with engine {engine}"))
                    .hint("kill takes any replica, and each has clients"))
            }
        }
    }

    /// Whether acknowledged transactions may be lost: all replicas crash at once, and nothing waits for disks.
    pub fn may_lose(&self, faults: &[FaultKind]) -> bool {
        self.durability() == Some("async") && faults.contains(&FaultKind::KillAll)
    }

    /// What was asked for, if anything was.
    fn durability(&self) -> Option<&str> {
        let asked = self.set.iter().rev().find(|(key, _)| key == "cluster.durability");
        asked.map(|(_, value)| value.trim_matches('"'))
    }
}

/// `highwater torture-node`.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The file of the network namespace to live in.
    #[arg(long, value_name = "FILE")]
    pub namespace: Option<PathBuf>,
    /// How many descriptors it may open.
    #[arg(long, value_name = "N")]
    pub descriptors: Option<u64>,
    /// How much address space it may have, in MiB.
    #[arg(long, value_name = "MIB")]
    pub address_space_mb: Option<u64>,
    /// As for `serve`.
    #[command(flatten)]
    pub serve: ServeArgs,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("must be above 0".into()),
    }
}
