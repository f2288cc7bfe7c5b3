//! What operators' tools ask: CONFIG TIME ROLE WAIT.
//!
//! What settings there are, and what changing one does: [`settings`].

use super::help;
use super::words::integer;
use crate::client_state::ClientState;
use crate::command::entry::commands;
use crate::effort::{COUNTS, Effort, LOOK, few};
use crate::errors::CommandError;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;
use crate::topology::apart;
use crate::{Door, settings};

commands! {
    local(args, client, door, effort, reply);

    CONFIG = 156 {
        run: config(args, door, effort, reply),
        name: "config", arity: -2, flags: LOADING | CHANGES_USERS | LONG, keys: NO_DATA, group: "server",
        since: "2.0.0",
        summary: "A container for server configuration commands",
        told: Some(Flags(0)),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "config":
            "get" -3 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary Get the values of configuration parameters
                    since 2.0.0
                    complexity O(N) when N is the number of configuration parameters provided
                    history 7.0.0 Added the ability to pass multiple pattern parameters in one call
                    - parameter: block multiple
                    -- parameter: string
                ",
            }
            help "5.0.0" { categories: 0 }
            "resetstat" 2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary Reset the stats returned by INFO
                    since 2.0.0
                    complexity O(1)
                ",
            }
            "rewrite" 2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary Rewrite the configuration file with the in memory configuration
                    since 2.8.0
                    complexity O(1)
                ",
            }
            "set" -4 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, tips: "request_policy:all_nodes,response_policy:all_succeeded", categories: category::ADMIN,
                docs: "
                    summary Set configuration parameters to the given values
                    since 2.0.0
                    complexity O(N) when N is the number of configuration parameters provided
                    history 7.0.0 Added the ability to set multiple parameters in one call.
                    - parameter_value: block multiple
                    -- parameter: string
                    -- value: string
                ",
            }
        },
    }

    TIME = 157 {
        run: time(client, reply),
        name: "time", arity: 1, flags: LOADING | STALE | FAST | IN_SCRIPTS, keys: NO_DATA, group: "server",
        since: "2.6.0",
        summary: "Return the current server time",
        tips: "nondeterministic_output",
        docs: "
            complexity O(1)
        ",
    }

    ROLE = 158 {
        run: role(door, effort, reply),
        name: "role", arity: 1, flags: NOSCRIPT | LOADING | STALE | FAST, keys: NO_DATA, group: "server",
        since: "2.8.12",
        summary: "Return the role of the instance in the context of replication",
        categories: Some(category::ADMIN | category::FAST),
        docs: "
            complexity O(1)
        ",
    }

    WAIT = 172 {
        run: wait(args, door, reply),
        name: "wait", arity: 3, flags: NOSCRIPT, keys: NO_DATA, group: "generic", since: "3.0.0",
        summary: "Wait for the synchronous replication of all the write commands sent in the context of the current connection",
        categories: Some(category::CONNECTION),
        tips: "request_policy:all_shards,response_policy:agg_min",
        docs: "
            complexity O(1)
            - numreplicas: integer
            - timeout: integer
        ",
    }

    LASTSAVE = 214 {
        run: lastsave(door, reply),
        name: "lastsave", arity: 1, flags: LOADING | STALE | FAST, keys: NO_DATA, group: "server",
        since: "1.0.0",
        summary: "Get the Unix time of the last checkpoint",
        categories: Some(category::ADMIN | category::FAST),
        docs: "
            complexity O(1)
        ",
    }
}

/// `CONFIG GET pattern .. | SET name value .. | RESETSTAT`
pub fn config(
    mut args: Args<'_>,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let subcommand = args.promised()?;
    match subcommand.to_ascii_lowercase().as_slice() {
        b"get" => {
            few(args)?;
            let patterns: Vec<_> = args.map(|word| effort.pattern(word)).collect::<Result<_, _>>()?;
            let fits = |name: &str| patterns.iter().any(|pattern| effort.fits(pattern, name.as_bytes()));
            let found: Vec<_> = settings::find(door, fits).collect();
            effort.check_patterns()?;
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
        b"set" => {
            few(args)?;
            settings::set(args, door)?;
            reply.ok();
        }
        b"resetstat" => {
            effort.spend(COUNTS);
            door.clients.reset_counts(door.operations.commands());
            reply.ok();
        }
        b"rewrite" => {
            return Err(CommandError::Text(
                "ERR a node's configuration is its file's: change that, and start the node again",
            ));
        }
        _ => help::full(
            "CONFIG",
            &[
                "GET <pattern>",
                "    Return parameters matching the glob-like <pattern> and their values.",
                "SET <directive> <value>",
                "    Set the configuration <directive> to <value>.",
                "RESETSTAT",
                "    Reset statistics reported by the INFO command.",
                "REWRITE",
                "    Rewrite the configuration file.",
            ],
            reply,
        ),
    }
    Ok(())
}

/// `TIME`: seconds, and microseconds of which three digits are told.
pub fn time(client: &ClientState, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    write_time(client.unix_ms, reply);
    Ok(())
}

/// The same of any moment.
pub fn write_time(unix_ms: u64, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk((unix_ms / 1000).to_string().as_bytes());
    reply.bulk((unix_ms % 1000 * 1000).to_string().as_bytes());
}

/// `ROLE`: a node that leads is a master, any other the replica of whom clients should ask.
pub fn role(door: &Door, effort: &Effort, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    effort.spend(LOOK);
    let now = (door.describe)();
    if now.service.leads() {
        reply.array(3);
        reply.bulk(b"master");
        reply.integer(0);
        reply.array(0);
        return Ok(());
    }
    let address = now.ask.and_then(|leader| door.address(leader)).unwrap_or_default();
    let (host, port) = apart(&address);
    reply.array(5);
    reply.bulk(b"slave");
    reply.bulk(host.as_bytes());
    reply.integer(port.into());
    reply.bulk(if now.ask.is_some() { b"connected" } else { b"connect" });
    reply.integer(0);
    Ok(())
}

/// `LASTSAVE`
fn lastsave(door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    reply.integer(door.operations.figures().saved_unix_s as i64);
    Ok(())
}

/// `WAIT replicas timeout`: on how many other nodes everything is, at least, that was answered before. At once: it is there already.
pub fn wait(mut args: Args<'_>, door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    integer(args.promised()?)?;
    let timeout = parse_integer(args.promised()?);
    if timeout.ok_or(CommandError::Text("ERR timeout is not an integer or out of range"))? < 0 {
        return Err(CommandError::Text("ERR timeout is negative"));
    }
    reply.integer(door.backed_by as i64);
    Ok(())
}
