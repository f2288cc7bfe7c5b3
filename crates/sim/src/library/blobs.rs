//! Blobs: values from 1 byte to the limit, under keys from a few bytes to the limit. Number and size say every byte, so that
//! a torn, shifted or half-copied value shows.

use highwater_core::limits::MAX_KEY_BYTES;
use highwater_core::{Abort, TableId, Transaction};

use super::op::Observed;
use super::tables::{HASHED_BLOBS, ORDERED_BLOBS};

/// Blobs below this size do not hold their number whole.
pub const NUMBERED: u32 = 4;
/// A blob repeats its first bytes after so many: a prime, so that nothing else has this period.
const PERIOD: usize = 4099;
/// The two topmost bits of a key's number say how long the key is.
const CLASS_SHIFT: u32 = 30;

/// How long a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLength {
    /// 4 to 19 bytes.
    Short,
    /// Up to 1 KiB.
    Medium,
    /// As long as keys may be.
    Longest,
}

/// A key's number, from a plain one.
pub fn key_number(plain: u32, length: KeyLength) -> u32 {
    plain | (length as u32) << CLASS_SHIFT
}

/// The length of a key in bytes.
pub fn key_bytes(key: u32) -> usize {
    let mixed = key.wrapping_mul(0x9e37_79b1) >> 8;
    match key >> CLASS_SHIFT {
        0 => 4 + mixed as usize % 16,
        1 => 20 + mixed as usize % 1004,
        _ => MAX_KEY_BYTES,
    }
}

fn table(key: u32) -> TableId {
    if key.is_multiple_of(2) { HASHED_BLOBS } else { ORDERED_BLOBS }
}

/// The number stands in front, so that no key is another's beginning.
fn key_of(key: u32) -> Vec<u8> {
    let mut bytes = key.to_be_bytes().to_vec();
    bytes.resize(key_bytes(key), b'k');
    bytes
}

fn block(value: u32) -> [u8; PERIOD] {
    let mut block = [0; PERIOD];
    let mut state = value | 1;
    for byte in &mut block {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 24) as u8;
    }
    block[..4].copy_from_slice(&value.to_le_bytes());
    block
}

fn content(value: u32, size: u32) -> Vec<u8> {
    let mut bytes = block(value).repeat((size as usize).div_ceil(PERIOD));
    bytes.truncate(size as usize);
    bytes
}

fn is_right(value: u32, bytes: &[u8]) -> bool {
    let block = block(value);
    bytes.chunks(PERIOD).all(|chunk| *chunk == block[..chunk.len()])
}

pub(super) fn fill<T: Transaction>(tx: &mut T, key: u32, value: u32, size: u32) -> Result<Observed, Abort> {
    tx.put(table(key), &key_of(key), &content(value, size))?;
    Ok(Vec::new())
}

pub(super) fn weigh<T: Transaction>(tx: &mut T, key: u32) -> Result<Observed, Abort> {
    let Some(bytes) = tx.get(table(key), &key_of(key))? else { return Ok(Vec::new()) };
    let value = bytes.first_chunk().map(|first| u32::from_le_bytes(*first));
    // One that is too small to hold its number has nothing to be held against.
    let right = value.is_none_or(|value| is_right(value, bytes));
    Ok(vec![value.unwrap_or_default(), bytes.len() as u32, u32::from(right)])
}

pub(super) fn delete<T: Transaction>(tx: &mut T, key: u32) -> Result<Observed, Abort> {
    tx.delete(table(key), &key_of(key))?;
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        for size in [4, 5, 4098, 4099, 4100, 50_000] {
            let bytes = content(77, size);
            assert!(bytes.len() == size as usize && is_right(77, &bytes));
            let mut wrong = bytes.clone();
            *wrong.last_mut().unwrap() ^= 1;
            assert!(!is_right(77, &wrong), "{size}");
        }
        let mut shifted = content(77, 50_000);
        shifted.drain(20_000..20_001);
        assert!(!is_right(77, &shifted));
    }

    #[test]
    fn keys_have_all_lengths_and_no_two_are_alike() {
        let lengths = |of| (0..100).map(move |key| key_bytes(key_number(key, of)));
        assert!(lengths(KeyLength::Short).all(|length| (4..20).contains(&length)));
        assert!(lengths(KeyLength::Medium).max().is_some_and(|length| length > 512));
        assert!(lengths(KeyLength::Longest).all(|length| length == MAX_KEY_BYTES));
        assert_ne!(key_of(key_number(3, KeyLength::Short)), key_of(key_number(3, KeyLength::Medium)));
    }
}
