//! Sets joined: SINTER SUNION SDIFF, their forms that store, SINTERCARD.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use highwater_core::Transaction;

use super::sets::{add, members, reply_set};
use super::words::{is, unsigned};
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::keyspace::head::{Head, Kind};
use crate::keyspace::rows::hash;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    SINTER = 84 {
        run: sets(args, Join::Intersection, keyspace, reply),
        name: "sinter", arity: -2, flags: READONLY, keys: ALL_KEYS, group: "set", since: "1.0.0",
        summary: "Intersect multiple sets",
        specs: "RO,access index 1 range -1 1 0",
        tips: "nondeterministic_output_order",
        docs: "
            complexity O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.
            - key: key #0 multiple
        ",
    }

    SUNION = 85 {
        run: sets(args, Join::Union, keyspace, reply),
        name: "sunion", arity: -2, flags: READONLY, keys: ALL_KEYS, group: "set", since: "1.0.0",
        summary: "Add multiple sets",
        specs: "RO,access index 1 range -1 1 0",
        tips: "nondeterministic_output_order",
        docs: "
            complexity O(N) where N is the total number of elements in all given sets.
            - key: key #0 multiple
        ",
    }

    SDIFF = 86 {
        run: sets(args, Join::Difference, keyspace, reply),
        name: "sdiff", arity: -2, flags: READONLY, keys: ALL_KEYS, group: "set", since: "1.0.0",
        summary: "Subtract multiple sets",
        specs: "RO,access index 1 range -1 1 0",
        tips: "nondeterministic_output_order",
        docs: "
            complexity O(N) where N is the total number of elements in all given sets.
            - key: key #0 multiple
        ",
    }

    SINTERSTORE = 87 {
        run: store(args, Join::Intersection, keyspace, reply),
        name: "sinterstore", arity: -3, flags: WRITE | DENYOOM, keys: ALL_KEYS, group: "set", since: "1.0.0",
        summary: "Intersect multiple sets and store the resulting set in a key",
        specs: "RW,update index 1 range 0 1 0;RO,access index 2 range -1 1 0",
        docs: "
            complexity O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.
            - destination: key #0
            - key: key #1 multiple
        ",
    }

    SUNIONSTORE = 88 {
        run: store(args, Join::Union, keyspace, reply),
        name: "sunionstore", arity: -3, flags: WRITE | DENYOOM, keys: ALL_KEYS, group: "set", since: "1.0.0",
        summary: "Add multiple sets and store the resulting set in a key",
        specs: "OW,update index 1 range 0 1 0;RO,access index 2 range -1 1 0",
        docs: "
            complexity O(N) where N is the total number of elements in all given sets.
            - destination: key #0
            - key: key #1 multiple
        ",
    }

    SDIFFSTORE = 89 {
        run: store(args, Join::Difference, keyspace, reply),
        name: "sdiffstore", arity: -3, flags: WRITE | DENYOOM, keys: ALL_KEYS, group: "set", since: "1.0.0",
        summary: "Subtract multiple sets and store the resulting set in a key",
        specs: "OW,update index 1 range 0 1 0;RO,access index 2 range -1 1 0",
        docs: "
            complexity O(N) where N is the total number of elements in all given sets.
            - destination: key #0
            - key: key #1 multiple
        ",
    }

    SINTERCARD = 90 {
        run: sintercard(args, keyspace, reply),
        name: "sintercard", arity: -3, flags: READONLY | MOVABLEKEYS, keys: COUNTED, group: "set",
        since: "7.0.0",
        summary: "Intersect multiple sets and return the cardinality of the result",
        specs: "RO,access index 1 keynum 0 1 1",
        docs: "
            complexity O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets.
            - numkeys: integer
            - key: key #0 multiple
            - limit: integer 'LIMIT' optional
        ",
    }
}

/// A result of more members is stored in the order of its rows.
const LARGE: usize = 1024;

/// How sets are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// What is in all of them.
    Intersection,
    /// What is in any of them.
    Union,
    /// What is in the first and in none of the others.
    Difference,
}

/// `SINTER key ..`, `SUNION key ..`, `SDIFF key ..`
pub fn sets<T: Transaction>(
    args: Args<'_>,
    join: Join,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let mut joined = joined(args, join, keyspace)?;
    // As a small set of integers would be told.
    if joined.iter().all(|member| parse_integer(member).is_some()) {
        joined.sort_by_cached_key(|member| parse_integer(member));
    }
    reply_set(&joined, reply)
}

/// `SINTERSTORE destination key ..` and its like: how many members the result has.
pub fn store<T: Transaction>(
    mut args: Args<'_>,
    join: Join,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let to = args.promised()?;
    let mut joined = joined(args, join, keyspace)?;
    if joined.len() > LARGE {
        // In the order of their rows: one is found beside the last, and not somewhere in a large tree.
        joined.sort_by_cached_key(|member| hash(member));
    }
    keyspace.expects_members(Kind::Set, 0, joined.len() as u64)?;
    let mut head = keyspace.begin(Kind::Set);
    for member in &joined {
        add(keyspace, &mut head, member)?;
    }
    keyspace.replace(to, &head)?;
    reply.integer(joined.len() as i64);
    Ok(())
}

/// The heads of keys, each named once; `None` for one that is missing. A set that is named again changes no result, and rows that are read again
/// are not counted.
fn heads<'a, T: Transaction>(
    keys: impl Iterator<Item = &'a [u8]>,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Vec<Option<Head>>, Failure> {
    let mut named = BTreeSet::new();
    keys.filter(|key| named.insert(*key)).map(|key| keyspace.collection(key, Kind::Set)).collect()
}

fn joined<T: Transaction>(
    keys: Args<'_>,
    join: Join,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let first = keys.into_iter().next();
    let from_itself = join == Join::Difference && keys.into_iter().skip(1).any(|key| Some(key) == first);
    let heads = heads(keys, keyspace)?;
    if from_itself {
        return Ok(Vec::new());
    }
    Ok(match join {
        Join::Intersection => intersection(&heads, u64::MAX, keyspace)?,
        Join::Difference => difference(&heads, keyspace)?,
        Join::Union => {
            let mut union = BTreeSet::new();
            for head in heads.iter().flatten() {
                for member in members(keyspace, head)? {
                    keyspace.transaction().goes_on()?;
                    union.insert(member);
                }
            }
            union.into_iter().collect()
        }
    })
}

/// Looks the members of the smallest up in the others; up to so many that are in all.
fn intersection<T: Transaction>(
    heads: &[Option<Head>],
    most: u64,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let Some(mut heads) = heads.iter().copied().collect::<Option<Vec<Head>>>() else { return Ok(Vec::new()) };
    heads.sort_by_key(|head| head.count);
    let mut found = Vec::new();
    let candidates = match heads.split_first() {
        Some((smallest, _)) => members(keyspace, smallest)?,
        None => return Ok(found),
    };
    for member in candidates {
        if found.len() as u64 == most {
            break;
        }
        if is_in_all(&heads[1..], &member, keyspace)? {
            found.push(member);
        }
    }
    Ok(found)
}

fn is_in_all<T: Transaction>(
    heads: &[Head],
    member: &[u8],
    keyspace: &mut Keyspace<'_, T>,
) -> Result<bool, Failure> {
    for head in heads {
        if keyspace.member(head, member)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Looks members up in the others, or takes the others' away, whichever is less to do.
fn difference<T: Transaction>(
    heads: &[Option<Head>],
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Vec<Vec<u8>>, Failure> {
    let Some((Some(first), others)) = heads.split_first() else { return Ok(Vec::new()) };
    let others: Vec<Head> = others.iter().flatten().copied().collect();
    let mut left = BTreeSet::new();
    for member in members(keyspace, first)? {
        keyspace.transaction().goes_on()?;
        left.insert(member);
    }
    for other in &others {
        if other.count < left.len() as u64 {
            keyspace.each_member(other, &[], |_, member, _| {
                left.remove(member);
                ControlFlow::Continue(())
            })?;
            continue;
        }
        for member in left.iter().cloned().collect::<Vec<_>>() {
            if keyspace.member(other, &member)?.is_some() {
                left.remove(&member);
            }
        }
    }
    Ok(left.into_iter().collect())
}

/// `SINTERCARD numkeys key .. [LIMIT limit]`: how many there are in all, up to the limit.
pub fn sintercard<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (keys, most) = counted_and_limited(&mut args)?;
    let heads = heads(keys.into_iter(), keyspace)?;
    let found = intersection(&heads, most, keyspace)?;
    reply.integer(found.len() as i64);
    Ok(())
}

/// `numkeys key .. [LIMIT limit]`: the keys, and the most that is wanted.
pub fn counted_and_limited<'a>(args: &mut Args<'a>) -> Result<(Vec<&'a [u8]>, u64), CommandError> {
    let count = unsigned(args.promised()?, "ERR numkeys should be greater than 0")?;
    if count == 0 {
        return Err(CommandError::Text("ERR numkeys should be greater than 0"));
    }
    if count > args.len() as u64 {
        return Err(CommandError::Text("ERR Number of keys can't be greater than number of args"));
    }
    let keys = args.by_ref().take(count as usize).collect();
    let mut most = u64::MAX;
    while let Some(option) = args.next() {
        if !is(option, "limit") || args.len() == 0 {
            return Err(CommandError::Syntax);
        }
        most = match unsigned(args.promised()?, "ERR LIMIT can't be negative")? {
            0 => u64::MAX,
            limit => limit,
        };
    }
    Ok((keys, most))
}
