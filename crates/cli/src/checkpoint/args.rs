//! The flags of `highwater checkpoint`, and which checkpoints they mean.

use std::path::{Path, PathBuf};

use clap::Args;
use highwater_disk::checkpoint::{Error, published};
use highwater_node::storage::DataDirectory;

use crate::failure::{Failure, Result};

/// `highwater checkpoint dump`.
#[derive(Clone, Debug, Args)]
pub struct DumpArgs {
    /// Which checkpoints.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Show every record, too.
    #[arg(long)]
    pub records: bool,
    /// Print JSON: a line for each checkpoint, and one for each record.
    #[arg(long)]
    pub json: bool,
}

/// `highwater checkpoint verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// Which checkpoints.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Print one line of JSON.
    #[arg(long)]
    pub json: bool,
}

/// Some checkpoints of a folder.
#[derive(Clone, Debug, Args)]
pub struct Chosen {
    /// The node's folder. The node may be running.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Only the checkpoint of this number; all if absent.
    #[arg(long, value_name = "N")]
    pub number: Option<u64>,
}

impl Chosen {
    /// The folder, and the numbers in it, newest first; at least one.
    pub fn find(&self) -> Result<(DataDirectory, Vec<u64>)> {
        let folder = DataDirectory::read_only(&self.dir).map_err(Failure::unreadable)?;
        let numbers = published(&folder).map_err(|error| match error {
            Error::Io { tried, source, .. } => unreadable(&self.dir, format!("cannot {tried}: {source}")),
            other => unreadable(&self.dir, other),
        })?;
        let wanted = |number: &u64| self.number.is_none_or(|wanted| *number == wanted);
        let chosen: Vec<u64> = numbers.iter().rev().copied().filter(wanted).collect();
        match (chosen.is_empty(), self.number) {
            (false, _) => Ok((folder, chosen)),
            (true, None) => Err(unreadable(&self.dir, "no checkpoint is there")),
            (true, Some(number)) => {
                let known: Vec<String> = numbers.iter().map(u64::to_string).collect();
                let there = if known.is_empty() { "none".into() } else { known.join(", ") };
                Err(unreadable(&self.dir, format!("there is no checkpoint {number}"))
                    .hint(format!("there: {there}")))
            }
        }
    }
}

fn unreadable(dir: &Path, what: impl std::fmt::Display) -> Failure {
    Failure::unreadable(format!("{}: {what}", dir.display()))
}

/// How the command ends after `damaged` of `all` checkpoints turned out to be.
pub fn verdict(damaged: usize, all: usize) -> Result<()> {
    match damaged {
        0 => Ok(()),
        _ => Err(Failure::negative(format!("{damaged} of {all} checkpoint(s) cannot be loaded"))),
    }
}
