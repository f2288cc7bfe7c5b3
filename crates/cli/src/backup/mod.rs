//! `highwater backup`: an archive of what a node writes to its disk, and new clusters from any moment of it.

mod args;
mod create;
mod list;
mod look;
mod moment;
#[cfg(feature = "object-stores")]
mod objects;
mod place;
mod restore;
mod verify;

pub use args::BackupAction;

use crate::failure::Result;

/// Runs the command.
pub fn run(action: &BackupAction) -> Result<()> {
    match action {
        BackupAction::Create(args) => create::run(args),
        BackupAction::List(args) => list::run(args),
        BackupAction::Verify(args) => verify::run(args),
        BackupAction::Restore(args) => restore::run(args),
    }
}
