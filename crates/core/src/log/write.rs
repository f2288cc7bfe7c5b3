//! Encoding transactions while they run.

use super::{BYTES_KEY, Key, LONG_KEY, OP_DELETE, OP_MASK, OP_PUT, OP_SUPERSEDED, TX_HEADER_BYTES};
use crate::codec::put_varint;
use crate::ids::{TableId, Timestamp};
use crate::limits::{MAX_TRANSACTION_BYTES, WRITE_HEAD_BYTES};

/// Encodes the transactions of the open entry, one after another, into one buffer.
///
/// Invariant: outside `begin..end` the buffer holds whole transactions only.
#[derive(Debug)]
pub struct TxWriter {
    buffer: Vec<u8>,
    /// Where the open transaction starts, if one is open.
    start: Option<usize>,
    /// The open transaction may reach up to here.
    end: usize,
    /// Most bytes of one transaction.
    most: usize,
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

impl Default for TxWriter {
    fn default() -> TxWriter {
        TxWriter::new(Vec::new())
    }
}

impl TxWriter {
    /// Starts in `buffer`, behind what it already holds (room for the entry's header, as a rule).
    pub fn new(buffer: Vec<u8>) -> TxWriter {
        TxWriter { buffer, start: None, end: 0, most: MAX_TRANSACTION_BYTES, previous: 0 }
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
        self.end = self.buffer.len() + self.most;
        self.previous = 0;
        self.buffer.extend_from_slice(&[0; TX_HEADER_BYTES]);
    }

    /// From the next transaction on each has at most so many bytes.
    ///
    /// # Panics
    /// If that is more than [`MAX_TRANSACTION_BYTES`].
    pub fn set_most(&mut self, bytes: usize) {
        assert!(bytes <= MAX_TRANSACTION_BYTES, "an entry must fit into a frame");
        self.most = bytes;
    }

    /// Most bytes of one transaction.
    #[inline]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Whether a write of this key and value fits into the open transaction. To be asked before it is appended.
    #[inline]
    pub fn fits(&self, key_len: usize, value_len: usize) -> bool {
        self.buffer.len() + WRITE_HEAD_BYTES + key_len + value_len <= self.end
    }

    /// Bytes of the open transaction, or 0.
    #[inline]
    pub fn open_bytes(&self) -> usize {
        self.start.map_or(0, |start| self.buffer.len() - start)
    }

    /// Appends a put and says where its value stands.
    #[inline(always)]
    pub fn put(&mut self, table: TableId, key: Key<'_>, value: &[u8]) -> WriteAt {
        let tag = self.buffer.len();
        self.head(OP_PUT, table, key, Some(value.len()));
        let at = self.buffer.len();
        debug_assert!(at + value.len() <= self.end, "whoever writes asks whether it fits");
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
        // A delete has no value length behind its head, so it becomes op 3: as a superseded put, readers would look for one.
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

    #[inline(always)]
    fn head(&mut self, op: u8, table: TableId, key: Key<'_>, value_len: Option<usize>) {
        match key {
            Key::U64(key) => {
                let delta = key ^ self.previous;
                self.previous = key;
                let len = (8 - delta.leading_zeros() / 8) as u8;
                let (tag, start) = (op | len << 4, self.buffer.len());
                let delta = delta.to_le_bytes();
                let front = match value_len {
                    // Nearly all: by one append.
                    Some(len @ ..0x80) => {
                        let mut head = [tag, table.0, len as u8, 0, 0, 0, 0, 0, 0, 0, 0];
                        head[3..].copy_from_slice(&delta);
                        self.buffer.extend_from_slice(&head);
                        3
                    }
                    value_len => {
                        self.buffer.extend_from_slice(&[tag, table.0]);
                        if let Some(len) = value_len {
                            put_varint(&mut self.buffer, len as u64);
                        }
                        self.buffer.extend_from_slice(&delta);
                        self.buffer.len() - start - delta.len()
                    }
                };
                self.buffer.truncate(start + front + len as usize);
            }
            Key::Bytes(key) => {
                let short = key.len().min(LONG_KEY);
                let tag = op | BYTES_KEY | (short as u8) << 4;
                match value_len {
                    Some(len @ ..0x80) if short < LONG_KEY => {
                        self.buffer.extend_from_slice(&[tag, table.0, len as u8]);
                    }
                    _ => {
                        self.buffer.extend_from_slice(&[tag, table.0]);
                        if short == LONG_KEY {
                            put_varint(&mut self.buffer, key.len() as u64);
                        }
                        if let Some(len) = value_len {
                            put_varint(&mut self.buffer, len as u64);
                        }
                    }
                }
                self.buffer.extend_from_slice(key);
            }
        }
    }
}
