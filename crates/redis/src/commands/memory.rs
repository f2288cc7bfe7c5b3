//! `MEMORY DOCTOR | MALLOC-STATS | PURGE | STATS`: of the node's memory, what is known of it. `USAGE` is a command on data.

use super::words::is;
use crate::Door;
use crate::command::entry::commands;
use crate::effort::{Effort, FILE};
use crate::errors::CommandError;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    local(args, client, door, effort, reply);

    HW_MEMORY = 209 {
        run: memory(args, door, effort, reply),
        name: "hw.memory", arity: -2, flags: ADMIN, keys: NO_DATA, group: "server", since: "0.2.0",
        summary: "Tell of the node's memory: MEMORY DOCTOR, MALLOC-STATS, PURGE and STATS",
        docs: "
            - subcommand: string
        ",
    }
}

/// See the module.
pub fn memory(
    mut args: Args<'_>,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    effort.spend(FILE);
    let subcommand = args.promised()?;
    let arity = |words: usize, name: &'static str| {
        if words == 0 { Ok(()) } else { Err(CommandError::WrongArity(name)) }
    };
    let (used, most) = (door.describe)().memory;
    let resident = door.operations.resident_bytes();
    match subcommand {
        word if is(word, "stats") => {
            arity(args.len(), "memory|stats")?;
            let figures = [
                ("total.allocated", used),
                ("dataset.bytes", used),
                ("allocator.resident", resident),
                ("maxmemory", if most == u64::MAX { 0 } else { most }),
            ];
            reply.map(figures.len());
            for (name, bytes) in figures {
                reply.bulk(name.as_bytes());
                reply.integer(bytes as i64);
            }
        }
        word if is(word, "doctor") => {
            arity(args.len(), "memory|doctor")?;
            let text = match most {
                u64::MAX => format!("The data takes {used} bytes and has no limit.\n"),
                most if used > most / 10 * 9 => format!(
                    "The data takes {used} of {most} bytes: writes will be refused soon. Raise limits.memory_mb, or remove something.\n"
                ),
                most => format!("The data takes {used} of {most} bytes.\n"),
            };
            reply.verbatim(&text);
        }
        word if is(word, "purge") => {
            arity(args.len(), "memory|purge")?;
            // What is freed goes back to the system by itself.
            reply.ok();
        }
        word if is(word, "malloc-stats") => {
            arity(args.len(), "memory|malloc-stats")?;
            reply.verbatim("Stats not supported for the current allocator");
        }
        other => return Err(CommandError::unknown_subcommand("memory", other)),
    }
    Ok(())
}
