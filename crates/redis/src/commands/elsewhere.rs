//! Commands of Redis's operators whose business is done otherwise here: SAVE BGSAVE BGREWRITEAOF LASTSAVE SHUTDOWN REPLICAOF FAILOVER SWAPDB
//! MONITOR LOLWUT. Each says what to do instead.

use super::words::{integer, is};
use crate::command::Local;
use crate::errors::CommandError;
use crate::reply::Reply;
use crate::request::Args;

/// Says what to do instead.
pub fn refuse(command: Local) -> CommandError {
    CommandError::Text(match command {
        Local::Save => {
            "ERR nothing is saved on demand: with cluster.durability \"sync\" what was answered is on the disks of a majority already; \
             checkpoints are written by themselves, and `highwater backup create` makes a backup"
        }
        Local::Shutdown => "ERR nodes are ended by SIGTERM, one by one; the lead is handed over then",
        Local::Replicaof => {
            "ERR who replicates whom the cluster decides: `highwater member` changes who belongs, `highwater hand-over` who leads"
        }
        Local::Swapdb => "ERR there is one database, number 0",
        _ => {
            "ERR commands are not shown as they come: `SLOWLOG GET`, `HW.HOTKEYS`, `INFO commandstats` and `highwater top` tell of them"
        }
    })
}

/// `LOLWUT [VERSION version]`: the water stands high.
pub fn lolwut(mut args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    if let Some(word) = args.next() {
        if !is(word, "version") {
            return Err(CommandError::Syntax);
        }
        integer(args.promised()?)?;
    }
    let version = env!("CARGO_PKG_VERSION");
    reply.verbatim(&format!(
        "~~~~~~~~~~~~~~~ the mark\n ~  ~~ ~ ~~ ~  \n~~ ~ ~~  ~ ~~ ~\n\nHighwater ver. {version}\n"
    ));
    Ok(())
}
