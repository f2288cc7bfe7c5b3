//! The log's byte layout: writes inside transactions inside entries. docs/internals/log-format.md draws it.
//!
//! A transaction's writes are encoded while it runs, straight into the buffer that will be sent: the commit only
//! patches the timestamp in. All integers are little endian.
//!
//! ```text
//! entry        header (64) | transactions (body_len) | claims (10 each)
//! transaction  ts u64 | len u32 | writes (len bytes)
//! write        tag u8 | table u8 | [value length varint, puts only] | key | value
//! tag          bits 0-1: op (0 put, 1 delete, 2 superseded put, 3 superseded delete)   bit 2: byte-string key
//!              bits 4-7: integer key: how many bytes of (key XOR previous integer key) follow, 0-8
//!                        byte-string key: its length, or 15 and then a varint
//! ```
//!
//! A key is written at most once per transaction with op 0 or 1. A second write of a key turns the first into a
//! *superseded* put or delete (op 2 or 3), which readers skip: it keeps its place so that the chain of XORed keys holds.

use crate::ids::TableId;

mod entry;
mod read;
mod write;

pub use entry::{Claim, Entry, EntryHeader, EntryKind};
pub use read::{Transactions, Writes};
pub use write::{TxWriter, WriteAt};

/// Version of everything in this module at the first [level](crate::level); each level after it has the next. Part of the handshake
/// between nodes.
pub const FORMAT_VERSION: u16 = 3;

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

#[cfg(test)]
mod tests {
    const FIRST: &str = "010302004d98eb46030000000000000004000000000000000a000000000000000a000000000000000c00000000000000\
        010000001500000001000000000000000a000000000000000900000010040207616215056b00000900000000000000";
    const SECOND: &str = "01040200f3166d82030000000000000004000000000000000a000000000000000a000000000000000c00000000000000\
        010000001500000001000000000000000a000000000000000900000010040207616215056b00000900000000000000";

    use super::*;
    use crate::ids::{EntryIndex, Epoch, StreamId, Timestamp};
    use crate::level::Level;

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
            level: Level::FIRST,
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

    /// A transaction with a put and a delete, and a claim, as builds wrote it at the first level, and as those do that rehearse the
    /// next. Who gives a level a format of its own adds what it writes, and leaves these where they are.
    #[test]
    fn what_was_written_at_any_level_is_read() {
        const WRITTEN: [(Level, &str); 2] = [(Level(1), FIRST), (crate::level::REHEARSED, SECOND)];
        for (level, hex) in WRITTEN {
            let mut tx = TxWriter::new(vec![0; ENTRY_HEADER_BYTES]);
            tx.begin();
            tx.put(TableId(4), Key::U64(7), b"ab");
            tx.delete(TableId(5), Key::Bytes(b"k"));
            tx.commit(Timestamp(10));
            let mut bytes = tx.take(Vec::new());
            let (first_ts, closed_ts) = (Timestamp(10), Timestamp(12));
            let (stream, epoch, index) = (StreamId(2), Epoch(3), EntryIndex(4));
            let header = EntryHeader {
                kind: EntryKind::Batch,
                level,
                stream,
                epoch,
                index,
                first_ts,
                last_ts: first_ts,
                closed_ts,
                count: 1,
                body_len: 0,
                claims: 0,
            };
            let claim = Claim { stream: StreamId(0), index: EntryIndex(9) };
            header.seal(&mut bytes, &[claim]);
            let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(written, hex, "{level}");
            let entry = EntryHeader::open(&bytes, true).unwrap();
            assert_eq!((entry.header.level, entry.header.closed_ts), (level, closed_ts));
            assert_eq!(entry.claims().collect::<Vec<_>>(), [claim]);
            let (ts, tx) = Transactions::new(entry.body).next().unwrap().unwrap();
            let writes = writes(tx);
            assert_eq!((ts, writes.len(), writes[1].key), (first_ts, 2, Key::Bytes(b"k")));
        }
    }
}
