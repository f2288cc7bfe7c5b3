//! Commands about the connection: PING ECHO HELLO SELECT READONLY READWRITE HW.FRESHNESS HW.PROCEDURES.

use std::sync::atomic::Ordering;

use highwater_core::Timestamp;
use highwater_seam::Freshness;

use super::words::small_integer;
use super::{auth, client, help, info};
use crate::Door;
use crate::client_state::ClientState;
use crate::command::entry::commands;
use crate::effort::Effort;
use crate::errors::CommandError;
use crate::number::parse_integer;
use crate::reply::{Protocol, Reply};
use crate::request::Args;

commands! {
    local(args, client, door, effort, reply);

    PING = 148 {
        run: ping(args, client, reply),
        name: "ping", arity: -1, flags: FAST | IN_SCRIPTS | WHILE_LISTENING, keys: NO_DATA,
        group: "connection", since: "1.0.0",
        summary: "Ping the server",
        tips: "request_policy:all_shards,response_policy:all_succeeded",
        docs: "
            complexity O(1)
            - message: string optional
        ",
    }

    ECHO = 149 {
        run: echo(args, reply),
        name: "echo", arity: 2, flags: LOADING | STALE | FAST | IN_SCRIPTS, keys: NO_DATA,
        group: "connection", since: "1.0.0",
        summary: "Echo the given string",
        docs: "
            complexity O(1)
            - message: string
        ",
    }

    HELLO = 150 {
        run: hello(args, client, door, effort, reply),
        name: "hello", arity: -1,
        flags: NOSCRIPT | LOADING | STALE | FAST | NO_AUTH | ALLOW_BUSY | STANDS_ALONE, keys: NO_DATA,
        group: "connection", since: "6.0.0",
        summary: "Handshake with Redis",
        docs: "
            complexity O(1)
            history 6.2.0 `protover` made optional; when called without arguments the command reports the current connection's context.
            - arguments: block optional
            -- protover: integer
            -- username_password: block 'AUTH' optional
            --- username: string
            --- password: string
            -- clientname: string 'SETNAME' optional
        ",
    }

    SELECT = 151 {
        run: select(args, reply),
        name: "select", arity: 2, flags: LOADING | STALE | FAST | IN_SCRIPTS, keys: NO_DATA,
        group: "connection", since: "1.0.0",
        summary: "Change the selected database for the current connection",
        docs: "
            complexity O(1)
            - index: integer
        ",
    }

    READONLY = 176 {
        run: reads_snapshots(client, true, reply),
        name: "readonly", arity: 1, flags: LOADING | STALE | FAST, keys: NO_DATA, group: "cluster",
        since: "3.0.0",
        summary: "Let the reads of this connection run on a replica's snapshot",
        docs: "
            complexity O(1)
        ",
    }

    READWRITE = 177 {
        run: reads_snapshots(client, false, reply),
        name: "readwrite", arity: 1, flags: LOADING | STALE | FAST, keys: NO_DATA, group: "cluster",
        since: "3.0.0",
        summary: "Send the reads of this connection to the leader again",
        docs: "
            complexity O(1)
        ",
    }

    HW_FRESHNESS = 191 {
        run: freshness(args, client, reply),
        name: "hw.freshness", arity: -2, flags: LOADING | STALE | FAST, keys: NO_DATA, group: "cluster",
        since: "0.1.0",
        summary: "Say how old a replica's snapshot may be that this connection reads",
        subcommands: subcommands! { "hw.freshness":
            "within" 3 {
                docs: "
                    summary Read from a replica's snapshot that is at most so old
                    since 0.1.0
                    - milliseconds: integer
                ",
            }
            "since" 3 {
                docs: "
                    summary Read from a snapshot that holds what a token has seen
                    since 0.1.0
                    - token: integer
                ",
            }
            "any" 2 {
                docs: "
                    summary Read from any snapshot
                    since 0.1.0
                ",
            }
            our_help "0.1.0" {}
        },
    }

    HW_PROCEDURES = 201 {
        run: procedures(args, door, effort, reply),
        name: "hw.procedures", arity: -1, flags: LOADING | STALE | FAST | LONG, keys: NO_DATA,
        group: "server", since: "0.1.0",
        summary: "List the procedures that may be called, with their signatures",
        docs: "
            complexity O(N) where N is the number of procedures
            - pattern: pattern optional
        ",
    }
}

/// `HW.PROCEDURES [pattern]`
fn procedures(
    mut args: Args<'_>,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let pattern = args.next();
    if args.next().is_some() {
        return Err(CommandError::WrongArity("hw.procedures"));
    }
    door.callables.list(pattern, effort, reply)?;
    Ok(())
}

/// `PING [message]`
fn ping(mut args: Args<'_>, client: &ClientState, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    if client.listens_only() && args.len() < 2 {
        // In the form of a message, which is all that such a client reads.
        reply.array(2);
        reply.bulk(b"pong");
        reply.bulk(args.next().unwrap_or_default());
        return Ok(());
    }
    match (args.next(), args.next()) {
        (None, _) => reply.simple("PONG"),
        (Some(message), None) => reply.bulk(message),
        (Some(_), Some(_)) => return Err(CommandError::WrongArity("ping")),
    }
    Ok(())
}

/// `ECHO message`
fn echo(mut args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    reply.bulk(args.promised()?);
    Ok(())
}

/// `HELLO [2 | 3 [AUTH user password] [SETNAME name]]`: changes nothing unless all of it is fine.
fn hello(
    mut args: Args<'_>,
    client: &mut ClientState,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let mut protocol = client.protocol;
    if let Some(version) = args.next() {
        protocol = match parse_integer(version).ok_or(CommandError::ProtocolNotAnInteger)? {
            2 => Protocol::Resp2,
            3 => Protocol::Resp3,
            _ => return Err(CommandError::NoSuchProtocol),
        };
    }
    let options = hello_options(args)?;
    if options.name.is_some_and(|name| !client::printable(name)) {
        return Err(CommandError::ClientName("Client names"));
    }
    options.name.map_or(Ok(()), client::fits)?;
    if let Some((name, password)) = options.credentials {
        auth::let_in(name, password, "HELLO", client, door, effort)?;
    }
    if !client.caller.is_authenticated() {
        return Err(CommandError::HelloUnauthenticated);
    }
    if let Some(name) = options.name {
        client::set_name(client, name)?;
    }
    client.protocol = protocol;
    client.card().protocol.store(if protocol == Protocol::Resp3 { 3 } else { 2 }, Ordering::Relaxed);
    reply.protocol = protocol;
    welcome(client, door, reply);
    Ok(())
}

/// What `HELLO` asks for beside the protocol.
#[derive(Default)]
struct HelloOptions<'a> {
    /// The connection's name.
    name: Option<&'a [u8]>,
    /// A user and its password.
    credentials: Option<(&'a [u8], &'a [u8])>,
}

fn hello_options(mut args: Args<'_>) -> Result<HelloOptions<'_>, CommandError> {
    let mut options = HelloOptions::default();
    while let Some(option) = args.next() {
        if option.eq_ignore_ascii_case(b"auth") && args.len() >= 2 {
            options.credentials = args.next().zip(args.next());
        } else if option.eq_ignore_ascii_case(b"setname") && args.len() >= 1 {
            options.name = args.next();
        } else {
            return Err(CommandError::HelloOption(String::from_utf8_lossy(option).into_owned()));
        }
    }
    Ok(options)
}

fn welcome(client: &ClientState, door: &Door, reply: &mut Reply<'_>) {
    reply.map(7);
    let mut text = |name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    text("server", "highwater");
    text("version", env!("CARGO_PKG_VERSION"));
    reply.bulk(b"proto");
    reply.integer(if client.protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(client.id as i64);
    reply.bulk(b"mode");
    reply.bulk(info::mode(door).as_bytes());
    reply.bulk(b"role");
    reply.bulk(if (door.describe)().service.leads() { b"master" } else { b"replica" });
    reply.bulk(b"modules");
    reply.array(0);
}

/// `SELECT 0`: clients send it at connect.
fn select(mut args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    match small_integer(args.promised()?)? {
        0 => reply.ok(),
        _ => return Err(CommandError::NoSuchDatabase),
    }
    Ok(())
}

/// `READONLY`, `READWRITE`: on any replica, at any time.
fn reads_snapshots(client: &mut ClientState, yes: bool, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    client.snapshots = yes;
    client.card().reads_snapshots.store(yes, Ordering::Relaxed);
    reply.ok();
    Ok(())
}

/// `HW.FRESHNESS WITHIN milliseconds | SINCE token | ANY`: counts while the connection reads snapshots.
fn freshness(
    mut args: Args<'_>,
    client: &mut ClientState,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let subcommand = args.promised()?.to_ascii_lowercase();
    let mut number = |most: u64| -> Result<u64, CommandError> {
        let number = parse_integer(args.promised()?).and_then(|number| u64::try_from(number).ok());
        number.filter(|number| *number <= most).ok_or(CommandError::NotAnInteger)
    };
    client.freshness = match &subcommand[..] {
        b"within" => Some(Freshness::Within(number(u64::MAX / NS_PER_MS)? * NS_PER_MS)),
        b"since" => Some(Freshness::Since(Timestamp(number(Timestamp::MAX.0)?))),
        b"any" => None,
        _ => {
            help::help("HW.FRESHNESS", &["WITHIN <milliseconds>", "SINCE <token>", "ANY"], reply);
            return Ok(());
        }
    };
    reply.ok();
    Ok(())
}

const NS_PER_MS: u64 = 1_000_000;
