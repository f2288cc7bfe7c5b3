//! Ranges of sorted sets, by rank, score or member: ZRANGE and its many forms, ZRANGESTORE, ZREMRANGEBY.., ZCOUNT ZLEXCOUNT ZRANK ZREVRANK.
//!
//! By score a range is found at once. A rank is counted from the nearer end, and how many lie in a range is counted, too: there is no index
//! of ranks.

use std::ops::ControlFlow;

use highwater_core::{Direction, Transaction};

use super::words::{integer, is, range};
use super::zsets::{reply_scored, store};
use crate::command::entry::commands;
use crate::double::parse_bound;
use crate::errors::CommandError;
use crate::keyspace::head::{Head, Kind};
use crate::keyspace::scores::Scored;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    ZRANK = 119 {
        run: zrank(args, Direction::Forward, keyspace, reply),
        name: "zrank", arity: 3, flags: READONLY | FAST, keys: ONE_KEY, group: "sorted-set", since: "2.0.0",
        summary: "Determine the index of a member in a sorted set",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the rank, counted from the nearer end
            - key: key #0
            - member: string
        ",
    }

    ZREVRANK = 120 {
        run: zrank(args, Direction::Backward, keyspace, reply),
        name: "zrevrank", arity: 3, flags: READONLY | FAST, keys: ONE_KEY, group: "sorted-set",
        since: "2.0.0",
        summary: "Determine the index of a member in a sorted set, with scores ordered from high to low",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the rank, counted from the nearer end
            - key: key #0
            - member: string
        ",
    }

    ZCOUNT = 121 {
        run: zcount(args, By::Score, keyspace, reply),
        name: "zcount", arity: 4, flags: READONLY | FAST, keys: ONE_KEY, group: "sorted-set", since: "2.0.0",
        summary: "Count the members in a sorted set with scores within the given values",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements counted.
            - key: key #0
            - min: double
            - max: double
        ",
    }

    ZLEXCOUNT = 122 {
        run: zcount(args, By::Lex, keyspace, reply),
        name: "zlexcount", arity: 4, flags: READONLY | FAST, keys: ONE_KEY, group: "sorted-set",
        since: "2.8.9",
        summary: "Count the number of members in a sorted set between a given lexicographical range",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) with N being the number of elements in the sorted set.
            - key: key #0
            - min: string
            - max: string
        ",
    }

    ZRANGE = 123 {
        run: zrange(args, None, keyspace, reply),
        name: "zrange", arity: -4, flags: READONLY, keys: ONE_KEY, group: "sorted-set", since: "1.2.0",
        summary: "Return a range of members in a sorted set",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements returned.
            history 6.2.0 Added the `REV`, `BYSCORE`, `BYLEX` and `LIMIT` options.
            - key: key #0
            - start: string
            - stop: string
            - sortby: oneof @6.2.0 optional
            -- byscore: pure-token 'BYSCORE'
            -- bylex: pure-token 'BYLEX'
            - rev: pure-token 'REV' @6.2.0 optional
            - offset_count: block 'LIMIT' @6.2.0 optional
            -- offset: integer
            -- count: integer
            - withscores: pure-token 'WITHSCORES' optional
        ",
    }

    ZRANGESTORE = 124 {
        run: zrangestore(args, keyspace, reply),
        name: "zrangestore", arity: -5, flags: WRITE | DENYOOM, keys: TWO_KEYS, group: "sorted-set",
        since: "6.2.0",
        summary: "Store a range of members from sorted set into another key",
        specs: "OW,update index 1 range 0 1 0;RO,access index 2 range 0 1 0",
        docs: "
            complexity O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements stored into the destination key.
            - dst: key #0
            - src: key #1
            - min: string
            - max: string
            - sortby: oneof optional
            -- byscore: pure-token 'BYSCORE'
            -- bylex: pure-token 'BYLEX'
            - rev: pure-token 'REV' optional
            - offset_count: block 'LIMIT' optional
            -- offset: integer
            -- count: integer
        ",
    }

    ZRANGEBYSCORE = 125 {
        run: zrange(args, Some((By::Score, Direction::Forward)), keyspace, reply),
        name: "zrangebyscore", arity: -4, flags: READONLY, keys: ONE_KEY, group: "sorted-set", since: "1.0.5",
        summary: "Return a range of members in a sorted set, by score",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).
            doc_flags deprecated
            deprecated_since 6.2.0
            replaced_by `ZRANGE` with the `BYSCORE` argument
            history 2.0.0 Added the `WITHSCORES` modifier.
            - key: key #0
            - min: double
            - max: double
            - withscores: pure-token 'WITHSCORES' @2.0.0 optional
            - offset_count: block 'LIMIT' optional
            -- offset: integer
            -- count: integer
        ",
    }

    ZREVRANGEBYSCORE = 126 {
        run: zrange(args, Some((By::Score, Direction::Backward)), keyspace, reply),
        name: "zrevrangebyscore", arity: -4, flags: READONLY, keys: ONE_KEY, group: "sorted-set",
        since: "2.2.0",
        summary: "Return a range of members in a sorted set, by score, with scores ordered from high to low",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).
            doc_flags deprecated
            deprecated_since 6.2.0
            replaced_by `ZRANGE` with the `REV` and `BYSCORE` arguments
            history 2.1.6 `min` and `max` can be exclusive.
            - key: key #0
            - max: double
            - min: double
            - withscores: pure-token 'WITHSCORES' optional
            - offset_count: block 'LIMIT' optional
            -- offset: integer
            -- count: integer
        ",
    }

    ZRANGEBYLEX = 127 {
        run: zrange(args, Some((By::Lex, Direction::Forward)), keyspace, reply),
        name: "zrangebylex", arity: -4, flags: READONLY, keys: ONE_KEY, group: "sorted-set", since: "2.8.9",
        summary: "Return a range of members in a sorted set, by lexicographical range",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).
            doc_flags deprecated
            deprecated_since 6.2.0
            replaced_by `ZRANGE` with the `BYLEX` argument
            - key: key #0
            - min: string
            - max: string
            - offset_count: block 'LIMIT' optional
            -- offset: integer
            -- count: integer
        ",
    }

    ZREVRANGEBYLEX = 128 {
        run: zrange(args, Some((By::Lex, Direction::Backward)), keyspace, reply),
        name: "zrevrangebylex", arity: -4, flags: READONLY, keys: ONE_KEY, group: "sorted-set",
        since: "2.8.9",
        summary: "Return a range of members in a sorted set, by lexicographical range, ordered from higher to lower strings.",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements being returned. If M is constant (e.g. always asking for the first 10 elements with LIMIT), you can consider it O(log(N)).
            doc_flags deprecated
            deprecated_since 6.2.0
            replaced_by `ZRANGE` with the `REV` and `BYLEX` arguments
            - key: key #0
            - max: string
            - min: string
            - offset_count: block 'LIMIT' optional
            -- offset: integer
            -- count: integer
        ",
    }

    ZREVRANGE = 129 {
        run: zrange(args, Some((By::Rank, Direction::Backward)), keyspace, reply),
        name: "zrevrange", arity: -4, flags: READONLY, keys: ONE_KEY, group: "sorted-set", since: "1.2.0",
        summary: "Return a range of members in a sorted set, by index, with scores ordered from high to low",
        specs: "RO,access index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the rank of the last element returned, counted from the nearer end
            doc_flags deprecated
            deprecated_since 6.2.0
            replaced_by `ZRANGE` with the `REV` argument
            - key: key #0
            - start: integer
            - stop: integer
            - withscores: pure-token 'WITHSCORES' optional
        ",
    }

    ZREMRANGEBYSCORE = 130 {
        run: zremrange(args, By::Score, keyspace, reply),
        name: "zremrangebyscore", arity: 4, flags: WRITE, keys: ONE_KEY, group: "sorted-set", since: "1.2.0",
        summary: "Remove all members in a sorted set within the given scores",
        specs: "RW,delete index 1 range 0 1 0",
        docs: "
            complexity O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.
            - key: key #0
            - min: double
            - max: double
        ",
    }

    ZREMRANGEBYLEX = 131 {
        run: zremrange(args, By::Lex, keyspace, reply),
        name: "zremrangebylex", arity: 4, flags: WRITE, keys: ONE_KEY, group: "sorted-set", since: "2.8.9",
        summary: "Remove all members in a sorted set between the given lexicographical range",
        specs: "RW,delete index 1 range 0 1 0",
        docs: "
            complexity O(log(N)+M) with N being the number of elements in the sorted set and M the number of elements removed by the operation.
            - key: key #0
            - min: string
            - max: string
        ",
    }

    ZREMRANGEBYRANK = 132 {
        run: zremrange(args, By::Rank, keyspace, reply),
        name: "zremrangebyrank", arity: 4, flags: WRITE, keys: ONE_KEY, group: "sorted-set", since: "2.0.0",
        summary: "Remove all members in a sorted set within the given indexes",
        specs: "RW,delete index 1 range 0 1 0",
        docs: "
            complexity O(N) where N is the rank of the last element removed, counted from the nearer end
            - key: key #0
            - start: integer
            - stop: integer
        ",
    }
}

/// What a range is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Places in the order.
    Rank,
    /// Scores.
    Score,
    /// Members, all of one score.
    Lex,
}

/// From where to where.
enum Span {
    Ranks(i64, i64),
    Scores { min: f64, above: bool, max: f64, below: bool },
    Members { min: Bound, max: Bound },
}

/// An end of a range of members.
enum Bound {
    First,
    Last,
    At(Vec<u8>, bool),
}

impl Bound {
    fn parse(word: &[u8]) -> Option<Bound> {
        match word {
            b"-" => Some(Bound::First),
            b"+" => Some(Bound::Last),
            [b'[', member @ ..] => Some(Bound::At(member.to_vec(), true)),
            [b'(', member @ ..] => Some(Bound::At(member.to_vec(), false)),
            _ => None,
        }
    }

    /// Whether a member is at or behind this, as the first.
    fn starts(&self, member: &[u8]) -> bool {
        match self {
            Bound::First => true,
            Bound::Last => false,
            Bound::At(bound, included) => member > &bound[..] || *included && member == bound,
        }
    }

    /// Whether a member is at or in front of this, as the last.
    fn ends(&self, member: &[u8]) -> bool {
        match self {
            Bound::First => false,
            Bound::Last => true,
            Bound::At(bound, included) => member < &bound[..] || *included && member == bound,
        }
    }
}

impl Span {
    fn parse(by: By, min: &[u8], max: &[u8]) -> Result<Span, CommandError> {
        match by {
            By::Rank => Ok(Span::Ranks(integer(min)?, integer(max)?)),
            By::Score => {
                let split = |word: &[u8]| match word {
                    [b'(', score @ ..] => Some((parse_bound(score)?, true)),
                    _ => Some((parse_bound(word)?, false)),
                };
                let both = split(min).zip(split(max));
                let ((min, above), (max, below)) =
                    both.ok_or(CommandError::Text("ERR min or max is not a float"))?;
                Ok(Span::Scores { min, above, max, below })
            }
            By::Lex => {
                let both = Bound::parse(min).zip(Bound::parse(max));
                let (min, max) =
                    both.ok_or(CommandError::Text("ERR min or max not valid string range item"))?;
                Ok(Span::Members { min, max })
            }
        }
    }
}

/// So many are left out, and then so many taken.
#[derive(Clone, Copy)]
struct Limit {
    offset: u64,
    count: u64,
}

const ALL: Limit = Limit { offset: 0, count: u64::MAX };

/// The members of a span, in the order of the direction.
fn select<T: Transaction>(
    head: &Head,
    span: &Span,
    direction: Direction,
    limit: Limit,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Scored, Failure> {
    match span {
        Span::Ranks(start, stop) => match range(*start, *stop, head.count) {
            None => Ok(Vec::new()),
            Some((from, to)) => ranks(head, from, to, direction, keyspace),
        },
        Span::Scores { min, above, max, below } => {
            let from = if direction == Direction::Forward { min } else { max };
            if min > max {
                return Ok(Vec::new());
            }
            let starts = |score: f64| if *above { score > *min } else { score >= *min };
            let ends = |score: f64| if *below { score < *max } else { score <= *max };
            collect(head, Some(*from), direction, limit, keyspace, |_, score| (starts(score), ends(score)))
        }
        Span::Members { min, max } => {
            // Of one score only this has a meaning; of several Redis goes by the order that there is, as here.
            let first =
                collect(head, None, Direction::Forward, Limit { count: 1, ..ALL }, keyspace, |_, _| {
                    (true, true)
                })?;
            let last =
                collect(head, None, Direction::Backward, Limit { count: 1, ..ALL }, keyspace, |_, _| {
                    (true, true)
                })?;
            let touched = first.first().is_some_and(|(member, _)| max.ends(member))
                && last.first().is_some_and(|(member, _)| min.starts(member));
            if !touched {
                return Ok(Vec::new());
            }
            collect(head, None, direction, limit, keyspace, |member, _| {
                (min.starts(member), max.ends(member))
            })
        }
    }
}

/// Members by rank, counted from the nearer end.
fn ranks<T: Transaction>(
    head: &Head,
    from: u64,
    to: u64,
    direction: Direction,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Scored, Failure> {
    let count = to - from + 1;
    let behind = head.count - 1 - to;
    if behind < from {
        let mut found =
            collect(head, None, opposite(direction), Limit { offset: behind, count }, keyspace, |_, _| {
                (true, true)
            })?;
        found.reverse();
        return Ok(found);
    }
    collect(head, None, direction, Limit { offset: from, count }, keyspace, |_, _| (true, true))
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Forward => Direction::Backward,
        Direction::Backward => Direction::Forward,
    }
}

/// Members from the first that fits until one does not. `fits`: whether it is not in front of the span, and not behind it.
fn collect<T: Transaction>(
    head: &Head,
    from: Option<f64>,
    direction: Direction,
    Limit { mut offset, count }: Limit,
    keyspace: &mut Keyspace<'_, T>,
    fits: impl Fn(&[u8], f64) -> (bool, bool),
) -> Result<Scored, Failure> {
    let mut found = Vec::new();
    if count == 0 {
        return Ok(found);
    }
    keyspace.each_score(head, from, direction, |member, score| {
        let (starts, ends) = fits(member, score);
        let (begun, over) = if direction == Direction::Forward { (starts, !ends) } else { (ends, !starts) };
        if !begun {
            return ControlFlow::Continue(());
        }
        if over {
            return ControlFlow::Break(());
        }
        if offset > 0 {
            offset -= 1;
            return ControlFlow::Continue(());
        }
        found.push((member.to_vec(), score));
        if (found.len() as u64) < count { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(found)
}

/// A range command's words behind its key.
struct Query {
    span: Span,
    direction: Direction,
    limit: Limit,
    with_scores: bool,
}

impl Query {
    /// `fixed`: what the command's name says, where it says it. `stores`: scores go without saying.
    fn parse(
        mut args: Args<'_>,
        fixed: Option<(By, Direction)>,
        stores: bool,
    ) -> Result<Query, CommandError> {
        let (min, max) = (args.promised()?, args.promised()?);
        let (mut by, mut direction) = (fixed.map(|(by, _)| by), fixed.map(|(_, direction)| direction));
        let (mut offset, mut count, mut with_scores) = (0, -1, false);
        while let Some(option) = args.next() {
            if is(option, "withscores") && !stores {
                with_scores = true;
            } else if is(option, "limit") && args.len() >= 2 {
                (offset, count) = (integer(args.promised()?)?, integer(args.promised()?)?);
            } else if is(option, "rev") && direction.is_none() {
                direction = Some(Direction::Backward);
            } else if is(option, "bylex") && by.is_none() {
                by = Some(By::Lex);
            } else if is(option, "byscore") && by.is_none() {
                by = Some(By::Score);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        let (by, direction) = (by.unwrap_or(By::Rank), direction.unwrap_or(Direction::Forward));
        if count != -1 && by == By::Rank {
            return Err(CommandError::Text(
                "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ));
        }
        if with_scores && by == By::Lex {
            return Err(CommandError::Text(
                "ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ));
        }
        let swapped = direction == Direction::Backward && by != By::Rank;
        let (min, max) = if swapped { (max, min) } else { (min, max) };
        let span = Span::parse(by, min, max)?;
        // As in Redis, all are left out by a negative offset, and none by a negative count.
        let limit = Limit {
            offset: u64::try_from(offset).unwrap_or(u64::MAX),
            count: u64::try_from(count).unwrap_or(u64::MAX),
        };
        Ok(Query { span, direction, limit, with_scores })
    }

    fn run<T: Transaction>(&self, key: &[u8], keyspace: &mut Keyspace<'_, T>) -> Result<Scored, Failure> {
        match keyspace.collection(key, Kind::SortedSet)? {
            Some(head) => select(&head, &self.span, self.direction, self.limit, keyspace),
            None => Ok(Vec::new()),
        }
    }
}

/// `ZRANGE key min max [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]`, and the older commands for parts of that.
pub fn zrange<T: Transaction>(
    mut args: Args<'_>,
    fixed: Option<(By, Direction)>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let query = Query::parse(args, fixed, false)?;
    let found = query.run(key, keyspace)?;
    reply_scored(&found, query.with_scores, reply)
}

/// `ZRANGESTORE destination source min max ..`: how many there are.
pub fn zrangestore<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (to, from) = (args.promised()?, args.promised()?);
    let query = Query::parse(args, None, true)?;
    let found = query.run(from, keyspace)?;
    store(to, &found, false, keyspace)?;
    reply.integer(found.len() as i64);
    Ok(())
}

/// `ZREMRANGEBYRANK key start stop`, `ZREMRANGEBYSCORE`, `ZREMRANGEBYLEX`: how many went.
pub fn zremrange<T: Transaction>(
    mut args: Args<'_>,
    by: By,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let span = Span::parse(by, args.promised()?, args.promised()?)?;
    let mut found = Vec::new();
    if let Some(mut head) = keyspace.collection(key, Kind::SortedSet)? {
        found = select(&head, &span, Direction::Forward, ALL, keyspace)?;
        for (member, score) in &found {
            keyspace.delete_score(&mut head, member, *score)?;
        }
        if !found.is_empty() {
            keyspace.save(key, &head)?;
        }
    }
    reply.integer(found.len() as i64);
    Ok(())
}

/// `ZCOUNT key min max` and `ZLEXCOUNT`
pub fn zcount<T: Transaction>(
    mut args: Args<'_>,
    by: By,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let key = args.promised()?;
    let span = Span::parse(by, args.promised()?, args.promised()?)?;
    let count = match keyspace.collection(key, Kind::SortedSet)? {
        Some(head) => select(&head, &span, Direction::Forward, ALL, keyspace)?.len(),
        None => 0,
    };
    reply.integer(count as i64);
    Ok(())
}

/// `ZRANK key member` and `ZREVRANK`: how many stand in front of it.
pub fn zrank<T: Transaction>(
    mut args: Args<'_>,
    direction: Direction,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (key, wanted) = (args.promised()?, args.promised()?);
    let head = keyspace.collection(key, Kind::SortedSet)?;
    let Some(head) = head else {
        reply.null();
        return Ok(());
    };
    if keyspace.score(&head, wanted)?.is_none() {
        reply.null();
        return Ok(());
    }
    let mut rank = 0;
    keyspace.each_score(&head, None, direction, |member, _| {
        if member == wanted {
            return ControlFlow::Break(());
        }
        rank += 1;
        ControlFlow::Continue(())
    })?;
    reply.integer(rank);
    Ok(())
}
