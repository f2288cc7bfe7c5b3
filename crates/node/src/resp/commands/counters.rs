//! Strings as 64-bit counters: INCR INCRBY DECR DECRBY.

use highwater_core::Transaction;

use crate::resp::errors::CommandError;
use crate::resp::keyspace::{Failure, Keyspace};
use crate::resp::number::{Digits, parse_integer};
use crate::resp::reply::Reply;
use crate::resp::request::Args;

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
    let old = match keyspace.get(key)? {
        Some(text) => parse_integer(text).ok_or(CommandError::NotAnInteger)?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or(CommandError::Overflow)?;
    keyspace.put(key, Digits::new(new).as_bytes())?;
    reply.integer(new);
    Ok(())
}
