//! Judges what commands saw: against [Redis in small](crate::model), in the order that the engine says they had.
//!
//! Each request that was released comes with its moment in the one order of transactions, so nothing is searched for but what became of
//! requests of which nobody knows: each may have happened at any time after it was asked for, or not at all. All states that are possible
//! are carried along; a command whose reply fits none of them is the proof.

use std::collections::{BTreeMap, BTreeSet};

use highwater_core::Timestamp;
use highwater_seam::Nanos;

use crate::model::{Op, State};

/// What is known of a request.
#[derive(Clone, Debug)]
pub struct Record {
    /// What it ran.
    pub op: Op,
    /// Its time, as its command sees it: Unix time in ms.
    pub unix_ms: u64,
    /// When its host handed it to the engine.
    pub asked: Nanos,
    /// The connection over which it came. Those of one connection are asked in the order in which they stand among the records.
    pub line: u64,
    /// How it ended.
    pub end: End,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nobody knows.
    Unknown,
    /// Nothing was done.
    Nothing,
    /// It happened.
    Done {
        /// Where in the one order.
        at: Timestamp,
        /// When the host had it.
        told: Nanos,
        /// What it answered.
        reply: String,
    },
}

/// More possible states than this are not followed.
const MOST_STATES: usize = 20_000;

/// Nor more of them all in all, with one group: a few seconds' work.
const MOST_FOLLOWED: usize = 50_000;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// Commands whose replies were compared.
    pub compared: u64,
    /// Groups of which too much was unknown.
    pub left: u64,
}

/// Judges all records of a run.
///
/// # Errors
/// What cannot have been, in words.
pub fn judge(records: &[Record]) -> Result<Judged, String> {
    let mut done: Vec<(Timestamp, Nanos, &str, &Record)> = Vec::new();
    for record in records {
        if let End::Done { at, told, reply } = &record.end {
            done.push((*at, *told, reply, record));
        }
    }
    in_line(records)?;
    done.sort_by_key(|(at, ..)| *at);
    real_time(&done)?;
    let groups: BTreeSet<&str> = records.iter().filter_map(|record| record.op.group()).collect();
    let mut judged = Judged::default();
    for group in groups {
        let ours = |record: &Record| record.op.group().is_none_or(|name| name == group);
        let known: Vec<_> = done.iter().filter(|(.., record)| ours(record)).collect();
        let open = |record: &&Record| record.end == End::Unknown && ours(record);
        let after = |record: &Record| {
            let before = done.iter().filter(|(_, told, ..)| *told < record.asked);
            before.map(|(at, ..)| *at).max().unwrap_or(Timestamp::ZERO)
        };
        let open: Vec<(Timestamp, &Record)> =
            records.iter().filter(open).map(|record| (after(record), record)).collect();
        match follow(&known, &open) {
            Ok(true) => judged.compared += known.len() as u64,
            Ok(false) => judged.left += 1,
            Err(why) => return Err(format!("group {group}: {why}")),
        }
    }
    Ok(judged)
}

/// What was told before another one was asked comes before it.
fn real_time(done: &[(Timestamp, Nanos, &str, &Record)]) -> Result<(), String> {
    let mut latest: Option<&Record> = None;
    for (at, told, _, record) in done {
        if let Some(earlier) = latest.filter(|earlier| *told < earlier.asked) {
            return Err(format!("{record:?}, at {at}, stands behind {earlier:?}, which was asked for later"));
        }
        if latest.is_none_or(|earlier| earlier.asked < record.asked) {
            latest = Some(record);
        }
    }
    Ok(())
}

/// A later one of one connection's commands takes effect behind an earlier one, answered or not: if it writes it has a later moment, and if
/// it looks at the same key it has none before, or nothing happened to that key in between. (What changes nothing may be of a moment before what was written last:
/// it stands anywhere between two changes of what it looked at.)
fn in_line(records: &[Record]) -> Result<(), String> {
    let mut latest: BTreeMap<u64, Vec<(Timestamp, &Record)>> = BTreeMap::new();
    for record in records {
        let End::Done { at, .. } = &record.end else { continue };
        let before = latest.entry(record.line).or_default();
        let overtaken = |(earlier, other): &&(Timestamp, &Record)| {
            (record.op.writes() && at <= earlier)
                || (at < earlier
                    && record.op.shares_key_with(&other.op)
                    && records.iter().any(|third| third.changed(&record.op, *at, *earlier)))
        };
        if let Some((earlier, other)) = before.iter().find(overtaken) {
            let between = records.iter().filter(|third| third.changed(&record.op, *at, *earlier));
            return Err(format!(
                "{record:?}, at {at}, stands before {other:?}, at {earlier}, which came in front of it over the same connection; in between: {:?}",
                between.collect::<Vec<_>>()
            ));
        }
        before.push((*at, record));
    }
    Ok(())
}

impl Record {
    /// Whether it changed a key of an operation behind the first of these moments, and not behind the second. (What became of one that nobody answered
    /// is for [`follow`] to find.)
    fn changed(&self, op: &Op, after: Timestamp, upto: Timestamp) -> bool {
        let End::Done { at, reply, .. } = &self.end else { return false };
        after < *at && *at <= upto && self.op.changed(reply) && self.op.shares_key_with(op)
    }
}

type States = BTreeSet<(State, u64)>;

/// Whether all could be followed.
fn follow(
    known: &[&(Timestamp, Nanos, &str, &Record)],
    open: &[(Timestamp, &Record)],
) -> Result<bool, String> {
    let (sweeps, open): (Vec<_>, Vec<_>) = open.iter().partition(|(_, record)| record.op == Op::Sweep);
    if open.len() > 60 {
        return Ok(false);
    }
    let mut states = States::from([(State::new(), 0)]);
    let mut followed = 0;
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for of_one_moment in known.chunk_by(|one, other| one.0 == other.0) {
        let at = of_one_moment[0].0;
        let may = |(after, _): &(Timestamp, &Record)| *after < at;
        let open: Vec<Option<&Record>> = open.iter().map(|open| may(open).then_some(open.1)).collect();
        let sweeps: Vec<&Record> = sweeps.iter().filter(|open| may(open)).map(|open| open.1).collect();
        if !spread(&mut states, &open, &sweeps) {
            return Ok(false);
        }
        followed += states.len();
        if followed > MOST_FOLLOWED {
            return Ok(false);
        }
        let mut next = States::new();
        let mut expected: BTreeSet<String> = BTreeSet::new();
        // One of them wrote, at most: the others saw that, and changed nothing.
        for first in 0..of_one_moment.len() {
            let others = (0..of_one_moment.len()).filter(|at| *at != first);
            for (state, used) in states.iter().cloned() {
                let mut order = std::iter::once(first).chain(others.clone()).map(|at| of_one_moment[at]);
                let after: Result<Vec<State>, String> =
                    order.try_fold(vec![state], |before, (_, _, reply, record)| {
                        let mut after = Vec::new();
                        for state in before {
                            after.extend(step(state, record, reply)?);
                        }
                        Ok(after)
                    });
                match after {
                    Ok(after) => next.extend(after.into_iter().map(|state| (state, used))),
                    Err(answer) => expected.extend([answer]),
                }
            }
        }
        let records: Vec<&Record> = of_one_moment.iter().map(|(.., record)| *record).collect();
        if next.is_empty() {
            let states: Vec<_> = states.iter().take(4).map(|(state, _)| state).collect();
            return Err(format!(
                "{records:?} cannot have answered that; possible is {expected:?}, in states {states:?}; before it: {last:#?}"
            ));
        }
        for (at, _, reply, record) in of_one_moment.iter().copied() {
            last.insert(
                format!("{:?}", record.op.words_or_sweep()),
                format!("{at}, {}: {reply:?}", record.unix_ms),
            );
        }
        states = next;
    }
    Ok(true)
}

/// The states that a command may lead to, if what it answers there is what it answered; else what that would be.
fn step(mut state: State, record: &Record, reply: &str) -> Result<Vec<State>, String> {
    if record.op == Op::Sweep {
        return Ok(swept(state, record.unix_ms, deadlines_met(reply)));
    }
    let answer = record.op.run(&mut state, record.unix_ms);
    if answer == reply { Ok(vec![state]) } else { Err(answer) }
}

/// How many deadlines a sweep found past, in all groups: the last of its two numbers, of which the first need be no text.
fn deadlines_met(reply: &str) -> usize {
    let last: Vec<char> = reply.chars().rev().take(8).collect();
    last.into_iter().fold(0, |number, byte| number << 8 | byte as usize)
}

/// A sweep takes keys in the order of their deadlines, and not always all that are due: some of them look at garbage alone.
fn swept(state: State, now: u64, most: usize) -> Vec<State> {
    let due = state.iter().filter(|(_, (_, deadline))| *deadline != 0 && *deadline <= now);
    let mut due: Vec<(u64, String)> = due.map(|(key, (_, deadline))| (*deadline, key.clone())).collect();
    due.sort();
    let mut states = vec![state];
    for (_, key) in due.into_iter().take(most) {
        let mut next = states[states.len() - 1].clone();
        next.remove(&key);
        states.push(next);
    }
    states
}

/// Adds the states that there may be if some of the open ones happen now.
fn spread(states: &mut States, open: &[Option<&Record>], sweeps: &[&Record]) -> bool {
    let mut fresh: Vec<(State, u64)> = states.iter().cloned().collect();
    while let Some((state, used)) = fresh.pop() {
        for sweep in sweeps {
            let mut swept = state.clone();
            sweep.op.run(&mut swept, sweep.unix_ms);
            if states.insert((swept.clone(), used)) {
                fresh.push((swept, used));
            }
        }
        for (bit, record) in open.iter().enumerate() {
            let Some(record) = record.filter(|_| used >> bit & 1 == 0) else { continue };
            let mut with = state.clone();
            record.op.run(&mut with, record.unix_ms);
            let with = (with, used | 1 << bit);
            // What changes nothing now need not have happened now.
            if with.0 != state && states.insert(with.clone()) {
                fresh.push(with);
            }
        }
        if states.len() > MOST_STATES {
            return false;
        }
    }
    true
}

impl Op {
    fn words_or_sweep(&self) -> Vec<String> {
        if *self == Op::Sweep { vec!["(sweep)".into()] } else { self.words() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(op: Op, unix_ms: u64, (asked, told): (Nanos, Nanos), at: u64, reply: &str) -> Record {
        Record {
            op,
            unix_ms,
            asked,
            line: asked,
            end: End::Done { at: Timestamp(at), told, reply: reply.into() },
        }
    }

    /// The same, all over one connection.
    fn in_one_line(records: &[Record]) -> Vec<Record> {
        records.iter().cloned().map(|record| Record { line: 1, ..record }).collect()
    }

    fn get() -> Op {
        Op::Get("e:k".into())
    }

    fn set(ms: Option<u64>) -> Op {
        Op::Set("e:k".into(), "v".into(), ms)
    }

    #[test]
    fn what_expired_is_gone_for_every_clock() {
        let set = done(set(Some(10)), 100, (0, 1), 1, "+OK\r\n");
        let gone = done(get(), 110, (2, 3), 2, "$-1\r\n");
        let there = done(get(), 105, (4, 5), 3, "$1\r\nv\r\n");
        assert_eq!(judge(&[set.clone(), gone.clone()]), Ok(Judged { compared: 2, left: 0 }));
        assert!(judge(&[set.clone(), there.clone()]).is_ok());
        assert!(judge(&[set, gone, there]).is_err());
    }

    /// One that looked at garbage alone met no deadline.
    #[test]
    fn a_sweep_takes_as_many_as_it_says_at_most() {
        let set = done(set(Some(10)), 100, (0, 1), 1, "+OK\r\n");
        let sweep =
            |met: &str| done(Op::Sweep, 120, (2, 3), 2, &format!("\u{fffd}t1234567{met}\0\0\0\0\0\0\0"));
        let there = done(get(), 105, (4, 5), 3, "$1\r\nv\r\n");
        let gone = done(get(), 105, (4, 5), 3, "$-1\r\n");
        assert!(judge(&[set.clone(), sweep("\0"), there.clone()]).is_ok());
        assert!(judge(&[set.clone(), sweep("\0"), gone.clone()]).is_err());
        assert!(judge(&[set.clone(), sweep("\u{1}"), gone]).is_ok());
        // It may have been a key of another group.
        assert!(judge(&[set, sweep("\u{1}"), there]).is_ok());
    }

    #[test]
    fn what_nobody_knows_may_have_happened_but_not_before_it_was_asked_for() {
        let lost = Record { op: set(None), unix_ms: 100, asked: 10, line: 10, end: End::Unknown };
        let absent = done(get(), 100, (0, 1), 1, "$-1\r\n");
        let there = done(get(), 100, (20, 21), 2, "$1\r\nv\r\n");
        let again = done(get(), 100, (30, 31), 3, "$-1\r\n");
        assert!(judge(&[lost.clone(), absent.clone(), there.clone()]).is_ok());
        assert!(judge(&[lost.clone(), absent, there.clone(), again]).is_err());
        let early = done(get(), 100, (0, 1), 1, "$1\r\nv\r\n");
        // Before anything was told it may have been anywhere; behind what was told before, it may not.
        let first = done(get(), 100, (2, 3), 2, "$-1\r\n");
        assert!(judge(&[lost, first, early]).is_err());
    }

    /// Two that are under way together may have any order, unless they came over one connection.
    #[test]
    fn commands_of_one_connection_keep_their_order() {
        let (first, second) =
            (done(set(None), 100, (0, 9), 2, "+OK\r\n"), done(set(None), 100, (1, 9), 1, "+OK\r\n"));
        assert!(judge(&[first.clone(), second.clone()]).is_ok());
        assert!(judge(&in_one_line(&[first.clone(), second])).unwrap_err().contains("the same connection"));
        // A look at another key may be of the moment before; at the same one it may not.
        let elsewhere = done(Op::Get("e:other".into()), 100, (1, 9), 1, "$-1\r\n");
        assert!(judge(&in_one_line(&[first.clone(), elsewhere])).is_ok());
        let stale = done(get(), 100, (1, 9), 1, "$-1\r\n");
        assert!(judge(&[first.clone(), stale.clone()]).is_ok());
        assert!(judge(&in_one_line(&[first.clone(), stale])).unwrap_err().contains("the same connection"));
        // What changes nothing has no moment of its own: a look may have a late one, as it saw something else that is new (seed 9000061 with disks), and
        // what is asked behind it an early one, if nothing has happened to the key in between.
        let late = done(get(), 100, (2, 9), 5, "$1\r\nv\r\n");
        let idle = done(Op::Expire("e:k".into(), 1), 100, (3, 9), 3, ":1\r\n");
        let nothing = done(Op::Persist("e:k".into()), 100, (3, 9), 3, ":0\r\n");
        assert!(judge(&in_one_line(&[first.clone(), late.clone(), nothing.clone()])).is_ok());
        let other = Record { line: 2, ..done(set(None), 100, (3, 9), 4, "+OK\r\n") };
        let with =
            |record| [in_one_line(&[first.clone(), late.clone(), record]), vec![other.clone()]].concat();
        assert!(judge(&with(nothing.clone())).unwrap_err().contains("the same connection"));
        // Nobody knows whether one happened that was not answered (seed 30001250 with disks).
        let lost = Record { end: End::Unknown, ..other.clone() };
        let with_lost = [in_one_line(&[first.clone(), late.clone(), nothing.clone()]), vec![lost]].concat();
        assert!(judge(&with_lost).is_ok());
        assert!(judge(&with(idle)).unwrap_err().contains("the same connection"));
    }

    /// A command that only looks, or finds nothing to do, has the moment of the write that it saw; it may have been asked for first, and put off.
    #[test]
    fn of_one_moment_what_wrote_comes_first() {
        let there = done(get(), 100, (0, 9), 1, "$1\r\nv\r\n");
        let set = done(set(None), 100, (1, 9), 1, "+OK\r\n");
        assert!(judge(&[there.clone(), set.clone()]).is_ok());
        let also = done(Op::Persist("e:k".into()), 100, (0, 9), 1, ":0\r\n");
        assert!(judge(&[also, there.clone(), set]).is_ok());
        let absent = done(get(), 100, (0, 9), 1, "$-1\r\n");
        assert!(judge(&[there, absent]).is_err());
    }

    #[test]
    fn the_order_respects_real_time() {
        let first = done(get(), 100, (0, 1), 2, "$-1\r\n");
        let second = done(get(), 100, (2, 3), 1, "$-1\r\n");
        assert!(judge(&[first, second]).unwrap_err().contains("asked for later"));
    }

    /// A steward gave a member twice, because its leader stood still after the first time.
    #[test]
    fn what_is_added_twice_is_there_once() {
        let add = |at, reply: &str| done(Op::ZAdd("q:scores".into(), 1, "i".into()), 0, (at, at), at, reply);
        let pop = |at, reply: &str| done(Op::ZPop("q:scores".into(), 10), 0, (at, at), at, reply);
        let (item, nothing) = ("*3\r\n$8\r\nq:scores\r\n$1\r\ni\r\n$1\r\n1\r\n", "*-1\r\n");
        assert!(judge(&[add(1, ":1\r\n"), add(2, ":0\r\n"), pop(3, item), pop(4, nothing)]).is_ok());
        assert!(judge(&[add(1, ":1\r\n"), add(2, ":1\r\n")]).is_err());
        assert!(judge(&[add(1, ":1\r\n"), add(2, ":0\r\n"), pop(3, item), pop(4, item)]).is_err());
    }

    #[test]
    fn a_pop_takes_what_is_first_once() {
        let key = || "q:a".to_string();
        let push = |item: &str, at, reply: &str| {
            done(Op::Push(key(), crate::model::End::Right, item.into()), 0, (at, at), at, reply)
        };
        let pop = |at, item: &str| {
            let reply = format!("*2\r\n$3\r\nq:a\r\n$1\r\n{item}\r\n");
            done(Op::Pop(vec![key()], crate::model::End::Left, 0), 0, (at, at), at, &reply)
        };
        let pushes = [push("x", 1, ":1\r\n"), push("y", 2, ":2\r\n")];
        assert!(judge(&[&pushes[..], &[pop(3, "x"), pop(4, "y")]].concat()).is_ok());
        assert!(judge(&[&pushes[..], &[pop(3, "x"), pop(4, "x")]].concat()).is_err());
        assert!(judge(&[&pushes[..], &[pop(3, "y")]].concat()).is_err());
    }
}
