//! `DEBUG`: what test suites use of it, where it can be done truly. Whoever may run it may make a worker wait: it is of the category @admin.

use std::time::Duration;

use highwater_core::limits::MAX_KEY_BYTES;

use super::help;
use super::words::integer;
use crate::Door;
use crate::command::entry::commands;
use crate::effort::{Effort, MOST_STEPS};
use crate::errors::CommandError;
use crate::glob::Steps;
use crate::reply::{Protocol, Reply};
use crate::request::Args;

commands! {
    local(args, client, door, effort, reply);

    DEBUG = 170 {
        run: debug(args, door, effort, reply),
        name: "debug", arity: -2, flags: ADMIN | NOSCRIPT | LOADING | STALE, keys: NO_DATA, group: "server",
        since: "1.0.0",
        summary: "What test suites use of it",
        docs: "
            complexity Depends on subcommand.
            doc_flags syscmd
        ",
    }
}

/// `DEBUG SLEEP` makes the connection's worker wait, and with it all clients of that worker. No longer than this: a replica whose worker stands still
/// is taken for dead.
pub const MAX_SLEEP: Duration = Duration::from_millis(500);
const STEPS_IN_A_SECOND: f64 = 400_000_000.0;

/// `DEBUG SLEEP seconds | SET-ACTIVE-EXPIRE 0|1 | PROTOCOL type | STRINGMATCH-LEN length pattern | QUICKLIST-PACKED-THRESHOLD size | LOG message`; `OBJECT` is a
/// command on data.
pub fn debug(
    mut args: Args<'_>,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let subcommand = args.promised()?.to_ascii_lowercase();
    match (subcommand.as_slice(), args.len()) {
        (b"sleep", 1) => {
            let seconds =
                std::str::from_utf8(args.promised()?).ok().and_then(|word| word.parse::<f64>().ok());
            let seconds = seconds.filter(|seconds| seconds.is_finite()).unwrap_or(0.0).max(0.0);
            if seconds > MAX_SLEEP.as_secs_f64() {
                return Err(CommandError::Text(
                    "ERR DEBUG SLEEP makes a worker wait, for half a second at most: a node that stands still for longer loses its lead",
                ));
            }
            // As long as that is: no `MULTI` has two of them, and no turn.
            effort.spend((seconds * STEPS_IN_A_SECOND) as u64);
            std::thread::sleep(Duration::from_secs_f64(seconds));
            reply.ok();
        }
        (b"set-active-expire", 1) => {
            door.settings.set_active_expire(integer(args.promised()?)? != 0);
            reply.ok();
        }
        (b"protocol", 1) => return protocol(args.promised()?, reply),
        (b"stringmatch-len", 2) => {
            let (length, pattern) = (integer(args.promised()?)?, args.promised()?);
            let length = usize::try_from(length).ok().filter(|length| *length <= 1 << 24);
            if pattern.len() > MAX_KEY_BYTES {
                return Err(CommandError::KeyTooLong);
            }
            let text = vec![b'a'; length.ok_or(CommandError::NotAnInteger)?];
            let steps = Steps::of(MOST_STEPS);
            reply.integer(i64::from(steps.fit(pattern, &text)));
            effort.spend(MOST_STEPS - steps.left() + text.len() as u64);
        }
        // From which size on an item gets a node of its own: here each has a row of its own in any case.
        (b"quicklist-packed-threshold", 1) => reply.ok(),
        (b"log", 1) => {
            let text = String::from_utf8_lossy(args.promised()?).into_owned();
            tracing::debug!(text = %text.escape_debug(), "DEBUG LOG");
            reply.ok();
        }
        (b"help", 0) => help::help(
            "DEBUG",
            &[
                "OBJECT <key>",
                "SLEEP <seconds>",
                "SET-ACTIVE-EXPIRE <0|1>",
                "PROTOCOL <type>",
                "STRINGMATCH-LEN <length> <pattern>",
                "QUICKLIST-PACKED-THRESHOLD <size>",
                "LOG <message>",
            ],
            reply,
        ),
        (b"reload" | b"loadaof", _) => {
            return Err(CommandError::Text(
                "ERR nothing is saved on demand to be loaded again: end a node and start it to see what it recovers",
            ));
        }
        _ => return Err(CommandError::unknown_debug(&subcommand)),
    }
    Ok(())
}

/// A reply of this type: what clients test their parsers with.
fn protocol(kind: &[u8], reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let resp3 = reply.protocol == Protocol::Resp3;
    let boolean = |yes: bool, reply: &mut Reply<'_>| match (resp3, yes) {
        (true, true) => reply.raw(b"#t\r\n"),
        (true, false) => reply.raw(b"#f\r\n"),
        (false, yes) => reply.integer(yes.into()),
    };
    match kind.to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12_345),
        b"double" => reply.double(3141.0 / 1000.0),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                boolean(number == 1, reply);
            }
        }
        b"attrib" => {
            if resp3 {
                reply.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" => reply.raw(if resp3 {
            b">2\r\n$16\r\nserver-cpu-usage\r\n:42\r\n"
        } else {
            b"-ERR RESP2 is not supported by this command\r\n"
        }),
        b"verbatim" => reply.verbatim("This is a verbatim\nstring"),
        b"true" => boolean(true, reply),
        b"false" => boolean(false, reply),
        b"bignum" => {
            const NUMBER: &[u8] = b"1234567999999999999999999999999999999";
            if resp3 { reply.line(b'(', NUMBER) } else { reply.bulk(NUMBER) }
        }
        _ => {
            return Err(CommandError::Text(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|null|array|set|map|attrib|push|verbatim|true|false|bignum",
            ));
        }
    }
    Ok(())
}
