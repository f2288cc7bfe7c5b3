//! Histories as pairs of events in real-time order, as Jepsen records them and Elle reads them.
//!
//! Two things do not survive: that a read came from a snapshot (filter those out before asking Elle about real time), and
//! that two events share an instant (events have an order; ours puts invocations first, so that what overlaps at one
//! instant stays concurrent, except along one client's own transactions). An unknown outcome ends after everything else.

use std::io::{self, Write};

use super::{History, Op, Status, Txn};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Invoke,
    End,
}

struct Event {
    time: u64,
    rank: u32,
    process: u64,
    txn: u32,
    of: Type,
}

/// Writes EDN, one event a line: what `elle-cli` and Jepsen read.
///
/// # Errors
/// Those of `out`.
pub fn write_edn(history: &History, out: impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    for (index, event) in events(history).iter().enumerate() {
        let txn = &history.txns[event.txn as usize];
        write!(
            out,
            "{{:index {index} :time {} :process {} :type :{} :f :txn :value [",
            event.time,
            txn.process,
            name(event, txn)
        )?;
        for (at, op) in txn.ops.iter().enumerate() {
            let key = edn_key(history.keys.name(op.key()));
            let space = if at == 0 { "" } else { " " };
            match shown(op, event, txn) {
                Shown::Append(value) => write!(out, "{space}[:append {key} {value}]")?,
                Shown::Write(value) => write!(out, "{space}[:w {key} {value}]")?,
                Shown::Read(value) => write!(out, "{space}[:r {key} {value}]")?,
                Shown::Nothing => write!(out, "{space}[:r {key} nil]")?,
                Shown::List(list) => {
                    let list: Vec<String> = list.iter().map(i64::to_string).collect();
                    write!(out, "{space}[:r {key} [{}]]", list.join(" "))?;
                }
            }
        }
        out.write_all(b"]}\n")?;
    }
    out.flush()
}

/// Writes one JSON array, one event a line, with the same fields as the EDN.
///
/// # Errors
/// Those of `out`.
pub fn write_json_events(history: &History, out: impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    out.write_all(b"[")?;
    for (index, event) in events(history).iter().enumerate() {
        let txn = &history.txns[event.txn as usize];
        write!(
            out,
            r#"{}{{"index":{index},"time":{},"process":{},"type":"{}","f":"txn","value":["#,
            if index == 0 { "\n" } else { ",\n" },
            event.time,
            txn.process,
            name(event, txn)
        )?;
        for (at, op) in txn.ops.iter().enumerate() {
            let key = serde_json::to_string(history.keys.name(op.key()))?;
            let comma = if at == 0 { "" } else { "," };
            match shown(op, event, txn) {
                Shown::Append(value) => write!(out, r#"{comma}["append",{key},{value}]"#)?,
                Shown::Write(value) => write!(out, r#"{comma}["w",{key},{value}]"#)?,
                Shown::Read(value) => write!(out, r#"{comma}["r",{key},{value}]"#)?,
                Shown::Nothing => write!(out, r#"{comma}["r",{key},null]"#)?,
                Shown::List(list) => {
                    write!(out, r#"{comma}["r",{key},{}]"#, serde_json::to_string(list)?)?;
                }
            }
        }
        out.write_all(b"]}")?;
    }
    out.write_all(b"\n]\n")?;
    out.flush()
}

/// Every transaction's two events, ordered by time; at one instant invocations first, each client's own in their order.
fn events(history: &History) -> Vec<Event> {
    let last = history.txns.iter().map(|txn| txn.t1.unwrap_or(0).max(txn.t0)).max().unwrap_or(0);
    let mut by_process: Vec<u32> = (0..history.txns.len() as u32).collect();
    by_process.sort_by_key(|id| {
        let txn = &history.txns[*id as usize];
        (txn.process, txn.t0, txn.t1.unwrap_or(u64::MAX))
    });
    let mut events = Vec::with_capacity(2 * by_process.len());
    // The process, time and rank of the event before.
    let mut before = (None, 0, 0);
    for id in by_process {
        let txn = &history.txns[id as usize];
        let end = if txn.status == Status::Info { last } else { txn.t1.unwrap_or(last) };
        for (time, of, least) in [(txn.t0, Type::Invoke, 0), (end, Type::End, 1)] {
            let rank = if before.0 == Some(txn.process) && before.1 == time { before.2 + 1 } else { least };
            before = (Some(txn.process), time, rank);
            events.push(Event { time, rank, process: txn.process, txn: id, of });
        }
    }
    events.sort_by_key(|event| (event.time, event.rank, event.process));
    events
}

fn name(event: &Event, txn: &Txn) -> &'static str {
    match (event.of, txn.status) {
        (Type::Invoke, _) => "invoke",
        (Type::End, Status::Ok) => "ok",
        (Type::End, Status::Fail) => "fail",
        (Type::End, Status::Info) => "info",
    }
}

enum Shown<'a> {
    Append(i64),
    Write(i64),
    Read(i64),
    List(&'a [i64]),
    Nothing,
}

/// What an event tells of an operation: reads have values in committed ends only.
fn shown<'a>(op: &'a Op, event: &Event, txn: &Txn) -> Shown<'a> {
    let told = event.of == Type::End && txn.status == Status::Ok;
    match op {
        Op::Append { value, .. } => Shown::Append(*value),
        Op::Write { value, .. } => Shown::Write(*value),
        Op::ReadReg { value: Some(Some(value)), .. } if told => Shown::Read(*value),
        Op::ReadList { value: Some(list), .. } if told => Shown::List(list),
        Op::ReadReg { .. } | Op::ReadList { .. } => Shown::Nothing,
    }
}

/// A keyword where EDN allows the name as one, else a string.
fn edn_key(name: &str) -> String {
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|first| first.is_ascii_alphabetic())
        && chars.all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char));
    if plain {
        return format!(":{name}");
    }
    let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n").replace('\r', "\\r").replace('\t', "\\t"))
}
