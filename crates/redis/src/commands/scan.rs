//! Which keys there are: SCAN KEYS RANDOMKEY DBSIZE, and what SSCAN, HSCAN and ZSCAN share.
//!
//! A [cursor](super::cursor) says where a scan goes on: whatever comes and goes meanwhile, what is there all the time is met. What one call
//! looks at is a [`Portion`].
//!
//! One call is one transaction, so that a `COUNT` is a hint: a call looks at no more than `MOST_LOOKED`, whatever its count is. What a
//! longer one has read others would change before it is done, again and again.

use std::ops::ControlFlow;

use highwater_core::Transaction;

use super::cluster::slot_number;
use super::portion::{Among, Asked, Next, Portion};
use super::words::{integer, is};
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::glob::Pattern;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::reply::Reply;
use crate::request::Args;
use crate::slots;

commands! {
    data(args, keyspace, reply);

    SCAN = 50 {
        run: scan(args, keyspace, reply),
        name: "scan", arity: -2, flags: READONLY | SCANS, keys: WHOLE, group: "generic", since: "2.8.0",
        summary: "Incrementally iterate the keys space",
        tips: "nondeterministic_output,request_policy:special",
        docs: "
            complexity O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. N is the number of elements inside the collection.
            history 6.0.0 Added the `TYPE` subcommand.
            - cursor: integer
            - pattern: pattern 'MATCH' optional
            - count: integer 'COUNT' optional
            - type: string 'TYPE' @6.0.0 optional
        ",
    }

    KEYS = 51 {
        run: keys(args, keyspace, reply),
        name: "keys", arity: 2, flags: READONLY | WALKS, keys: WHOLE, group: "generic", since: "1.0.0",
        summary: "Find all keys matching the given pattern",
        categories: Some(category::KEYSPACE | category::READ | category::DANGEROUS),
        tips: "request_policy:all_shards,nondeterministic_output_order",
        docs: "
            complexity O(N) with N being the number of keys in the database, under the assumption that the key names in the database and the given pattern have limited length.
            - pattern: pattern
        ",
    }

    RANDOMKEY = 52 {
        run: randomkey(args, keyspace, reply),
        name: "randomkey", arity: 1, flags: READONLY, keys: WHOLE, group: "generic", since: "1.0.0",
        summary: "Return a random key from the keyspace",
        tips: "request_policy:all_shards,nondeterministic_output",
        docs: "
            complexity O(log(N)) where N is the number of keys
        ",
    }

    DBSIZE = 53 {
        run: dbsize(args, keyspace, reply),
        name: "dbsize", arity: 1, flags: READONLY | FAST | WALKS, keys: WHOLE, group: "server",
        since: "1.0.0",
        summary: "Return the number of keys in the selected database",
        categories: Some(category::KEYSPACE | category::READ | category::FAST),
        tips: "request_policy:all_shards,response_policy:agg_sum",
        docs: "
            complexity O(N) where N is the number of keys
        ",
    }

    HW_KEYSINSLOT = 179 {
        run: keys_in_slot(args, keyspace, reply),
        name: "hw.keysinslot", arity: -2, flags: READONLY | WALKS, keys: WHOLE, group: "generic",
        since: "0.2.0",
        summary: "Count the keys of a hash slot, or get some of them",
        categories: Some(0),
        docs: "
            complexity O(N) where N is the number of keys
            - slot: integer
            - count: integer optional
        ",
    }
}

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

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
pub fn scan<T: Transaction>(args: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let (asked, args) = Asked::parse(args, keyspace.goes_on)?;
    let options = Options::parse(args, true)?;
    let Some(from) = asked.begin(Among::Names, keyspace, reply)? else { return Ok(()) };
    let mut portion = Portion::of_names(options.count);
    keyspace.each_name(&from, |hash, name| {
        portion.look(hash, name, || options.fits(name).then(|| (name.to_vec(), name.len())))
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
    asked.reply(Among::Names, (&next, kept.len()), keyspace, reply)?;
    kept.iter().for_each(|name| reply.bulk(name));
    Ok(())
}

/// In front of the spot where a step of a walk begins. Builds before this one wrote a place there, as a number.
const FROM: u8 = b'@';

/// The words of a walk through all names, or of a step of one. See `connection/walking.rs`.
struct Step<'a> {
    /// The command's own.
    words: Vec<&'a [u8]>,
    /// The spot where it begins, which was the last word; `None`: the command looks at all names at once.
    from: Option<&'a [u8]>,
}

/// Reads the words.
///
/// # Errors
/// A word too many, if a build before this one has written it: then it asks for all at once.
fn step<'a, T>(
    args: Args<'a>,
    keyspace: &Keyspace<'_, T>,
    name: &'static str,
) -> Result<Step<'a>, CommandError> {
    let mut words: Vec<&[u8]> = args.collect();
    if !keyspace.goes_on {
        return Ok(Step { words, from: None });
    }
    match words.pop().and_then(<[u8]>::split_first) {
        Some((&FROM, spot)) => Ok(Step { words, from: Some(spot) }),
        _ => Err(CommandError::WrongArity(name)),
    }
}

/// The result of a walk, or of a step of one.
struct Walked {
    count: u64,
    names: Vec<Vec<u8>>,
    next: Next,
}

impl Walked {
    /// Answers a step with all of it, or the whole walk with what is wanted.
    fn answer(&self, is_step: bool, names: bool, reply: &mut Reply<'_>) {
        if is_step {
            reply.array(3);
            reply.bulk(&self.word());
            reply.integer(self.count as i64);
        } else if !names {
            return reply.integer(self.count as i64);
        }
        reply.array(self.names.len());
        self.names.iter().for_each(|name| reply.bulk(name));
    }

    /// The word of the next step; of none, an empty one.
    fn word(&self) -> Vec<u8> {
        match &self.next {
            Next::Over => Vec::new(),
            Next::At(place) => [&[FROM][..], &place.first_hash().to_be_bytes()].concat(),
            Next::In(spot) => [&[FROM], &spot[..]].concat(),
        }
    }
}

/// Looks at names: some from this spot on, or all. Those that `fits` count, and `most` of them are told.
fn walk<T: Transaction>(
    keyspace: &mut Keyspace<'_, T>,
    from: Option<&[u8]>,
    most: usize,
    fits: impl Fn(&[u8]) -> bool,
) -> Result<Walked, Failure> {
    let mut portion = if from.is_some() { Portion::of_a_walk() } else { Portion::of_all() };
    let mut count = 0;
    keyspace.each_name(from.unwrap_or_default(), |hash, name| {
        portion.look(hash, name, || {
            let fits = fits(name);
            count += u64::from(fits);
            (fits && count <= most as u64).then(|| (name.to_vec(), name.len()))
        })
    })?;
    let (names, next) = portion.into_parts();
    Ok(Walked { count, names, next })
}

/// `KEYS pattern`: looks at every name.
pub fn keys<T: Transaction>(args: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let Step { words, from } = step(args, keyspace, "keys")?;
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
    walked.answer(from.is_some(), true, reply);
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
    let Step { from, .. } = step(args, keyspace, "dbsize")?;
    let walked = match from {
        None => Walked { count: keyspace.count()?, names: Vec::new(), next: Next::Over },
        from => walk(keyspace, from, 0, |_| true)?,
    };
    walked.answer(from.is_some(), false, reply);
    Ok(())
}

/// `CLUSTER COUNTKEYSINSLOT slot` and `CLUSTER GETKEYSINSLOT slot count`, as they come here: `HW.KEYSINSLOT slot [count]`. Looks at every name.
pub fn keys_in_slot<T: Transaction>(
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let Step { words, from } = step(args, keyspace, "hw.keysinslot")?;
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
    walked.answer(from.is_some(), most.is_some(), reply);
    Ok(())
}
