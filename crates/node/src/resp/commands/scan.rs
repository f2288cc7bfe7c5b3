//! Which keys there are: SCAN KEYS RANDOMKEY DBSIZE, and what SSCAN, HSCAN and ZSCAN share.
//!
//! A cursor is the hash that a scan goes on from: whatever comes and goes meanwhile, what is there all the time has one hash, and is
//! met. Members or keys of one hash are given together.

use std::ops::ControlFlow;

use highwater_core::Transaction;

use super::cluster::slot_number;
use super::words::{integer, is};
use crate::resp::errors::CommandError;
use crate::resp::keyspace::{Done, Failure, Keyspace};
use crate::resp::reply::Reply;
use crate::resp::request::Args;
use crate::resp::{glob, slots};

/// Names that are looked at for a random key that has not expired.
const RANDOM_TRIES: u64 = 100;

/// The words behind a cursor.
pub struct Options<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    kind: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// `[MATCH pattern] [COUNT count] [TYPE type]`; the last for keys alone.
    pub fn parse(mut args: Args<'a>, keys: bool) -> Result<Options<'a>, CommandError> {
        let mut options = Options { pattern: None, count: 10, kind: None };
        while let Some(option) = args.next() {
            if args.len() == 0 {
                return Err(CommandError::Syntax);
            } else if is(option, "count") {
                let count = integer(args.promised()?)?;
                if count < 1 {
                    return Err(CommandError::Syntax);
                }
                options.count = usize::try_from(count).unwrap_or(usize::MAX);
            } else if is(option, "match") {
                options.pattern = args.next();
            } else if is(option, "type") && keys {
                options.kind = args.next();
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    /// How many to look at.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether this is among what is looked for.
    pub fn fits(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::matches(pattern, name))
    }
}

/// A cursor as clients send it; as `strtoul` reads it, with a sign or as no digits at all.
pub fn parse_cursor(word: &[u8]) -> Result<u64, CommandError> {
    let (negative, digits) = match word {
        [] => return Ok(0),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, word),
    };
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let cursor: Option<u64> = text.and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or(CommandError::Text("ERR invalid cursor"))?;
    Ok(if negative { cursor.wrapping_neg() } else { cursor })
}

/// What one call looked at, and where the next one goes on.
pub struct Portion<X> {
    found: Vec<X>,
    count: usize,
    looked: usize,
    last: Option<u64>,
    next: u64,
}

impl<X> Portion<X> {
    /// Nothing yet; looks at so many.
    pub fn new(count: usize) -> Portion<X> {
        Portion { found: Vec::new(), count, looked: 0, last: None, next: 0 }
    }

    /// Looks at one of this hash. Breaks at the first hash that is left for the next call.
    pub fn look(&mut self, hash: u64, item: impl FnOnce() -> Option<X>) -> ControlFlow<()> {
        if self.looked >= self.count && self.last != Some(hash) {
            self.next = hash;
            return ControlFlow::Break(());
        }
        self.looked += 1;
        self.last = Some(hash);
        self.found.extend(item());
        ControlFlow::Continue(())
    }

    /// What was found, and the cursor.
    pub fn into_parts(self) -> (Vec<X>, u64) {
        (self.found, self.next)
    }
}

/// The head of a scan's reply: an array of so many follows.
pub fn reply_scan(cursor: u64, len: usize, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk(cursor.to_string().as_bytes());
    reply.array(len);
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub fn scan<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let cursor = parse_cursor(args.promised()?)?;
    let options = Options::parse(args, true)?;
    let mut portion = Portion::new(options.count);
    keyspace.names(cursor, |hash, name| portion.look(hash, || options.fits(&name).then_some(name)))?;
    let (names, next) = portion.into_parts();
    let mut kept = Vec::with_capacity(names.len());
    for name in names {
        let Some(head) = keyspace.head(&name)? else { continue };
        if options.kind.is_none_or(|kind| is(kind, head.kind.name())) {
            kept.push(name);
        }
    }
    reply_scan(next, kept.len(), reply);
    kept.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// `KEYS pattern`: looks at every name.
pub fn keys<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let pattern = args.promised()?;
    let mut names = Vec::new();
    keyspace.names(0, |_, name| {
        if glob::matches(pattern, &name) {
            names.push(name);
        }
        ControlFlow::Continue(())
    })?;
    let mut kept = Vec::with_capacity(names.len());
    for name in names {
        if keyspace.exists(&name)? {
            kept.push(name);
        }
    }
    reply.array(kept.len());
    kept.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// `RANDOMKEY`
pub fn randomkey<T: Transaction>(_: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    for _ in 0..RANDOM_TRIES {
        let Some(name) = random_name(keyspace)? else { break };
        if keyspace.exists(&name)? {
            reply.bulk(&name);
            return Ok(());
        }
    }
    reply.null();
    Ok(())
}

/// The first name at or behind a random hash; behind the last one, the first of all.
fn random_name<T: Transaction>(keyspace: &mut Keyspace<'_, T>) -> Result<Option<Vec<u8>>, Failure> {
    for from in [keyspace.random().bits(), 0] {
        let mut found = None;
        keyspace.names(from, |_, name| {
            found = Some(name);
            ControlFlow::Break(())
        })?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// `DBSIZE`: looks at every name.
pub fn dbsize<T: Transaction>(_: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let count = keyspace.count()?;
    reply.integer(count as i64);
    Ok(())
}

/// `CLUSTER COUNTKEYSINSLOT slot` and `CLUSTER GETKEYSINSLOT slot count`, as they come here: `HW.KEYSINSLOT slot [count]`. Looks at every name.
pub fn keys_in_slot<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let slot = slot_number(args.promised()?)?;
    let most = args.next().map(integer).transpose()?;
    if args.next().is_some() {
        return Err(CommandError::WrongArity("hw.keysinslot").into());
    }
    if most.is_some_and(|most| most < 0) {
        return Err(CommandError::Text("ERR Invalid number of keys").into());
    }
    let (mut count, mut found) = (0, Vec::new());
    keyspace.names(0, |_, name| {
        if slots::slot(&name) == slot {
            count += 1;
            if most.is_some_and(|most| found.len() < most as usize) {
                found.push(name);
            }
        }
        ControlFlow::Continue(())
    })?;
    match most {
        None => reply.integer(count),
        Some(_) => {
            reply.array(found.len());
            found.iter().for_each(|name| reply.bulk(name));
        }
    }
    Ok(())
}
