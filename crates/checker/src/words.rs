//! Transactions and values in words.

use std::fmt::Write;

use crate::history::{History, Op, Status, Txn};

/// Lists with more elements show their ends only.
const LONG_LIST: usize = 16;
const LIST_ENDS: usize = 6;
/// Transactions with more operations show the first only.
const LONG_TXN: usize = 24;

/// A list, shortened in the middle.
pub(crate) fn list(values: &[i64]) -> String {
    let join = |values: &[i64]| values.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
    if values.len() <= LONG_LIST {
        return format!("[{}]", join(values));
    }
    let (head, tail) = (&values[..LIST_ENDS], &values[values.len() - LIST_ENDS..]);
    format!("[{} .. {}] ({} elements)", join(head), join(tail), values.len())
}

/// A register's value.
pub(crate) fn register(value: Option<i64>) -> String {
    value.map_or("nothing".into(), |value| value.to_string())
}

/// A time on the history's clock, in seconds.
pub(crate) fn time(ns: u64) -> String {
    format!("{}.{:09} s", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// `T12 (client 3, 0.5 s to 0.7 s, committed): append 41 to k7; read k9 = [1 2]`.
pub(crate) fn txn(history: &History, id: u32) -> String {
    let txn = &history.txns[id as usize];
    let end = match txn.t1.filter(|_| txn.status != Status::Info) {
        Some(t1) => format!("to {}", time(t1)),
        None => "without an end".into(),
    };
    let outcome = match txn.status {
        Status::Ok => "committed",
        Status::Fail => "aborted",
        Status::Info => "outcome unknown",
    };
    let snap = match txn.since {
        Some(since) => format!(", snapshot read, holds what ended before {}", time(since)),
        None if txn.snap => ", snapshot read".into(),
        None => String::new(),
    };
    let mut text = format!("T{id} (client {}, {} {end}, {outcome}{snap}):", txn.process, time(txn.t0));
    for (at, op) in txn.ops.iter().take(LONG_TXN).enumerate() {
        let _ = write!(text, "{} {}", if at == 0 { "" } else { ";" }, operation(history, txn, op));
    }
    if txn.ops.len() > LONG_TXN {
        let _ = write!(text, "; and {} more", txn.ops.len() - LONG_TXN);
    }
    text
}

fn operation(history: &History, txn: &Txn, op: &Op) -> String {
    let key = history.keys.name(op.key());
    let told = txn.status == Status::Ok;
    match op {
        Op::Append { value, .. } => format!("append {value} to {key}"),
        Op::Write { value, .. } => format!("write {key} = {value}"),
        Op::ReadList { value: Some(values), .. } if told => format!("read {key} = {}", list(values)),
        Op::ReadReg { value: Some(value), .. } if told => format!("read {key} = {}", register(*value)),
        Op::ReadList { .. } | Op::ReadReg { .. } => format!("read {key}"),
    }
}

/// The transactions, one a line, then the sentences.
pub(crate) fn story(history: &History, txns: &[u32], sentences: &str) -> String {
    let mut text = String::new();
    for id in txns {
        text.push_str(&txn(history, *id));
        text.push('\n');
    }
    text.push_str(sentences);
    text
}
