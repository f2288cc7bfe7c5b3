//! Rows of 64-byte keys and 64-byte values, as Meerkat's paper (EuroSys '20) measures with: what [`ycsb_t`](crate::ycsb_t)
//! and [`retwis`](crate::retwis) share.
//!
//! ```text
//! key     number u64, big endian | 56 bytes that follow from the number
//! value   number u64 | stamp u64 | count u64 | filler (32) | count u64
//! ```
//!
//! A value says whose it is, and its count at both ends: one under the wrong key, or mixed from two, does not pass for a
//! row. Requests name rows by their numbers; the keys are made where they are looked up.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Abort, TableId, Transaction, View};

use crate::bytes::{Fields, Sink, bad_request, require};
use crate::random::mix;
use crate::workload::{Check, Findings, Requests};

/// Size of a key, and of a value.
pub const BYTES: usize = 64;

/// Most rows of a load request.
const MAX_LOAD: u32 = 1000;
const FILLER: [u8; 32] = [b'.'; 32];

/// What can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How many rows.
    pub keys: u64,
    /// Zipf coefficient of the choice of rows, 0.0 (uniform) to below 1.0.
    pub zipf: f64,
}

impl Default for Config {
    fn default() -> Self {
        Config { keys: 1_000_000, zipf: 0.0 }
    }
}

impl Config {
    /// As key and value, for reports.
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        vec![("keys", self.keys.to_string()), ("zipf", self.zipf.to_string())]
    }
}

/// The key of the row with this number.
#[inline]
pub fn key(number: u64) -> [u8; BYTES] {
    let mut key = [0; BYTES];
    let (words, _) = key.as_chunks_mut();
    words[0] = number.to_be_bytes();
    for (at, word) in (1..).zip(&mut words[1..]) {
        *word = mix(number.wrapping_add(at << 56)).to_be_bytes();
    }
    key
}

/// Whose key this is, if it is one.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_be_bytes(*bytes.first_chunk()?);
    (key(number) == bytes).then_some(number)
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Of the row that it belongs to.
    pub number: u64,
    /// Of the request that set it without reading it; 0 from the load.
    pub stamp: u64,
    /// Read-modify-writes since.
    pub count: u64,
}

impl Row {
    /// A value that was not modified yet.
    pub fn new(number: u64, stamp: u64) -> Row {
        Row { number, stamp, count: 0 }
    }

    #[inline]
    pub fn encode(&self) -> [u8; BYTES] {
        let mut value = [0; BYTES];
        let (words, _) = value.as_chunks_mut();
        words[0] = self.number.to_le_bytes();
        words[1] = self.stamp.to_le_bytes();
        words[2] = self.count.to_le_bytes();
        words[7] = self.count.to_le_bytes();
        value[24..56].copy_from_slice(&FILLER);
        value
    }

    /// The value that these bytes are, whole.
    #[inline]
    pub fn decode(value: &[u8]) -> Result<Row, Malformed> {
        let mut reader = Reader::new(value);
        let row = Row { number: reader.u64()?, stamp: reader.u64()?, count: reader.u64()? };
        let filler: [u8; 32] = reader.array()?;
        let again = reader.u64()?;
        reader.end()?;
        if filler != FILLER || again != row.count {
            return Err(Malformed("row (not written as a whole)"));
        }
        Ok(row)
    }

    /// The same, of a row that was asked for by number.
    #[inline]
    fn decode_of(number: u64, value: &[u8]) -> Result<Row, Malformed> {
        let row = Row::decode(value)?;
        if row.number == number { Ok(row) } else { Err(Malformed("row (another one's)")) }
    }
}

/// Reads a row that must exist; appends its value to the reply.
#[inline]
pub fn read<T: Transaction>(
    tx: &mut T,
    table: TableId,
    number: u64,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let value = tx.get(table, &key(number))?;
    let whole = |value| Row::decode_of(number, value).map(|_| value);
    let value = require(value, whole, "no such row", reply)?;
    reply.extend_from_slice(value);
    Ok(())
}

/// Reads a row that must exist, counts one up and writes it; appends the new value to the reply.
#[inline]
pub fn modify<T: Transaction>(
    tx: &mut T,
    table: TableId,
    number: u64,
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let key = key(number);
    let value = tx.get(table, &key)?;
    let row = require(value, |value| Row::decode_of(number, value), "no such row", reply)?;
    let value = Row { count: row.count.wrapping_add(1), ..row }.encode();
    reply.extend_from_slice(&value);
    tx.put(table, &key, &value)
}

/// Loads the rows that the arguments of [`requests`] name.
pub fn load<T: Transaction>(
    tx: &mut T,
    table: TableId,
    args: &[u8],
    reply: &mut Vec<u8>,
) -> Result<(), Abort> {
    let numbers = decode_load(args).map_err(|error| bad_request(reply, error.0))?;
    for number in numbers {
        tx.put(table, &key(number), &Row::new(number, 0).encode())?;
    }
    Ok(())
}

fn decode_load(args: &[u8]) -> Result<std::ops::Range<u64>, Malformed> {
    let mut reader = Reader::new(args);
    let (first, count) = (reader.u64()?, reader.u32()?);
    reader.end()?;
    if count > MAX_LOAD {
        return Err(Malformed("load (too many rows at once)"));
    }
    Ok(first..first.saturating_add(count.into()))
}

/// The requests that load `keys` rows by a procedure that calls [`load`], for loader `part` of `parts`. Arguments: first
/// number u64, count u32.
///
/// # Panics
/// If `part >= parts`.
pub fn requests(procedure: &'static str, keys: u64, part: usize, parts: usize) -> Requests {
    assert!(part < parts, "loader {part} of {parts}");
    let chunks = (0..keys).step_by(MAX_LOAD as usize).skip(part).step_by(parts);
    Box::new(chunks.map(move |first| {
        let mut args = Vec::new();
        args.put_u64(first);
        args.put_u32(u64::from(MAX_LOAD).min(keys - first) as u32);
        (procedure, args)
    }))
}

/// Whether the table holds the rows 0 to `keys` - 1 and nothing else, each whole and under its own key; `visit` is shown
/// those that are.
pub fn examine(
    view: &dyn View,
    table: TableId,
    condition: &'static str,
    keys: u64,
    mut visit: impl FnMut(Row),
) -> Check {
    let (mut rows, mut count) = (Findings::new(condition), 0);
    view.for_each(table, &mut |key, value| {
        count += 1;
        let Some(number) = number(key).filter(|number| *number < keys) else {
            return rows.expect(false, || format!("key {key:02x?} was never loaded"));
        };
        match Row::decode_of(number, value) {
            Ok(row) => visit(row),
            Err(error) => {
                rows.expect(false, || format!("row {number}: {error}, {} bytes: {value:02x?}", value.len()));
            }
        }
    });
    rows.expect(count == keys, || format!("{count} rows, {keys} were loaded"));
    rows.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_key_says_its_number_and_a_changed_one_none(of: u64, at in 0usize..BYTES, bit in 0u32..8) {
            let mut bytes = key(of);
            prop_assert_eq!(number(&bytes), Some(of));
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(number(&bytes), None);
            prop_assert_eq!(number(&bytes[1..]), None);
        }

        #[test]
        fn a_value_round_trips_and_is_64_bytes_or_none(of: u64, stamp: u64, count: u64, cut in 0usize..BYTES) {
            let row = Row { number: of, stamp, count };
            let bytes = row.encode();
            prop_assert_eq!(Row::decode(&bytes), Ok(row));
            prop_assert!(Row::decode(&bytes[..cut]).is_err());
            prop_assert!(Row::decode(&[&bytes[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn values_under_a_wrong_key_or_mixed_from_two_are_noticed() {
        let (old, new) =
            (Row { count: 4, ..Row::new(7, 1) }.encode(), Row { count: 5, ..Row::new(7, 1) }.encode());
        assert_eq!(Row::decode_of(8, &old), Err(Malformed("row (another one's)")));
        let mixed = [&new[..32], &old[32..]].concat();
        assert_eq!(Row::decode(&mixed), Err(Malformed("row (not written as a whole)")));
    }

    #[test]
    fn parts_of_a_load_are_disjoint_and_complete() {
        for parts in [1, 2, 5] {
            let mut all: Vec<u64> = (0..parts)
                .flat_map(|part| requests("load", 2500, part, parts))
                .flat_map(|(_, args)| decode_load(&args).unwrap())
                .collect();
            all.sort_unstable();
            assert_eq!(all, (0..2500).collect::<Vec<_>>());
        }
    }
}
