//! Hashes: fields with values.
//!
//! What is kept of a field begins with the number of its field (varint): while a hash is small, as Redis counts, its fields are told in the order in
//! which they came.

use highwater_core::Transaction;
use highwater_core::codec::{Reader, put_varint};

use super::portion::{Among, Asked, Next, Portion, in_portions};
use super::scan::Options;
use super::words::{integer, is, random_count};
use crate::encodings::{HASH_BYTES, HASH_ENTRIES};
use crate::errors::CommandError;
use crate::keyspace::head::{Head, Kind};
use crate::keyspace::members::Pair;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::long_double::LongDouble;
use crate::number::{Digits, parse_integer};
use crate::reply::Reply;
use crate::request::Args;

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
