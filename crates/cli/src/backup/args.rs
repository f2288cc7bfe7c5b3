//! The flags of `highwater backup`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::failure::EXIT_CODES;
use crate::founders::Founders;

/// `highwater backup`.
#[derive(Debug, Subcommand)]
pub enum BackupAction {
    /// Copy what is new in a node's folder into an archive. The node may run; run this on its machine, again and again or with --follow.
    #[command(after_help = EXIT_CODES)]
    Create(CreateArgs),
    /// Show what an archive holds: its chains, their checkpoints, and which moments can be restored.
    #[command(after_help = EXIT_CODES)]
    List(ListArgs),
    /// Read every byte of an archive, and compute the state of its last moment; exit code 1 if anything is damaged.
    #[command(after_help = EXIT_CODES)]
    Verify(VerifyArgs),
    /// Begin a new cluster from a moment of an archive: the last one, or any other.
    #[command(after_help = EXIT_CODES)]
    Restore(RestoreArgs),
}

/// `highwater backup create`.
#[derive(Clone, Debug, Args)]
pub struct CreateArgs {
    /// The node's folder (`storage.dir/node-N`).
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The archive: a folder, or a URL like s3://bucket/prefix; made if it is not there.
    #[arg(long, value_name = "DIR|URL")]
    pub to: String,
    /// Go on until interrupted.
    #[arg(long)]
    pub follow: bool,
    /// With --follow: seconds between two copies.
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub every: f64,
    /// If it is in a store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print one line of JSON for each copy.
    #[arg(long)]
    pub json: bool,
}

/// `highwater backup list`.
#[derive(Clone, Debug, Args)]
pub struct ListArgs {
    /// The archive: a folder, or a URL like s3://bucket/prefix.
    #[arg(value_name = "DIR|URL")]
    pub archive: String,
    /// If it is in a store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// `highwater backup verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// The archive: a folder, or a URL like s3://bucket/prefix.
    #[arg(value_name = "DIR|URL")]
    pub archive: String,
    /// The moment whose state is computed.
    #[command(flatten)]
    pub moment: MomentArgs,
    /// If it is in a store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// How to treat a store of objects. Its address and credentials are in the environment: AWS_.., GOOGLE_.., AZURE_..
#[derive(Clone, Debug, Args)]
pub struct StoreArgs {
    /// With a URL: seconds for which a request that fails is tried again.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    pub patience: f64,
}

/// Which moment.
#[derive(Clone, Debug, Default, Args)]
pub struct MomentArgs {
    /// At this time of the node's wall clock, like 2026-11-22T10:00:00Z. The node notes the time once a second while something is committed;
    /// times between two notes are computed from both, and the output says which two they were.
    #[arg(long, value_name = "TIME", conflicts_with = "timestamp")]
    pub at: Option<String>,
    /// Up to this commit timestamp, as `status` and `list` show them.
    #[arg(long, value_name = "N")]
    pub timestamp: Option<u64>,
    /// Count what the node had only accepted, too: for what a stopped cluster left that will not go on. Some of it may never have been
    /// acknowledged.
    #[arg(long)]
    pub accepted: bool,
    /// Takes this chain. If absent the one whose last moment is the latest, or of those that have the moment that is named the newest.
    #[arg(long, value_name = "N")]
    pub chain: Option<u32>,
}

/// `highwater backup restore`.
#[derive(Clone, Debug, Args)]
pub struct RestoreArgs {
    /// The archive: a folder, or a URL like s3://bucket/prefix.
    #[arg(value_name = "DIR|URL")]
    pub archive: String,
    /// Which moment; the last one if absent.
    #[command(flatten)]
    pub moment: MomentArgs,
    /// Where the new cluster's folders are written (its `storage.dir`).
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// The new cluster's id (its `cluster.id`): not the one of the archive.
    #[arg(long, value_name = "ID")]
    pub cluster: String,
    /// Its nodes.
    #[command(flatten)]
    pub founders: Founders,
    /// If it is in a store.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}
