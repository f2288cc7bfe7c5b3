//! Commands of Redis's operators whose business is done otherwise here: SAVE BGSAVE BGREWRITEAOF LASTSAVE SHUTDOWN REPLICAOF FAILOVER SWAPDB
//! MONITOR LOLWUT. Each says what to do instead.

use super::words::{integer, is};
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    local(args, client, door, effort, reply);

    SAVE = 161 {
        run: refuse(SAVED),
        name: "save", arity: 1, flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING | NO_MULTI, keys: NO_DATA,
        group: "server", since: "1.0.0",
        summary: "Refused: checkpoints are written by themselves",
        docs: "
            complexity O(N) where N is the total number of keys in all databases
        ",
    }

    BGSAVE = 162 {
        run: refuse(SAVED),
        name: "bgsave", arity: -1, flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING, keys: NO_DATA, group: "server",
        since: "1.0.0",
        summary: "Refused: checkpoints are written by themselves",
        docs: "
            complexity O(1)
            history 3.2.2 Added the `SCHEDULE` option.
            - schedule: pure-token 'SCHEDULE' @3.2.2 optional
        ",
    }

    BGREWRITEAOF = 163 {
        run: refuse(SAVED),
        name: "bgrewriteaof", arity: 1, flags: ADMIN | NOSCRIPT | NO_ASYNC_LOADING, keys: NO_DATA,
        group: "server", since: "1.0.0",
        summary: "Refused: checkpoints are written by themselves",
        docs: "
            complexity O(1)
        ",
    }

    SHUTDOWN = 164 {
        run: refuse(ENDED),
        name: "shutdown", arity: -1, flags: ADMIN | NOSCRIPT | LOADING | STALE | NO_MULTI | ALLOW_BUSY,
        keys: NO_DATA, group: "server", since: "1.0.0",
        summary: "Refused: nodes are ended by signals",
        docs: "
            complexity O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)
            history 7.0.0 Added the `NOW`, `FORCE` and `ABORT` modifiers.
            - nosave_save: oneof optional
            -- nosave: pure-token 'NOSAVE'
            -- save: pure-token 'SAVE'
            - now: pure-token 'NOW' @7.0.0 optional
            - force: pure-token 'FORCE' @7.0.0 optional
            - abort: pure-token 'ABORT' @7.0.0 optional
        ",
    }

    REPLICAOF = 165 {
        run: refuse(DECIDED),
        name: "replicaof", arity: 3, flags: ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING, keys: NO_DATA,
        group: "server", since: "5.0.0",
        summary: "Refused: the cluster decides who replicates whom",
        docs: "
            complexity O(1)
            - args: oneof
            -- host-port: block
            --- host: string
            --- port: integer
            -- no-one: block
            --- no: pure-token 'NO'
            --- one: pure-token 'ONE'
        ",
    }

    SLAVEOF = 166 {
        run: refuse(DECIDED),
        name: "slaveof", arity: 3, flags: ADMIN | NOSCRIPT | STALE | NO_ASYNC_LOADING, keys: NO_DATA,
        group: "server", since: "1.0.0",
        summary: "Refused: the cluster decides who replicates whom",
        docs: "
            complexity O(1)
            doc_flags deprecated
            deprecated_since 5.0.0
            replaced_by `REPLICAOF`
            - args: oneof
            -- host-port: block
            --- host: string
            --- port: integer
            -- no-one: block
            --- no: pure-token 'NO'
            --- one: pure-token 'ONE'
        ",
    }

    FAILOVER = 167 {
        run: refuse(DECIDED),
        name: "failover", arity: -1, flags: ADMIN | NOSCRIPT | STALE, keys: NO_DATA, group: "server",
        since: "6.2.0",
        summary: "Refused: leads are handed over by operators",
        docs: "
            complexity O(1)
            - target: block 'TO' optional
            -- host: string
            -- port: integer
            -- force: pure-token 'FORCE' optional
            - abort: pure-token 'ABORT' optional
            - milliseconds: integer 'TIMEOUT' optional
        ",
    }

    SWAPDB = 168 {
        run: refuse(ONE_DATABASE),
        name: "swapdb", arity: 3, flags: WRITE | FAST, keys: NO_DATA, group: "server", since: "4.0.0",
        summary: "Refused: there is one database",
        categories: Some(category::KEYSPACE | category::WRITE | category::FAST | category::DANGEROUS),
        docs: "
            complexity O(N) where N is the count of clients watching or blocking on keys from both databases.
            - index1: integer
            - index2: integer
        ",
    }

    MONITOR = 169 {
        run: refuse(NOT_SHOWN),
        name: "monitor", arity: 1, flags: ADMIN | NOSCRIPT | LOADING | STALE, keys: NO_DATA, group: "server",
        since: "1.0.0",
        summary: "Refused: commands are not shown as they come",
    }

    LOLWUT = 171 {
        run: lolwut(args, reply),
        name: "lolwut", arity: -1, flags: READONLY | FAST, keys: NO_DATA, group: "server", since: "5.0.0",
        summary: "Display some art and the version",
        docs: "
            - version: integer 'VERSION' optional
        ",
    }
}

const SAVED: &str = "ERR nothing is saved on demand: with cluster.durability \"sync\" what was answered is on the disks of a majority already; \
     checkpoints are written by themselves, and `highwater backup create` makes a backup";
const ENDED: &str = "ERR nodes are ended by SIGTERM, one by one; the lead is handed over then";
const DECIDED: &str = "ERR who replicates whom the cluster decides: `highwater member` changes who belongs, `highwater hand-over` who leads";
const ONE_DATABASE: &str = "ERR there is one database, number 0";
const NOT_SHOWN: &str = "ERR commands are not shown as they come: `SLOWLOG GET`, `HW.HOTKEYS`, `INFO commandstats` and `highwater top` tell of them";

/// Says what to do instead.
fn refuse(instead: &'static str) -> Result<(), CommandError> {
    Err(CommandError::Text(instead))
}

/// `LOLWUT [VERSION version]`: the water stands high.
fn lolwut(mut args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
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
