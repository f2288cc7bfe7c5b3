//! Sorted sets joined, with sets among them: ZUNION ZINTER ZDIFF, their forms that store, ZINTERCARD.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use highwater_core::Transaction;

use super::algebra::Join;
use super::words::{integer, is, unsigned};
use super::zsets::{self, reply_scored};
use crate::command::entry::commands;
use crate::double::parse_double;
use crate::errors::CommandError;
use crate::keyspace::head::{Head, Kind};
use crate::keyspace::scores::{Scored, score_of};
use crate::keyspace::{Done, FEW, Failure, Keyspace};
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    ZUNION = 133 {
        run: join(args, Join::Union, keyspace, reply),
        name: "zunion", arity: -3, flags: READONLY | MOVABLEKEYS, keys: COUNTED, group: "sorted-set",
        since: "6.2.0",
        summary: "Add multiple sorted sets",
        specs: "RO,access index 1 keynum 0 1 1",
        docs: "
            complexity O(N)+O(M*log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.
            - numkeys: integer
            - key: key #0 multiple
            - weight: integer 'WEIGHTS' optional multiple
            - aggregate: oneof 'AGGREGATE' optional
            -- sum: pure-token 'SUM'
            -- min: pure-token 'MIN'
            -- max: pure-token 'MAX'
            - withscores: pure-token 'WITHSCORES' optional
        ",
    }

    ZUNIONSTORE = 134 {
        run: store(args, Join::Union, keyspace, reply),
        name: "zunionstore", arity: -4, flags: WRITE | DENYOOM | MOVABLEKEYS, keys: ONE_KEY,
        group: "sorted-set", since: "2.0.0",
        summary: "Add multiple sorted sets and store the resulting sorted set in a new key",
        specs: "OW,update index 1 range 0 1 0;RO,access index 2 keynum 0 1 1",
        docs: "
            complexity O(N)+O(M log(M)) with N being the sum of the sizes of the input sorted sets, and M being the number of elements in the resulting sorted set.
            - destination: key #0
            - numkeys: integer
            - key: key #1 multiple
            - weight: integer 'WEIGHTS' optional multiple
            - aggregate: oneof 'AGGREGATE' optional
            -- sum: pure-token 'SUM'
            -- min: pure-token 'MIN'
            -- max: pure-token 'MAX'
        ",
    }

    ZINTER = 135 {
        run: join(args, Join::Intersection, keyspace, reply),
        name: "zinter", arity: -3, flags: READONLY | MOVABLEKEYS, keys: COUNTED, group: "sorted-set",
        since: "6.2.0",
        summary: "Intersect multiple sorted sets",
        specs: "RO,access index 1 keynum 0 1 1",
        docs: "
            complexity O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.
            - numkeys: integer
            - key: key #0 multiple
            - weight: integer 'WEIGHTS' optional multiple
            - aggregate: oneof 'AGGREGATE' optional
            -- sum: pure-token 'SUM'
            -- min: pure-token 'MIN'
            -- max: pure-token 'MAX'
            - withscores: pure-token 'WITHSCORES' optional
        ",
    }

    ZINTERSTORE = 136 {
        run: store(args, Join::Intersection, keyspace, reply),
        name: "zinterstore", arity: -4, flags: WRITE | DENYOOM | MOVABLEKEYS, keys: ONE_KEY,
        group: "sorted-set", since: "2.0.0",
        summary: "Intersect multiple sorted sets and store the resulting sorted set in a new key",
        specs: "OW,update index 1 range 0 1 0;RO,access index 2 keynum 0 1 1",
        docs: "
            complexity O(N*K)+O(M*log(M)) worst case with N being the smallest input sorted set, K being the number of input sorted sets and M being the number of elements in the resulting sorted set.
            - destination: key #0
            - numkeys: integer
            - key: key #1 multiple
            - weight: integer 'WEIGHTS' optional multiple
            - aggregate: oneof 'AGGREGATE' optional
            -- sum: pure-token 'SUM'
            -- min: pure-token 'MIN'
            -- max: pure-token 'MAX'
        ",
    }

    ZDIFF = 137 {
        run: join(args, Join::Difference, keyspace, reply),
        name: "zdiff", arity: -3, flags: READONLY | MOVABLEKEYS, keys: COUNTED, group: "sorted-set",
        since: "6.2.0",
        summary: "Subtract multiple sorted sets",
        specs: "RO,access index 1 keynum 0 1 1",
        docs: "
            complexity O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.
            - numkeys: integer
            - key: key #0 multiple
            - withscores: pure-token 'WITHSCORES' optional
        ",
    }

    ZDIFFSTORE = 138 {
        run: store(args, Join::Difference, keyspace, reply),
        name: "zdiffstore", arity: -4, flags: WRITE | DENYOOM | MOVABLEKEYS, keys: ONE_KEY,
        group: "sorted-set", since: "6.2.0",
        summary: "Subtract multiple sorted sets and store the resulting sorted set in a new key",
        specs: "OW,update index 1 range 0 1 0;RO,access index 2 keynum 0 1 1",
        docs: "
            complexity O(L + (N-K)log(N)) worst case where L is the total number of elements in all the sets, N is the size of the first set, and K is the size of the result set.
            - destination: key #0
            - numkeys: integer
            - key: key #1 multiple
        ",
    }

    ZINTERCARD = 139 {
        run: zintercard(args, keyspace, reply),
        name: "zintercard", arity: -3, flags: READONLY | MOVABLEKEYS, keys: COUNTED, group: "sorted-set",
        since: "7.0.0",
        summary: "Intersect multiple sorted sets and return the cardinality of the result",
        specs: "RO,access index 1 keynum 0 1 1",
        docs: "
            complexity O(N*K) worst case with N being the smallest input sorted set, K being the number of input sorted sets.
            - numkeys: integer
            - key: key #0 multiple
            - limit: integer 'LIMIT' optional
        ",
    }
}

/// What becomes of several scores of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn parse(word: &[u8]) -> Result<Aggregate, CommandError> {
        match word {
            _ if is(word, "sum") => Ok(Aggregate::Sum),
            _ if is(word, "min") => Ok(Aggregate::Min),
            _ if is(word, "max") => Ok(Aggregate::Max),
            _ => Err(CommandError::Syntax),
        }
    }

    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // Infinity and its negative come to nothing.
            Aggregate::Sum => number(one + other),
            Aggregate::Min => {
                if other < one {
                    other
                } else {
                    one
                }
            }
            Aggregate::Max => {
                if other > one {
                    other
                } else {
                    one
                }
            }
        }
    }
}

fn number(score: f64) -> f64 {
    if score.is_nan() { 0.0 } else { score }
}

/// One of what is joined.
#[derive(Clone, Copy)]
struct Source {
    /// `None`: there is no such key.
    head: Option<Head>,
    weight: f64,
}

impl Source {
    fn count(&self) -> u64 {
        self.head.map_or(0, |head| head.count)
    }

    /// The score of a member's row.
    fn score(kind: Kind, row: &[u8]) -> f64 {
        if kind == Kind::Set { 1.0 } else { score_of(row) }
    }

    /// The score of a member.
    fn find<T: Transaction>(
        &self,
        member: &[u8],
        keyspace: &mut Keyspace<'_, T>,
    ) -> Result<Option<f64>, Failure> {
        let Some(head) = self.head else { return Ok(None) };
        Ok(keyspace.member(&head, member)?.map(|row| Source::score(head.kind, row)))
    }

    fn members<T: Transaction>(&self, keyspace: &mut Keyspace<'_, T>) -> Result<Scored, Failure> {
        let mut members = Vec::new();
        if let Some(head) = self.head {
            keyspace.each_member(&head, &[], |_, member, row| {
                members.push((member.to_vec(), Source::score(head.kind, row)));
                ControlFlow::Continue(())
            })?;
        }
        Ok(members)
    }
}

/// What a command says.
struct Query {
    sources: Vec<Source>,
    /// Sources that are there already, under the same name.
    again: u64,
    aggregate: Aggregate,
    with_scores: bool,
    most: u64,
}

/// What the command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Replies,
    Stores,
    Counts,
}

impl Query {
    fn parse<T: Transaction>(
        mut args: Args<'_>,
        (join, form): (Join, Form),
        keyspace: &mut Keyspace<'_, T>,
    ) -> Result<Query, Failure> {
        let count = integer(args.promised()?)?;
        if count < 1 {
            return Err(CommandError::NoInputKeys(name(join, form)).into());
        }
        if count > args.len() as i64 {
            return Err(CommandError::Syntax.into());
        }
        let (mut sources, mut named, mut again) = (Vec::new(), BTreeSet::new(), 0u64);
        for key in args.by_ref().take(count as usize) {
            let head = keyspace.collection_of(key, |kind| matches!(kind, Kind::Set | Kind::SortedSet))?;
            sources.push(Source { head, weight: 1.0 });
            again += u64::from(!named.insert(key));
        }
        let mut query =
            Query { sources, again, aggregate: Aggregate::Sum, with_scores: false, most: u64::MAX };
        query.parse_options(args, join, form)?;
        Ok(query)
    }

    fn parse_options(&mut self, mut args: Args<'_>, join: Join, form: Form) -> Result<(), CommandError> {
        let weighs = join != Join::Difference && form != Form::Counts;
        while let Some(option) = args.next() {
            if weighs && args.len() >= self.sources.len() && is(option, "weights") {
                for source in &mut self.sources {
                    source.weight = parse_double(args.promised()?)
                        .ok_or(CommandError::Text("ERR weight value is not a float"))?;
                }
            } else if weighs && args.len() >= 1 && is(option, "aggregate") {
                self.aggregate = Aggregate::parse(args.promised()?)?;
            } else if form == Form::Replies && is(option, "withscores") {
                self.with_scores = true;
            } else if form == Form::Counts && args.len() >= 1 && is(option, "limit") {
                let limit = unsigned(args.promised()?, "ERR LIMIT can't be negative")?;
                self.most = if limit == 0 { u64::MAX } else { limit };
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(())
    }

    /// The result in its order.
    fn run<T: Transaction>(&mut self, join: Join, keyspace: &mut Keyspace<'_, T>) -> Result<Scored, Failure> {
        // Rows that are read again are not counted, though each takes its time.
        let counts = self.sources.iter().map(Source::count);
        let each =
            if join == Join::Intersection { counts.min() } else { counts.max() }.unwrap_or(0).min(self.most);
        keyspace.transaction().expects(self.again.saturating_mul(each), 0)?;
        let mut result = match join {
            Join::Union => self.union(keyspace)?,
            Join::Intersection => self.intersection(keyspace)?,
            Join::Difference => self.difference(keyspace)?,
        };
        let (tx, mut may_go_on) = (keyspace.transaction(), Ok(()));
        result.sort_by(|one, other| {
            may_go_on = may_go_on.and_then(|()| tx.goes_on());
            (one.1 + 0.0).total_cmp(&(other.1 + 0.0)).then_with(|| one.0.cmp(&other.0))
        });
        may_go_on?;
        Ok(result)
    }

    /// The smallest first: sums of doubles depend on it.
    fn sort(&mut self) {
        self.sources.sort_by_key(Source::count);
    }

    fn union<T: Transaction>(&mut self, keyspace: &mut Keyspace<'_, T>) -> Result<Scored, Failure> {
        self.sort();
        let mut union: BTreeMap<Vec<u8>, f64> = BTreeMap::new();
        for source in &self.sources {
            for (member, score) in source.members(keyspace)? {
                keyspace.transaction().goes_on()?;
                let score = number(source.weight * score);
                let aggregate = self.aggregate;
                union.entry(member).and_modify(|old| *old = aggregate.of(*old, score)).or_insert(score);
            }
        }
        Ok(union.into_iter().collect())
    }

    fn intersection<T: Transaction>(&mut self, keyspace: &mut Keyspace<'_, T>) -> Result<Scored, Failure> {
        self.sort();
        let mut found = Vec::new();
        let (smallest, others) = self.sources.split_first().expect("there is one at least");
        if smallest.count() == 0 {
            return Ok(found);
        }
        for (member, score) in smallest.members(keyspace)? {
            if found.len() as u64 == self.most {
                break;
            }
            let mut joined = Some(number(smallest.weight * score));
            for other in others {
                let Some(sum) = joined else { break };
                let score = other.find(&member, keyspace)?;
                joined = score.map(|score| self.aggregate.of(sum, score * other.weight));
            }
            found.extend(joined.map(|score| (member, score)));
        }
        Ok(found)
    }

    fn difference<T: Transaction>(&mut self, keyspace: &mut Keyspace<'_, T>) -> Result<Scored, Failure> {
        let (first, others) = self.sources.split_first().expect("there is one at least");
        let mut left = BTreeMap::new();
        for (member, score) in first.members(keyspace)? {
            keyspace.transaction().goes_on()?;
            left.insert(member, score);
        }
        for other in others {
            if other.count() < left.len() as u64 {
                for (member, _) in other.members(keyspace)? {
                    keyspace.transaction().goes_on()?;
                    left.remove(&member);
                }
                continue;
            }
            for member in left.keys().cloned().collect::<Vec<_>>() {
                if other.find(&member, keyspace)?.is_some() {
                    left.remove(&member);
                }
            }
        }
        Ok(left.into_iter().collect())
    }
}

fn name(join: Join, form: Form) -> &'static str {
    match (join, form) {
        (_, Form::Counts) => "zintercard",
        (Join::Union, Form::Replies) => "zunion",
        (Join::Union, Form::Stores) => "zunionstore",
        (Join::Intersection, Form::Replies) => "zinter",
        (Join::Intersection, Form::Stores) => "zinterstore",
        (Join::Difference, Form::Replies) => "zdiff",
        (Join::Difference, Form::Stores) => "zdiffstore",
    }
}

/// `ZUNION numkeys key .. [WEIGHTS weight ..] [AGGREGATE SUM | MIN | MAX] [WITHSCORES]`, `ZINTER`, and `ZDIFF` without weights.
pub fn join<T: Transaction>(
    args: Args<'_>,
    join: Join,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let mut query = Query::parse(args, (join, Form::Replies), keyspace)?;
    let result = query.run(join, keyspace)?;
    reply_scored(&result, query.with_scores, reply)
}

/// `ZUNIONSTORE destination numkeys key ..` and its like: how many members the result has.
pub fn store<T: Transaction>(
    mut args: Args<'_>,
    join: Join,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let to = args.promised()?;
    let mut query = Query::parse(args, (join, Form::Stores), keyspace)?;
    if join == Join::Union {
        // Each of them is read, and the largest is in the result.
        let counts = query.sources.iter().map(Source::count).filter(|count| *count > FEW);
        let (all, most) =
            counts.fold((0, 0), |(all, most): (u64, u64), count| (all + count, most.max(count)));
        keyspace.expects_members(Kind::SortedSet, all, most)?;
    }
    let result = query.run(join, keyspace)?;
    zsets::store(to, &result, zsets::is_large(&result), keyspace)?;
    reply.integer(result.len() as i64);
    Ok(())
}

/// `ZINTERCARD numkeys key .. [LIMIT limit]`
pub fn zintercard<T: Transaction>(
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let mut query = Query::parse(args, (Join::Intersection, Form::Counts), keyspace)?;
    let found = query.intersection(keyspace)?;
    reply.integer(found.len() as i64);
    Ok(())
}
