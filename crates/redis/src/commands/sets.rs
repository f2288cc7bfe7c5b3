//! Sets. While one is small, as Redis counts, and holds nothing but integers, they are told in their order.

use highwater_core::Transaction;

use super::portion::{Among, Asked, Next, Portion, in_portions};
use super::scan::Options;
use super::words::{MUST_BE_POSITIVE, random_count, unsigned};
use crate::command::entry::commands;
use crate::encodings::SET_ENTRIES;
use crate::errors::CommandError;
use crate::keyspace::head::{Head, Kind};
use crate::keyspace::members::Chosen;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    SADD = 74 {
        run: sadd(args, keyspace, reply),
        name: "sadd", arity: -3, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "set", since: "1.0.0",
        summary: "Add one or more members to a set",
        specs: "RW,insert index 1 range 0 1 0",
        docs: "
            complexity O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.
            history 2.4.0 Accepts multiple `member` arguments.
            - key: key #0
            - member: string multiple
        ",
    }

    SREM = 75 {
        run: srem(args, keyspace, reply),
        name: "srem", arity: -3, flags: WRITE | FAST, keys: ONE_KEY, group: "set", since: "1.0.0",
        summary: "Remove one or more members from a set",
        specs: "RW,delete index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of members to be removed.
            history 2.4.0 Accepts multiple `member` arguments.
            - key: key #0
            - member: string multiple
        ",
    }

    SMEMBERS = 76 {
        run: smembers(args, keyspace, reply),
        name: "smembers", arity: 2, flags: READONLY, keys: ONE_KEY, group: "set", since: "1.0.0",
        summary: "Get all the members in a set",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output_order",
        docs: "
            complexity O(N) where N is the set cardinality.
            - key: key #0
        ",
    }

    SISMEMBER = 77 {
        run: sismember(args, keyspace, reply),
        name: "sismember", arity: 3, flags: READONLY | FAST, keys: ONE_KEY, group: "set", since: "1.0.0",
        summary: "Determine if a given value is a member of a set",
        specs: "RO index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - member: string
        ",
    }

    SMISMEMBER = 78 {
        run: smismember(args, keyspace, reply),
        name: "smismember", arity: -3, flags: READONLY | FAST, keys: ONE_KEY, group: "set", since: "6.2.0",
        summary: "Returns the membership associated with the given elements for a set",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of elements being checked for membership
            - key: key #0
            - member: string multiple
        ",
    }

    SCARD = 79 {
        run: scard(args, keyspace, reply),
        name: "scard", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "set", since: "1.0.0",
        summary: "Get the number of members in a set",
        specs: "RO index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    SPOP = 80 {
        run: spop(args, keyspace, reply),
        name: "spop", arity: -2, flags: WRITE | FAST, keys: ONE_KEY, group: "set", since: "1.0.0",
        summary: "Remove and return one or multiple random members from a set",
        specs: "RW,access,delete index 1 range 0 1 0",
        tips: "nondeterministic_output",
        docs: "
            complexity Without the count argument O(1), otherwise O(N) where N is the value of the passed count.
            history 3.2.0 Added the `count` argument.
            - key: key #0
            - count: integer @3.2.0 optional
        ",
    }

    SRANDMEMBER = 81 {
        run: srandmember(args, keyspace, reply),
        name: "srandmember", arity: -2, flags: READONLY, keys: ONE_KEY, group: "set", since: "1.0.0",
        summary: "Get one or multiple random members from a set",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output",
        docs: "
            complexity Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.
            history 2.6.0 Added the optional `count` argument.
            - key: key #0
            - count: integer @2.6.0 optional
        ",
    }

    SMOVE = 82 {
        run: smove(args, keyspace, reply),
        name: "smove", arity: 4, flags: WRITE | FAST, keys: TWO_KEYS, group: "set", since: "1.0.0",
        summary: "Move a member from one set to another",
        specs: "RW,access,delete index 1 range 0 1 0;RW,insert index 2 range 0 1 0",
        docs: "
            complexity O(1)
            - source: key #0
            - destination: key #1
            - member: string
        ",
    }

    SSCAN = 83 {
        run: sscan(args, keyspace, reply),
        name: "sscan", arity: -3, flags: READONLY | SCANS, keys: ONE_KEY, group: "set", since: "2.8.0",
        summary: "Incrementally iterate Set elements",
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

/// Adds a member; whether it is new.
pub fn add<T: Transaction>(
    keyspace: &mut Keyspace<'_, T>,
    head: &mut Head,
    member: &[u8],
) -> Result<bool, Failure> {
    if !keyspace.add_member(head, member, &[])? {
        return Ok(false);
    }
    head.count += 1;
    head.grown |= head.count > SET_ENTRIES.get() || parse_integer(member).is_none();
    Ok(true)
}

/// All members.
pub fn members<T: Transaction>(keyspace: &mut Keyspace<'_, T>, head: &Head) -> Result<Vec<Vec<u8>>, Failure> {
    let mut members: Vec<Vec<u8>> = keyspace.members(head)?.into_iter().map(|(member, _)| member).collect();
    if !head.grown {
        members.sort_by_key(|member| parse_integer(member));
    }
    Ok(members)
}

/// `SADD key member ..`: how many are new.
pub fn sadd<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let mut head = keyspace.open(key, Kind::Set)?;
    let mut added = 0;
    for member in args {
        added += i64::from(add(keyspace, &mut head, member)?);
    }
    if added > 0 {
        keyspace.save(key, &head)?;
    }
    reply.integer(added);
    Ok(())
}

/// `SREM key member ..`: how many there were.
pub fn srem<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let mut removed = 0;
    if let Some(mut head) = keyspace.collection(key, Kind::Set)? {
        for member in args {
            removed += i64::from(keyspace.delete_member(&head, member)?);
        }
        head.count -= removed as u64;
        if removed > 0 {
            keyspace.save(key, &head)?;
        }
    }
    reply.integer(removed);
    Ok(())
}

/// `SMEMBERS key`
pub fn smembers<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let members = match keyspace.collection(args.promised()?, Kind::Set)? {
        Some(head) => members(keyspace, &head)?,
        None => Vec::new(),
    };
    reply_set(&members, reply)
}

/// Members as a set.
pub fn reply_set(members: &[Vec<u8>], reply: &mut Reply<'_>) -> Done {
    reply.set(members.len());
    for member in members {
        reply.bulk(member);
        reply.check_length()?;
    }
    Ok(())
}

/// `SISMEMBER key member`
pub fn sismember<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::Set)?;
    reply_contained(head, args.promised()?, keyspace, reply)
}

/// `SMISMEMBER key member ..`
pub fn smismember<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::Set)?;
    reply.array(args.len());
    args.into_iter().try_for_each(|member| reply_contained(head, member, keyspace, reply))
}

fn reply_contained<T: Transaction>(
    head: Option<Head>,
    member: &[u8],
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let contained = match head {
        Some(head) => keyspace.member(&head, member)?.is_some(),
        None => false,
    };
    reply.integer(contained.into());
    Ok(())
}

/// `SCARD key`
pub fn scard<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::Set)?;
    reply.integer(head.map_or(0, |head| head.count as i64));
    Ok(())
}

/// `SMOVE source destination member`: 1 if it was there.
pub fn smove<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (from, to, member) = (args.promised()?, args.promised()?, args.promised()?);
    let Some(mut source) = keyspace.collection(from, Kind::Set)? else {
        reply.integer(0);
        return Ok(());
    };
    keyspace.collection(to, Kind::Set)?;
    let there = keyspace.member(&source, member)?.is_some();
    if there && from != to {
        keyspace.delete_member(&source, member)?;
        source.count -= 1;
        keyspace.save(from, &source)?;
        let mut destination = keyspace.open(to, Kind::Set)?;
        add(keyspace, &mut destination, member)?;
        keyspace.save(to, &destination)?;
    }
    reply.integer(there.into());
    Ok(())
}

/// `SPOP key [count]`: takes members away at random.
pub fn spop<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, count, more) = (args.promised()?, args.next(), args.next());
    if more.is_some() {
        return Err(CommandError::Syntax.into());
    }
    let wanted = count.map(|word| unsigned(word, MUST_BE_POSITIVE)).transpose()?;
    let Some(mut head) = keyspace.collection(key, Kind::Set)? else {
        match count {
            Some(_) => reply.set(0),
            None => reply.null(),
        }
        return Ok(());
    };
    let chosen = match wanted {
        Some(wanted) => keyspace.random_members(&head, wanted)?,
        None => vec![keyspace.random_member(&head)?],
    };
    for (member, _) in &chosen {
        keyspace.delete_member(&head, member)?;
    }
    head.count -= chosen.len() as u64;
    if !chosen.is_empty() {
        keyspace.save(key, &head)?;
    }
    if wanted.is_some() {
        reply.set(chosen.len());
    }
    chosen.iter().for_each(|(member, _)| reply.bulk(member));
    Ok(())
}

/// `SRANDMEMBER key [count]`: a negative count may choose a member again.
pub fn srandmember<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, count, more) = (args.promised()?, args.next(), args.next());
    if more.is_some() {
        return Err(CommandError::Syntax.into());
    }
    let Some(count) = count.map(|word| random_count(word, i64::MAX)).transpose()? else {
        match keyspace.collection(key, Kind::Set)? {
            Some(head) => reply.bulk(&keyspace.random_member(&head)?.0),
            None => reply.null(),
        }
        return Ok(());
    };
    let chosen = match keyspace.collection(key, Kind::Set)? {
        Some(head) => keyspace.chosen(&head, count)?,
        None => Chosen::NONE,
    };
    reply.array(chosen.len());
    chosen.each(keyspace.random(), |(member, _)| {
        reply.bulk(member);
        reply.check_length()
    })?;
    Ok(())
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`: a small one is told at once.
pub fn sscan<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let (asked, args) = Asked::parse(args, keyspace.goes_on)?;
    let Some(head) = keyspace.collection(key, Kind::Set)? else {
        asked.reply_with_nothing(reply);
        return Ok(());
    };
    let options = Options::parse(args, false)?;
    let (found, next) = if in_portions(&head) {
        let Some(from) = asked.begin(Among::Members(&head), keyspace, reply)? else { return Ok(()) };
        let mut portion = Portion::of_members(options.count());
        keyspace.each_member(&head, &from, |hash, member, _| {
            portion.look(hash, member, || options.fits(member).then(|| (member.to_vec(), member.len())))
        })?;
        portion.into_parts()
    } else {
        let mut all = members(keyspace, &head)?;
        all.retain(|member| options.fits(member));
        (all, Next::Over)
    };
    options.check()?;
    asked.reply(Among::Members(&head), (&next, found.len()), keyspace, reply)?;
    found.iter().for_each(|member| reply.bulk(member));
    Ok(())
}
