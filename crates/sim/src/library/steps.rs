//! The one procedure: runs a list of operations.

use std::ops::{Bound, ControlFlow};

use highwater_core::{Abort, Direction, Procedure, TableId, Transaction};

use super::blobs;
use super::op::{Observed, Op, numbers};
use super::tables::{
    ACCOUNTS, AUDIT, BANK, COUNTERS, LISTS, OPENING, REGISTERS, ROWS, TOGGLE_LISTS, TOGGLES,
};

/// The procedure: arguments by [`encode`](super::encode), reply for [`decode_reply`](super::decode_reply).
pub(super) struct Steps;

impl Procedure for Steps {
    const NAME: &'static str = "sim.steps";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        for bytes in args.chunks(Op::BYTES) {
            let seen = Op::decode(bytes).ok_or(Abort::BadRequest)?.run(tx)?;
            reply.extend_from_slice(&(seen.len() as u32).to_le_bytes());
            seen.iter().for_each(|value| reply.extend_from_slice(&value.to_le_bytes()));
        }
        Ok(())
    }
}

/// The name of the one procedure.
pub const STEPS: &str = Steps::NAME;

impl Op {
    /// Runs it; [`Observed`] says what it sees.
    fn run<T: Transaction>(self, tx: &mut T) -> Result<Observed, Abort> {
        match self {
            Op::Read(key) => list(tx, key),
            Op::Append(key, value) => append(tx, key, value),
            Op::Scan(key) => {
                let mut seen = Vec::new();
                scan(tx, ROWS, row(key, 0), row(key + 1, 0), Direction::Forward, |_, value| {
                    seen.extend(numbers(value));
                    ControlFlow::Continue(())
                })?;
                Ok(seen)
            }
            Op::AddRow(key, value) => {
                let mut last = None;
                scan(tx, ROWS, row(key, 0), row(key + 1, 0), Direction::Backward, |at, _| {
                    last = Some(from_key(at));
                    ControlFlow::Break(())
                })?;
                let next = last.map_or(row(key, 0), |last| last + 1);
                let inserted = tx.insert(ROWS, &next.to_be_bytes(), &value.to_le_bytes())?;
                Ok(vec![u32::from(inserted)])
            }
            Op::Get(key) => {
                let found = tx.get(REGISTERS, &u64::from(key).to_be_bytes())?;
                Ok(found.map(numbers).unwrap_or_default())
            }
            Op::Set(key, value) => {
                tx.put(REGISTERS, &u64::from(key).to_be_bytes(), &value.to_le_bytes())?;
                Ok(Vec::new())
            }
            Op::Toggle(key, value) => toggle(tx, key, value),
            Op::Peek(first, count) => peek(tx, first, count),
            Op::Glance(first, count) => glance(tx, first, count),
            Op::Transfer(from, to, amount) => transfer(tx, from, to, amount),
            Op::Total => (0..ACCOUNTS).try_fold(0, |sum, at| Ok(sum + balance(tx, at)?)).map(|sum| vec![sum]),
            Op::Fill(key, value, size) => blobs::fill(tx, key, value, size),
            Op::Weigh(key) => blobs::weigh(tx, key),
            Op::Drop(key) => blobs::delete(tx, key),
            Op::Count(key) => count(tx, key),
            Op::Audit(row) => Ok(vec![u32::from(tx.insert(AUDIT, &u64::from(row).to_be_bytes(), b"!")?)]),
        }
    }
}

fn count<T: Transaction>(tx: &mut T, key: u32) -> Result<Observed, Abort> {
    let at = u64::from(key).to_be_bytes();
    let sum = tx.get(COUNTERS, &at)?.map_or(0, |value| numbers(value)[0]) + 1;
    tx.put(COUNTERS, &at, &sum.to_le_bytes())?;
    Ok(vec![sum])
}

fn list<T: Transaction>(tx: &mut T, key: u32) -> Result<Observed, Abort> {
    Ok(tx.get(LISTS, &u64::from(key).to_be_bytes())?.map(numbers).unwrap_or_default())
}

fn append<T: Transaction>(tx: &mut T, key: u32, value: u32) -> Result<Observed, Abort> {
    let before = list(tx, key)?;
    let after: Vec<u8> = before.iter().chain([&value]).flat_map(|value| value.to_le_bytes()).collect();
    tx.put(LISTS, &u64::from(key).to_be_bytes(), &after)?;
    Ok(before)
}

fn toggle<T: Transaction>(tx: &mut T, key: u32, value: u32) -> Result<Observed, Abort> {
    let at = u64::from(key).to_be_bytes();
    let present = tx.delete(TOGGLES, &at)?;
    if !present {
        tx.insert(TOGGLES, &at, b"here")?;
    }
    let mut seen = vec![u32::from(present)];
    seen.extend(append(tx, TOGGLE_LISTS + key, value)?);
    Ok(seen)
}

fn peek<T: Transaction>(tx: &mut T, first: u32, count: u32) -> Result<Observed, Abort> {
    let mut present = vec![0; count as usize];
    let (from, to) = (u64::from(first), u64::from(first + count));
    scan(tx, TOGGLES, from, to, Direction::Forward, |key, _| {
        present[(from_key(key) - from) as usize] = 1;
        ControlFlow::Continue(())
    })?;
    let mut seen = Vec::new();
    for (at, present) in present.iter().enumerate() {
        seen.push(*present);
        seen.push(list(tx, TOGGLE_LISTS + first + at as u32)?.len() as u32);
    }
    Ok(seen)
}

fn glance<T: Transaction>(tx: &mut T, first: u32, count: u32) -> Result<Observed, Abort> {
    let mut present = 0;
    let (from, to) = (u64::from(first), u64::from(first + count));
    scan(tx, TOGGLES, from, to, Direction::Forward, |_, _| {
        present += 1;
        ControlFlow::Continue(())
    })?;
    Ok(vec![present])
}

fn balance<T: Transaction>(tx: &mut T, account: u32) -> Result<u32, Abort> {
    let found = tx.get(BANK, &u64::from(account).to_be_bytes())?;
    Ok(found.map_or(OPENING, |bytes| numbers(bytes)[0]))
}

fn transfer<T: Transaction>(tx: &mut T, from: u32, to: u32, amount: u32) -> Result<Observed, Abort> {
    let (source, target) = (balance(tx, from)?, balance(tx, to)?);
    if source < amount || from == to {
        return Ok(vec![0]);
    }
    tx.put(BANK, &u64::from(from).to_be_bytes(), &(source - amount).to_le_bytes())?;
    tx.put(BANK, &u64::from(to).to_be_bytes(), &(target + amount).to_le_bytes())?;
    Ok(vec![1])
}

fn scan<T: Transaction>(
    tx: &mut T,
    table: TableId,
    from: u64,
    to: u64,
    direction: Direction,
    visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
) -> Result<(), Abort> {
    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
    tx.scan(table, (Bound::Included(&from[..]), Bound::Excluded(&to[..])), direction, visit)
}

fn row(key: u32, at: u32) -> u64 {
    u64::from(key) << 32 | u64::from(at)
}

fn from_key(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("an integer table"))
}
