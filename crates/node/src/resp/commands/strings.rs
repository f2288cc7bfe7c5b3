//! Strings of bytes: GET SET MGET MSET APPEND STRLEN.

use highwater_core::limits::MAX_REPLY_BYTES;
use highwater_core::{Abort, Transaction};

use crate::resp::errors::CommandError;
use crate::resp::keyspace::{Failure, Keyspace, check_value};
use crate::resp::reply::Reply;
use crate::resp::request::Args;

/// `GET key`
pub fn get<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    reply_value(args.promised()?, keyspace, reply).map(|_| ())
}

/// `MGET key ..`
pub fn mget<T: Transaction>(
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    reply.array(args.len());
    for key in args {
        reply_value(key, keyspace, reply)?;
        if reply.out.len() > MAX_REPLY_BYTES {
            return Err(Abort::TooLarge.into());
        }
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

/// The options of a `SET`.
struct SetOptions {
    when: When,
    /// Answer the old value instead of OK.
    old: bool,
}

impl SetOptions {
    /// Options may repeat; NX and XX exclude each other. KEEPTTL holds by itself, since no key expires.
    fn parse(args: Args<'_>) -> Result<SetOptions, CommandError> {
        let mut options = SetOptions { when: When::Always, old: false };
        let mut expiry = None;
        let mut keep = false;
        let mut rest = args;
        while let Some(option) = rest.next() {
            if is(option, "nx") && options.when != When::Present {
                options.when = When::Missing;
            } else if is(option, "xx") && options.when != When::Missing {
                options.when = When::Present;
            } else if is(option, "get") {
                options.old = true;
            } else if is(option, "keepttl") && expiry.is_none() {
                keep = true;
            } else if let Some(name) = expiry_option(option).filter(|_| expiry.is_none() && !keep) {
                expiry = Some(name);
                rest.next().ok_or(CommandError::Syntax)?;
            } else {
                return Err(CommandError::Syntax);
            }
        }
        expiry.map_or(Ok(options), |name| Err(CommandError::ExpiryUnsupported(name)))
    }
}

fn is(option: &[u8], name: &str) -> bool {
    option.eq_ignore_ascii_case(name.as_bytes())
}

fn expiry_option(option: &[u8]) -> Option<&'static str> {
    ["EX", "PX", "EXAT", "PXAT"].into_iter().find(|name| is(option, name))
}

/// `SET key value [NX | XX] [GET] [KEEPTTL]`
pub fn set<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let (key, value) = (args.promised()?, args.promised()?);
    let options = SetOptions::parse(args)?;
    if options.old {
        let exists = reply_value(key, keyspace, reply)?;
        let sets = match options.when {
            When::Always => true,
            When::Missing => !exists,
            When::Present => exists,
        };
        return if sets { keyspace.put(key, value) } else { Ok(()) };
    }
    let set = match options.when {
        // Blind: two of them never conflict.
        When::Always => keyspace.put(key, value).map(|()| true)?,
        When::Missing => keyspace.insert(key, value)?,
        When::Present => keyspace.exists(key)? && keyspace.put(key, value).map(|()| true)?,
    };
    if set {
        reply.ok()
    } else {
        reply.null()
    }
    Ok(())
}

/// `MSET key value ..`: of a key named twice, the last value stays.
pub fn mset<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    if !args.len().is_multiple_of(2) {
        return Err(CommandError::WrongArity("mset").into());
    }
    while let (Some(key), Some(value)) = (args.next(), args.next()) {
        keyspace.put(key, value)?;
    }
    reply.ok();
    Ok(())
}

/// `APPEND key value`: the new length.
pub fn append<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let (key, suffix) = (args.promised()?, args.promised()?);
    let old = keyspace.get(key)?.unwrap_or_default();
    let len = old.len() + suffix.len();
    check_value(len)?;
    // The whole value is put together behind the replies: no buffer of its own.
    let start = reply.out.len();
    reply.out.extend_from_slice(old);
    reply.out.extend_from_slice(suffix);
    let put = keyspace.put(key, &reply.out[start..]);
    reply.out.truncate(start);
    put?;
    reply.integer(len as i64);
    Ok(())
}

/// `STRLEN key`: 0 if it is missing.
pub fn strlen<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let len = keyspace.get(args.promised()?)?.map_or(0, <[u8]>::len);
    reply.integer(len as i64);
    Ok(())
}
