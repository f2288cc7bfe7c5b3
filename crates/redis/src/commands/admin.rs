//! What operators' tools ask: CONFIG TIME ROLE WAIT.
//!
//! What settings there are, and what changing one does: [`settings`].

use super::help;
use super::words::integer;
use crate::client_state::ClientState;
use crate::effort::{COUNTS, Effort, LOOK, few};
use crate::errors::CommandError;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;
use crate::topology::apart;
use crate::{Door, settings};

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
