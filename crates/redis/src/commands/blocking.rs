//! Commands that wait for data: BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP.
//!
//! Here they look once, and answer null if there is nothing. It is the [connection](crate::connection) that has them look again. Inside
//! `MULTI`, and under a session, they look once.

use highwater_core::{Direction, Transaction};

use super::lists::{end, lmpop, moved};
use super::zsets::{take, zmpop};
use crate::command::Data;
use crate::double::parse_double;
use crate::errors::CommandError;
use crate::keyspace::head::Kind;
use crate::keyspace::items::End;
use crate::keyspace::{Done, Keyspace};
use crate::long_double::LongDouble;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;

/// What a command waits for, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Whatever of these has something.
    pub keys: Vec<Vec<u8>>,
    /// `None`: for ever.
    pub timeout_ms: Option<u64>,
    /// Data that comes under them.
    pub what: Awaited,
}

/// The things that clients wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Data: a look that finds none answers null.
    Data,
    /// A module that is compiled: a request that comes too early is told [`COMPILING`](crate::endings::COMPILING).
    Module,
}

/// What a blocking command waits for. `None`: it is none, or its arguments make no sense, of which it will tell.
#[inline]
pub fn wait_of(command: Data, args: Args<'_>) -> Option<Wait> {
    use Data::{Blmove, Blmpop, Blpop, Brpop, Brpoplpush, Bzmpop, Bzpopmax, Bzpopmin};
    match command {
        Blpop | Brpop | Bzpopmin | Bzpopmax | Blmove | Brpoplpush | Blmpop | Bzmpop => {
            read_wait(command, args)
        }
        _ => None,
    }
}

fn read_wait(command: Data, args: Args<'_>) -> Option<Wait> {
    let words: Vec<&[u8]> = args.collect();
    let (timeout, keys) = match command {
        Data::Blpop | Data::Brpop | Data::Bzpopmin | Data::Bzpopmax => words.split_last()?,
        Data::Blmove | Data::Brpoplpush => (words.last()?, words.get(..1)?),
        Data::Blmpop | Data::Bzmpop => {
            let count = parse_integer(words.get(1)?)?;
            (words.first()?, words.get(2..usize::try_from(count).ok()?.checked_add(2)?)?)
        }
        _ => return None,
    };
    let timeout = timeout_ms(timeout).ok()?;
    if keys.is_empty() {
        return None;
    }
    let keys = keys.iter().map(|key| key.to_vec()).collect();
    Some(Wait { keys, timeout_ms: (timeout > 0).then_some(timeout), what: Awaited::Data })
}

/// Seconds with a fraction, in ms; 0 is for ever.
fn timeout_ms(word: &[u8]) -> Result<u64, CommandError> {
    const NEGATIVE: CommandError = CommandError::Text("ERR timeout is negative");
    // A double does not hold all integers that are as large as the largest timeout.
    if let Some(seconds) = parse_integer(word) {
        return seconds.checked_mul(1000).and_then(|ms| u64::try_from(ms).ok()).ok_or(NEGATIVE);
    }
    // Redis reads a long double, which goes further, and takes what is too large for 64 bits for negative.
    let far = || LongDouble::parse(word).map(|_| f64::INFINITY);
    let seconds = parse_double(word)
        .or_else(far)
        .ok_or(CommandError::Text("ERR timeout is not a float or out of range"))?;
    let ms = (seconds * 1000.0).ceil();
    if !(0.0..i64::MAX as f64).contains(&ms) {
        return Err(NEGATIVE);
    }
    Ok(ms as u64)
}

/// The words in front of a timeout, which is the last one.
fn before_timeout(args: Args<'_>) -> Result<Vec<&[u8]>, CommandError> {
    let mut words: Vec<&[u8]> = args.collect();
    timeout_ms(words.pop().ok_or(CommandError::Syntax)?)?;
    Ok(words)
}

/// `BLPOP key .. timeout` and `BRPOP`: the key, and its item.
pub fn pop<T: Transaction>(
    args: Args<'_>,
    end: End,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    for key in before_timeout(args)? {
        if let Some(mut list) = keyspace.waited_list(key)? {
            let item = keyspace.pop_item(&mut list, end)?;
            keyspace.save_list(key, &list)?;
            reply.array(2);
            reply.bulk(key);
            reply.bulk(&item);
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}

/// `BZPOPMIN key .. timeout` and `BZPOPMAX`: the key, a member and its score.
pub fn zpop<T: Transaction>(
    args: Args<'_>,
    from: Direction,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    for key in before_timeout(args)? {
        if let Some(mut head) = keyspace.waited(key, Kind::SortedSet)? {
            let taken = take(&mut head, from, 1, keyspace)?;
            keyspace.save(key, &head)?;
            reply.array(3);
            reply.bulk(key);
            taken.iter().for_each(|(member, score)| {
                reply.bulk(member);
                reply.double(*score);
            });
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}

/// `BLMOVE source destination LEFT | RIGHT LEFT | RIGHT timeout`
pub fn blmove<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (from, to) = (args.promised()?, args.promised()?);
    let (out, into) = (end(args.promised()?)?, end(args.promised()?)?);
    timeout_ms(args.promised()?)?;
    match moved((from, out), (to, into), keyspace)? {
        Some(item) => reply.bulk(&item),
        None => reply.null(),
    }
    Ok(())
}

/// `BRPOPLPUSH source destination timeout`
pub fn brpoplpush<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (from, to) = (args.promised()?, args.promised()?);
    timeout_ms(args.promised()?)?;
    match moved((from, End::Right), (to, End::Left), keyspace)? {
        Some(item) => reply.bulk(&item),
        None => reply.null(),
    }
    Ok(())
}

/// `BLMPOP timeout numkeys key .. LEFT | RIGHT [COUNT count]`
pub fn blmpop<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    timeout_ms(args.promised()?)?;
    lmpop(args, keyspace, reply)
}

/// `BZMPOP timeout numkeys key .. MIN | MAX [COUNT count]`
pub fn bzmpop<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    timeout_ms(args.promised()?)?;
    zmpop(args, keyspace, reply)
}
