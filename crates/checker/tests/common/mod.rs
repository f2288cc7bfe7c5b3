//! Histories as short as they can be told, one transaction a line:
//!
//! `3 10-20 x+1 x=[1 2] r:5 r=5 r=nil`: client 3, from 10 to 20, appends 1 to x, reads x, sets r to 5, reads it, reads nothing.
//! The times may be followed by `fail` or `snap`, or `snap>15`, a snapshot that holds what ended before 15, or `#7.2`, the second of connection 7; `10-?` is an unknown outcome; `x?` reads without an answer.
#![allow(dead_code, reason = "each test file takes what it needs")]

use highwater_checker::{AnomalyKind, History, Keys, Level, Op, Options, Place, Status, Txn, Verdict, check};

pub fn history(lines: &str) -> History {
    let mut history = History::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = split(line).into_iter();
        let process = words.next().expect("a client").parse().expect("a number");
        let times = words.next().expect("times");
        let (t0, t1) = times.split_once('-').expect("from-to");
        let (t0, t1) = (t0.parse().expect("a time"), t1.parse().ok());
        let mut txn = Txn {
            process,
            t0,
            t1,
            status: if t1.is_some() { Status::Ok } else { Status::Info },
            ops: vec![],
            snap: false,
            since: None,
            place: None,
        };
        for word in words {
            match word.as_str() {
                "fail" => txn.status = Status::Fail,
                "snap" => txn.snap = true,
                word if word.starts_with('#') => {
                    let (connection, number) = word[1..].split_once('.').expect("#connection.number");
                    let number_of = |text: &str| text.parse().expect("a number");
                    txn.place = Some(Place { connection: number_of(connection), number: number_of(number) });
                }
                word if word.starts_with("snap>") => {
                    (txn.snap, txn.since) = (true, word[5..].parse().ok());
                }
                word => txn.ops.push(op(&mut history.keys, word)),
            }
        }
        history.push(txn);
    }
    history
}

/// Words, lists in one piece.
fn split(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut inside = false;
    for char in line.chars() {
        inside = (inside || char == '[') && char != ']';
        match char.is_whitespace() && !inside {
            true => words.push(String::new()),
            false => words.last_mut().expect("one at least").push(char),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn op(keys: &mut Keys, word: &str) -> Op {
    let number = |text: &str| text.parse::<i64>().expect("a number");
    if let Some((key, value)) = word.split_once('+') {
        return Op::Append { key: keys.intern(key), value: number(value) };
    }
    if let Some((key, value)) = word.split_once(':') {
        return Op::Write { key: keys.intern(key), value: number(value) };
    }
    if let Some(key) = word.strip_suffix('?') {
        return Op::ReadList { key: keys.intern(key), value: None };
    }
    let (key, value) = word.split_once('=').expect("an operation");
    let key = keys.intern(key);
    match value.strip_prefix('[') {
        Some(list) => {
            let list = list.trim_end_matches(']').split_whitespace().map(number).collect();
            Op::ReadList { key, value: Some(list) }
        }
        None => Op::ReadReg { key, value: Some((value != "nil").then(|| number(value))) },
    }
}

pub fn at(level: Level, lines: &str) -> Verdict {
    let history = history(lines);
    let verdict = check(&history, &Options { level, ..Options::strict() });
    for anomaly in &verdict.anomalies {
        assert!(
            !anomaly.text.contains("both as a list and as a register"),
            "no reason found:\n{}",
            anomaly.text
        );
        assert!(
            anomaly.txns.iter().all(|txn| anomaly.text.contains(&format!("T{txn} "))),
            "{}",
            anomaly.text
        );
    }
    verdict
}

pub fn kinds(verdict: &Verdict) -> Vec<AnomalyKind> {
    verdict.found.keys().copied().collect()
}

/// The anomalies at a level, in the order of [`AnomalyKind`].
#[track_caller]
pub fn expect(level: Level, lines: &str, wanted: &[AnomalyKind]) {
    let verdict = at(level, lines);
    let texts: Vec<&str> = verdict.anomalies.iter().map(|anomaly| anomaly.text.as_str()).collect();
    assert_eq!(kinds(&verdict), wanted, "{lines}\n{}", texts.join("\n\n"));
    assert_eq!(verdict.passed(), wanted.is_empty());
}

/// Passes even at the highest level.
#[track_caller]
pub fn fine(lines: &str) {
    for level in [Level::Serializable, Level::Session, Level::Strict] {
        expect(level, lines, &[]);
    }
}
