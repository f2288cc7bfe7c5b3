//! What took long, and where transactions meet: SLOWLOG LATENCY HW.HOTKEYS.
//!
//! Redis's names for what is kept here. Slow are transactions, by the time for which their worker executed them, and commands that are
//! answered at the door. Histograms are of what clients wait for: from submission to release.

use super::help;
use super::server::find;
use super::words::{integer, is};
use crate::Door;
use crate::acl::ids::{self, Commands};
use crate::command::entry::commands;
use crate::effort::{COUNTS, Effort, LOOK, few};
use crate::errors::CommandError;
use crate::meter::latency::Latencies;
use crate::meter::slow::Slow;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    local(args, client, door, effort, reply);

    SLOWLOG = 173 {
        run: slowlog(args, door, effort, reply),
        name: "slowlog", arity: -2, flags: LOADING | LONG, keys: NO_DATA, group: "server", since: "2.2.12",
        summary: "A container for slow log commands",
        told: Some(Flags(0)),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "slowlog":
            "get" -2 {
                flags: ADMIN | LOADING | STALE, tips: "request_policy:all_nodes,nondeterministic_output", categories: category::ADMIN,
                docs: "
                    summary Get the slow log's entries
                    since 2.2.12
                    complexity O(N) where N is the number of entries returned
                    history 4.0.0 Added client IP address, port and name to the reply.
                    - count: integer optional
                ",
            }
            help "6.2.0" { categories: 0 }
            "len" 2 {
                flags: ADMIN | LOADING | STALE, tips: "request_policy:all_nodes,response_policy:agg_sum,nondeterministic_output", categories: category::ADMIN,
                docs: "
                    summary Get the slow log's length
                    since 2.2.12
                    complexity O(1)
                ",
            }
            "reset" 2 {
                flags: ADMIN | LOADING | STALE, tips: "request_policy:all_nodes,response_policy:all_succeeded", categories: category::ADMIN,
                docs: "
                    summary Clear all entries from the slow log
                    since 2.2.12
                    complexity O(N) where N is the number of entries in the slowlog
                ",
            }
        },
    }

    LATENCY = 174 {
        run: latency(args, door, effort, reply),
        name: "latency", arity: -2, flags: LOADING | LONG, keys: NO_DATA, group: "server", since: "2.8.13",
        summary: "A container for latency diagnostics commands",
        told: Some(Flags(0)),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "latency":
            "doctor" 2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, tips: "nondeterministic_output,request_policy:all_nodes,response_policy:special", categories: category::ADMIN,
                docs: "
                    summary Return a human readable latency analysis report.
                    since 2.8.13
                    complexity O(1)
                ",
            }
            "help" 2 {
                flags: LOADING | STALE, categories: 0,
                docs: "
                    summary Show helpful text about the different subcommands.
                    since 2.8.13
                    complexity O(1)
                ",
            }
            "histogram" -2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, tips: "nondeterministic_output,request_policy:all_nodes,response_policy:special", categories: category::ADMIN,
                docs: "
                    summary Return the cumulative distribution of latencies of a subset of commands or all.
                    since 7.0.0
                    complexity O(N) where N is the number of commands with latency information being retrieved.
                    - command: string optional multiple
                ",
            }
            "history" 3 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, tips: "nondeterministic_output,request_policy:all_nodes,response_policy:special", categories: category::ADMIN,
                docs: "
                    summary Return timestamp-latency samples for the event.
                    since 2.8.13
                    complexity O(1)
                    - event: string
                ",
            }
            "latest" 2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, tips: "nondeterministic_output,request_policy:all_nodes,response_policy:special", categories: category::ADMIN,
                docs: "
                    summary Return the latest latency samples for all events.
                    since 2.8.13
                    complexity O(1)
                ",
            }
            "reset" -2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, tips: "request_policy:all_nodes,response_policy:all_succeeded", categories: category::ADMIN,
                docs: "
                    summary Reset latency data for one or more events.
                    since 2.8.13
                    complexity O(1)
                    - event: string optional multiple
                ",
            }
        },
    }

    HW_HOTKEYS = 204 {
        run: hot_keys(args, door, effort, reply),
        name: "hw.hotkeys", arity: -1, flags: ADMIN | LOADING | STALE | LONG, keys: NO_DATA, group: "server",
        since: "0.1.0",
        summary: "Get the keys at which transactions meet most",
        docs: "
            complexity O(N) where N is the number of keys that are told
        ",
        subcommands: subcommands! { "hw.hotkeys":
            "reset" 2 {
                docs: "
                    summary Forget which keys were met at
                    since 0.1.0
                ",
            }
            our_help "0.1.0" {}
        },
    }
}

/// Steps of a transaction that was slow: its words are copied.
const SAMPLE: u64 = 400;
/// Steps of a copy of the latencies that are watched: some hundreds for each event.
const LATENCIES: u64 = 5 * LOOK;
/// Steps of a look for the hottest keys: sums of what the workers have.
const HOT_KEYS: u64 = 20 * LOOK;

/// `SLOWLOG GET [count] | LEN | RESET`
pub fn slowlog(
    mut args: Args<'_>,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    effort.spend(LOOK);
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
            effort.spend(SAMPLE * slow.len() as u64);
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
    for (at, word) in slow.words.iter().enumerate() {
        // Its name travels as a number. Redis shows it as it was sent, and clients send it in capital letters.
        if at == 0 { reply.bulk(&word.to_ascii_uppercase()) } else { reply.bulk(word) }
    }
    reply.bulk(slow.client.as_bytes());
    reply.bulk(slow.name.as_bytes());
}

/// `LATENCY LATEST | HISTORY event | HISTOGRAM [command ..] | RESET [event ..] | DOCTOR`
pub fn latency(
    mut args: Args<'_>,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    effort.spend(LATENCIES);
    match args.promised()?.to_ascii_lowercase().as_slice() {
        b"latest" => latest(&door.operations.latencies(), reply),
        b"history" => {
            let (event, latencies) = (args.promised()?, door.operations.latencies());
            let series = latencies.iter().find(|(known, _)| is(event, known)).map(|(_, series)| series);
            let samples = series.into_iter().flat_map(|series| &series.samples);
            reply.array(samples.clone().count());
            for sample in samples {
                reply.array(2);
                reply.integer(sample.unix_s as i64);
                reply.integer(sample.ms as i64);
            }
        }
        b"histogram" => {
            few(args)?;
            effort.spend(COUNTS);
            histogram(args, door, reply);
        }
        b"reset" => {
            few(args)?;
            let named = |known: &str| args.len() == 0 || args.into_iter().any(|event| is(event, known));
            reply.integer(door.operations.reset_latencies(&named) as i64);
        }
        b"doctor" => {
            effort.spend(SAMPLE * door.operations.slow_len() as u64);
            reply.verbatim(&doctor(door));
        }
        _ => help::help(
            "LATENCY",
            &["LATEST", "HISTORY <event>", "HISTOGRAM [<command> ...]", "RESET [<event> ...]", "DOCTOR"],
            reply,
        ),
    }
    Ok(())
}

/// Of each event: its name, when it was last, how long that took, and the longest.
fn latest(latencies: &Latencies, reply: &mut Reply<'_>) {
    reply.array(latencies.len());
    for (event, series) in latencies {
        let last = series.samples.back().expect("what is there has a sample");
        reply.array(4);
        reply.bulk(event.as_bytes());
        reply.integer(last.unix_s as i64);
        reply.integer(last.ms as i64);
        reply.integer(series.longest_ms as i64);
    }
}

/// Of each command that came: how often, and how many were below each power of two microseconds. A command that is named brings its subcommands.
fn histogram(args: Args<'_>, door: &Door, reply: &mut Reply<'_>) {
    let counts = door.clients.counts(door.operations.commands()).commands;
    let mut wanted = if args.len() == 0 { Commands::ALL } else { Commands::NONE };
    for named in args.into_iter().filter_map(find) {
        let subcommands = if named.sub.is_none() { named.spec.subcommands.len() } else { 0 };
        (named.id..=named.id + subcommands).for_each(|id| wanted.set(id, true));
    }
    let found: Vec<_> = ids::all()
        .filter(|named| wanted.has(named.id))
        .filter_map(|named| Some((named, *counts.get(named.id)?)))
        .filter(|(_, counts)| counts.ended() > 0)
        .collect();
    reply.map(found.len());
    for (named, counts) in found {
        reply.bulk(named.full_name().as_bytes());
        reply.map(2);
        reply.bulk(b"calls");
        reply.integer(counts.ended() as i64);
        reply.bulk(b"histogram_usec");
        reply.map(counts.latency.iter().filter(|count| **count > 0).count());
        let mut below = 0;
        for (power, count) in counts.latency.iter().enumerate().filter(|(_, count)| **count > 0) {
            below += count;
            reply.integer(1 << power);
            reply.integer(below as i64);
        }
    }
}

fn doctor(door: &Door) -> String {
    let Some(threshold) = door.operations.slower_than_us() else {
        return "Nothing is watched: slowlog-log-slower-than is negative.\n".into();
    };
    let watched = door.operations.slow(usize::MAX);
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
pub fn hot_keys(
    mut args: Args<'_>,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    effort.spend(HOT_KEYS);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Protocol;

    #[test]
    fn a_commands_name_is_in_the_letters_that_clients_send() {
        let words = vec![b"set".to_vec(), b"key".to_vec()];
        let (client, name) = (String::from("127.0.0.1:9"), String::new());
        let slow =
            Slow { number: 1, unix_ms: 2000, took_us: 3, released_us: None, worker: 0, client, name, words };
        let mut out = Vec::new();
        entry(&slow, &mut Reply::new(&mut out, Protocol::Resp2));
        assert!(
            out.windows(18).any(|part| part == b"$3\r\nSET\r\n$3\r\nkey\r\n"),
            "{}",
            String::from_utf8_lossy(&out)
        );
    }
}
