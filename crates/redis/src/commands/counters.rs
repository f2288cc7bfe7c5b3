//! Strings as numbers: INCR INCRBY DECR DECRBY INCRBYFLOAT.

use highwater_core::Transaction;

use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::keyspace::head::Kind;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::long_double::LongDouble;
use crate::number::{Digits, parse_integer};
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    INCR = 2 {
        run: step(args, 1, keyspace, reply),
        name: "incr", arity: 2, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "string", since: "1.0.0",
        summary: "Increment the integer value of a key by one",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    INCRBY = 11 {
        run: incrby(args, keyspace, reply),
        name: "incrby", arity: 3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "string",
        since: "1.0.0",
        summary: "Increment the integer value of a key by the given amount",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - increment: integer
        ",
    }

    DECR = 12 {
        run: step(args, -1, keyspace, reply),
        name: "decr", arity: 2, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "string", since: "1.0.0",
        summary: "Decrement the integer value of a key by one",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    DECRBY = 13 {
        run: decrby(args, keyspace, reply),
        name: "decrby", arity: 3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "string",
        since: "1.0.0",
        summary: "Decrement the integer value of a key by the given number",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - decrement: integer
        ",
    }

    INCRBYFLOAT = 27 {
        run: incrbyfloat(args, keyspace, reply),
        name: "incrbyfloat", arity: 3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "string",
        since: "2.6.0",
        summary: "Increment the float value of a key by the given amount",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - increment: double
        ",
    }
}

/// `INCR key` and `DECR key`.
pub fn step<T: Transaction>(
    mut args: Args<'_>,
    by: i64,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    add(args.promised()?, by, keyspace, reply)
}

/// `INCRBY key increment`
pub fn incrby<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let key = args.promised()?;
    let by = parse_integer(args.promised()?).ok_or(CommandError::NotAnInteger)?;
    add(key, by, keyspace, reply)
}

/// `DECRBY key decrement`
pub fn decrby<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let key = args.promised()?;
    let by = parse_integer(args.promised()?).ok_or(CommandError::NotAnInteger)?;
    add(key, by.checked_neg().ok_or(CommandError::DecrementOverflow)?, keyspace, reply)
}

/// A missing key counts as 0.
fn add<T: Transaction>(
    key: &[u8],
    by: i64,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let (old, plain) = match keyspace.row(key)? {
        Some(row) if row.head.kind != Kind::String => return Err(CommandError::WrongType.into()),
        Some(row) => (parse_integer(row.value).ok_or(CommandError::NotAnInteger)?, row.plain),
        None => (0, false),
    };
    let new = old.checked_add(by).ok_or(CommandError::Overflow)?;
    let digits = Digits::new(new);
    match plain {
        true => keyspace.overwrite_plain(key, digits.as_bytes())?,
        false => keyspace.change(key, digits.as_bytes(), false)?,
    }
    reply.integer(new);
    Ok(())
}

/// `INCRBYFLOAT key increment`: the sum, in as few digits as it needs.
pub fn incrbyfloat<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, by) = (args.promised()?, args.promised()?);
    let old = match keyspace.get(key)? {
        Some(text) => LongDouble::parse(text).ok_or(CommandError::NotAFloat)?,
        None => LongDouble::ZERO,
    };
    let by = LongDouble::parse(by).ok_or(CommandError::NotAFloat)?;
    let new = old.plus(by).ok_or(CommandError::Text("ERR increment would produce NaN or Infinity"))?.format();
    keyspace.set_sum(key, new.as_bytes())?;
    reply.bulk(new.as_bytes());
    Ok(())
}
