//! Walking over encoded transactions and their writes.

use super::{BYTES_KEY, Key, LONG_KEY, OP_DELETE, OP_MASK, OP_PUT, OP_SUPERSEDED, Write};
use crate::codec::{Malformed, Reader};
use crate::ids::{TableId, Timestamp};

/// Walks over the writes of one transaction.
#[derive(Clone, Copy, Debug)]
pub struct Writes<'a> {
    reader: Reader<'a>,
    previous: u64,
}

impl<'a> Writes<'a> {
    /// Walks over what stands behind a transaction's header.
    pub fn new(bytes: &'a [u8]) -> Writes<'a> {
        Writes { reader: Reader::new(bytes), previous: 0 }
    }

    #[inline]
    fn step(&mut self) -> Result<Option<Write<'a>>, Malformed> {
        let mut reader = self.reader;
        let [tag, table] = reader.array()?;
        let table = TableId(table);
        let op = tag & OP_MASK;
        let has_value = op == OP_PUT || op == OP_SUPERSEDED;
        let short = (tag >> 4) as usize;
        let (key, value) = if tag & BYTES_KEY != 0 {
            let key_len = if short == LONG_KEY { reader.varint()? as usize } else { short };
            let value_len = if has_value { reader.varint()? as usize } else { 0 };
            (Key::Bytes(reader.take(key_len)?), reader.take(value_len)?)
        } else {
            let value_len = if has_value { reader.varint()? as usize } else { 0 };
            if short > 8 {
                return Err(Malformed("integer key (over 8 bytes)"));
            }
            self.previous ^= integer(&mut reader, short)?;
            (Key::U64(self.previous), reader.take(value_len)?)
        };
        self.reader = reader;
        Ok(match op {
            OP_PUT => Some(Write { table, key, value: Some(value) }),
            OP_DELETE => Some(Write { table, key, value: None }),
            _ => None,
        })
    }
}

/// An integer of `len` bytes, up to 8: from one load where 8 bytes are there.
#[inline]
fn integer(reader: &mut Reader<'_>, len: usize) -> Result<u64, Malformed> {
    /// The lowest bytes of a word, so many.
    const LOWEST: [u64; 9] =
        [0, 0xff, 0xffff, 0xff_ffff, 0xffff_ffff, 0xff_ffff_ffff, 0xffff_ffff_ffff, u64::MAX >> 8, u64::MAX];
    if let Some(chunk) = reader.rest().first_chunk::<8>() {
        reader.take(len)?;
        return Ok(u64::from_le_bytes(*chunk) & LOWEST[len]);
    }
    let mut bytes = [0; 8];
    bytes[..len].copy_from_slice(reader.take(len)?);
    Ok(u64::from_le_bytes(bytes))
}

impl<'a> Iterator for Writes<'a> {
    type Item = Result<Write<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        while !self.reader.is_empty() {
            match self.step() {
                Ok(Some(write)) => return Some(Ok(write)),
                Ok(None) => {}
                Err(error) => {
                    self.reader = Reader::new(&[]);
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// Walks over the transactions of an entry's body: `(timestamp, writes)`.
#[derive(Clone, Copy, Debug)]
pub struct Transactions<'a> {
    reader: Reader<'a>,
}

impl<'a> Transactions<'a> {
    /// Walks over an entry's body.
    pub fn new(body: &'a [u8]) -> Transactions<'a> {
        Transactions { reader: Reader::new(body) }
    }

    /// How many bytes are left.
    pub fn rest_len(&self) -> usize {
        self.reader.rest().len()
    }
}

impl<'a> Iterator for Transactions<'a> {
    type Item = Result<(Timestamp, &'a [u8]), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let mut step = || {
            let ts = Timestamp(self.reader.u64()?);
            let len = self.reader.u32()?;
            Ok((ts, self.reader.take(len as usize)?))
        };
        let item = step();
        if item.is_err() {
            self.reader = Reader::new(&[]);
        }
        Some(item)
    }
}
