//! Sorted sets, member by member: ZADD ZINCRBY ZREM ZSCORE ZMSCORE ZCARD ZPOPMIN ZPOPMAX ZMPOP ZRANDMEMBER ZSCAN.

use std::ops::ControlFlow;

use highwater_core::{Direction, Transaction};

use super::lists::popped_from;
use super::portion::{Among, Asked, Next, Portion, in_portions};
use super::scan::Options;
use super::words::{MUST_BE_POSITIVE, float, is, random_count, unsigned};
use crate::command::entry::commands;
use crate::double::format_double;
use crate::encodings::{SORTED_SET_BYTES, SORTED_SET_ENTRIES};
use crate::errors::CommandError;
use crate::keyspace::head::{Head, Kind};
use crate::keyspace::members::Chosen;
use crate::keyspace::scores::{Scored, score_of};
use crate::keyspace::{Done, Failure, Keyspace};
use crate::number::Digits;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    ZADD = 108 {
        run: zadd(args, keyspace, reply),
        name: "zadd", arity: -4, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "sorted-set",
        since: "1.2.0",
        summary: "Add one or more members to a sorted set, or update its score if it already exists",
        specs: "RW,update index 1 range 0 1 0",
        docs: "
            complexity O(log(N)) for each item added, where N is the number of elements in the sorted set.
            history 2.4.0 Accepts multiple elements.
            history 3.0.2 Added the `XX`, `NX`, `CH` and `INCR` options.
            history 6.2.0 Added the `GT` and `LT` options.
            - key: key #0
            - condition: oneof @3.0.2 optional
            -- nx: pure-token 'NX'
            -- xx: pure-token 'XX'
            - comparison: oneof @6.2.0 optional
            -- gt: pure-token 'GT'
            -- lt: pure-token 'LT'
            - change: pure-token 'CH' @3.0.2 optional
            - increment: pure-token 'INCR' @3.0.2 optional
            - score_member: block multiple
            -- score: double
            -- member: string
        ",
    }

    ZREM = 109 {
        run: zrem(args, keyspace, reply),
        name: "zrem", arity: -3, flags: WRITE | FAST, keys: ONE_KEY, group: "sorted-set", since: "1.2.0",
        summary: "Remove one or more members from a sorted set",
        specs: "RW,delete index 1 range 0 1 0",
        docs: "
            complexity O(M*log(N)) with N being the number of elements in the sorted set and M the number of elements to be removed.
            history 2.4.0 Accepts multiple elements.
            - key: key #0
            - member: string multiple
        ",
    }

    ZSCORE = 110 {
        run: zscore(args, keyspace, reply),
        name: "zscore", arity: 3, flags: READONLY | FAST, keys: ONE_KEY, group: "sorted-set", since: "1.2.0",
        summary: "Get the score associated with the given member in a sorted set",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - member: string
        ",
    }

    ZMSCORE = 111 {
        run: zmscore(args, keyspace, reply),
        name: "zmscore", arity: -3, flags: READONLY | FAST, keys: ONE_KEY, group: "sorted-set",
        since: "6.2.0",
        summary: "Get the score associated with the given members in a sorted set",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the number of members being requested.
            - key: key #0
            - member: string multiple
        ",
    }

    ZINCRBY = 112 {
        run: zincrby(args, keyspace, reply),
        name: "zincrby", arity: 4, flags: WRITE | DENYOOM | FAST, keys: ONE_KEY, group: "sorted-set",
        since: "1.2.0",
        summary: "Increment the score of a member in a sorted set",
        specs: "RW,access,update index 1 range 0 1 0",
        docs: "
            complexity O(log(N)) where N is the number of elements in the sorted set.
            - key: key #0
            - increment: integer
            - member: string
        ",
    }

    ZCARD = 113 {
        run: zcard(args, keyspace, reply),
        name: "zcard", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "sorted-set", since: "1.2.0",
        summary: "Get the number of members in a sorted set",
        specs: "RO index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    ZRANDMEMBER = 114 {
        run: zrandmember(args, keyspace, reply),
        name: "zrandmember", arity: -2, flags: READONLY, keys: ONE_KEY, group: "sorted-set", since: "6.2.0",
        summary: "Get one or multiple random elements from a sorted set",
        specs: "RO,access index 1 range 0 1 0",
        tips: "nondeterministic_output",
        docs: "
            complexity O(N) where N is the number of elements returned
            - key: key #0
            - options: block optional
            -- count: integer
            -- withscores: pure-token 'WITHSCORES' optional
        ",
    }

    ZSCAN = 115 {
        run: zscan(args, keyspace, reply),
        name: "zscan", arity: -3, flags: READONLY | SCANS, keys: ONE_KEY, group: "sorted-set", since: "2.8.0",
        summary: "Incrementally iterate sorted sets elements and associated scores",
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

    ZMPOP = 116 {
        run: zmpop(args, keyspace, reply),
        name: "zmpop", arity: -4, flags: WRITE | MOVABLEKEYS, keys: COUNTED, group: "sorted-set",
        since: "7.0.0",
        summary: "Remove and return members with scores in a sorted set",
        specs: "RW,access,delete index 1 keynum 0 1 1",
        docs: "
            complexity O(K) + O(M*log(N)) where K is the number of provided keys, N being the number of elements in the sorted set, and M being the number of elements popped.
            - numkeys: integer
            - key: key #0 multiple
            - where: oneof
            -- min: pure-token 'MIN'
            -- max: pure-token 'MAX'
            - count: integer 'COUNT' optional
        ",
    }

    ZPOPMIN = 117 {
        run: zpop(args, Direction::Forward, keyspace, reply),
        name: "zpopmin", arity: -2, flags: WRITE | FAST, keys: ONE_KEY, group: "sorted-set", since: "5.0.0",
        summary: "Remove and return members with the lowest scores in a sorted set",
        specs: "RW,access,delete index 1 range 0 1 0",
        docs: "
            complexity O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.
            - key: key #0
            - count: integer optional
        ",
    }

    ZPOPMAX = 118 {
        run: zpop(args, Direction::Backward, keyspace, reply),
        name: "zpopmax", arity: -2, flags: WRITE | FAST, keys: ONE_KEY, group: "sorted-set", since: "5.0.0",
        summary: "Remove and return members with the highest scores in a sorted set",
        specs: "RW,access,delete index 1 range 0 1 0",
        docs: "
            complexity O(log(N)*M) with N being the number of elements in the sorted set, and M being the number of elements popped.
            - key: key #0
            - count: integer optional
        ",
    }
}

const NAN: CommandError = CommandError::Text("ERR resulting score is not a number (NaN)");

/// Gives a member a score, new or not.
pub fn put<T: Transaction>(
    keyspace: &mut Keyspace<'_, T>,
    head: &mut Head,
    member: &[u8],
    old: Option<f64>,
    score: f64,
) -> Done {
    let more = u64::from(old.is_none());
    head.grown |= old.is_none() && member.len() as u64 > SORTED_SET_BYTES.get()
        || head.count + more > SORTED_SET_ENTRIES.get();
    // A small one keeps -0 as 0, as in Redis.
    let score = if head.grown { score } else { score + 0.0 };
    keyspace.set_score(head, member, old, score)
}

/// Whether a sorted set of these is no small one.
pub fn is_large(scored: &Scored) -> bool {
    let long = |member: &Vec<u8>| member.len() as u64 > SORTED_SET_BYTES.get();
    scored.len() as u64 > SORTED_SET_ENTRIES.get() || scored.iter().any(|(member, _)| long(member))
}

/// Puts a sorted set of these in the place of whatever is there. `grown`: it was large before it was one.
pub fn store<T: Transaction>(
    key: &[u8],
    scored: &Scored,
    grown: bool,
    keyspace: &mut Keyspace<'_, T>,
) -> Done {
    keyspace.expects_members(Kind::SortedSet, 0, scored.len() as u64)?;
    let mut head = keyspace.begin(Kind::SortedSet);
    head.grown = grown;
    for (member, score) in scored {
        put(keyspace, &mut head, member, None, *score)?;
    }
    keyspace.replace(key, &head)
}

/// The options of a `ZADD`.
#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    /// Only new members.
    new: bool,
    /// Only members that are there.
    old: bool,
    /// Only to a greater score.
    greater: bool,
    /// Only to a less one.
    less: bool,
    /// Tell how many changed, not how many are new.
    changed: bool,
    /// Add to the score.
    add: bool,
}

impl Rules {
    /// Takes options as long as there are some.
    fn parse(args: &mut Args<'_>) -> Rules {
        let mut rules = Rules::default();
        loop {
            let mut rest = *args;
            match rest.next() {
                Some(word) if is(word, "nx") => rules.new = true,
                Some(word) if is(word, "xx") => rules.old = true,
                Some(word) if is(word, "gt") => rules.greater = true,
                Some(word) if is(word, "lt") => rules.less = true,
                Some(word) if is(word, "ch") => rules.changed = true,
                Some(word) if is(word, "incr") => rules.add = true,
                _ => return rules,
            }
            *args = rest;
        }
    }

    fn check(self, words: usize) -> Result<(), CommandError> {
        let said = if words == 0 || !words.is_multiple_of(2) {
            return Err(CommandError::Syntax);
        } else if self.new && self.old {
            "ERR XX and NX options at the same time are not compatible"
        } else if self.new && (self.greater || self.less) || self.greater && self.less {
            "ERR GT, LT, and/or NX options at the same time are not compatible"
        } else if self.add && words > 2 {
            "ERR INCR option supports a single increment-element pair"
        } else {
            return Ok(());
        };
        Err(CommandError::Text(said))
    }

    /// The score that a member gets; `None`: it stays as it is.
    fn score(self, old: Option<f64>, given: f64) -> Result<Option<f64>, CommandError> {
        let Some(old) = old else { return Ok((!self.old).then_some(given)) };
        if self.new {
            return Ok(None);
        }
        let score = if self.add { old + given } else { given };
        if score.is_nan() {
            return Err(NAN);
        }
        Ok((!(self.less && score >= old || self.greater && score <= old)).then_some(score))
    }
}

/// `ZADD key [NX | XX] [GT | LT] [CH] [INCR] score member ..`
pub fn zadd<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let rules = Rules::parse(&mut args);
    rules.check(args.len())?;
    add(key, rules, args, keyspace, reply)
}

/// `ZINCRBY key increment member`
pub fn zincrby<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    add(key, Rules { add: true, ..Rules::default() }, args, keyspace, reply)
}

fn add<T: Transaction>(
    key: &[u8],
    rules: Rules,
    pairs: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let scores: Vec<f64> = pairs.step_by(2).map(float).collect::<Result<_, _>>()?;
    let mut head = match keyspace.collection(key, Kind::SortedSet)? {
        Some(head) => head,
        None => keyspace.begin(Kind::SortedSet),
    };
    let before = head.count;
    let (mut updated, mut last) = (0, None);
    for (member, given) in pairs.skip(1).step_by(2).zip(scores) {
        let old = if head.count > 0 { keyspace.score(&head, member)? } else { None };
        let new = rules.score(old, given)?;
        if let Some(new) = new.filter(|new| old != Some(*new)) {
            put(keyspace, &mut head, member, old, new)?;
            updated += i64::from(old.is_some());
        }
        last = new;
    }
    let added = (head.count - before) as i64;
    if added + updated > 0 {
        keyspace.save(key, &head)?;
    }
    match (rules.add, last) {
        (true, Some(score)) => reply.double(score),
        (true, None) => reply.null(),
        (false, _) => reply.integer(if rules.changed { added + updated } else { added }),
    }
    Ok(())
}

/// `ZREM key member ..`: how many there were.
pub fn zrem<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let mut removed = 0;
    if let Some(mut head) = keyspace.collection(key, Kind::SortedSet)? {
        for member in args {
            if let Some(score) = keyspace.score(&head, member)? {
                keyspace.delete_score(&mut head, member, score)?;
                removed += 1;
            }
        }
        if removed > 0 {
            keyspace.save(key, &head)?;
        }
    }
    reply.integer(removed);
    Ok(())
}

/// `ZSCORE key member`
pub fn zscore<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::SortedSet)?;
    reply_score(head, args.promised()?, keyspace, reply)
}

/// `ZMSCORE key member ..`
pub fn zmscore<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::SortedSet)?;
    reply.array(args.len());
    args.into_iter().try_for_each(|member| reply_score(head, member, keyspace, reply))
}

fn reply_score<T: Transaction>(
    head: Option<Head>,
    member: &[u8],
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let score = match head {
        Some(head) => keyspace.score(&head, member)?,
        None => None,
    };
    match score {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
    Ok(())
}

/// `ZCARD key`
pub fn zcard<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.collection(args.promised()?, Kind::SortedSet)?;
    reply.integer(head.map_or(0, |head| head.count as i64));
    Ok(())
}

/// Takes up to so many members away from one end.
pub fn take<T: Transaction>(
    head: &mut Head,
    from: Direction,
    count: u64,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Scored, Failure> {
    let mut taken = Vec::new();
    if count > 0 {
        keyspace.each_score(head, None, from, |member, score| {
            taken.push((member.to_vec(), score));
            if (taken.len() as u64) < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    for (member, score) in &taken {
        keyspace.delete_score(head, member, *score)?;
    }
    Ok(taken)
}

/// `ZPOPMIN key [count]` and `ZPOPMAX`: the members with the lowest, or highest, scores.
pub fn zpop<T: Transaction>(
    mut args: Args<'_>,
    from: Direction,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, count, more) = (args.promised()?, args.next(), args.next());
    if more.is_some() {
        return Err(CommandError::Syntax.into());
    }
    let wanted = count.map_or(Ok(1), |word| unsigned(word, MUST_BE_POSITIVE))?;
    let taken = match keyspace.collection(key, Kind::SortedSet)? {
        Some(mut head) if wanted > 0 => {
            let taken = take(&mut head, from, wanted, keyspace)?;
            keyspace.save(key, &head)?;
            taken
        }
        _ => Vec::new(),
    };
    match count {
        Some(_) => reply_scored(&taken, true, reply),
        None => {
            reply.array(taken.len() * 2);
            taken.iter().for_each(|(member, score)| {
                reply.bulk(member);
                reply.double(*score);
            });
            Ok(())
        }
    }
}

/// Members, with their scores or without: in RESP3 an array each, if with.
pub fn reply_scored(scored: &Scored, with_scores: bool, reply: &mut Reply<'_>) -> Done {
    reply.pairs(scored.len(), with_scores);
    for (member, score) in scored {
        reply.pair(with_scores);
        reply.bulk(member);
        if with_scores {
            reply.double(*score);
        }
        reply.check_length()?;
    }
    Ok(())
}

/// `MIN` or `MAX`.
pub fn place(word: &[u8]) -> Result<Direction, CommandError> {
    match word {
        _ if is(word, "min") => Ok(Direction::Forward),
        _ if is(word, "max") => Ok(Direction::Backward),
        _ => Err(CommandError::Syntax),
    }
}

/// `ZMPOP numkeys key .. MIN | MAX [COUNT count]`: of the first sorted set that there is.
pub fn zmpop<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (keys, from, count) = popped_from(&mut args, place)?;
    for key in keys {
        if let Some(mut head) = keyspace.waited(key, Kind::SortedSet)? {
            let taken = take(&mut head, from, count, keyspace)?;
            keyspace.save(key, &head)?;
            reply.array(2);
            reply.bulk(key);
            reply.array(taken.len());
            taken.iter().for_each(|(member, score)| {
                reply.array(2);
                reply.bulk(member);
                reply.double(*score);
            });
            return Ok(());
        }
    }
    reply.null_array();
    Ok(())
}

/// `ZRANDMEMBER key [count [WITHSCORES]]`: a negative count may choose a member again.
pub fn zrandmember<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, count) = (args.promised()?, args.next());
    let Some(count) = count else {
        match keyspace.collection(key, Kind::SortedSet)? {
            Some(head) => reply.bulk(&keyspace.random_member(&head)?.0),
            None => reply.null(),
        }
        return Ok(());
    };
    let count = random_count(count, i64::MAX)?;
    let scores = match (args.next(), args.next()) {
        (None, _) => false,
        (Some(word), None) if is(word, "withscores") => true,
        _ => return Err(CommandError::Syntax.into()),
    };
    if scores {
        random_count(Digits::new(count).as_bytes(), i64::MAX / 2)?;
    }
    let chosen = match keyspace.collection(key, Kind::SortedSet)? {
        Some(head) => keyspace.chosen(&head, count)?,
        None => Chosen::NONE,
    };
    reply.pairs(chosen.len(), scores);
    chosen.each(keyspace.random(), |(member, row)| {
        reply.pair(scores);
        reply.bulk(member);
        if scores {
            reply.double(score_of(row));
        }
        reply.check_length()
    })?;
    Ok(())
}

/// `ZSCAN key cursor [MATCH pattern] [COUNT count]`: a small one is told at once.
pub fn zscan<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let (asked, args) = Asked::parse(args, keyspace.goes_on)?;
    let Some(head) = keyspace.collection(key, Kind::SortedSet)? else {
        asked.reply_with_nothing(reply);
        return Ok(());
    };
    let options = Options::parse(args, false)?;
    let (found, next) = if in_portions(&head) {
        let Some(from) = asked.begin(Among::Members(&head), keyspace, reply)? else { return Ok(()) };
        let mut portion = Portion::of_members(options.count());
        keyspace.each_member(&head, &from, |hash, member, row| {
            portion.look(hash, member, || {
                options.fits(member).then(|| ((member.to_vec(), score_of(row)), member.len()))
            })
        })?;
        portion.into_parts()
    } else {
        let mut all = Vec::new();
        keyspace.each_score(&head, None, Direction::Forward, |member, score| {
            if options.fits(member) {
                all.push((member.to_vec(), score));
            }
            ControlFlow::Continue(())
        })?;
        (all, Next::Over)
    };
    options.check()?;
    asked.reply(Among::Members(&head), (&next, found.len() * 2), keyspace, reply)?;
    for (member, score) in &found {
        reply.bulk(member);
        reply.bulk(format_double(*score).as_bytes());
    }
    Ok(())
}
