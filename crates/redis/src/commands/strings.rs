//! Strings of bytes: GET SET and their like, MGET MSET MSETNX, APPEND STRLEN.

use highwater_core::Transaction;

use super::expiry::{Unit, deadline};
use super::words::is;
use crate::command::entry::commands;
use crate::command::{READ, WRITE};
use crate::errors::CommandError;
use crate::keyspace::{Done, Failure, Keyspace, check_value};
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    GET = 0 {
        run: get(args, keyspace, reply),
        name: "get", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "string", since: "1.0.0",
        summary: "Get the value of a key",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    SET = 1 {
        run: set(args, keyspace, reply),
        name: "set", arity: -3, flags: WRITE | DENYOOM, keys: ONE_KEY, group: "string", since: "1.0.0",
        summary: "Set the string value of a key",
        specs: "RW,access,update,variable_flags index 1 range 0 1 0",
        narrows: Some(uses_of_set),
        docs: "
            complexity O(1)
            history 2.6.12 Added the `EX`, `PX`, `NX` and `XX` options.
            history 6.0.0 Added the `KEEPTTL` option.
            history 6.2.0 Added the `GET`, `EXAT` and `PXAT` option.
            history 7.0.0 Allowed the `NX` and `GET` options to be used together.
            - key: key #0
            - value: string
            - condition: oneof @2.6.12 optional
            -- nx: pure-token 'NX'
            -- xx: pure-token 'XX'
            - get: pure-token 'GET' @6.2.0 optional
            - expiration: oneof optional
            -- seconds: integer 'EX' @2.6.12
            -- milliseconds: integer 'PX' @2.6.12
            -- unix-time-seconds: unix-time 'EXAT' @6.2.0
            -- unix-time-milliseconds: unix-time 'PXAT' @6.2.0
            -- keepttl: pure-token 'KEEPTTL' @6.0.0
        ",
    }

    MGET = 9 {
        run: mget(args, keyspace, reply),
        name: "mget", arity: -2, flags: READONLY | FAST, keys: ALL_KEYS, group: "string", since: "1.0.0",
        summary: "Get the values of all the given keys",
        specs: "RO,access index 1 range -1 1 0",
        tips: "request_policy:multi_shard",
        docs: "
            complexity O(N) where N is the number of keys to retrieve.
            - key: key #0 multiple
        ",
    }

    MSET = 10 {
        run: mset(args, keyspace, reply),
        name: "mset", arity: -3, flags: WRITE | DENYOOM, keys: PAIRS, group: "string", since: "1.0.1",
        summary: "Set multiple keys to multiple values",
        specs: "OW,update index 1 range -1 2 0",
        tips: "request_policy:multi_shard,response_policy:all_succeeded",
        docs: "
            complexity O(N) where N is the number of keys to set.
            - key_value: block multiple
            -- key: key #0
            -- value: string
        ",
    }

    APPEND = 14 {
        run: append(args, keyspace, reply),
        name: "append", arity: 3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "string",
        since: "2.0.0",
        summary: "Append a value to a key",
        specs: "RW,insert index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the length of the string afterwards
            - key: key #0
            - value: string
        ",
    }

    STRLEN = 15 {
        run: strlen(args, keyspace, reply),
        name: "strlen", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "string", since: "2.2.0",
        summary: "Get the length of the value stored in a key",
        specs: "RO index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    SETNX = 17 {
        run: setnx(args, keyspace, reply),
        name: "setnx", arity: 3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "string",
        since: "1.0.0",
        summary: "Set the value of a key, only if the key does not exist",
        specs: "OW,insert index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - value: string
        ",
    }

    SETEX = 18 {
        run: setex(args, Unit::Seconds, keyspace, reply),
        name: "setex", arity: 4, flags: WRITE | DENYOOM, keys: ONE_KEY, group: "string", since: "2.0.0",
        summary: "Set the value and expiration of a key",
        specs: "OW,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - seconds: integer
            - value: string
        ",
    }

    PSETEX = 19 {
        run: setex(args, Unit::Milliseconds, keyspace, reply),
        name: "psetex", arity: 4, flags: WRITE | DENYOOM, keys: ONE_KEY, group: "string", since: "2.6.0",
        summary: "Set the value and expiration in milliseconds of a key",
        specs: "OW,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - milliseconds: integer
            - value: string
        ",
    }

    MSETNX = 20 {
        run: msetnx(args, keyspace, reply),
        name: "msetnx", arity: -3, flags: WRITE | DENYOOM, keys: PAIRS, group: "string", since: "1.0.1",
        summary: "Set multiple keys to multiple values, only if none of the keys exist",
        specs: "OW,insert index 1 range -1 2 0",
        tips: "request_policy:multi_shard,response_policy:agg_min",
        docs: "
            complexity O(N) where N is the number of keys to set.
            - key_value: block multiple
            -- key: key #0
            -- value: string
        ",
    }

    GETSET = 21 {
        run: getset(args, keyspace, reply),
        name: "getset", arity: 3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "string",
        since: "1.0.0",
        summary: "Set the string value of a key and return its old value",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            doc_flags deprecated
            deprecated_since 6.2.0
            replaced_by `SET` with the `!GET` argument
            - key: key #0
            - value: string
        ",
    }

    GETDEL = 22 {
        run: getdel(args, keyspace, reply),
        name: "getdel", arity: 2, flags: WRITE | FAST, keys: ONE_KEY, group: "string", since: "6.2.0",
        summary: "Get the value of a key and delete the key",
        specs: "RW,access,delete index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    GETEX = 23 {
        run: getex(args, keyspace, reply),
        name: "getex", arity: -2, flags: WRITE | FAST, keys: ONE_KEY, group: "string", since: "6.2.0",
        summary: "Get the value of a key and optionally set its expiration",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - expiration: oneof optional
            -- seconds: integer 'EX'
            -- milliseconds: integer 'PX'
            -- unix-time-seconds: unix-time 'EXAT'
            -- unix-time-milliseconds: unix-time 'PXAT'
            -- persist: pure-token 'PERSIST'
        ",
    }

    GETRANGE = 24 {
        run: getrange(args, keyspace, reply),
        name: "getrange", arity: 4, flags: READONLY, keys: ONE_KEY, group: "string", since: "2.4.0",
        summary: "Get a substring of the string stored at a key",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.
            - key: key #0
            - start: integer
            - end: integer
        ",
    }

    SUBSTR = 25 {
        run: getrange(args, keyspace, reply),
        name: "substr", arity: 4, flags: READONLY, keys: ONE_KEY, group: "string", since: "1.0.0",
        summary: "Get a substring of the string stored at a key",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.
            doc_flags deprecated
            deprecated_since 2.0.0
            replaced_by `GETRANGE`
            - key: key #0
            - start: integer
            - end: integer
        ",
    }

    SETRANGE = 26 {
        run: setrange(args, keyspace, reply),
        name: "setrange", arity: 4, flags: WRITE | DENYOOM, keys: ONE_KEY, group: "string", since: "2.2.0",
        summary: "Overwrite part of a string at key starting at the specified offset",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the length of the string afterwards
            - key: key #0
            - offset: integer
            - value: string
        ",
    }
}

/// `GET key`
pub fn get<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    reply_value(args.promised()?, keyspace, reply).map(|_| ())
}

/// It tells what was there only if it is asked to.
fn uses_of_set(args: Args<'_>) -> u8 {
    if args.skip(2).any(|word| word.eq_ignore_ascii_case(b"get")) { READ | WRITE } else { WRITE }
}

/// `MGET key ..`: of another type is as good as missing.
pub fn mget<T: Transaction>(args: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    reply.array(args.len());
    for key in args {
        match reply_value(key, keyspace, reply) {
            Err(Failure::Command(CommandError::WrongType)) => reply.null(),
            other => drop(other?),
        }
        reply.check_length()?;
    }
    Ok(())
}

/// Answers a key's value, straight from the store's bytes; whether there was one.
fn reply_value<T: Transaction>(
    key: &[u8],
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<bool, Failure> {
    let value = keyspace.get(key)?;
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
    Ok(value.is_some())
}

/// When a `SET` sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    Missing,
    Present,
}

/// What becomes of the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry<'a> {
    /// What the command does without an option.
    Unsaid,
    /// `KEEPTTL`, `PERSIST`.
    Word,
    /// A unit and a number.
    At(Unit, &'a [u8]),
}

impl<'a> Expiry<'a> {
    /// Takes an option that sets a deadline, in any of four units; one unit may be given again.
    fn take(&mut self, option: &[u8], rest: &mut Args<'a>) -> Result<bool, CommandError> {
        let Some(unit) = Unit::ALL.into_iter().find(|unit| is(option, unit.option())) else {
            return Ok(false);
        };
        let allowed = match self {
            Expiry::Unsaid => true,
            Expiry::Word => false,
            Expiry::At(before, _) => *before == unit,
        };
        if !allowed || rest.len() == 0 {
            return Err(CommandError::Syntax);
        }
        *self = Expiry::At(unit, rest.promised()?);
        Ok(true)
    }

    /// Takes a word that excludes all deadlines.
    fn take_word(&mut self, option: &[u8], word: &str) -> bool {
        let fits = is(option, word) && matches!(self, Expiry::Unsaid | Expiry::Word);
        if fits {
            *self = Expiry::Word;
        }
        fits
    }
}

/// The options of a `SET`.
struct SetOptions<'a> {
    when: When,
    /// Answer the old value instead of OK.
    old: bool,
    expiry: Expiry<'a>,
}

impl<'a> SetOptions<'a> {
    /// Options may repeat; NX and XX exclude each other.
    fn parse(mut rest: Args<'a>) -> Result<SetOptions<'a>, CommandError> {
        let mut options = SetOptions { when: When::Always, old: false, expiry: Expiry::Unsaid };
        while let Some(option) = rest.next() {
            if is(option, "nx") && options.when != When::Present {
                options.when = When::Missing;
            } else if is(option, "xx") && options.when != When::Missing {
                options.when = When::Present;
            } else if is(option, "get") {
                options.old = true;
            } else if !options.expiry.take_word(option, "keepttl")
                && !options.expiry.take(option, &mut rest)?
            {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

/// `SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL]`
pub fn set<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let (key, value) = (args.promised()?, args.promised()?);
    if args.len() == 0 {
        keyspace.set(key, value)?;
        reply.ok();
        return Ok(());
    }
    let options = SetOptions::parse(args)?;
    let at = match options.expiry {
        Expiry::At(unit, number) => deadline("set", unit, number, keyspace.now())?,
        Expiry::Unsaid | Expiry::Word => 0,
    };
    if options.old {
        reply_value(key, keyspace, reply)?;
    }
    let sets = match options.when {
        When::Always => true,
        When::Missing => !keyspace.exists(key)?,
        When::Present => keyspace.exists(key)?,
    };
    if sets {
        match options.expiry {
            Expiry::Word => keyspace.change(key, value, false)?,
            Expiry::Unsaid | Expiry::At(..) => keyspace.set_until(key, value, at)?,
        }
    }
    match (options.old, sets) {
        (true, _) => {}
        (false, true) => reply.ok(),
        (false, false) => reply.null(),
    }
    Ok(())
}

/// `SETNX key value`: 1 if it was set.
pub fn setnx<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, value) = (args.promised()?, args.promised()?);
    let missing = !keyspace.exists(key)?;
    if missing {
        keyspace.set(key, value)?;
    }
    reply.integer(missing.into());
    Ok(())
}

/// `SETEX key seconds value` and `PSETEX key milliseconds value`
pub fn setex<T: Transaction>(
    mut args: Args<'_>,
    unit: Unit,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, number, value) = (args.promised()?, args.promised()?, args.promised()?);
    let name = if unit == Unit::Seconds { "setex" } else { "psetex" };
    let at = deadline(name, unit, number, keyspace.now())?;
    keyspace.set_until(key, value, at)?;
    reply.ok();
    Ok(())
}

/// `GETSET key value`: the old value.
pub fn getset<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, value) = (args.promised()?, args.promised()?);
    reply_value(key, keyspace, reply)?;
    keyspace.set(key, value)
}

/// `GETDEL key`: the value, which is gone.
pub fn getdel<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    if reply_value(key, keyspace, reply)? {
        keyspace.remove(key)?;
    }
    Ok(())
}

/// `GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST]`: the value, and another deadline.
pub fn getex<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let mut expiry = Expiry::Unsaid;
    while let Some(option) = args.next() {
        if !expiry.take_word(option, "persist") && !expiry.take(option, &mut args)? {
            return Err(CommandError::Syntax.into());
        }
    }
    if !reply_value(key, keyspace, reply)? {
        return Ok(());
    }
    match expiry {
        Expiry::Unsaid => Ok(()),
        Expiry::Word => keyspace.set_deadline(key, 0),
        Expiry::At(unit, number) => {
            let at = deadline("getex", unit, number, keyspace.now())?;
            keyspace.set_deadline(key, at)
        }
    }
}

/// `MSET key value ..`: of a key named twice, the last value stays.
pub fn mset<T: Transaction>(args: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity("mset").into());
    }
    set_all(args, keyspace)?;
    reply.ok();
    Ok(())
}

/// `MSETNX key value ..`: all, if there is none of them.
pub fn msetnx<T: Transaction>(args: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity("msetnx").into());
    }
    for key in args.step_by(2) {
        if keyspace.exists(key)? {
            reply.integer(0);
            return Ok(());
        }
    }
    set_all(args, keyspace)?;
    reply.integer(1);
    Ok(())
}

fn set_all<T: Transaction>(mut pairs: Args<'_>, keyspace: &mut Keyspace<'_, T>) -> Done {
    while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
        keyspace.set(key, value)?;
    }
    Ok(())
}

/// `APPEND key value`: the new length.
pub fn append<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, suffix) = (args.promised()?, args.promised()?);
    let old = keyspace.get(key)?;
    let grown = old.is_some();
    let old = old.unwrap_or_default();
    let len = old.len() + suffix.len();
    check_value(len)?;
    // The whole value is put together behind the replies: no buffer of its own.
    let start = reply.out.len();
    reply.out.extend_from_slice(old);
    reply.out.extend_from_slice(suffix);
    let put = keyspace.change(key, &reply.out[start..], grown && is_short(len));
    reply.out.truncate(start);
    put?;
    reply.integer(len as i64);
    Ok(())
}

/// Whether a value of this length looks as if it had never been changed in place. What is longer looks the same either way.
pub fn is_short(len: usize) -> bool {
    len <= crate::encodings::MAX_EMBEDDED_BYTES
}

/// `STRLEN key`: 0 if it is missing.
pub fn strlen<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let len = keyspace.get(args.promised()?)?.map_or(0, <[u8]>::len);
    reply.integer(len as i64);
    Ok(())
}

/// `GETRANGE key start end`: both included, and counted from the end if negative.
pub fn getrange<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, start, end) = (args.promised()?, args.promised()?, args.promised()?);
    let (start, end) = (super::words::integer(start)?, super::words::integer(end)?);
    let value = keyspace.get(key)?.unwrap_or_default();
    let len = value.len() as i64;
    let from_end = |index: i64| if index < 0 { len.saturating_add(index).max(0) } else { index };
    let crossed = start < 0 && end < 0 && start > end;
    let (start, end) = (from_end(start), from_end(end).min(len - 1));
    match crossed || start > end {
        true => reply.bulk(b""),
        false => reply.bulk(&value[start as usize..=end as usize]),
    }
    Ok(())
}

/// `SETRANGE key offset value`: the new length. What is missing in front is filled with zeros.
pub fn setrange<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, offset, new) = (args.promised()?, args.promised()?, args.promised()?);
    let offset = super::words::integer(offset)?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(CommandError::Text("ERR offset is out of range").into());
    };
    let mut value = keyspace.get(key)?.unwrap_or_default().to_vec();
    if !new.is_empty() {
        let end = offset.saturating_add(new.len());
        check_value(end)?;
        value.resize(value.len().max(end), 0);
        value[offset..end].copy_from_slice(new);
        keyspace.change(key, &value, is_short(value.len()))?;
    }
    reply.integer(value.len() as i64);
    Ok(())
}
