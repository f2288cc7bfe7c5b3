//! Ranges of sorted sets, by rank, score or member: ZRANGE and its many forms, ZRANGESTORE, ZREMRANGEBY.., ZCOUNT ZLEXCOUNT ZRANK ZREVRANK.
//!
//! By score a range is found at once. A rank is counted from the nearer end, and how many lie in a range is counted, too: there is no index
//! of ranks.

use std::ops::ControlFlow;

use highwater_core::{Direction, Transaction};

use super::words::{integer, is, range};
use super::zsets::{reply_scored, store};
use crate::double::parse_bound;
use crate::errors::CommandError;
use crate::keyspace::head::{Head, Kind};
use crate::keyspace::scores::Scored;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::reply::Reply;
use crate::request::Args;

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
