//! `CLIENT`: what clients say of themselves, hear of each other, and do to each other.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use super::help;
use super::words::is;
use crate::Door;
use crate::client_state::{ClientState, Replies};
use crate::clients::{Card, Order};
use crate::command::entry::commands;
use crate::effort::{Effort, LOOK, few};
use crate::errors::CommandError;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    local(args, state, door, effort, reply);

    CLIENT = 153 {
        run: client(args, state, door, effort, reply),
        name: "client", arity: -2, flags: NOSCRIPT | LOADING | STALE | LONG, keys: NO_DATA,
        group: "connection", since: "2.4.0",
        summary: "A container for client connection commands",
        told: Some(Flags(0)),
        categories: Some(0),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "client":
            "id" 2 {
                flags: NOSCRIPT | LOADING | STALE, categories: category::CONNECTION,
                docs: "
                    summary Returns the client ID for the current connection
                    since 5.0.0
                    complexity O(1)
                ",
            }
            "info" 2 {
                flags: NOSCRIPT | LOADING | STALE, tips: "nondeterministic_output", categories: category::CONNECTION,
                docs: "
                    summary Returns information about the current client connection.
                    since 6.2.0
                    complexity O(1)
                ",
            }
            "list" -2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, tips: "nondeterministic_output", categories: category::ADMIN | category::CONNECTION,
                docs: "
                    summary Get the list of client connections
                    since 2.4.0
                    complexity O(N) where N is the number of client connections
                    history 2.8.12 Added unique client `id` field.
                    history 5.0.0 Added optional `TYPE` filter.
                    history 6.0.0 Added `user` field.
                    history 6.2.0 Added `argv-mem`, `tot-mem`, `laddr` and `redir` fields and the optional `ID` filter.
                    history 7.0.0 Added `resp`, `multi-mem`, `rbs` and `rbp` fields.
                    history 7.0.3 Added `ssub` field.
                    - normal_master_replica_pubsub: oneof 'TYPE' @5.0.0 optional
                    -- normal: pure-token 'NORMAL'
                    -- master: pure-token 'MASTER'
                    -- replica: pure-token 'REPLICA'
                    -- pubsub: pure-token 'PUBSUB'
                    - id: block 'ID' @6.2.0 optional
                    -- client-id: integer multiple
                ",
            }
            "kill" -3 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN | category::CONNECTION,
                docs: "
                    summary Kill the connection of a client
                    since 2.4.0
                    complexity O(N) where N is the number of client connections
                    history 2.8.12 Added new filter format.
                    history 2.8.12 `ID` option.
                    history 3.2.0 Added `master` type in for `TYPE` option.
                    history 5.0.0 Replaced `slave` `TYPE` with `replica`. `slave` still supported for backward compatibility.
                    history 6.2.0 `LADDR` option.
                    - filter: oneof
                    -- ip:port: string ~2.8.12
                    -- new-format: oneof multiple
                    --- client-id: integer 'ID' @2.8.12 optional
                    --- normal_master_slave_pubsub: oneof 'TYPE' @2.8.12 optional
                    ---- normal: pure-token 'NORMAL'
                    ---- master: pure-token 'MASTER' @3.2.0
                    ---- slave: pure-token 'SLAVE'
                    ---- replica: pure-token 'REPLICA' @5.0.0
                    ---- pubsub: pure-token 'PUBSUB'
                    --- username: string 'USER' optional
                    --- ip:port: string 'ADDR' optional
                    --- ip:port: string 'LADDR' @6.2.0 optional
                    --- yes/no: string 'SKIPME' optional
                ",
            }
            "pause" -3 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN | category::CONNECTION,
                docs: "
                    summary Stop processing commands from clients for some time
                    since 2.9.50
                    complexity O(1)
                    history 6.2.0 `CLIENT PAUSE WRITE` mode added along with the `mode` option.
                    - timeout: integer
                    - mode: oneof @6.2.0 optional
                    -- write: pure-token 'WRITE'
                    -- all: pure-token 'ALL'
                ",
            }
            "unpause" 2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN | category::CONNECTION,
                docs: "
                    summary Resume processing of clients that were paused
                    since 6.2.0
                    complexity O(N) Where N is the number of paused clients
                ",
            }
            "reply" 3 {
                flags: NOSCRIPT | LOADING | STALE, categories: category::CONNECTION,
                docs: "
                    summary Instruct the server whether to reply to commands
                    since 3.2.0
                    complexity O(1)
                    - on_off_skip: oneof
                    -- on: pure-token 'ON'
                    -- off: pure-token 'OFF'
                    -- skip: pure-token 'SKIP'
                ",
            }
            "unblock" -3 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN | category::CONNECTION,
                docs: "
                    summary Unblock a client blocked in a blocking command from a different connection
                    since 5.0.0
                    complexity O(log N) where N is the number of client connections
                    - client-id: integer
                    - timeout_error: oneof optional
                    -- timeout: pure-token 'TIMEOUT'
                    -- error: pure-token 'ERROR'
                ",
            }
            "getredir" 2 {
                flags: NOSCRIPT | LOADING | STALE, categories: category::CONNECTION,
                docs: "
                    summary Get tracking notifications redirection client ID if any
                    since 6.0.0
                    complexity O(1)
                ",
            }
            "tracking" -3 {
                flags: NOSCRIPT | LOADING | STALE, categories: category::CONNECTION,
                docs: "
                    summary Enable or disable server assisted client side caching support
                    since 6.0.0
                    complexity O(1). Some options may introduce additional complexity.
                    - status: oneof
                    -- on: pure-token 'ON'
                    -- off: pure-token 'OFF'
                    - client-id: integer 'REDIRECT' optional
                    - prefix: string 'PREFIX' optional multiple multiple_token
                    - bcast: pure-token 'BCAST' optional
                    - optin: pure-token 'OPTIN' optional
                    - optout: pure-token 'OPTOUT' optional
                    - noloop: pure-token 'NOLOOP' optional
                ",
            }
            "trackinginfo" 2 {
                flags: NOSCRIPT | LOADING | STALE, categories: category::CONNECTION,
                docs: "
                    summary Return information about server assisted client side caching for the current connection
                    since 6.2.0
                    complexity O(1)
                ",
            }
            "caching" 3 {
                flags: NOSCRIPT | LOADING | STALE, categories: category::CONNECTION,
                docs: "
                    summary Instruct the server about tracking or not keys in the next request
                    since 6.0.0
                    complexity O(1)
                    - mode: oneof
                    -- yes: pure-token 'YES'
                    -- no: pure-token 'NO'
                ",
            }
            "no-evict" 3 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN | category::CONNECTION,
                docs: "
                    summary Set client eviction mode for the current connection
                    since 7.0.0
                    complexity O(1)
                    - enabled: oneof
                    -- on: pure-token 'ON'
                    -- off: pure-token 'OFF'
                ",
            }
            "no-touch" 3 {
                categories: category::CONNECTION,
                docs: "
                    summary Accepted; accesses leave no trace here
                    since 0.1.0
                    - enabled: oneof
                    -- on: pure-token 'ON'
                    -- off: pure-token 'OFF'
                ",
            }
            "getname" 2 {
                flags: NOSCRIPT | LOADING | STALE, categories: category::CONNECTION,
                docs: "
                    summary Get the current connection name
                    since 2.6.9
                    complexity O(1)
                ",
            }
            "setname" 3 {
                flags: NOSCRIPT | LOADING | STALE, categories: category::CONNECTION,
                docs: "
                    summary Set the current connection name
                    since 2.6.9
                    complexity O(1)
                    - connection-name: string
                ",
            }
            "setinfo" 4 {
                categories: category::CONNECTION,
                docs: "
                    summary Set information about the client's library
                    since 0.1.0
                    - attr: oneof
                    -- libname: string 'LIB-NAME'
                    -- libver: string 'LIB-VER'
                ",
            }
            help "5.0.0" { categories: category::CONNECTION }
        },
    }
}

/// Steps of a look at one client, what it has said of itself.
const CARD: u64 = 64;

/// `CLIENT ID | INFO | LIST | KILL | PAUSE | UNPAUSE | REPLY | UNBLOCK | GETREDIR | TRACKING | TRACKINGINFO | CACHING | NO-EVICT | NO-TOUCH |
/// GETNAME | SETNAME | SETINFO`
pub fn client(
    mut args: Args<'_>,
    client: &mut ClientState,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    match args.promised()?.to_ascii_lowercase().as_slice() {
        b"id" => reply.integer(client.id as i64),
        b"getname" if client.name.is_empty() => reply.null(),
        b"getname" => reply.bulk(&client.name),
        b"setname" => {
            set_name(client, args.promised()?)?;
            reply.ok();
        }
        b"setinfo" => {
            set_attribute(client.card(), args.promised()?, args.promised()?)?;
            reply.ok();
        }
        b"info" => reply.verbatim(&(describe(client, "client|info") + "\n")),
        b"list" => {
            let chosen = listed(args)?;
            let cards = door.clients.all();
            effort.spend(CARD * cards.len() as u64);
            let lines: String = cards
                .iter()
                .filter(|card| chosen.fits(card))
                .map(|card| line(card, client.unix_ms, card.last_command()) + "\n")
                .collect();
            reply.verbatim(&lines);
        }
        b"kill" => {
            effort.spend(CARD * door.clients.count() as u64);
            kill(args, client, door, effort, reply)?;
        }
        b"pause" => {
            let ms = parse_integer(args.promised()?);
            let ms = ms.ok_or(CommandError::Text("ERR timeout is not an integer or out of range"))?;
            let ms = u64::try_from(ms).map_err(|_| CommandError::Text("ERR timeout is negative"))?;
            let reads = match args.next() {
                None => true,
                Some(word) if is(word, "all") => true,
                Some(word) if is(word, "write") => false,
                Some(_) => return Err(CommandError::Text("ERR CLIENT PAUSE mode must be WRITE or ALL")),
            };
            effort.spend(4 * LOOK);
            door.clients.pause(client.unix_ms.saturating_add(ms), reads, client.unix_ms);
            reply.ok();
        }
        b"unpause" => {
            effort.spend(4 * LOOK);
            door.clients.unpause();
            reply.ok();
        }
        b"reply" => match args.promised()? {
            word if is(word, "on") => {
                client.replies = Replies::On;
                reply.ok();
            }
            word if is(word, "off") => client.replies = Replies::Off,
            word if is(word, "skip") => {
                if client.replies == Replies::On {
                    client.replies = Replies::Skip;
                }
            }
            _ => return Err(CommandError::Syntax),
        },
        b"unblock" => {
            effort.spend(LOOK);
            unblock(args, door, reply)?;
        }
        b"getredir" => reply.integer(-1),
        b"trackinginfo" => {
            reply.map(3);
            reply.bulk(b"flags");
            reply.set(1);
            reply.bulk(b"off");
            reply.bulk(b"redirect");
            reply.integer(-1);
            reply.bulk(b"prefixes");
            reply.array(0);
        }
        b"tracking" => match args.promised()? {
            word if is(word, "off") => reply.ok(),
            word if is(word, "on") => {
                return Err(CommandError::Text(
                    "ERR client side caching is not offered: nobody is told what changed. Read anew, or WATCH",
                ));
            }
            _ => return Err(CommandError::Syntax),
        },
        b"caching" => {
            return Err(CommandError::Text(
                "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
            ));
        }
        b"no-evict" | b"no-touch" => match args.promised()? {
            word if is(word, "on") || is(word, "off") => reply.ok(),
            _ => return Err(CommandError::Syntax),
        },
        b"help" => help::help("CLIENT", &USAGES, reply),
        other => return Err(CommandError::unknown_subcommand("client", other)),
    }
    Ok(())
}

const USAGES: [&str; 16] = [
    "ID",
    "INFO",
    "LIST [TYPE (NORMAL|MASTER|REPLICA|PUBSUB)] [ID <client-id> ...]",
    "KILL (<ip:port> | [ID <client-id>] [TYPE <type>] [USER <name>] [ADDR <ip:port>] [LADDR <ip:port>] [SKIPME (YES|NO)])",
    "PAUSE <timeout> [WRITE|ALL]",
    "UNPAUSE",
    "REPLY (ON|OFF|SKIP)",
    "UNBLOCK <client-id> [TIMEOUT|ERROR]",
    "GETREDIR",
    "TRACKING OFF",
    "TRACKINGINFO",
    "NO-EVICT (ON|OFF)",
    "NO-TOUCH (ON|OFF)",
    "GETNAME",
    "SETNAME <name>",
    "SETINFO (LIB-NAME | LIB-VER) <value>",
];

/// A connection in a line, as `CLIENT INFO` tells it.
pub fn describe(client: &ClientState, command: &str) -> String {
    line(client.card(), client.unix_ms, command)
}

/// A line of `CLIENT LIST`: the fields that are known here.
fn line(card: &Card, now_ms: u64, command: &str) -> String {
    let words = card.words().clone();
    let load = |number: &std::sync::atomic::AtomicU64| number.load(Ordering::Relaxed);
    let seconds = |since: u64| now_ms.saturating_sub(since) / 1000;
    let queued = card.queued.load(Ordering::Relaxed);
    let flags = [
        ('x', queued >= 0),
        ('b', card.waits.load(Ordering::Relaxed)),
        ('P', card.listens()),
        ('r', card.reads_snapshots.load(Ordering::Relaxed)),
    ];
    let flags: String = flags.into_iter().filter(|(_, holds)| *holds).map(|(flag, _)| flag).collect();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut line = format!("id={} addr={} laddr={} ", card.id, words.address, words.local);
    // What its socket is called here nobody has told.
    let _ = write!(line, "fd=-1 name={} age={} ", text(&words.name), seconds(load(&card.since_ms)));
    let _ = write!(line, "idle={} ", seconds(load(&card.active_ms)));
    let _ = write!(line, "flags={} ", if flags.is_empty() { "N" } else { &flags });
    let _ = write!(line, "db=0 sub={} psub={} ssub=0 ", load(&card.channels), load(&card.patterns));
    let unread = load(&card.unread);
    let (queued_bytes, held) = (load(&card.queued_bytes), unread);
    let _ =
        write!(line, "multi={queued} qbuf={unread} qbuf-free=0 argv-mem={held} multi-mem={queued_bytes} ");
    let _ = write!(line, "rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem={} events=r ", held + queued_bytes);
    let _ = write!(line, "cmd={command} user={} redir=-1 ", text(&words.user));
    let _ = write!(line, "resp={} ", card.protocol.load(Ordering::Relaxed));
    let _ = write!(line, "lib-name={} lib-ver={}", text(&words.library), text(&words.version));
    line
}

/// Whom `LIST` and `KILL` mean.
#[derive(Debug, Default)]
struct Chosen {
    ids: Option<BTreeSet<u64>>,
    /// Of another type than anybody here.
    nobody: bool,
    /// Those that have subscribed to something, or those that have not.
    listens: Option<bool>,
    user: Option<Vec<u8>>,
    address: Option<String>,
    local: Option<String>,
}

impl Chosen {
    fn fits(&self, card: &Card) -> bool {
        let words = card.words();
        !self.nobody
            && self.listens.is_none_or(|listens| listens == card.listens())
            && self.ids.as_ref().is_none_or(|ids| ids.contains(&card.id))
            && self.user.as_ref().is_none_or(|user| *user == words.user)
            && self.address.as_ref().is_none_or(|address| *address == words.address)
            && self.local.as_ref().is_none_or(|local| *local == words.local)
    }

    fn kind(&mut self, word: &[u8]) -> Result<(), CommandError> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => self.listens = Some(false),
            b"pubsub" => self.listens = Some(true),
            b"master" | b"replica" | b"slave" => self.nobody = true,
            _ => return Err(CommandError::UnknownClientType(String::from_utf8_lossy(word).into_owned())),
        }
        Ok(())
    }
}

fn id(word: &[u8], otherwise: &'static str) -> Result<u64, CommandError> {
    let id = parse_integer(word).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
    id.ok_or(CommandError::Text(otherwise))
}

/// `[TYPE type] | [ID id ..]`
fn listed(mut args: Args<'_>) -> Result<Chosen, CommandError> {
    let mut chosen = Chosen::default();
    match args.next() {
        None => {}
        Some(word) if is(word, "type") && args.len() == 1 => chosen.kind(args.promised()?)?,
        Some(word) if is(word, "id") && args.len() > 0 => {
            few(args)?;
            let ids =
                args.map(|word| id(word, "ERR Invalid client ID")).collect::<Result<BTreeSet<_>, _>>()?;
            chosen.ids = Some(ids);
        }
        Some(_) => return Err(CommandError::Syntax),
    }
    Ok(chosen)
}

/// `KILL address`, or filters that must all hold.
fn kill(
    mut args: Args<'_>,
    client: &mut ClientState,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    few(args)?;
    let (mut chosen, mut skips_own) = (Chosen::default(), true);
    let old = args.len() == 1;
    let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    if old {
        (chosen.address, skips_own) = (Some(text(args.promised()?)), false);
    }
    while let Some(filter) = args.next() {
        let value = args.next().ok_or(CommandError::Syntax)?;
        match filter.to_ascii_lowercase().as_slice() {
            b"id" => {
                chosen.ids = Some(BTreeSet::from([id(value, "ERR client-id should be greater than 0")?]));
            }
            b"type" => chosen.kind(value)?,
            b"addr" => chosen.address = Some(text(value)),
            b"laddr" => chosen.local = Some(text(value)),
            b"user" => {
                if door.access.user(value).is_none() {
                    return Err(CommandError::Script(format!("ERR No such user '{}'", text(value))));
                }
                chosen.user = Some(value.to_vec());
            }
            b"skipme" if is(value, "yes") => skips_own = true,
            b"skipme" if is(value, "no") => skips_own = false,
            _ => return Err(CommandError::Syntax),
        }
    }
    let meant: Vec<u64> =
        door.clients.all().iter().filter(|card| chosen.fits(card)).map(|card| card.id).collect();
    let others = meant.iter().filter(|id| **id != client.id);
    effort.spend(LOOK * others.clone().count() as u64);
    others.clone().for_each(|id| door.clients.order(*id, Order::Kill));
    let own = !skips_own && meant.contains(&client.id);
    client.ends |= own;
    let killed = others.count() + usize::from(own);
    match old {
        true if killed == 0 => return Err(CommandError::Text("ERR No such client")),
        true => reply.ok(),
        false => reply.integer(killed as i64),
    }
    Ok(())
}

/// `UNBLOCK id [TIMEOUT | ERROR]`
fn unblock(mut args: Args<'_>, door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let id = args.promised()?;
    let error = match args.next() {
        None => false,
        Some(word) if is(word, "timeout") => false,
        Some(word) if is(word, "error") => true,
        Some(_) => return Err(CommandError::Text("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")),
    };
    let id = parse_integer(id).ok_or(CommandError::NotAnInteger)?;
    let waits = u64::try_from(id).ok().and_then(|id| door.clients.find(id));
    let waits = waits.filter(|card| card.waits.load(Ordering::Relaxed));
    if let Some(card) = &waits {
        door.clients.order(card.id, Order::Unblock { error });
    }
    reply.integer(i64::from(waits.is_some()));
    Ok(())
}

/// `SETNAME`, of `CLIENT` and of `HELLO`.
pub fn set_name(client: &mut ClientState, name: &[u8]) -> Result<(), CommandError> {
    if !printable(name) {
        return Err(CommandError::ClientName("Client names"));
    }
    fits(name)?;
    client.name = name.to_vec();
    client.tell_words();
    Ok(())
}

/// The library's name and version.
fn set_attribute(card: &Card, attribute: &[u8], value: &[u8]) -> Result<(), CommandError> {
    let known = ["lib-name", "lib-ver"].into_iter().find(|name| is(attribute, name));
    match known {
        None => return Err(CommandError::ClientAttribute(String::from_utf8_lossy(attribute).into_owned())),
        Some(name) if !printable(value) => return Err(CommandError::ClientName(name)),
        Some(_) if fits(value).is_err() => return fits(value),
        Some("lib-name") => card.words().library = value.to_vec(),
        Some(_) => card.words().version = value.to_vec(),
    }
    Ok(())
}

/// Words that a connection keeps are counted nowhere: they are short.
///
/// # Errors
/// One is not.
pub fn fits(word: &[u8]) -> Result<(), CommandError> {
    const TOO_LONG: CommandError =
        CommandError::Text("ERR a client's name, lib-name and lib-ver have 1024 bytes each at most");
    if word.len() > 1024 { Err(TOO_LONG) } else { Ok(()) }
}

/// Whether it has nothing that would garble a listing.
pub fn printable(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}
