//! A list as its key's row has it: the head, and the items at both ends.
//!
//! ```text
//! value of the row    items at the left varint | their bytes varint | items at the right varint | left items | right items
//! ```
//!
//! Both ends are packed ([`Packed`]), to [`END_BYTES`] each. What a push finds no room for goes as a whole to a row in [`ITEMS`](super::ITEMS), and a pop that finds
//! nothing at its end takes the next row in. So most operations at an end write the key's row alone, and a short list is that row alone.
//!
//! # Invariants
//!
//! - Items have positions without gaps: from `next` on those at the left, then those of rows, then those at the right. A row's key is the position of its
//!   first item, so the row of a position is the last one at or in front of it.
//! - A list without an id has no rows.
//! - Lists that an older build began are not packed: nothing stands at their ends, and each item has a row of its own in
//!   [`ELEMENTS`](super::ELEMENTS), as it is.

use highwater_core::Transaction;
use highwater_core::codec::{Malformed, Reader, put_varint};

use super::head::{Head, Kind, Row};
use super::items::End;
use super::packed::Packed;
use super::{Done, Failure, Keyspace};
use crate::errors::CommandError;

/// Packed items of an end, and of a row, take so many bytes at most; a single item may take more, in a row of its own.
///
/// Each operation at an end logs what stands there, and each row costs about 150 bytes of memory: this is where neither weighs much.
pub const END_BYTES: usize = 256;

/// A list that a command works on.
#[derive(Clone, Debug)]
pub struct List {
    /// Its `next` is the position of the first item.
    pub head: Head,
    pub(super) left: Packed,
    pub(super) right: Packed,
}

impl List {
    fn new() -> List {
        List { head: Head::collection(Kind::List), left: Packed::default(), right: Packed::default() }
    }

    /// The list of a row.
    fn of(row: Row<'_>) -> List {
        let (left, right) = decode(row.value).expect("the keyspace holds what was written there");
        List { head: row.head, left, right }
    }

    /// How many items it has.
    pub fn count(&self) -> u64 {
        self.head.count
    }

    /// What an end, and a row, has room for.
    pub(super) fn room(&self) -> usize {
        if self.head.packed { END_BYTES } else { 0 }
    }

    pub(super) fn end(&mut self, end: End) -> &mut Packed {
        if end == End::Left { &mut self.left } else { &mut self.right }
    }

    /// The indexes of items that have rows.
    pub(super) fn in_rows(&self) -> std::ops::Range<u64> {
        self.left.count() as u64..self.head.count - self.right.count() as u64
    }

    /// The position of the item at an index.
    pub(super) fn position(&self, index: u64) -> i64 {
        self.head.next.wrapping_add(index as i64)
    }

    /// The index of a position.
    pub(super) fn index(&self, position: i64) -> u64 {
        position.wrapping_sub(self.head.next) as u64
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if self.head.packed {
            put_varint(out, self.left.count() as u64);
            put_varint(out, self.left.bytes().len() as u64);
            put_varint(out, self.right.count() as u64);
        }
        out.extend_from_slice(self.left.bytes());
        out.extend_from_slice(self.right.bytes());
    }
}

fn decode(value: &[u8]) -> Result<(Packed, Packed), Malformed> {
    if value.is_empty() {
        return Ok(Default::default());
    }
    let mut reader = Reader::new(value);
    let (count, bytes) = (reader.varint()?, reader.varint()?);
    let right = reader.varint()?;
    let left = Packed::counted(reader.take(bytes as usize)?, count as usize);
    Ok((left, Packed::counted(reader.rest(), right as usize)))
}

impl<T: Transaction> Keyspace<'_, T> {
    /// A list that exists.
    pub fn list(&mut self, key: &[u8]) -> Result<Option<List>, Failure> {
        match self.row(key)? {
            Some(row) if row.head.kind != Kind::List => Err(CommandError::WrongType.into()),
            row => Ok(row.map(List::of)),
        }
    }

    /// A list that a command may wait for. Of who waits already, what has become another type meanwhile is nothing.
    pub fn waited_list(&mut self, key: &[u8]) -> Result<Option<List>, Failure> {
        match self.list(key) {
            Err(Failure::Command(CommandError::WrongType)) if self.goes_on => Ok(None),
            found => found,
        }
    }

    /// A list to be written: a new one if there is none. Whoever adds something [saves](Self::save_list) it.
    pub fn open_list(&mut self, key: &[u8]) -> Result<List, Failure> {
        Ok(self.list(key)?.unwrap_or_else(List::new))
    }

    /// Writes a list's row. Without items, it is gone.
    pub fn save_list(&mut self, key: &[u8], list: &List) -> Done {
        let mut value = std::mem::take(&mut self.elements);
        value.clear();
        list.encode(&mut value);
        let saved = self.save_row(key, &list.head, &value);
        self.elements = value;
        saved
    }
}
