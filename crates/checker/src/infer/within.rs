//! One transaction by itself: what it wrote, what it saw first, and whether it agrees with itself.

use super::access::{Read, UNPLACED, Write};
use crate::findings::Findings;
use crate::history::{History, Op, Status, Txn};
use crate::verdict::AnomalyKind;
use crate::words;

/// Reused from transaction to transaction.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Operations by key, then program order.
    by_key: Vec<(u32, u32)>,
    own: Vec<i64>,
}

/// Adds a transaction's writes and, if it committed, what it read; reports what contradicts its own operations.
pub(super) fn collect(
    history: &History,
    id: u32,
    txn: &Txn,
    scratch: &mut Scratch,
    writes: &mut Vec<Write>,
    reads: &mut Vec<Read>,
    findings: &mut Findings,
) {
    let Scratch { by_key, own } = scratch;
    by_key.clear();
    by_key.extend(txn.ops.iter().enumerate().map(|(at, op)| (op.key().0, at as u32)));
    by_key.sort_unstable();
    for run in by_key.chunk_by(|a, b| a.0 == b.0) {
        let key = run[0].0;
        let first_write = writes.len();
        for (_, op) in run {
            if let Op::Append { value, .. } | Op::Write { value, .. } = txn.ops[*op as usize] {
                writes.push(Write { key, txn: id, value, op: *op, place: UNPLACED, last: false });
            }
        }
        let wrote = writes.len() > first_write;
        if wrote && let Some(write) = writes.last_mut() {
            write.last = true;
        }
        if txn.status != Status::Ok {
            continue;
        }
        own.clear();
        let seen = match txn.ops[run[0].1 as usize].is_list() {
            true => list(txn, run, own),
            false => register(txn, run),
        };
        match seen {
            Ok(Some((op, len))) => reads.push(Read { key, txn: id, op, len, writes: wrote }),
            Ok(None) => {}
            Err(reason) => findings.report(AnomalyKind::Internal, &[id], || {
                let said =
                    format!("T{id} contradicts itself on {}: {reason}.", history.keys.name(run_key(run)));
                words::story(history, &[id], &said)
            }),
        }
    }
}

fn run_key(run: &[(u32, u32)]) -> crate::history::Key {
    crate::history::Key(run[0].0)
}

/// The last read of a list, and how much of it was there before this transaction.
fn list(txn: &Txn, run: &[(u32, u32)], own: &mut Vec<i64>) -> Result<Option<(u32, u32)>, String> {
    // The latest read: its operation, what it returned, and how much of that is not the transaction's own.
    let mut seen: Option<(u32, &[i64], usize)> = None;
    for (_, op) in run {
        match &txn.ops[*op as usize] {
            Op::Append { value, .. } => own.push(*value),
            Op::ReadList { value: Some(now), .. } => {
                if !now.ends_with(own) {
                    return Err(format!(
                        "it had appended {}, but read {}",
                        words::list(own),
                        words::list(now)
                    ));
                }
                let len = now.len() - own.len();
                if let Some((_, before, before_len)) = seen
                    && before[..before_len] != now[..len]
                {
                    return Err(format!(
                        "leaving its own appends aside it read {}, and later {}",
                        words::list(&before[..before_len]),
                        words::list(&now[..len])
                    ));
                }
                seen = Some((*op, now, len));
            }
            _ => {}
        }
    }
    let Some((op, now, len)) = seen else { return Ok(None) };
    match own.iter().find(|value| now[..len].contains(value)) {
        Some(value) => Err(format!("it read {} before it appended {value}", words::list(&now[..len]))),
        None => Ok(Some((op, len as u32))),
    }
}

/// The first read of a register that comes before all own writes.
fn register(txn: &Txn, run: &[(u32, u32)]) -> Result<Option<(u32, u32)>, String> {
    let mut known: Option<Option<i64>> = None;
    let mut seen = None;
    let mut own = Vec::new();
    for (_, op) in run {
        match &txn.ops[*op as usize] {
            Op::Write { value, .. } => {
                known = Some(Some(*value));
                own.push(*value);
            }
            Op::ReadReg { value: Some(now), .. } => match known {
                Some(before) if before != *now => {
                    let (before, now) = (words::register(before), words::register(*now));
                    return Err(format!("after its own operations it had to read {before}, but read {now}"));
                }
                Some(_) => {}
                None => {
                    known = Some(*now);
                    seen = Some((*op, *now));
                }
            },
            _ => {}
        }
    }
    match seen {
        Some((_, Some(value))) if own.contains(&value) => {
            Err(format!("it read {value} before it wrote that itself"))
        }
        seen => Ok(seen.map(|(op, _)| (op, 0))),
    }
}
