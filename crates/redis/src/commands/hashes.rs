//! Hashes: fields with values.
//!
//! What is kept of a field begins with the number of its field (varint): while a hash is small, as Redis counts, its fields are told in the order in
//! which they came.

use highwater_core::Transaction;
use highwater_core::codec::{Reader, put_varint};

use super::portion::{Among, Asked, Next, Portion, in_portions};
use super::scan::Options;
use super::words::{integer, is, random_count};
use crate::command::entry::commands;
use crate::encodings::{HASH_BYTES, HASH_ENTRIES};
use crate::errors::CommandError;
use crate::keyspace::head::{Head, Kind};
use crate::keyspace::members::Pair;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::long_double::LongDouble;
use crate::number::{Digits, parse_integer};
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    HSET = 58 {
        run: hset(args, "hset", keyspace, reply),
        name: "hset", arity: -4, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Set the string value of a hash field",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with multiple field/value pairs.
            history 4.0.0 Accepts multiple `field` and `value` arguments.
            - key: key #0
            - field_value: block multiple
            -- field: string
            -- value: string
        ",
    }

    HMSET = 59 {
        run: hset(args, "hmset", keyspace, reply),
        name: "hmset", arity: -4, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Set multiple hash fields to multiple values",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of fields being set.
            doc_flags deprecated
            deprecated_since 4.0.0
            replaced_by `HSET` with multiple field-value pairs
            - key: key #0
            - field_value: block multiple
            -- field: string
            -- value: string
        ",
    }

    HSETNX = 60 {
        run: hsetnx(args, keyspace, reply),
        name: "hsetnx", arity: 4, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Set the value of a hash field, only if the field does not exist",
        specs: "RW,insert index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - field: string
            - value: string
        ",
    }

    HGET = 61 {
        run: hget(args, keyspace, reply),
        name: "hget", arity: 3, flags: READONLY | FAST, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Get the value of a hash field",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - field: string
        ",
    }

    HMGET = 62 {
        run: hmget(args, keyspace, reply),
        name: "hmget", arity: -3, flags: READONLY | FAST, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Get the values of all the given hash fields",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of fields being requested.
            - key: key #0
            - field: string multiple
        ",
    }

    HGETALL = 63 {
        run: hgetall(args, keyspace, reply),
        name: "hgetall", arity: 2, flags: READONLY, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Get all the fields and values in a hash",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output_order",
        docs: "
            complexity O(N) where N is the size of the hash.
            - key: key #0
        ",
    }

    HDEL = 64 {
        run: hdel(args, keyspace, reply),
        name: "hdel", arity: -3, flags: WRITE | FAST, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Delete one or more hash fields",
        specs: "RW,delete index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of fields to be removed.
            history 2.4.0 Accepts multiple `field` arguments.
            - key: key #0
            - field: string multiple
        ",
    }

    HLEN = 65 {
        run: hlen(args, keyspace, reply),
        name: "hlen", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Get the number of fields in a hash",
        specs: "RO index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    HKEYS = 66 {
        run: hkeys(args, keyspace, reply),
        name: "hkeys", arity: 2, flags: READONLY, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Get all the fields in a hash",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output_order",
        docs: "
            complexity O(N) where N is the size of the hash.
            - key: key #0
        ",
    }

    HVALS = 67 {
        run: hvals(args, keyspace, reply),
        name: "hvals", arity: 2, flags: READONLY, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Get all the values in a hash",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output_order",
        docs: "
            complexity O(N) where N is the size of the hash.
            - key: key #0
        ",
    }

    HEXISTS = 68 {
        run: hexists(args, keyspace, reply),
        name: "hexists", arity: 3, flags: READONLY | FAST, keys: ONE_KEY, group: "hash", since: "2.0.0",
        summary: "Determine if a hash field exists",
        specs: "RO index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - field: string
        ",
    }

    HINCRBY = 69 {
        run: hincrby(args, keyspace, reply),
        name: "hincrby", arity: 4, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "hash",
        since: "2.0.0",
        summary: "Increment the integer value of a hash field by the given number",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - field: string
            - increment: integer
        ",
    }

    HINCRBYFLOAT = 70 {
        run: hincrbyfloat(args, keyspace, reply),
        name: "hincrbyfloat", arity: 4, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "hash",
        since: "2.6.0",
        summary: "Increment the float value of a hash field by the given amount",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - field: string
            - increment: double
        ",
    }

    HSTRLEN = 71 {
        run: hstrlen(args, keyspace, reply),
        name: "hstrlen", arity: 3, flags: READONLY | FAST, keys: ONE_KEY, group: "hash", since: "3.2.0",
        summary: "Get the length of the value of a hash field",
        specs: "RO index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - field: string
        ",
    }

    HRANDFIELD = 72 {
        run: hrandfield(args, keyspace, reply),
        name: "hrandfield", arity: -2, flags: READONLY, keys: ONE_KEY, group: "hash", since: "6.2.0",
        summary: "Get one or multiple random fields from a hash",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output",
        docs: "
            complexity O(N) where N is the number of fields returned
            - key: key #0
            - options: block optional
            -- count: integer
            -- withvalues: pure-token 'WITHVALUES' optional
        ",
    }

    HSCAN = 73 {
        run: hscan(args, keyspace, reply),
        name: "hscan", arity: -3, flags: READONLY | SCANS, keys: ONE_KEY, group: "hash", since: "2.8.0",
        summary: "Incrementally iterate hash fields and associated values",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output",
        docs: "
            complexity O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection..
            - key: key #0
            - cursor: integer
            - pattern: pattern 'MATCH' optional
            - count: integer 'COUNT' optional
        ",
    }
}

/// The number of a field, and its value.
fn split(row: &[u8]) -> (u64, &[u8]) {
    let mut reader = Reader::new(row);
    let number = reader.varint().expect("a field's row begins with its number");
    (number, reader.rest())
}

/// The value of a field.
fn field<'k, T: Transaction>(
    keyspace: &'k mut Keyspace<'_, T>,
    head: &Head,
    name: &[u8],
) -> Result<Option<&'k [u8]>, Failure> {
    Ok(keyspace.member(head, name)?.map(|row| split(row).1))
}

/// Sets a field; whether it is new.
fn put<T: Transaction>(
    keyspace: &mut Keyspace<'_, T>,
    head: &mut Head,
    name: &[u8],
    value: &[u8],
) -> Result<bool, Failure> {
    let mut row = Vec::with_capacity(value.len() + 4);
    put_varint(&mut row, head.next as u64);
    row.extend_from_slice(value);
    let new = keyspace.add_member(head, name, &row)?;
    if new {
        head.next += 1;
        head.count += 1;
    } else {
        let (number, _) = keyspace.member(head, name)?.map(split).expect("it was not added");
        row.clear();
        put_varint(&mut row, number);
        row.extend_from_slice(value);
        keyspace.put_member(head, name, &row)?;
    }
    let long = name.len().max(value.len()) as u64 > HASH_BYTES.get();
    head.grown |= long || head.count > HASH_ENTRIES.get();
    Ok(new)
}

/// All fields with their values; of a small hash in their order.
fn fields<T: Transaction>(keyspace: &mut Keyspace<'_, T>, head: &Head) -> Result<Vec<Pair>, Failure> {
    let mut rows = keyspace.members(head)?;
    if !head.grown {
        rows.sort_by_key(|(_, row)| split(row).0);
    }
    Ok(rows.into_iter().map(|(name, row)| (name, split(&row).1.to_vec())).collect())
}

/// `HSET key field value ..`: how many are new. `HMSET`, the same, answers OK.
pub fn hset<T: Transaction>(
    mut args: Args<'_>,
    name: &'static str,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity(name).into());
    }
    let mut head = keyspace.open(key, Kind::Hash)?;
    let mut new = 0;
    while let (Some(field), Some(value)) = (args.next(), args.next()) {
        new += i64::from(put(keyspace, &mut head, field, value)?);
    }
    keyspace.save(key, &head)?;
    match name {
        "hset" => reply.integer(new),
        _ => reply.ok(),
    }
    Ok(())
}

/// `HSETNX key field value`: 1 if it is new.
pub fn hsetnx<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, name, value) = (args.promised()?, args.promised()?, args.promised()?);
    let mut head = keyspace.open(key, Kind::Hash)?;
    let new = keyspace.member(&head, name)?.is_none();
    if new {
        put(keyspace, &mut head, name, value)?;
        keyspace.save(key, &head)?;
    }
    reply.integer(new.into());
    Ok(())
}

/// `HGET key field`
pub fn hget<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::Hash)?;
    reply_field(head, args.promised()?, keyspace, reply)
}

fn reply_field<T: Transaction>(
    head: Option<Head>,
    name: &[u8],
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let value = match head {
        Some(head) => field(keyspace, &head, name)?,
        None => None,
    };
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
    Ok(())
}

/// `HMGET key field ..`
pub fn hmget<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::Hash)?;
    reply.array(args.len());
    for name in args {
        reply_field(head, name, keyspace, reply)?;
        reply.check_length()?;
    }
    Ok(())
}

/// The fields and values of a key that may be missing.
fn all<T: Transaction>(key: &[u8], keyspace: &mut Keyspace<'_, T>) -> Result<Vec<Pair>, Failure> {
    match keyspace.collection(key, Kind::Hash)? {
        Some(head) => fields(keyspace, &head),
        None => Ok(Vec::new()),
    }
}

/// `HGETALL key`
pub fn hgetall<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let all = all(args.promised()?, keyspace)?;
    reply.map(all.len());
    for (name, value) in &all {
        reply.bulk(name);
        reply.bulk(value);
        reply.check_length()?;
    }
    Ok(())
}

/// `HKEYS key`
pub fn hkeys<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let all = all(args.promised()?, keyspace)?;
    reply.array(all.len());
    all.iter().for_each(|(name, _)| reply.bulk(name));
    Ok(())
}

/// `HVALS key`
pub fn hvals<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let all = all(args.promised()?, keyspace)?;
    reply.array(all.len());
    for (_, value) in &all {
        reply.bulk(value);
        reply.check_length()?;
    }
    Ok(())
}

/// `HDEL key field ..`: how many there were.
pub fn hdel<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let mut deleted = 0;
    if let Some(mut head) = keyspace.collection(key, Kind::Hash)? {
        for name in args {
            deleted += i64::from(keyspace.delete_member(&head, name)?);
        }
        head.count -= deleted as u64;
        if deleted > 0 {
            keyspace.save(key, &head)?;
        }
    }
    reply.integer(deleted);
    Ok(())
}

/// `HLEN key`
pub fn hlen<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::Hash)?;
    reply.integer(head.map_or(0, |head| head.count as i64));
    Ok(())
}

/// `HEXISTS key field`
pub fn hexists<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::Hash)?;
    let exists = match head {
        Some(head) => field(keyspace, &head, args.promised()?)?.is_some(),
        None => false,
    };
    reply.integer(exists.into());
    Ok(())
}

/// `HSTRLEN key field`
pub fn hstrlen<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::Hash)?;
    let len = match head {
        Some(head) => field(keyspace, &head, args.promised()?)?.map_or(0, <[u8]>::len),
        None => 0,
    };
    reply.integer(len as i64);
    Ok(())
}

/// `HINCRBY key field increment`
pub fn hincrby<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, name, by) = (args.promised()?, args.promised()?, integer(args.promised()?)?);
    let mut head = keyspace.open(key, Kind::Hash)?;
    let old = match field(keyspace, &head, name)? {
        Some(value) => parse_integer(value).ok_or(CommandError::Text("ERR hash value is not an integer"))?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or(CommandError::Overflow)?;
    put(keyspace, &mut head, name, Digits::new(new).as_bytes())?;
    keyspace.save(key, &head)?;
    reply.integer(new);
    Ok(())
}

/// `HINCRBYFLOAT key field increment`
pub fn hincrbyfloat<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, name, by) = (args.promised()?, args.promised()?, args.promised()?);
    let by = LongDouble::parse(by).ok_or(CommandError::NotAFloat)?;
    if by.is_infinite() {
        return Err(CommandError::Text("ERR value is NaN or Infinity").into());
    }
    let mut head = keyspace.open(key, Kind::Hash)?;
    let old = match field(keyspace, &head, name)? {
        Some(value) => LongDouble::parse(value).ok_or(CommandError::Text("ERR hash value is not a float"))?,
        None => LongDouble::ZERO,
    };
    let new = old.plus(by).ok_or(CommandError::Text("ERR increment would produce NaN or Infinity"))?.format();
    put(keyspace, &mut head, name, new.as_bytes())?;
    keyspace.save(key, &head)?;
    reply.bulk(new.as_bytes());
    Ok(())
}

/// `HRANDFIELD key [count [WITHVALUES]]`: a negative count may choose a field again.
pub fn hrandfield<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, count) = (args.promised()?, args.next());
    let Some(count) = count else {
        match keyspace.collection(key, Kind::Hash)? {
            Some(head) => {
                let (name, _) = keyspace.random_member(&head)?;
                reply.bulk(&name);
            }
            None => reply.null(),
        }
        return Ok(());
    };
    let mut count = random_count(count, i64::MAX)?;
    let values = match (args.next(), args.next()) {
        (None, _) => false,
        (Some(word), None) if is(word, "withvalues") => true,
        _ => return Err(CommandError::Syntax.into()),
    };
    if values {
        count = random_count(Digits::new(count).as_bytes(), i64::MAX / 2)?;
    }
    let Some(head) = keyspace.collection(key, Kind::Hash)? else {
        reply.array(0);
        return Ok(());
    };
    let chosen = keyspace.chosen(&head, count)?;
    reply.pairs(chosen.len(), values);
    chosen.each(keyspace.random(), |(name, row)| {
        reply.pair(values);
        reply.bulk(name);
        if values {
            reply.bulk(split(row).1);
        }
        reply.check_length()
    })?;
    Ok(())
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`: a small one is told at once.
pub fn hscan<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let (asked, args) = Asked::parse(args, keyspace.goes_on)?;
    let Some(head) = keyspace.collection(key, Kind::Hash)? else {
        asked.reply_with_nothing(reply);
        return Ok(());
    };
    let options = Options::parse(args, false)?;
    let (found, next) = if in_portions(&head) {
        let Some(from) = asked.begin(Among::Members(&head), keyspace, reply)? else { return Ok(()) };
        let mut portion = Portion::of_members(options.count());
        keyspace.each_member(&head, &from, |hash, name, row| {
            portion.look(hash, name, || {
                let value = split(row).1;
                options.fits(name).then(|| ((name.to_vec(), value.to_vec()), name.len() + value.len()))
            })
        })?;
        portion.into_parts()
    } else {
        let mut all = fields(keyspace, &head)?;
        all.retain(|(name, _)| options.fits(name));
        (all, Next::Over)
    };
    options.check()?;
    asked.reply(Among::Members(&head), (&next, found.len() * 2), keyspace, reply)?;
    for (name, value) in &found {
        reply.bulk(name);
        reply.bulk(value);
    }
    Ok(())
}
