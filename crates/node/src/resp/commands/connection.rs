//! Commands about the connection: PING ECHO HELLO SELECT AUTH READONLY READWRITE HW.FRESHNESS.

use std::sync::atomic::Ordering;

use highwater_core::Timestamp;
use highwater_engines::Freshness;

use super::{admin, client, cluster, help, sentinel, server};
use crate::resp::Door;
use crate::resp::client_state::ClientState;
use crate::resp::command::Local;
use crate::resp::errors::CommandError;
use crate::resp::number::parse_integer;
use crate::resp::reply::{Protocol, Reply};
use crate::resp::request::Args;

/// Answers a command that touches no data. Its row has been checked.
pub fn run(command: Local, args: Args<'_>, client: &mut ClientState, door: &Door, out: &mut Vec<u8>) {
    let start = out.len();
    let mut reply = Reply::new(out, client.protocol);
    let result = match command {
        Local::Ping => ping(args, &mut reply),
        Local::Echo => echo(args, &mut reply),
        Local::Hello => hello(args, client, door, &mut reply),
        Local::Select => select(args, &mut reply),
        Local::Auth => Err(CommandError::NoPasswords),
        Local::Client => client::client(args, client, door, &mut reply),
        Local::Command => server::command(args, &mut reply),
        Local::Info => server::info(args, door, &mut reply),
        Local::Config => admin::config(args, door, &mut reply),
        Local::Time => admin::time(client, &mut reply),
        Local::Role => admin::role(door, &mut reply),
        Local::Cluster => cluster::cluster(args, door, &mut reply),
        Local::Sentinel => sentinel::sentinel(args, door, &mut reply),
        Local::Wait => admin::wait(args, door, &mut reply),
        Local::Slowlog => admin::slowlog(args, &mut reply),
        Local::Latency => admin::latency(args, &mut reply),
        Local::Readonly => reads_snapshots(client, true, &mut reply),
        Local::Readwrite => reads_snapshots(client, false, &mut reply),
        Local::Freshness => freshness(args, client, &mut reply),
    };
    if let Err(error) = result {
        reply.out.truncate(start);
        reply.error(error);
    }
}

/// `PING [message]`
fn ping(mut args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
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
    if let Some(name) = hello_options(args)? {
        client::set_name(client, name)?;
    }
    client.protocol = protocol;
    client.card().protocol.store(if protocol == Protocol::Resp3 { 3 } else { 2 }, Ordering::Relaxed);
    reply.protocol = protocol;
    welcome(client, door, reply);
    Ok(())
}

/// Reads the options; gives the name to set, if there is one.
fn hello_options(mut args: Args<'_>) -> Result<Option<&[u8]>, CommandError> {
    let mut name = None;
    while let Some(option) = args.next() {
        if option.eq_ignore_ascii_case(b"auth") && args.len() >= 2 {
            return Err(CommandError::NoPasswords);
        } else if option.eq_ignore_ascii_case(b"setname") && args.len() >= 1 {
            name = args.next();
        } else {
            return Err(CommandError::HelloOption(String::from_utf8_lossy(option).into_owned()));
        }
    }
    Ok(name)
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
    reply.bulk(server::mode(door).as_bytes());
    reply.bulk(b"role");
    reply.bulk(if (door.describe)().serves { b"master" } else { b"replica" });
    reply.bulk(b"modules");
    reply.array(0);
}

/// `SELECT 0`: clients send it at connect.
fn select(mut args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    match parse_integer(args.promised()?).ok_or(CommandError::NotAnInteger)? {
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
