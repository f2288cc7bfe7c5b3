//! Which keys there are: SCAN KEYS RANDOMKEY DBSIZE, and what SSCAN, HSCAN and ZSCAN share.
//!
//! A cursor is a [`Place`], the upper bits of the hash that a scan goes on from: whatever comes and goes meanwhile, what is there all the
//! time has one place, and is met. Members or keys of one place are given together.
//!
//! One call is one transaction, so that a `COUNT` is a hint: a call looks at no more than `MOST_LOOKED`, whatever its count is. What a
//! longer one has read others would change before it is done, again and again.

use std::ops::ControlFlow;

use highwater_core::Transaction;

use super::cluster::slot_number;
use super::words::{integer, is};
use crate::resp::errors::CommandError;
use crate::resp::glob::Pattern;
use crate::resp::keyspace::head::Head;
use crate::resp::keyspace::{Done, Failure, Keyspace};
use crate::resp::reply::Reply;
use crate::resp::request::Args;
use crate::resp::slots;

/// Names or members that one call looks at, at most; more only if they share a place.
const MOST_LOOKED: usize = 2048;
/// Names that one step of a walk through all of them looks at, at most: it reads no more than the names of those that it does not tell.
const MOST_WALKED: usize = 16_384;
/// Keys that one call finds, at most: it reads the row of each, which says whether the key has expired.
const MOST_KEYS: usize = 512;
/// Bytes that one call finds before it ends.
const MOST_BYTES: usize = 1 << 20;

/// Names that are looked at for a random key that has not expired.
const RANDOM_TRIES: u64 = 100;

/// The words behind a cursor.
pub struct Options<'a> {
    pattern: Option<Pattern<'a>>,
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
                options.pattern = args.next().map(Pattern::new);
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
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    }

    /// To be called when all were looked at.
    ///
    /// # Errors
    /// That the pattern took too long, and not all of them were.
    pub fn check(&self) -> Result<(), CommandError> {
        self.pattern.as_ref().map_or(Ok(()), Pattern::check)
    }
}

/// The place where a scan stands: the upper 53 bits of a hash. Clients may keep it in a signed integer or in a double, which is all that JavaScript has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(u64);

impl Place {
    const BITS: u32 = 53;

    /// The place where everything begins, and as a cursor in a reply: the scan is over.
    pub const START: Place = Place(0);

    /// The place of a hash.
    pub fn of(hash: u64) -> Place {
        Place(hash >> (u64::BITS - Place::BITS))
    }

    /// The first hash there.
    pub fn first_hash(self) -> u64 {
        self.0 << (u64::BITS - Place::BITS)
    }

    /// Which place a cursor names. Builds before this one handed out whole hashes: of their cursors, one in 2048 is small enough to be taken
    /// for a place further on, the others lead to where that scan stood.
    fn of_cursor(cursor: u64) -> Place {
        if cursor >> Place::BITS == 0 { Place(cursor) } else { Place::of(cursor) }
    }
}

/// A cursor as clients send it; as `strtoul` reads it, with a sign or as no digits at all. Any number is one.
pub fn parse_cursor(word: &[u8]) -> Result<Place, CommandError> {
    let (negative, digits) = match word {
        [] => return Ok(Place::START),
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, word),
    };
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let cursor: Option<u64> = text.and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or(CommandError::Text("ERR invalid cursor"))?;
    Ok(Place::of_cursor(if negative { cursor.wrapping_neg() } else { cursor }))
}

/// What one call looked at, and where the next one goes on.
pub struct Portion<X> {
    found: Vec<X>,
    bytes: usize,
    looked: usize,
    most_looked: usize,
    most_found: usize,
    most_bytes: usize,
    last: Option<Place>,
    next: Place,
}

impl<X> Portion<X> {
    /// Nothing yet; looks at so many members, about.
    pub fn of_members(count: usize) -> Portion<X> {
        Portion {
            found: Vec::new(),
            bytes: 0,
            looked: 0,
            most_looked: count.min(MOST_LOOKED),
            most_found: usize::MAX,
            most_bytes: MOST_BYTES,
            last: None,
            next: Place::START,
        }
    }

    /// The same of names of keys.
    fn of_names(count: usize) -> Portion<X> {
        Portion { most_found: MOST_KEYS, ..Portion::of_members(count) }
    }

    fn is_full(&self) -> bool {
        self.looked >= self.most_looked
            || self.found.len() >= self.most_found
            || self.bytes >= self.most_bytes
    }

    /// Looks at one of this hash: `item` gives what is kept of it, and how many bytes that is. Breaks at the first place that is left for the
    /// next call.
    pub fn look(&mut self, hash: u64, item: impl FnOnce() -> Option<(X, usize)>) -> ControlFlow<()> {
        let place = Place::of(hash);
        if self.is_full() && self.last != Some(place) {
            self.next = place;
            return ControlFlow::Break(());
        }
        self.looked += 1;
        self.last = Some(place);
        if let Some((found, bytes)) = item() {
            self.found.push(found);
            self.bytes += bytes;
        }
        ControlFlow::Continue(())
    }

    /// What was found, and the cursor.
    pub fn into_parts(self) -> (Vec<X>, Place) {
        (self.found, self.next)
    }
}

/// Whether a collection is told in portions, by their places. A small one is told at once, as in Redis; also one that settings call small
/// is not if it is long.
pub fn in_portions(head: &Head) -> bool {
    head.grown || head.count > MOST_LOOKED as u64
}

/// The head of a scan's reply: an array of so many follows.
pub fn reply_scan(cursor: Place, len: usize, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk(cursor.0.to_string().as_bytes());
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
    let mut portion = Portion::of_names(options.count);
    keyspace.names(cursor.first_hash(), |hash, name| {
        portion.look(hash, || {
            let bytes = name.len();
            options.fits(&name).then_some((name, bytes))
        })
    })?;
    options.check()?;
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

/// The place where a step of a walk begins, which is the last of its words then; `None`: the command looks at all names at once. See
/// `connection/walking.rs`.
fn step<'a, T>(
    args: Args<'a>,
    keyspace: &Keyspace<'_, T>,
) -> Result<(Vec<&'a [u8]>, Option<Place>), CommandError> {
    let mut words: Vec<&[u8]> = args.collect();
    let from = match keyspace.goes_on {
        true => Some(parse_cursor(words.pop().unwrap_or_default())?),
        false => None,
    };
    Ok((words, from))
}

/// The result of a walk, or of a step of one.
struct Walked {
    count: u64,
    names: Vec<Vec<u8>>,
    next: Place,
}

impl Walked {
    /// Answers a step with all of it, or the whole walk with what is wanted.
    fn answer(&self, from: Option<Place>, names: bool, reply: &mut Reply<'_>) {
        if from.is_some() {
            reply.array(3);
            reply.integer(self.next.0 as i64);
            reply.integer(self.count as i64);
        } else if !names {
            return reply.integer(self.count as i64);
        }
        reply.array(self.names.len());
        self.names.iter().for_each(|name| reply.bulk(name));
    }
}

/// Looks at names: some from `from` on, or all. Those that `fits` count, and `most` of them are told.
fn walk<T: Transaction>(
    keyspace: &mut Keyspace<'_, T>,
    from: Option<Place>,
    most: usize,
    fits: impl Fn(&[u8]) -> bool,
) -> Result<Walked, Failure> {
    let mut portion = match from {
        Some(_) => Portion { most_looked: MOST_WALKED, ..Portion::of_names(0) },
        None => Portion {
            most_looked: usize::MAX,
            most_found: usize::MAX,
            most_bytes: usize::MAX,
            ..Portion::of_names(0)
        },
    };
    let mut count = 0;
    keyspace.names(from.unwrap_or(Place::START).first_hash(), |hash, name| {
        portion.look(hash, || {
            let (fits, bytes) = (fits(&name), name.len());
            count += u64::from(fits);
            (fits && count <= most as u64).then_some((name, bytes))
        })
    })?;
    let (names, next) = portion.into_parts();
    Ok(Walked { count, names, next })
}

/// `KEYS pattern`: looks at every name.
pub fn keys<T: Transaction>(args: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let (words, from) = step(args, keyspace)?;
    let pattern = Pattern::new(words.first().copied().unwrap_or_default());
    let mut walked = walk(keyspace, from, usize::MAX, |name| pattern.matches(name))?;
    pattern.check()?;
    let mut kept = Vec::with_capacity(walked.names.len());
    for name in walked.names {
        if keyspace.exists(&name)? {
            kept.push(name);
        }
    }
    walked.names = kept;
    walked.answer(from, true, reply);
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
pub fn dbsize<T: Transaction>(args: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let (_, from) = step(args, keyspace)?;
    let walked = match from {
        None => Walked { count: keyspace.count()?, names: Vec::new(), next: Place::START },
        from => walk(keyspace, from, 0, |_| true)?,
    };
    walked.answer(from, false, reply);
    Ok(())
}

/// `CLUSTER COUNTKEYSINSLOT slot` and `CLUSTER GETKEYSINSLOT slot count`, as they come here: `HW.KEYSINSLOT slot [count]`. Looks at every name.
pub fn keys_in_slot<T: Transaction>(
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (words, from) = step(args, keyspace)?;
    let slot = slot_number(words.first().copied().unwrap_or_default())?;
    let most = match words[..] {
        [_] => None,
        // A step of one that only counts.
        [_, b"-"] if from.is_some() => None,
        [_, most] => Some(integer(most)?),
        _ => return Err(CommandError::WrongArity("hw.keysinslot").into()),
    };
    if most.is_some_and(|most| most < 0) {
        return Err(CommandError::Text("ERR Invalid number of keys").into());
    }
    let told = most.map_or(0, |most| usize::try_from(most).unwrap_or(usize::MAX));
    let walked = walk(keyspace, from, told, |name| slots::slot(name) == slot)?;
    walked.answer(from, most.is_some(), reply);
    Ok(())
}
