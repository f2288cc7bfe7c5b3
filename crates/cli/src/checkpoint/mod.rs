//! `highwater checkpoint`: looks into a folder of checkpoints.

mod args;
mod dump;
mod verify;

use clap::Subcommand;

use args::{DumpArgs, VerifyArgs};
pub use verify::damage_of;

use crate::failure::{EXIT_CODES, Result};

/// `highwater checkpoint`.
#[derive(Debug, Subcommand)]
pub enum CheckpointAction {
    /// Show what checkpoints are: tables, files, from where to where the log makes a state of them; on demand every record.
    #[command(after_help = EXIT_CODES)]
    Dump(DumpArgs),
    /// Read every byte of checkpoints and say whether they can be loaded; exit code 1 if one cannot.
    #[command(after_help = EXIT_CODES)]
    Verify(VerifyArgs),
}

/// Runs the command.
pub fn run(action: &CheckpointAction) -> Result<()> {
    match action {
        CheckpointAction::Dump(args) => dump::run(args),
        CheckpointAction::Verify(args) => verify::run(args),
    }
}
