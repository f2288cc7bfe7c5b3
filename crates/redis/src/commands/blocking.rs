//! Commands that wait for data: BLPOP BRPOP BLMOVE BRPOPLPUSH BLMPOP BZPOPMIN BZPOPMAX BZMPOP.
//!
//! Here they look once, and answer null if there is nothing. It is the [connection](crate::connection) that has them look again. Inside
//! `MULTI`, and under a session, they look once.

use highwater_core::{Direction, Transaction};

use super::lists::{end, lmpop, moved};
use super::zsets::{take, zmpop};
use crate::command::entry::commands;
use crate::command::{Awaited, Wait};
use crate::double::parse_double;
use crate::errors::CommandError;
use crate::keyspace::head::Kind;
use crate::keyspace::items::End;
use crate::keyspace::{Done, Keyspace};
use crate::long_double::LongDouble;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    BLPOP = 140 {
        run: pop(args, End::Left, keyspace, reply),
        name: "blpop", arity: -3, flags: WRITE | NOSCRIPT | BLOCKING, keys: keys(1, -2, 1), group: "list",
        since: "2.0.0",
        summary: "Remove and get the first element in a list, or block until one is available",
        specs: "RW,access,delete index 1 range -2 1 0",
        wait: Some(wait_for_all_but_last),
        docs: "
            complexity O(N) where N is the number of provided keys.
            history 6.0.0 `timeout` is interpreted as a double instead of an integer.
            - key: key #0 multiple
            - timeout: double
        ",
    }

    BRPOP = 141 {
        run: pop(args, End::Right, keyspace, reply),
        name: "brpop", arity: -3, flags: WRITE | NOSCRIPT | BLOCKING, keys: keys(1, -2, 1), group: "list",
        since: "2.0.0",
        summary: "Remove and get the last element in a list, or block until one is available",
        specs: "RW,access,delete index 1 range -2 1 0",
        wait: Some(wait_for_all_but_last),
        docs: "
            complexity O(N) where N is the number of provided keys.
            history 6.0.0 `timeout` is interpreted as a double instead of an integer.
            - key: key #0 multiple
            - timeout: double
        ",
    }

    BZPOPMIN = 142 {
        run: zpop(args, Direction::Forward, keyspace, reply),
        name: "bzpopmin", arity: -3, flags: WRITE | NOSCRIPT | BLOCKING | FAST, keys: keys(1, -2, 1),
        group: "sorted-set", since: "5.0.0",
        summary: "Remove and return the member with the lowest score from one or more sorted sets, or block until one is available",
        specs: "RW,access,delete index 1 range -2 1 0",
        wait: Some(wait_for_all_but_last),
        docs: "
            complexity O(log(N)) with N being the number of elements in the sorted set.
            history 6.0.0 `timeout` is interpreted as a double instead of an integer.
            - key: key #0 multiple
            - timeout: double
        ",
    }

    BZPOPMAX = 143 {
        run: zpop(args, Direction::Backward, keyspace, reply),
        name: "bzpopmax", arity: -3, flags: WRITE | NOSCRIPT | BLOCKING | FAST, keys: keys(1, -2, 1),
        group: "sorted-set", since: "5.0.0",
        summary: "Remove and return the member with the highest score from one or more sorted sets, or block until one is available",
        specs: "RW,access,delete index 1 range -2 1 0",
        wait: Some(wait_for_all_but_last),
        docs: "
            complexity O(log(N)) with N being the number of elements in the sorted set.
            history 6.0.0 `timeout` is interpreted as a double instead of an integer.
            - key: key #0 multiple
            - timeout: double
        ",
    }

    BLMOVE = 144 {
        run: blmove(args, keyspace, reply),
        name: "blmove", arity: 6, flags: WRITE | DENYOOM | NOSCRIPT | BLOCKING, keys: TWO_KEYS, group: "list",
        since: "6.2.0",
        summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
        specs: "RW,access,delete index 1 range 0 1 0;RW,insert index 2 range 0 1 0",
        wait: Some(wait_for_first),
        docs: "
            complexity O(1)
            - source: key #0
            - destination: key #1
            - wherefrom: oneof
            -- left: pure-token 'LEFT'
            -- right: pure-token 'RIGHT'
            - whereto: oneof
            -- left: pure-token 'LEFT'
            -- right: pure-token 'RIGHT'
            - timeout: double
        ",
    }

    BRPOPLPUSH = 145 {
        run: brpoplpush(args, keyspace, reply),
        name: "brpoplpush", arity: 4, flags: WRITE | DENYOOM | NOSCRIPT | BLOCKING, keys: TWO_KEYS,
        group: "list", since: "2.2.0",
        summary: "Pop an element from a list, push it to another list and return it; or block until one is available",
        specs: "RW,access,delete index 1 range 0 1 0;RW,insert index 2 range 0 1 0",
        wait: Some(wait_for_first),
        docs: "
            complexity O(1)
            doc_flags deprecated
            deprecated_since 6.2.0
            replaced_by `BLMOVE` with the `RIGHT` and `LEFT` arguments
            history 6.0.0 `timeout` is interpreted as a double instead of an integer.
            - source: key #0
            - destination: key #1
            - timeout: double
        ",
    }

    BLMPOP = 146 {
        run: blmpop(args, keyspace, reply),
        name: "blmpop", arity: -5, flags: WRITE | BLOCKING | MOVABLEKEYS, keys: COUNTED, group: "list",
        since: "7.0.0",
        summary: "Pop elements from a list, or block until one is available",
        specs: "RW,access,delete index 2 keynum 0 1 1",
        wait: Some(wait_for_counted),
        docs: "
            complexity O(N+M) where N is the number of provided keys and M is the number of elements returned.
            - timeout: double
            - numkeys: integer
            - key: key #0 multiple
            - where: oneof
            -- left: pure-token 'LEFT'
            -- right: pure-token 'RIGHT'
            - count: integer 'COUNT' optional
        ",
    }

    BZMPOP = 147 {
        run: bzmpop(args, keyspace, reply),
        name: "bzmpop", arity: -5, flags: WRITE | BLOCKING | MOVABLEKEYS, keys: COUNTED, group: "sorted-set",
        since: "7.0.0",
        summary: "Remove and return members with scores in a sorted set or block until one is available",
        specs: "RW,access,delete index 2 keynum 0 1 1",
        wait: Some(wait_for_counted),
        docs: "
            complexity O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.
            - timeout: double
            - numkeys: integer
            - key: key #0 multiple
            - where: oneof
            -- min: pure-token 'MIN'
            -- max: pure-token 'MAX'
            - count: integer 'COUNT' optional
        ",
    }
}

/// Data under all words but the last, which is the timeout.
fn wait_for_all_but_last(args: Args<'_>) -> Option<Wait> {
    let words: Vec<&[u8]> = args.collect();
    let (timeout, keys) = words.split_last()?;
    wait_for(timeout, keys)
}

/// Data under the first word; the last is the timeout.
fn wait_for_first(args: Args<'_>) -> Option<Wait> {
    let words: Vec<&[u8]> = args.collect();
    wait_for(words.last()?, words.get(..1)?)
}

/// Data under as many words as the second says; the first is the timeout.
fn wait_for_counted(args: Args<'_>) -> Option<Wait> {
    let words: Vec<&[u8]> = args.collect();
    let count = parse_integer(words.get(1)?)?;
    wait_for(words.first()?, words.get(2..usize::try_from(count).ok()?.checked_add(2)?)?)
}

fn wait_for(timeout: &[u8], keys: &[&[u8]]) -> Option<Wait> {
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
