//! The row of a key in the keyspace's table: what it is, when it expires, and of a string all there is.
//!
//! ```text
//! plain    the value                                              a string without a deadline
//! marked   mark 8 bytes | kind u8 | flags u8 | deadline u64 | ..  anything else; deadline 0: none
//!            string      .. | the value
//!            others      .. | id u64 | count u64 | next i64 | if packed: elements
//! flags    1: grown   2: packed   4: spelled out
//! ```
//!
//! A collection that is *packed* has elements here: all of them ([`small`](super::small)), or of a list those at its ends ([`list`](super::list)). It needs no id
//! before it has rows elsewhere: 0 is none. Collections of older builds are not packed, and are read and changed as they are.
//!
//! Integers are little endian. A plain value is what every build has written since the first: rows of older stores are read as they
//! are. A value that begins with the mark by itself is written with a mark in front; nobody wrote one before there were marks, unless
//! by a chance of 2^-64.

use highwater_core::codec::{Malformed, Reader};

/// What no plain value begins with. No text does: 0xff and 0xc1 occur in no UTF-8.
const MARK: [u8; 8] = [0xff, 0x00, 0xc1, 0x48, 0x57, 0x9e, 0xb3, 0x01];

const GROWN: u8 = 1;
const PACKED: u8 = 2;
const SPELLED: u8 = 4;

/// What a marked string has in front of its value.
pub const MARKED_BYTES: usize = 18;

/// The type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    String,
    /// A sequence.
    List,
    /// Different members.
    Set,
    /// Members in the order of their scores.
    SortedSet,
    /// Fields with values.
    Hash,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::String, Kind::List, Kind::Set, Kind::SortedSet, Kind::Hash];

    /// As `TYPE` answers.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Hash => "hash",
        }
    }
}

/// What a row says beside the value of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The type.
    pub kind: Kind,
    /// A string that was changed in place, or a collection that is no longer small: `OBJECT ENCODING` tells, and it never goes back.
    pub grown: bool,
    /// A string that reads as an integer and is none: what a sum of floats came to. `OBJECT ENCODING` tells that, too.
    pub spelled: bool,
    /// When it expires, in Unix time in ms. 0: never.
    pub deadline: u64,
    /// Elements stand behind the head.
    pub packed: bool,
    /// Of a collection: what its elements' rows begin with. No two collections ever have the same at the same time. 0: it has no rows.
    pub id: u64,
    /// Of a collection: how many elements it has. Never 0 in a row.
    pub count: u64,
    /// Of a list the position of its first element; of others the next number of an element, which keeps the order of insertion.
    pub next: i64,
    /// Where this transaction keeps the elements of a small collection, once it [looked at it](super::Keyspace::collection).
    pub slot: Slot,
    /// The row has this head, and the key lives.
    pub stored: bool,
}

/// A place among the small collections that a transaction has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u32);

impl Slot {
    /// Nowhere yet.
    pub const NONE: Slot = Slot(u32::MAX);
}

/// A row, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// What it says.
    pub head: Head,
    /// Of a string: its value. Of a packed collection: its elements.
    pub value: &'a [u8],
    /// Nothing but a value.
    pub plain: bool,
}

impl<'a> Row<'a> {
    /// Reads a row.
    #[inline]
    pub fn decode(row: &'a [u8]) -> Row<'a> {
        match row.strip_prefix(&MARK) {
            None => Row { head: Head { stored: true, ..Head::string() }, value: row, plain: true },
            Some(rest) => Row::decode_marked(rest).expect("the keyspace holds what was written there"),
        }
    }

    fn decode_marked(rest: &'a [u8]) -> Result<Row<'a>, Malformed> {
        let mut reader = Reader::new(rest);
        let kind = *Kind::ALL.get(usize::from(reader.u8()?)).ok_or(Malformed("kind of a key"))?;
        let flags = reader.u8()?;
        let (grown, packed, spelled) = (flags & GROWN != 0, flags & PACKED != 0, flags & SPELLED != 0);
        let deadline = reader.u64()?;
        let mut head = Head { kind, grown, packed, spelled, deadline, stored: true, ..Head::string() };
        if kind == Kind::String {
            return Ok(Row { head, value: reader.rest(), plain: false });
        }
        (head.id, head.count, head.next) = (reader.u64()?, reader.u64()?, reader.u64()? as i64);
        Ok(Row { head, value: reader.rest(), plain: false })
    }
}

impl Head {
    /// Of a plain string.
    pub const fn string() -> Head {
        let (deadline, id, count, next) = (0, 0, 0, 0);
        let (grown, spelled, packed, stored, slot) = (false, false, false, false, Slot::NONE);
        Head { kind: Kind::String, grown, spelled, deadline, packed, id, count, next, slot, stored }
    }

    /// Of a collection without elements and rows.
    pub const fn collection(kind: Kind) -> Head {
        Head { kind, packed: true, ..Head::string() }
    }

    /// Whether its rows, if it has any, are in the table of lists' items.
    pub fn has_items(&self) -> bool {
        self.kind == Kind::List && self.packed
    }

    /// Whether a string of this head and value stands in its row as it is.
    #[inline]
    pub fn is_plain(&self, value: &[u8]) -> bool {
        self.deadline == 0 && !self.grown && !self.spelled && !value.starts_with(&MARK)
    }

    /// Appends the row of a string that is not plain, or of a collection. `value`: see [`Row`].
    pub fn encode(&self, value: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&MARK);
        out.push(self.kind as u8);
        let flags = [(self.grown, GROWN), (self.packed, PACKED), (self.spelled, SPELLED)];
        out.push(flags.iter().map(|(is, flag)| u8::from(*is) * flag).sum());
        out.extend_from_slice(&self.deadline.to_le_bytes());
        if self.kind != Kind::String {
            out.extend_from_slice(&self.id.to_le_bytes());
            out.extend_from_slice(&self.count.to_le_bytes());
            out.extend_from_slice(&self.next.to_le_bytes());
        }
        out.extend_from_slice(value);
    }

    /// Whether it is over at this time.
    #[inline]
    pub fn is_expired(&self, unix_ms: u64) -> bool {
        self.deadline != 0 && self.deadline <= unix_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_strings() {
        let marked = [&MARK[..], b"more"].concat();
        for (head, value) in [
            (Head::string(), &b""[..]),
            (Head::string(), b"value"),
            (Head::string(), &marked),
            (Head { deadline: 7, ..Head::string() }, b"value"),
            (Head { grown: true, ..Head::string() }, b""),
            (Head { spelled: true, ..Head::string() }, b"5"),
        ] {
            let mut row = Vec::new();
            let plain = head.is_plain(value);
            if plain {
                row.extend_from_slice(value);
            } else {
                head.encode(value, &mut row);
                assert_eq!(row.len(), MARKED_BYTES + value.len());
            }
            assert_eq!(Row::decode(&row), Row { head: Head { stored: true, ..head }, value, plain });
        }
    }

    #[test]
    fn rows_of_collections() {
        for kind in &Kind::ALL[1..] {
            for packed in [false, true] {
                let (id, count, next) = (5, 3, -4);
                let plain = Head { kind: *kind, grown: true, deadline: 9, ..Head::string() };
                let head = Head { packed, id, count, next, ..plain };
                let (mut row, value) = (Vec::new(), if packed { &b"elements"[..] } else { &[] });
                head.encode(value, &mut row);
                let head = Head { stored: true, ..head };
                assert_eq!(Row::decode(&row), Row { head, value, plain: false });
            }
        }
    }

    #[test]
    fn deadlines() {
        let head = Head { deadline: 100, ..Head::string() };
        assert_eq!([99, 100, 101].map(|now| head.is_expired(now)), [false, true, true]);
        assert!(!Head::string().is_expired(u64::MAX));
    }
}
