//! The log's byte layout: writes inside transactions inside entries. docs/internals/log-format.md draws it.
//!
//! A transaction's writes are encoded while it runs, straight into the buffer that will be sent: the commit only
//! patches the timestamp in. All integers are little endian.
//!
//! ```text
//! entry        header (64) | transactions (body_len) | claims (10 each)
//! transaction  ts u64 | len u32 | writes (len bytes)
//! write        tag u8 | table u8 | [value length varint, puts only] | key | value
//! tag          bits 0-1: op (0 put, 1 delete, 2 superseded put)   bit 2: byte-string key
//!              bits 4-7: integer key: how many bytes of (key XOR previous integer key) follow, 0-8
//!                        byte-string key: its length, or 15 and then a varint
//! ```
//!
//! A key is written at most once per transaction with op 0 or 1. A second write of a key turns the first into a
//! *superseded put* (op 2), which readers skip: it keeps its place so that the chain of XORed keys holds.

use crate::codec::{Malformed, Reader, put_varint};
use crate::ids::{EntryIndex, Epoch, StreamId, TableId, Timestamp};

/// Version of everything in this file; part of the handshake between nodes.
pub const FORMAT_VERSION: u16 = 1;

/// Bytes in front of a transaction's writes.
pub const TX_HEADER_BYTES: usize = 12;
/// Bytes in front of an entry's body.
pub const ENTRY_HEADER_BYTES: usize = 64;
/// Bytes of one claim.
pub const CLAIM_BYTES: usize = 10;

const OP_PUT: u8 = 0;
const OP_DELETE: u8 = 1;
const OP_SUPERSEDED: u8 = 2;
const OP_MASK: u8 = 0b11;
const BYTES_KEY: u8 = 0b100;
const LONG_KEY: usize = 15;

/// A key as the log carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// A key of an integer table.
    U64(u64),
    /// A key of a byte-string table.
    Bytes(&'a [u8]),
}

/// One write of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// Where.
    pub table: TableId,
    /// Which record.
    pub key: Key<'a>,
    /// The new value; `None` deletes.
    pub value: Option<&'a [u8]>,
}

/// Encodes the transactions of the open entry, one after another, into one buffer.
///
/// Invariant: outside `begin..end` the buffer holds whole transactions only.
#[derive(Debug, Default)]
pub struct TxWriter {
    buffer: Vec<u8>,
    /// Where the open transaction starts, if one is open.
    start: Option<usize>,
    /// The last integer key of the open transaction.
    previous: u64,
}

/// Where an encoded value stands in the buffer of its [`TxWriter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteAt {
    /// Offset of the write's tag.
    pub tag: u32,
    /// Offset of the value.
    pub value: u32,
    /// Length of the value in bytes.
    pub len: u32,
}

impl TxWriter {
    /// Starts in `buffer`, behind what it already holds (room for the entry's header, as a rule).
    pub fn new(buffer: Vec<u8>) -> TxWriter {
        TxWriter { buffer, start: None, previous: 0 }
    }

    /// All bytes so far.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// How many bytes so far, whatever was in front included.
    #[inline]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether nothing was ever put in.
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Takes the buffer out and goes on in `fresh`.
    ///
    /// # Panics
    /// While a transaction is open: an entry holds whole transactions.
    pub fn take(&mut self, fresh: Vec<u8>) -> Vec<u8> {
        assert!(self.start.is_none(), "an entry is sealed between transactions");
        std::mem::replace(&mut self.buffer, fresh)
    }

    /// Opens a transaction.
    #[inline]
    pub fn begin(&mut self) {
        debug_assert!(self.start.is_none(), "one transaction at a time");
        self.start = Some(self.buffer.len());
        self.previous = 0;
        self.buffer.extend_from_slice(&[0; TX_HEADER_BYTES]);
    }

    /// Appends a put and says where its value stands.
    #[inline]
    pub fn put(&mut self, table: TableId, key: Key<'_>, value: &[u8]) -> WriteAt {
        let tag = self.buffer.len();
        self.head(OP_PUT, table, key, Some(value.len()));
        let at = self.buffer.len();
        self.buffer.extend_from_slice(value);
        WriteAt { tag: tag as u32, value: at as u32, len: value.len() as u32 }
    }

    /// Appends a delete.
    #[inline]
    pub fn delete(&mut self, table: TableId, key: Key<'_>) -> WriteAt {
        let tag = self.buffer.len();
        self.head(OP_DELETE, table, key, None);
        WriteAt { tag: tag as u32, value: self.buffer.len() as u32, len: 0 }
    }

    /// Turns an earlier write of this transaction into one that readers skip.
    #[inline]
    pub fn supersede(&mut self, at: WriteAt) {
        let tag = &mut self.buffer[at.tag as usize];
        // A delete carries no value length, so it cannot become a put that is skipped: it becomes one by its length.
        *tag = match *tag & OP_MASK {
            OP_PUT => (*tag & !OP_MASK) | OP_SUPERSEDED,
            _ => (*tag & !OP_MASK) | OP_MASK,
        };
    }

    /// Overwrites the value of an earlier put of this transaction with one of the same length.
    #[inline]
    pub fn overwrite(&mut self, at: WriteAt, value: &[u8]) {
        debug_assert_eq!(at.len as usize, value.len());
        self.buffer[at.value as usize..][..value.len()].copy_from_slice(value);
    }

    /// The value that an earlier put wrote.
    #[inline]
    pub fn value(&self, at: WriteAt) -> &[u8] {
        &self.buffer[at.value as usize..][..at.len as usize]
    }

    /// Closes the open transaction with its timestamp and says how many bytes it took. One without writes leaves no
    /// trace.
    #[inline]
    pub fn commit(&mut self, ts: Timestamp) -> usize {
        let start = self.start.take().expect("a transaction is open");
        let len = self.buffer.len() - start - TX_HEADER_BYTES;
        if len == 0 {
            self.buffer.truncate(start);
            return 0;
        }
        self.buffer[start..start + 8].copy_from_slice(&ts.0.to_le_bytes());
        self.buffer[start + 8..start + 12].copy_from_slice(&(len as u32).to_le_bytes());
        len + TX_HEADER_BYTES
    }

    /// Drops the open transaction, if any.
    #[inline]
    pub fn abort(&mut self) {
        if let Some(start) = self.start.take() {
            self.buffer.truncate(start);
        }
    }

    #[inline]
    fn head(&mut self, op: u8, table: TableId, key: Key<'_>, value_len: Option<usize>) {
        match key {
            Key::U64(key) => {
                let delta = key ^ self.previous;
                self.previous = key;
                let len = (8 - delta.leading_zeros() / 8) as u8;
                self.buffer.extend_from_slice(&[op | len << 4, table.0]);
                if let Some(len) = value_len {
                    put_varint(&mut self.buffer, len as u64);
                }
                let end = self.buffer.len() + len as usize;
                self.buffer.extend_from_slice(&delta.to_le_bytes());
                self.buffer.truncate(end);
            }
            Key::Bytes(key) => {
                let short = key.len().min(LONG_KEY);
                self.buffer.extend_from_slice(&[op | BYTES_KEY | (short as u8) << 4, table.0]);
                if short == LONG_KEY {
                    put_varint(&mut self.buffer, key.len() as u64);
                }
                if let Some(len) = value_len {
                    put_varint(&mut self.buffer, len as u64);
                }
                self.buffer.extend_from_slice(key);
            }
        }
    }
}

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
        let tag = self.reader.u8()?;
        let table = TableId(self.reader.u8()?);
        let op = tag & OP_MASK;
        let has_value = op == OP_PUT || op == OP_SUPERSEDED;
        let short = (tag >> 4) as usize;
        let (key, value) = if tag & BYTES_KEY != 0 {
            let key_len = if short == LONG_KEY { self.reader.varint()? as usize } else { short };
            let value_len = if has_value { self.reader.varint()? as usize } else { 0 };
            (Key::Bytes(self.reader.take(key_len)?), self.reader.take(value_len)?)
        } else {
            let value_len = if has_value { self.reader.varint()? as usize } else { 0 };
            if short > 8 {
                return Err(Malformed("integer key (over 8 bytes)"));
            }
            self.previous ^= self.delta(short)?;
            (Key::U64(self.previous), self.reader.take(value_len)?)
        };
        Ok(match op {
            OP_PUT => Some(Write { table, key, value: Some(value) }),
            OP_DELETE => Some(Write { table, key, value: None }),
            _ => None,
        })
    }
}

impl Writes<'_> {
    /// An integer of `len` bytes, up to 8: one load where 8 bytes are there.
    #[inline]
    fn delta(&mut self, len: usize) -> Result<u64, Malformed> {
        if let Some(chunk) = self.reader.rest().first_chunk::<8>() {
            self.reader.take(len)?;
            let unused = 64 - 8 * len as u32;
            return Ok(u64::from_le_bytes(*chunk).checked_shl(unused).unwrap_or(0) >> (unused % 64));
        }
        let mut delta = [0; 8];
        delta[..len].copy_from_slice(self.reader.take(len)?);
        Ok(u64::from_le_bytes(delta))
    }
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

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Transactions (or none: then it only closes its stream up to `closed_ts`).
    Batch = 1,
    /// The first entry of an epoch in its stream: ends every older epoch. The body is the new epoch's membership.
    EpochChange = 2,
}

/// "Stream `stream`, decided up to `index`, is closed up to the carrying entry's `closed_ts`": no further transaction
/// of this epoch at or below that timestamp will appear in it behind `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The silent stream.
    pub stream: StreamId,
    /// Its last entry when the claim was made.
    pub index: EntryIndex,
}

/// The fixed part in front of an entry's body.
///
/// Invariants, asserted by [`EntryHeader::seal`] and checked by [`EntryHeader::open`]: `first_ts <= last_ts <=
/// closed_ts`; `count == 0` exactly if `body_len == 0` for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// What the entry is for.
    pub kind: EntryKind,
    /// The stream it belongs to.
    pub stream: StreamId,
    /// The epoch whose leader made it; kept when a later leader proposes it again.
    pub epoch: Epoch,
    /// Its position in the stream.
    pub index: EntryIndex,
    /// Timestamp of its first transaction (`closed_ts` if there is none).
    pub first_ts: Timestamp,
    /// Timestamp of its last transaction (`closed_ts` if there is none).
    pub last_ts: Timestamp,
    /// The owning worker's promise: no later transaction of this stream and epoch has a timestamp at or below it.
    pub closed_ts: Timestamp,
    /// How many transactions.
    pub count: u32,
    /// Bytes of the body.
    pub body_len: u32,
    /// How many claims follow the body.
    pub claims: u16,
}

/// An entry taken apart; the parts borrow from its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The fixed part.
    pub header: EntryHeader,
    /// The transactions, or the membership.
    pub body: &'a [u8],
    claims: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The claims about other streams.
    pub fn claims(&self) -> impl Iterator<Item = Claim> + use<'a> {
        self.claims.chunks_exact(CLAIM_BYTES).map(|bytes| Claim {
            stream: StreamId(u16::from_le_bytes([bytes[0], bytes[1]])),
            index: EntryIndex(u64::from_le_bytes(bytes[2..].try_into().expect("a claim's index is 8 bytes"))),
        })
    }
}

impl EntryHeader {
    /// Finishes an entry: `buffer` holds [`ENTRY_HEADER_BYTES`] of room and the body; appends the claims and fills in
    /// the header. `body_len` and `claims` of `self` are computed, not read.
    pub fn seal(mut self, buffer: &mut Vec<u8>, claims: &[Claim]) {
        assert!(
            self.first_ts <= self.last_ts && self.last_ts <= self.closed_ts,
            "an entry closes behind itself: {self:?}"
        );
        self.body_len = (buffer.len() - ENTRY_HEADER_BYTES) as u32;
        self.claims = claims.len() as u16;
        for claim in claims {
            buffer.extend_from_slice(&claim.stream.0.to_le_bytes());
            buffer.extend_from_slice(&claim.index.0.to_le_bytes());
        }
        buffer[0] = self.kind as u8;
        buffer[1] = FORMAT_VERSION as u8;
        buffer[2..4].copy_from_slice(&self.stream.0.to_le_bytes());
        let words = [self.epoch.0, self.index.0, self.first_ts.0, self.last_ts.0, self.closed_ts.0];
        for (at, word) in words.into_iter().enumerate() {
            buffer[8 + 8 * at..16 + 8 * at].copy_from_slice(&word.to_le_bytes());
        }
        buffer[48..52].copy_from_slice(&self.count.to_le_bytes());
        buffer[52..56].copy_from_slice(&self.body_len.to_le_bytes());
        buffer[56..58].copy_from_slice(&self.claims.to_le_bytes());
        let crc = checksum(buffer);
        buffer[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    /// Takes an entry apart; checks lengths, invariants and, if `check_crc`, the checksum.
    pub fn open(bytes: &[u8], check_crc: bool) -> Result<Entry<'_>, Malformed> {
        let mut reader = Reader::new(bytes);
        let kind = match reader.u8()? {
            1 => EntryKind::Batch,
            2 => EntryKind::EpochChange,
            _ => return Err(Malformed("entry kind")),
        };
        if reader.u8()? != FORMAT_VERSION as u8 {
            return Err(Malformed("entry format version"));
        }
        let stream = StreamId(reader.u16()?);
        let crc = reader.u32()?;
        if check_crc && crc != checksum(bytes) {
            return Err(Malformed("entry checksum"));
        }
        let epoch = Epoch(reader.u64()?);
        let index = EntryIndex(reader.u64()?);
        let (first_ts, last_ts) = (Timestamp(reader.u64()?), Timestamp(reader.u64()?));
        let closed_ts = Timestamp(reader.u64()?);
        let (count, body_len, claims) = (reader.u32()?, reader.u32()?, reader.u16()?);
        reader.take(6)?;
        if !(first_ts <= last_ts && last_ts <= closed_ts && closed_ts <= Timestamp::MAX) {
            return Err(Malformed("entry timestamps"));
        }
        let body = reader.take(body_len as usize)?;
        let claim_bytes = reader.take(claims as usize * CLAIM_BYTES)?;
        if !reader.is_empty() {
            return Err(Malformed("entry length"));
        }
        let header =
            EntryHeader { kind, stream, epoch, index, first_ts, last_ts, closed_ts, count, body_len, claims };
        Ok(Entry { header, body, claims: claim_bytes })
    }
}

/// Covers every byte of an entry but the four of the checksum itself.
fn checksum(entry: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&entry[..4]);
    hasher.update(&entry[8..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes(bytes: &[u8]) -> Vec<Write<'_>> {
        Writes::new(bytes).map(|write| write.expect("well formed")).collect()
    }

    #[test]
    fn writes_round_trip_with_both_kinds_of_key() {
        let mut tx = TxWriter::new(Vec::new());
        tx.begin();
        let long = vec![7; 300];
        tx.put(TableId(3), Key::U64(1 << 60), b"a");
        tx.put(TableId(3), Key::U64((1 << 60) + 1), &long);
        tx.delete(TableId(4), Key::U64(u64::MAX));
        tx.put(TableId(5), Key::Bytes(b"short"), b"");
        tx.put(TableId(5), Key::Bytes(&long), b"v");
        tx.delete(TableId(5), Key::Bytes(b""));
        tx.commit(Timestamp(77));
        let mut transactions = Transactions::new(tx.bytes());
        let (ts, bytes) = transactions.next().unwrap().unwrap();
        assert_eq!(ts, Timestamp(77));
        assert!(transactions.next().is_none());
        let expected = [
            (3, Key::U64(1 << 60), Some(&b"a"[..])),
            (3, Key::U64((1 << 60) + 1), Some(&long[..])),
            (4, Key::U64(u64::MAX), None),
            (5, Key::Bytes(b"short"), Some(&b""[..])),
            (5, Key::Bytes(&long[..]), Some(&b"v"[..])),
            (5, Key::Bytes(b""), None),
        ]
        .map(|(table, key, value)| Write { table: TableId(table), key, value });
        assert_eq!(writes(bytes), expected);
    }

    #[test]
    fn superseded_writes_are_skipped_and_keep_the_key_chain() {
        let mut tx = TxWriter::new(Vec::new());
        tx.begin();
        let put = tx.put(TableId(1), Key::U64(500), b"old");
        let delete = tx.delete(TableId(1), Key::U64(501));
        tx.supersede(put);
        tx.supersede(delete);
        tx.put(TableId(1), Key::U64(502), b"new");
        tx.commit(Timestamp(1));
        let expected = Write { table: TableId(1), key: Key::U64(502), value: Some(&b"new"[..]) };
        assert_eq!(writes(&tx.bytes()[TX_HEADER_BYTES..]), [expected]);
    }

    #[test]
    fn aborted_and_empty_transactions_leave_no_trace() {
        let mut tx = TxWriter::new(vec![9; 64]);
        tx.begin();
        tx.put(TableId(1), Key::U64(1), b"x");
        tx.abort();
        tx.begin();
        tx.commit(Timestamp(3));
        assert_eq!(tx.len(), 64);
    }

    #[test]
    fn an_entry_round_trips_and_any_flipped_bit_is_noticed() {
        let mut tx = TxWriter::new(vec![0; ENTRY_HEADER_BYTES]);
        tx.begin();
        tx.put(TableId(1), Key::U64(1), b"x");
        tx.commit(Timestamp(10));
        let mut bytes = tx.take(Vec::new());
        let header = EntryHeader {
            kind: EntryKind::Batch,
            stream: StreamId(2),
            epoch: Epoch(3),
            index: EntryIndex(4),
            first_ts: Timestamp(10),
            last_ts: Timestamp(10),
            closed_ts: Timestamp(12),
            count: 1,
            body_len: 0,
            claims: 0,
        };
        let claim = Claim { stream: StreamId(0), index: EntryIndex(9) };
        header.seal(&mut bytes, &[claim]);
        let entry = EntryHeader::open(&bytes, true).unwrap();
        assert_eq!((entry.header.epoch, entry.header.closed_ts), (Epoch(3), Timestamp(12)));
        assert_eq!(entry.claims().collect::<Vec<_>>(), [claim]);
        assert_eq!(Transactions::new(entry.body).count(), 1);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x10;
            assert!(EntryHeader::open(&bad, true).is_err(), "byte {at}");
        }
    }

    #[test]
    fn truncated_input_is_an_error_not_a_panic() {
        let mut tx = TxWriter::new(Vec::new());
        tx.begin();
        tx.put(TableId(1), Key::Bytes(b"key"), b"value");
        tx.put(TableId(1), Key::U64(99), b"value");
        tx.commit(Timestamp(1));
        for len in 1..tx.len() {
            assert!(Transactions::new(&tx.bytes()[..len]).any(|tx| tx.is_err()));
            for bytes in Transactions::new(&tx.bytes()[..len]).flatten() {
                Writes::new(bytes.1).for_each(drop);
            }
        }
    }
}
