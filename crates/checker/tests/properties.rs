//! Random serial executions pass; the same with one thing broken at random does not.

mod common;

use std::collections::HashMap;

use highwater_checker::generate::{Random, Shape, generate};
use highwater_checker::{
    AnomalyKind, History, Key, Level, Op, Options, Sessions, Status, Txn, Verdict, check,
};

const SEEDS: u64 = 150;
const ALL: Sessions = Sessions { monotonic_reads: true, read_your_writes: true };

fn shape(random: &mut Random) -> Shape {
    Shape {
        txns: 50 + random.below(300) as usize,
        clients: 2 + random.below(20) as usize,
        live_keys: 1 + random.below(12) as usize,
        ops: 1 + random.below(8),
        registers: [0.0, 0.0, 0.5, 1.0][random.below(4) as usize],
        fail: [0.0, 0.1][random.below(2) as usize],
        info: [0.0, 0.1][random.below(2) as usize],
        snap: [0.0, 0.2][random.below(2) as usize],
    }
}

fn judge(history: &History, level: Level) -> Verdict {
    check(history, &Options { level, ..Options::strict() })
}

fn texts(verdict: &Verdict) -> String {
    verdict.anomalies.iter().map(|anomaly| format!("{}\n{}\n\n", anomaly.kind, anomaly.text)).collect()
}

#[test]
fn serial_executions_pass() {
    for seed in 0..SEEDS {
        let shape = shape(&mut Random::new(seed));
        let history = generate(seed, &shape);
        for level in [Level::Serializable, Level::Strict] {
            let verdict = judge(&history, level);
            assert!(verdict.passed(), "seed {seed}, {shape:?}, {level:?}\n{}", texts(&verdict));
        }
        if shape.snap == 0.0 {
            let asked = Options { level: Level::Session, sessions: ALL, ..Options::strict() };
            let verdict = check(&history, &asked);
            assert!(verdict.passed(), "seed {seed}, {shape:?}, session\n{}", texts(&verdict));
        }
    }
}

#[test]
fn a_seed_is_a_history_and_its_order_in_the_file_means_nothing() {
    for seed in 0..10 {
        let shape = Shape { registers: 0.3, ..Shape::default() };
        let mut history = generate(seed, &shape);
        assert_eq!(history.txns, generate(seed, &shape).txns);
        break_one(&mut history, seed, stale_read);
        let before = judge(&history, Level::Strict).found;
        history.txns.reverse();
        assert_eq!(judge(&history, Level::Strict).found.len(), before.len());
    }
}

/// Who wrote each value.
fn writers(history: &History) -> HashMap<(Key, i64), usize> {
    let mut writers = HashMap::new();
    for (id, txn) in history.txns.iter().enumerate() {
        for op in &txn.ops {
            if let Op::Append { key, value } | Op::Write { key, value } = op {
                writers.insert((*key, *value), id);
            }
        }
    }
    writers
}

/// The places of list reads in committed transactions that leave their key alone otherwise.
fn lone_reads(history: &History) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    for (id, txn) in history.txns.iter().enumerate().filter(|(_, txn)| txn.status == Status::Ok) {
        for (at, op) in txn.ops.iter().enumerate() {
            let alone = txn.ops.iter().filter(|other| other.key() == op.key()).count() == 1;
            if alone && matches!(op, Op::ReadList { value: Some(_), .. }) {
                places.push((id, at));
            }
        }
    }
    places
}

fn list(history: &mut History, (id, at): (usize, usize)) -> (Key, &mut Vec<i64>) {
    match &mut history.txns[id].ops[at] {
        Op::ReadList { key, value: Some(list) } => (*key, list),
        _ => panic!("not a list read"),
    }
}

fn ended_before(a: &Txn, b: &Txn) -> bool {
    a.status == Status::Ok && !a.snap && !b.snap && a.t1.is_some_and(|end| end < b.t0)
}

/// Tries the places of the history in random order until one can be broken in the wanted way.
fn break_one(
    history: &mut History,
    seed: u64,
    way: fn(&mut History, (usize, usize), &Facts) -> bool,
) -> bool {
    let facts = Facts { writers: writers(history), longest: longest(history) };
    let mut places = lone_reads(history);
    let mut random = Random::new(seed);
    while !places.is_empty() {
        let place = places.swap_remove(random.below(places.len() as u64) as usize);
        if way(history, place, &facts) {
            return true;
        }
    }
    false
}

struct Facts {
    writers: HashMap<(Key, i64), usize>,
    longest: HashMap<Key, Vec<i64>>,
}

fn longest(history: &History) -> HashMap<Key, Vec<i64>> {
    let mut longest: HashMap<Key, Vec<i64>> = HashMap::new();
    for op in history.txns.iter().flat_map(|txn| &txn.ops) {
        if let Op::ReadList { key, value: Some(list) } = op
            && list.len() >= longest.get(key).map_or(0, Vec::len)
        {
            longest.insert(*key, list.clone());
        }
    }
    longest
}

/// A read that misses what was appended, and over, before it began.
fn stale_read(history: &mut History, place: (usize, usize), facts: &Facts) -> bool {
    let (key, read) = list(history, place);
    let Some(last) = read.last().copied() else { return false };
    let writer = facts.writers[&(key, last)];
    if !ended_before(&history.txns[writer], &history.txns[place.0]) {
        return false;
    }
    list(history, place).1.pop();
    true
}

/// A read that shows what was appended only later.
fn future_read(history: &mut History, place: (usize, usize), facts: &Facts) -> bool {
    let (key, read) = list(history, place);
    let Some(next) = facts.longest[&key].get(read.len()).copied() else { return false };
    let writer = facts.writers[&(key, next)];
    if !ended_before(&history.txns[place.0], &history.txns[writer]) {
        return false;
    }
    list(history, place).1.push(next);
    true
}

/// A read with two elements exchanged.
fn swapped_read(history: &mut History, place: (usize, usize), facts: &Facts) -> bool {
    let (key, read) = list(history, place);
    let len = read.len();
    if len < 2 || facts.longest[&key].len() == len {
        return false;
    }
    list(history, place).1.swap(len - 1, len - 2);
    true
}

/// A read without everything from some transaction on, of which the reader saw something else.
fn torn_read(history: &mut History, place: (usize, usize), facts: &Facts) -> bool {
    let (key, read) = list(history, place);
    let elements = read.clone();
    for other in lone_reads(history).into_iter().filter(|other| other.0 == place.0 && *other != place) {
        let (other_key, seen) = list(history, other);
        let others: Vec<usize> = seen.iter().map(|value| facts.writers[&(other_key, *value)]).collect();
        let of_one = |value: &i64| others.contains(&facts.writers[&(key, *value)]);
        if let Some(cut) = elements.iter().position(of_one) {
            list(history, place).1.truncate(cut);
            return true;
        }
    }
    false
}

/// The read is moved before its latest element was begun, as some other client's.
fn moved_read(history: &mut History, place: (usize, usize), facts: &Facts) -> bool {
    let (key, read) = list(history, place);
    let Some(last) = read.last().copied() else { return false };
    let begun = history.txns[facts.writers[&(key, last)]].t0;
    let txn = &mut history.txns[place.0];
    if txn.snap || begun < 2 || txn.ops.iter().any(Op::is_write) {
        return false;
    }
    (txn.process, txn.t0, txn.t1) = (u64::MAX, begun - 2, Some(begun - 1));
    true
}

/// The appender of what was read was told that it did not happen.
fn denied_write(history: &mut History, place: (usize, usize), facts: &Facts) -> bool {
    let (key, read) = list(history, place);
    let Some(last) = read.last().copied() else { return false };
    let txn = &mut history.txns[facts.writers[&(key, last)]];
    if txn.status != Status::Ok {
        return false;
    }
    txn.status = Status::Fail;
    true
}

/// Breaks lists in one way in many histories; every one must be caught.
fn caught(level: Level, way: fn(&mut History, (usize, usize), &Facts) -> bool, wanted: &[AnomalyKind]) {
    let mut broken = 0;
    for seed in 0..SEEDS {
        let shape = Shape { registers: 0.0, ops: 8, ..shape(&mut Random::new(seed)) };
        let mut history = generate(seed, &shape);
        if break_one(&mut history, seed, way) {
            broken += 1;
            let verdict = judge(&history, level);
            assert!(!verdict.passed(), "seed {seed} is not caught");
            assert!(
                wanted.is_empty() || wanted.iter().any(|kind| verdict.has(*kind)),
                "seed {seed}: {:?} instead of one of {wanted:?}",
                verdict.found
            );
        }
    }
    assert!(broken > SEEDS / 2, "only {broken} of {SEEDS} histories could be broken this way");
}

#[test]
fn a_stale_read_is_caught() {
    caught(Level::Strict, stale_read, &[]);
}

#[test]
fn a_read_of_the_future_is_caught() {
    caught(Level::Strict, future_read, &[]);
}

#[test]
fn an_inverted_order_in_one_read_is_caught() {
    caught(Level::Serializable, swapped_read, &[AnomalyKind::IncompatibleOrder]);
}

#[test]
fn half_of_a_transaction_is_caught() {
    caught(Level::Serializable, torn_read, &[]);
}

#[test]
fn a_read_moved_in_time_is_caught() {
    caught(Level::Strict, moved_read, &[]);
}

#[test]
fn a_denied_write_is_caught() {
    caught(Level::Serializable, denied_write, &[AnomalyKind::G1a]);
}

#[test]
fn an_order_against_the_clock_is_caught_even_if_all_reads_agree() {
    let mut broken = 0;
    for seed in 0..SEEDS {
        let mut history =
            generate(seed, &Shape { registers: 0.0, txns: 300, ..shape(&mut Random::new(seed)) });
        let (longest, writers) = (longest(&history), writers(&history));
        let pair = longest.iter().find_map(|(key, order)| {
            let pair = order.windows(2).find(|pair| {
                let [a, b] = [0, 1].map(|at| &history.txns[writers[&(*key, pair[at])]]);
                ended_before(a, b)
            })?;
            Some((*key, pair[0], pair[1]))
        });
        let Some((key, a, b)) = pair else { continue };
        broken += 1;
        for op in history.txns.iter_mut().flat_map(|txn| &mut txn.ops) {
            let exchange = |value: i64| {
                if value == a {
                    b
                } else if value == b {
                    a
                } else {
                    value
                }
            };
            match op {
                Op::ReadList { key: of, value: Some(list) } if *of == key => {
                    list.iter_mut().for_each(|value| *value = exchange(*value));
                }
                _ => {}
            }
        }
        assert!(!judge(&history, Level::Strict).passed(), "seed {seed} is not caught");
    }
    assert!(broken > SEEDS / 2, "only {broken} histories could be broken");
}

#[test]
fn a_stale_register_is_caught() {
    let mut broken = 0;
    for seed in 0..SEEDS {
        let mut history = generate(seed, &Shape { registers: 1.0, ..shape(&mut Random::new(seed)) });
        let writers = writers(&history);
        // Of each read of a value, which older value was certainly overwritten before it began?
        let mut stale = None;
        for (id, txn) in history.txns.iter().enumerate().filter(|(_, txn)| txn.status == Status::Ok) {
            let lone = |op: &Op| txn.ops.iter().filter(|other| other.key() == op.key()).count() == 1;
            for (at, op) in txn.ops.iter().enumerate().filter(|(_, op)| lone(op)) {
                let Op::ReadReg { key, value: Some(Some(now)) } = op else { continue };
                let new = &history.txns[writers[&(*key, *now)]];
                let old = writers
                    .iter()
                    .filter(|((of, value), _)| of == key && value < now)
                    .find(|(_, old)| ended_before(&history.txns[**old], new) && ended_before(new, txn));
                stale = old.map(|((_, value), _)| (id, at, *value)).or(stale);
            }
        }
        let Some((id, at, old)) = stale else { continue };
        broken += 1;
        if let Op::ReadReg { value, .. } = &mut history.txns[id].ops[at] {
            *value = Some(Some(old));
        }
        assert!(!judge(&history, Level::Strict).passed(), "seed {seed} is not caught");
    }
    assert!(broken > SEEDS / 2, "only {broken} histories could be broken");
}

#[test]
fn formats_keep_histories() {
    for seed in 0..20 {
        let history = generate(seed, &shape(&mut Random::new(seed)));
        let mut lines = Vec::new();
        history.write(&mut lines).unwrap();
        let again = History::parse("again", lines.as_slice()).unwrap();
        let mut rewritten = Vec::new();
        again.write(&mut rewritten).unwrap();
        assert!(lines == rewritten, "seed {seed}");
        assert_eq!(again.txns.len(), history.txns.len());
        assert!(judge(&again, Level::Strict).passed(), "seed {seed}");
    }
}
