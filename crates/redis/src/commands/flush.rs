//! FLUSHDB FLUSHALL: the whole keyspace in one transaction, or a step of it.
//!
//! A client's `FLUSHALL ASYNC` is asked by its [connection](crate::connection) in steps, a transaction each: the same command with two
//! more words, in a request whose framing says that it [goes on](crate::request::Framing::again). No client can type that. Without it
//! (plain, in a `MULTI`, in a script, under a session) the command is one transaction, whatever it says.

use std::ops::ControlFlow;

use highwater_core::Transaction;

use super::words::is;
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::keyspace::{Done, Keyspace, Room};
use crate::number::{Digits, parse_integer};
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    FLUSHDB = 54 {
        run: flush(args, keyspace, reply),
        name: "flushdb", arity: -1, flags: WRITE | EMPTIES, keys: WHOLE, group: "server", since: "1.0.0",
        summary: "Remove all keys from the current database",
        categories: Some(category::KEYSPACE | category::WRITE | category::DANGEROUS),
        tips: "request_policy:all_shards,response_policy:all_succeeded",
        docs: "
            complexity O(N) where N is the number of keys in the selected database
            history 4.0.0 Added the `ASYNC` flushing mode modifier.
            history 6.2.0 Added the `SYNC` flushing mode modifier.
            - async: oneof optional
            -- async: pure-token 'ASYNC' @4.0.0
            -- sync: pure-token 'SYNC' @6.2.0
        ",
    }

    FLUSHALL = 55 {
        run: flush(args, keyspace, reply),
        name: "flushall", arity: -1, flags: WRITE | EMPTIES, keys: WHOLE, group: "server", since: "1.0.0",
        summary: "Remove all keys from all databases",
        categories: Some(category::KEYSPACE | category::WRITE | category::DANGEROUS),
        tips: "request_policy:all_shards,response_policy:all_succeeded",
        docs: "
            complexity O(N) where N is the total number of keys in all databases
            history 4.0.0 Added the `ASYNC` flushing mode modifier.
            history 6.2.0 Added the `SYNC` flushing mode modifier.
            - async: oneof optional
            -- async: pure-token 'ASYNC' @4.0.0
            -- sync: pure-token 'SYNC' @6.2.0
        ",
    }
}

/// Keys that one step removes at most.
pub const MOST_KEYS: u16 = 512;
/// Bytes of keys and values, for each key that a step may remove: what a step of [`MOST_KEYS`] may take, in before-images, is 1 MiB.
const BYTES_FOR_A_KEY: usize = 2 << 10;

/// What a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: as the node is set.
    Unsaid,
    /// `SYNC`
    Sync,
    /// `ASYNC`
    Async,
}

impl Mode {
    /// Of the words behind the command.
    pub fn parse(mut args: Args<'_>) -> Result<Mode, CommandError> {
        match (args.next(), args.next()) {
            (None, _) => Ok(Mode::Unsaid),
            (Some(word), None) if is(word, "async") => Ok(Mode::Async),
            (Some(word), None) if is(word, "sync") => Ok(Mode::Sync),
            _ => Err(CommandError::Syntax),
        }
    }
}

/// Part of the work: so many keys at most, from this hash on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Where its first key stands among the names.
    pub from: u64,
    /// How many, at least 1.
    pub keys: u16,
}

impl Portion {
    /// Of a keyspace from its beginning.
    pub const FIRST: Portion = Portion { from: 0, keys: MOST_KEYS };

    /// As the words of a step.
    pub fn encode(self, out: &mut Vec<u8>) {
        let numbers = [Digits::new(self.from as i64), Digits::new(i64::from(self.keys))];
        let words = [&b"async"[..], numbers[0].as_bytes(), numbers[1].as_bytes()];
        Args::encode(words.into_iter(), out);
    }

    fn decode(mut args: Args<'_>) -> Result<Portion, CommandError> {
        let mut number = || args.next().and_then(parse_integer).ok_or(CommandError::Syntax);
        let (from, keys) = (number()? as u64, number()?);
        let keys = u16::try_from(keys).ok().filter(|keys| (1..=MOST_KEYS).contains(keys));
        Ok(Portion { from, keys: keys.ok_or(CommandError::Syntax)? })
    }

    /// What it may remove.
    fn room(self) -> Room {
        Room::of(self.keys.into()).bytes(usize::from(self.keys) * BYTES_FOR_A_KEY)
    }
}

/// `FLUSHDB [ASYNC | SYNC]` and `FLUSHALL`. A step answers where the next one goes on, as an integer, and OK if there is none.
pub fn flush<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    if keyspace.goes_on && args.len() == 3 {
        args.next();
        let portion = Portion::decode(args)?;
        match keyspace.remove_some(portion.from, portion.keys.into(), &mut portion.room())? {
            Some(next) => reply.integer(next as i64),
            None => reply.ok(),
        }
        return Ok(());
    }
    Mode::parse(args)?;
    let mut names = Vec::new();
    keyspace.names(0, |_, name| {
        names.push(name);
        ControlFlow::Continue(())
    })?;
    for name in names {
        keyspace.remove(&name)?;
    }
    reply.ok();
    Ok(())
}
