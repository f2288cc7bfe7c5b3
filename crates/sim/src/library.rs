//! What simulated clients ask for: one procedure that runs a list of small operations, over tables made to be judged.
//!
//! Each operation's result tells exactly what it saw, so that a history of results can be judged from outside:
//!
//! - *lists* grow by unique values, in one record each (`Read`, `Append`);
//! - *rows* are lists again, one record an element, appended behind the last row and read by a scan: a phantom is a lost
//!   element (`Scan`, `AddRow`);
//! - *registers* are written blindly (`Get`, `Set`);
//! - *toggles* are inserted and deleted in turn, and count their turns in a list: presence and count must agree
//!   (`Toggle`, `Peek`), so that a tombstone lost or applied out of order shows;
//! - a *bank* moves money whose total never changes (`Transfer`, `Total`);
//! - *audit* rows must be there if acknowledged (`Audit`);
//! - *blobs* are registers of any size under keys of any size, whose bytes follow from what was written (`Fill`, `Weigh`;
//!   see [`blobs`]).

pub mod blobs;

use std::ops::{Bound, ControlFlow};

use highwater_core::{
    Abort, Direction, IndexKind, KeyKind, Library, Procedure, Registry, TableId, TableSpec, Transaction, View,
};
use serde::{Deserialize, Serialize};

const LISTS: TableId = TableId(0);
const ROWS: TableId = TableId(1);
const REGISTERS: TableId = TableId(2);
const TOGGLES: TableId = TableId(3);
const BANK: TableId = TableId(4);
const AUDIT: TableId = TableId(5);

/// How many accounts there are, and what each holds before anybody writes to it.
pub const ACCOUNTS: u32 = 12;
/// An account that nobody has written to holds this.
pub const OPENING: u32 = 100;
/// Lists that count toggles stand behind the ordinary ones.
pub const TOGGLE_LISTS: u32 = 1 << 20;

/// One step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Op {
    /// The list at a key.
    Read(u32),
    /// Reads the list at a key and appends a value.
    Append(u32, u32),
    /// The list at a key whose elements are rows.
    Scan(u32),
    /// Finds the last row of a key and inserts a value behind it.
    AddRow(u32, u32),
    /// The register at a key.
    Get(u32),
    /// Sets the register at a key, without reading it.
    Set(u32, u32),
    /// Inserts a key if it is absent, deletes it if it is present, and notes the turn as a value in the key's list.
    Toggle(u32, u32),
    /// Scans the toggles from a key, so many; then reads their lists.
    Peek(u32, u32),
    /// Moves an amount from one account to another, if it is covered.
    Transfer(u32, u32, u32),
    /// The sum over all accounts.
    Total,
    /// Leaves a row.
    Audit(u32),
    /// Sets the blob at a key to what follows from a number and a size, without reading it.
    Fill(u32, u32, u32),
    /// What the blob at a key is.
    Weigh(u32),
    /// Deletes the blob at a key.
    Drop(u32),
}

/// What an operation saw: see `Op::run`.
pub type Seen = Vec<u32>;

impl Op {
    fn encode(self, args: &mut Vec<u8>) {
        let (tag, numbers): (u8, [u32; 3]) = match self {
            Op::Read(key) => (0, [key, 0, 0]),
            Op::Append(key, value) => (1, [key, value, 0]),
            Op::Scan(key) => (2, [key, 0, 0]),
            Op::AddRow(key, value) => (3, [key, value, 0]),
            Op::Get(key) => (4, [key, 0, 0]),
            Op::Set(key, value) => (5, [key, value, 0]),
            Op::Toggle(key, value) => (6, [key, value, 0]),
            Op::Peek(first, count) => (7, [first, count, 0]),
            Op::Transfer(from, to, amount) => (8, [from, to, amount]),
            Op::Total => (9, [0; 3]),
            Op::Audit(row) => (10, [row, 0, 0]),
            Op::Fill(key, value, size) => (11, [key, value, size]),
            Op::Weigh(key) => (12, [key, 0, 0]),
            Op::Drop(key) => (13, [key, 0, 0]),
        };
        args.push(tag);
        numbers.iter().for_each(|number| args.extend_from_slice(&number.to_le_bytes()));
    }

    fn decode(bytes: &[u8]) -> Option<Op> {
        let (tag, rest) = bytes.split_first()?;
        let [a, b, c] = numbers(rest)[..] else { return None };
        Some(match tag {
            0 => Op::Read(a),
            1 => Op::Append(a, b),
            2 => Op::Scan(a),
            3 => Op::AddRow(a, b),
            4 => Op::Get(a),
            5 => Op::Set(a, b),
            6 => Op::Toggle(a, b),
            7 => Op::Peek(a, b),
            8 => Op::Transfer(a, b, c),
            9 => Op::Total,
            10 => Op::Audit(a),
            11 => Op::Fill(a, b, c),
            12 => Op::Weigh(a),
            13 => Op::Drop(a),
            _ => return None,
        })
    }

    /// Runs it. `Read`, `Append`, `Scan`, `AddRow` see the list before; `Get` one value or none; `Toggle` whether the key
    /// was present (0, 1), then its list before; `Peek` per key whether it is present and how long its list is; `Transfer`
    /// whether it was covered; `Total` the sum; `Audit` whether the row is new; `Weigh` the blob's number, its size, and whether all its
    /// bytes are right (0, 1), or nothing; `Set`, `Fill` and `Drop` nothing.
    fn run<T: Transaction>(self, tx: &mut T) -> Result<Seen, Abort> {
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
            Op::Transfer(from, to, amount) => transfer(tx, from, to, amount),
            Op::Total => (0..ACCOUNTS).try_fold(0, |sum, at| Ok(sum + balance(tx, at)?)).map(|sum| vec![sum]),
            Op::Fill(key, value, size) => blobs::fill(tx, key, value, size),
            Op::Weigh(key) => blobs::weigh(tx, key),
            Op::Drop(key) => blobs::delete(tx, key),
            Op::Audit(row) => Ok(vec![u32::from(tx.insert(AUDIT, &u64::from(row).to_be_bytes(), b"!")?)]),
        }
    }
}

fn list<T: Transaction>(tx: &mut T, key: u32) -> Result<Seen, Abort> {
    Ok(tx.get(LISTS, &u64::from(key).to_be_bytes())?.map(numbers).unwrap_or_default())
}

fn append<T: Transaction>(tx: &mut T, key: u32, value: u32) -> Result<Seen, Abort> {
    let before = list(tx, key)?;
    let after: Vec<u8> = before.iter().chain([&value]).flat_map(|value| value.to_le_bytes()).collect();
    tx.put(LISTS, &u64::from(key).to_be_bytes(), &after)?;
    Ok(before)
}

fn toggle<T: Transaction>(tx: &mut T, key: u32, value: u32) -> Result<Seen, Abort> {
    let at = u64::from(key).to_be_bytes();
    let present = tx.delete(TOGGLES, &at)?;
    if !present {
        tx.insert(TOGGLES, &at, b"here")?;
    }
    let mut seen = vec![u32::from(present)];
    seen.extend(append(tx, TOGGLE_LISTS + key, value)?);
    Ok(seen)
}

fn peek<T: Transaction>(tx: &mut T, first: u32, count: u32) -> Result<Seen, Abort> {
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

fn balance<T: Transaction>(tx: &mut T, account: u32) -> Result<u32, Abort> {
    let found = tx.get(BANK, &u64::from(account).to_be_bytes())?;
    Ok(found.map_or(OPENING, |bytes| numbers(bytes)[0]))
}

fn transfer<T: Transaction>(tx: &mut T, from: u32, to: u32, amount: u32) -> Result<Seen, Abort> {
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

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|chunk| u32::from_le_bytes(chunk.try_into().expect("four bytes"))).collect()
}

/// The procedure's arguments for these operations.
pub fn encode(ops: &[Op]) -> Vec<u8> {
    let mut args = Vec::new();
    ops.iter().for_each(|op| op.encode(&mut args));
    args
}

/// Per operation what it saw, from the procedure's reply.
pub fn decode_reply(mut reply: &[u8]) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some((length, rest)) = reply.split_at_checked(4) {
        let (values, rest) = rest.split_at(4 * numbers(length)[0] as usize);
        seen.push(numbers(values));
        reply = rest;
    }
    seen
}

/// The procedure: arguments by [`encode`], reply for [`decode_reply`].
struct Steps;

impl Procedure for Steps {
    const NAME: &'static str = "sim.steps";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        for bytes in args.chunks(13) {
            let seen = Op::decode(bytes).ok_or(Abort::BadRequest)?.run(tx)?;
            reply.extend_from_slice(&(seen.len() as u32).to_le_bytes());
            seen.iter().for_each(|value| reply.extend_from_slice(&value.to_le_bytes()));
        }
        Ok(())
    }
}

/// The name of the one procedure.
pub const STEPS: &str = Steps::NAME;

/// The tables and the procedure of a simulated run.
#[derive(Clone, Copy, Debug)]
pub struct SimLibrary;

impl Library for SimLibrary {
    fn tables(&self) -> Vec<TableSpec> {
        let table = |name, index| TableSpec { name, keys: KeyKind::U64, index };
        vec![
            table("lists", IndexKind::Hash),
            table("rows", IndexKind::Ordered),
            table("registers", IndexKind::Ordered),
            table("toggles", IndexKind::Ordered),
            table("bank", IndexKind::Hash),
            table("audit", IndexKind::Hash),
            TableSpec { name: "hashed blobs", keys: KeyKind::Bytes, index: IndexKind::Hash },
            TableSpec { name: "ordered blobs", keys: KeyKind::Bytes, index: IndexKind::Ordered },
        ]
    }

    fn register<T: Transaction>(&self, registry: &mut Registry<T>) {
        registry.register::<Steps>();
    }
}

/// The sum over all accounts of a quiescent replica.
pub fn total(view: &dyn View) -> u64 {
    let balance =
        |at: u32| view.get(BANK, &u64::from(at).to_be_bytes()).map_or(OPENING, |row| numbers(&row)[0]);
    (0..ACCOUNTS).map(|at| u64::from(balance(at))).sum()
}

/// Whether a quiescent replica holds an audit row.
pub fn audited(view: &dyn View, row: u32) -> bool {
    view.get(AUDIT, &u64::from(row).to_be_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_survive_encoding() {
        let ops = [Op::Append(3, 9), Op::Scan(1), Op::Transfer(1, 2, 3), Op::Total, Op::Peek(0, 4)];
        let blobs = [Op::Fill(1, 2, 1 << 24), Op::Weigh(7), Op::Drop(7)];
        let ops = [&ops[..], &blobs].concat();
        let args = encode(&ops);
        let back: Vec<Op> = args.chunks(13).filter_map(Op::decode).collect();
        assert_eq!(back, ops);
        assert_eq!(Op::decode(&[99; 13]), None);
    }

    #[test]
    fn a_reply_is_a_list_of_what_was_seen() {
        let reply = [1u32, 7, 0, 2, 8, 9].map(u32::to_le_bytes).concat();
        assert_eq!(decode_reply(&reply), [vec![7], vec![], vec![8, 9]]);
    }
}
