//! What operators' tools ask: CONFIG TIME ROLE WAIT.
//!
//! Settings are told in Redis's names where they mean something here, and are not changed: a node's configuration is its file's
//! (docs/configuration.md).

use super::help;
use super::info::calls;
use super::object::{MAX_SMALL_BYTES, MAX_SMALL_HASH, MAX_SMALL_SET, MAX_SMALL_SORTED_SET};
use super::words::{integer, is};
use crate::meter::slow::MOST_SLOW;
use crate::resp::acl::log::MOST;
use crate::resp::client_state::ClientState;
use crate::resp::errors::CommandError;
use crate::resp::reply::Reply;
use crate::resp::request::Args;
use crate::resp::{Door, Redirect, glob};

/// Settings that Redis's clients and tools ask for, and what they come to here.
fn settings(door: &Door) -> Vec<(&'static str, String)> {
    let (_, most) = (door.describe)().memory;
    let most = if most == u64::MAX { 0 } else { most };
    let port = door.address(door.node).and_then(|address| Some(address.rsplit_once(':')?.1.to_string()));
    let text = |text: &str| text.to_string();
    let slower_than = door.operations.slower_than_us();
    vec![
        ("acllog-max-len", MOST.to_string()),
        ("appendonly", text("no")),
        ("cluster-enabled", text(if door.redirect == Redirect::Moved { "yes" } else { "no" })),
        ("databases", text("1")),
        ("hash-max-listpack-entries", MAX_SMALL_HASH.to_string()),
        ("hash-max-listpack-value", MAX_SMALL_BYTES.to_string()),
        ("hash-max-ziplist-entries", MAX_SMALL_HASH.to_string()),
        ("hash-max-ziplist-value", MAX_SMALL_BYTES.to_string()),
        ("latency-monitor-threshold", (slower_than.unwrap_or(0) / 1000).to_string()),
        ("maxmemory", most.to_string()),
        ("maxmemory-policy", text("noeviction")),
        ("port", port.unwrap_or_else(|| text("0"))),
        ("proto-max-bulk-len", highwater_core::limits::MAX_VALUE_BYTES.to_string()),
        // Whether there is one. What it is nobody knows: its hash is kept.
        ("requirepass", text(if door.access.default_user().needs_no_password() { "" } else { "********" })),
        ("save", String::new()),
        ("set-max-intset-entries", MAX_SMALL_SET.to_string()),
        ("slowlog-log-slower-than", slower_than.map_or_else(|| text("-1"), |us| us.to_string())),
        ("slowlog-max-len", MOST_SLOW.to_string()),
        ("zset-max-listpack-entries", MAX_SMALL_SORTED_SET.to_string()),
        ("zset-max-listpack-value", MAX_SMALL_BYTES.to_string()),
        ("zset-max-ziplist-entries", MAX_SMALL_SORTED_SET.to_string()),
        ("zset-max-ziplist-value", MAX_SMALL_BYTES.to_string()),
    ]
}

/// `CONFIG GET pattern .. | SET name value .. | RESETSTAT`
pub fn config(mut args: Args<'_>, door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let subcommand = args.promised()?;
    match subcommand.to_ascii_lowercase().as_slice() {
        b"get" => {
            let fits = |name: &str| {
                args.into_iter().any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
            };
            let found: Vec<_> = settings(door).into_iter().filter(|(name, _)| fits(name)).collect();
            reply.map(found.len());
            for (name, value) in found {
                reply.bulk(name.as_bytes());
                reply.bulk(value.as_bytes());
            }
        }
        b"set" => {
            set_config(args, door)?;
            reply.ok();
        }
        b"resetstat" => {
            door.clients.reset_counts(calls(door));
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

/// Nothing is changed: what is set to what it is, is fine.
fn set_config(mut args: Args<'_>, door: &Door) -> Result<(), CommandError> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity("config|set"));
    }
    let settings = settings(door);
    while let (Some(name), Some(value)) = (args.next(), args.next()) {
        let known = settings.iter().find(|(known, _)| is(name, known));
        let shown = String::from_utf8_lossy(name).into_owned();
        match known {
            None => return Err(CommandError::UnknownSetting(shown)),
            Some((_, set)) if set.as_bytes().eq_ignore_ascii_case(value) => {}
            Some(_) => return Err(CommandError::FixedSetting(shown)),
        }
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

/// `ROLE`: a node that serves is a master, any other the replica of whom clients should ask.
pub fn role(door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let now = (door.describe)();
    if now.serves {
        reply.array(3);
        reply.bulk(b"master");
        reply.integer(0);
        reply.array(0);
        return Ok(());
    }
    let address = now.ask.and_then(|leader| door.address(leader)).unwrap_or_default();
    let (host, port) = address.rsplit_once(':').unwrap_or(("", "0"));
    reply.array(5);
    reply.bulk(b"slave");
    reply.bulk(host.as_bytes());
    reply.integer(port.parse().unwrap_or(0));
    reply.bulk(if now.ask.is_some() { b"connected" } else { b"connect" });
    reply.integer(0);
    Ok(())
}

/// `WAIT replicas timeout`: on how many other nodes everything is, at least, that was answered before. At once: it is there already.
pub fn wait(mut args: Args<'_>, door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    integer(args.promised()?)?;
    if integer(args.promised()?)? < 0 {
        return Err(CommandError::Text("ERR timeout is negative"));
    }
    reply.integer(door.backed_by as i64);
    Ok(())
}
