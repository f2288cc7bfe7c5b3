//! What took long, and where transactions meet: SLOWLOG LATENCY HW.HOTKEYS.
//!
//! Redis's names for what is kept here anyway. Slow are transactions, by the time for which their worker executed them; the one
//! event of `LATENCY` is these. Its histograms are of what clients wait for: from submission to release.

use super::help;
use super::words::{integer, is};
use crate::meter::slow::Slow;
use crate::resp::Door;
use crate::resp::command::{COMMANDS, Opcode};
use crate::resp::errors::CommandError;
use crate::resp::reply::Reply;
use crate::resp::request::Args;

/// The event of `LATENCY`.
const EVENT: &str = "command";

/// `SLOWLOG GET [count] | LEN | RESET`
pub fn slowlog(mut args: Args<'_>, door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    match args.promised()?.to_ascii_lowercase().as_slice() {
        b"get" => {
            const NEGATIVE: CommandError =
                CommandError::Text("ERR count should be greater than or equal to -1");
            let count = args.next().map_or(Ok(10), integer).map_err(|_| NEGATIVE)?;
            let most = match count {
                -1 => usize::MAX,
                count => usize::try_from(count).map_err(|_| NEGATIVE)?,
            };
            let slow = door.operations.slow(most);
            reply.array(slow.len());
            slow.iter().for_each(|slow| entry(slow, reply));
        }
        b"len" => reply.integer(door.operations.slow_len() as i64),
        b"reset" => {
            door.operations.reset_slow();
            reply.ok();
        }
        _ => help::help("SLOWLOG", &["GET [<count>]", "LEN", "RESET"], reply),
    }
    Ok(())
}

fn entry(slow: &Slow, reply: &mut Reply<'_>) {
    reply.array(6);
    reply.integer(slow.number as i64);
    reply.integer((slow.unix_ms / 1000) as i64);
    reply.integer(slow.took_us as i64);
    reply.array(slow.words.len());
    slow.words.iter().for_each(|word| reply.bulk(word));
    reply.bulk(slow.client.as_bytes());
    reply.bulk(slow.name.as_bytes());
}

/// `LATENCY LATEST | HISTORY event | HISTOGRAM [command ..] | RESET [event ..] | DOCTOR`
pub fn latency(mut args: Args<'_>, door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    match args.promised()?.to_ascii_lowercase().as_slice() {
        b"latest" => latest(&door.operations.watched(), reply),
        b"history" => {
            let known = is(args.promised()?, EVENT);
            let watched = if known { door.operations.watched() } else { Vec::new() };
            reply.array(watched.len());
            for slow in watched.iter().rev() {
                reply.array(2);
                reply.integer((slow.unix_ms / 1000) as i64);
                reply.integer(ms(slow));
            }
        }
        b"histogram" => histogram(args, door, reply),
        b"reset" => {
            let named = args.len() == 0 || args.into_iter().any(|event| is(event, EVENT));
            reply.integer(i64::from(named && door.operations.reset_watched()));
        }
        b"doctor" => reply.verbatim(&doctor(door)),
        _ => help::help(
            "LATENCY",
            &["LATEST", "HISTORY <event>", "HISTOGRAM [<command> ...]", "RESET [<event> ...]", "DOCTOR"],
            reply,
        ),
    }
    Ok(())
}

fn ms(slow: &Slow) -> i64 {
    (slow.took_us / 1000) as i64
}

/// The event, when it was last, how long that took, and the longest.
fn latest(watched: &[Slow], reply: &mut Reply<'_>) {
    let Some(last) = watched.first() else { return reply.array(0) };
    reply.array(1);
    reply.array(4);
    reply.bulk(EVENT.as_bytes());
    reply.integer((last.unix_ms / 1000) as i64);
    reply.integer(ms(last));
    reply.integer(watched.iter().map(ms).max().unwrap_or_default());
}

/// Of each command that came: how often, and how many were below each power of two microseconds.
fn histogram(args: Args<'_>, door: &Door, reply: &mut Reply<'_>) {
    let all = args.len() == 0;
    let every = (0..COMMANDS.len() as u8).filter_map(Opcode::decode).filter(|_| all);
    let named = args.into_iter().filter_map(Opcode::find);
    let found: Vec<_> = every
        .chain(named)
        .map(|opcode| (opcode, door.operations.latency_of(opcode)))
        .filter(|(_, counts)| counts.iter().any(|count| *count > 0))
        .collect();
    reply.map(found.len());
    for (opcode, counts) in found {
        reply.bulk(opcode.spec().name.as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(counts.iter().sum::<u64>() as i64);
        reply.bulk(b"histogram_usec");
        reply.map(counts.iter().filter(|count| **count > 0).count());
        let mut below = 0;
        for (power, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            below += count;
            reply.integer(1 << power);
            reply.integer(below as i64);
        }
    }
}

fn doctor(door: &Door) -> String {
    let Some(threshold) = door.operations.slower_than_us() else {
        return "Nothing is watched: slowlog.slower_than_us is negative.\n".into();
    };
    let watched = door.operations.watched();
    let Some(longest) = watched.iter().max_by_key(|slow| slow.took_us) else {
        return format!("No transaction was executed for {threshold} microseconds or longer.\n");
    };
    let command = longest.words.first().map_or_else(String::new, |word| String::from_utf8_lossy(word).into());
    let mut text = format!(
        "{} transactions were executed for {threshold} microseconds or longer. The longest, a {command}, took {} microseconds. \
         SLOWLOG GET has what they asked.\n",
        watched.len(),
        longest.took_us
    );
    if let Some(hot) = door.operations.hot_keys().first() {
        let (key, conflicts) = (&hot.key, hot.conflicts);
        text += &format!("Transactions meet most at {key} ({conflicts} conflicts). HW.HOTKEYS has more.\n");
    }
    text
}

/// `HW.HOTKEYS [RESET]`: table, key, conflicts, and by how many these may be too many.
pub fn hot_keys(mut args: Args<'_>, door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    match args.next().map(<[u8]>::to_ascii_lowercase).as_deref() {
        None => {
            let keys = door.operations.hot_keys();
            reply.array(keys.len());
            for hot in keys {
                reply.array(4);
                reply.bulk(hot.table.as_bytes());
                reply.bulk(hot.key.as_bytes());
                reply.integer(hot.conflicts as i64);
                reply.integer(hot.error as i64);
            }
        }
        Some(b"reset") => {
            door.operations.reset_hot_keys();
            reply.ok();
        }
        Some(_) => help::help("HW.HOTKEYS", &["(no subcommand)", "RESET"], reply),
    }
    Ok(())
}
