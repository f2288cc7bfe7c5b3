//! The operations, what they see, and both as bytes.

use serde::{Deserialize, Serialize};

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
    /// Scans the toggles from a key, so many, and reads nothing else.
    Glance(u32, u32),
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
    /// Adds one to the counter at a key.
    Count(u32),
}

impl Op {
    /// An operation's length: its tag and three numbers.
    pub(super) const BYTES: usize = 13;

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
            Op::Count(key) => (14, [key, 0, 0]),
            Op::Glance(first, count) => (15, [first, count, 0]),
        };
        args.push(tag);
        numbers.iter().for_each(|number| args.extend_from_slice(&number.to_le_bytes()));
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Op> {
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
            14 => Op::Count(a),
            15 => Op::Glance(a, b),
            _ => return None,
        })
    }
}

/// What an operation saw: a few numbers, whose meaning follows from the operation.
///
/// `Read`, `Append`, `Scan`, `AddRow` see the list before; `Get` one value or none; `Toggle` whether the key was present
/// (0, 1), then its list before; `Peek` per key whether it is present and how long its list is; `Glance` how many are; `Transfer` whether it was
/// covered; `Total` the sum; `Audit` whether the row is new; `Weigh` the blob's number, its size, and whether all its bytes
/// are right (0, 1), or nothing; `Count` the sum; `Set`, `Fill` and `Drop` nothing.
pub type Observed = Vec<u32>;

/// The procedure's arguments for these operations.
pub fn encode(ops: &[Op]) -> Vec<u8> {
    let mut args = Vec::new();
    ops.iter().for_each(|op| op.encode(&mut args));
    args
}

/// Per operation what it saw, from the procedure's reply.
pub fn decode_reply(mut reply: &[u8]) -> Vec<Observed> {
    let mut seen = Vec::new();
    while let Some((length, rest)) = reply.split_at_checked(4) {
        let (values, rest) = rest.split_at(4 * numbers(length)[0] as usize);
        seen.push(numbers(values));
        reply = rest;
    }
    seen
}

/// The numbers of four bytes each that `bytes` hold.
pub(super) fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|chunk| u32::from_le_bytes(chunk.try_into().expect("four bytes"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_survive_encoding() {
        let ops = [
            Op::Append(3, 9),
            Op::Scan(1),
            Op::Transfer(1, 2, 3),
            Op::Total,
            Op::Peek(0, 4),
            Op::Glance(0, 4),
        ];
        let blobs = [Op::Fill(1, 2, 1 << 24), Op::Weigh(7), Op::Drop(7)];
        let ops = [&ops[..], &blobs].concat();
        let args = encode(&ops);
        let back: Vec<Op> = args.chunks(Op::BYTES).filter_map(Op::decode).collect();
        assert_eq!(back, ops);
        assert_eq!(Op::decode(&[99; Op::BYTES]), None);
    }

    #[test]
    fn a_reply_is_a_list_of_what_was_seen() {
        let reply = [1u32, 7, 0, 2, 8, 9].map(u32::to_le_bytes).concat();
        assert_eq!(decode_reply(&reply), [vec![7], vec![], vec![8, 9]]);
    }
}
