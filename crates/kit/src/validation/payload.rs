//! What a transaction read and what it writes, as it travels with `Validate`.
//!
//! ```text
//! payload   reads_len u32, bit 31: as of | as of u64, if that bit is set | reads | scans | transaction (log format, with its timestamp; nothing if it writes nothing)
//! reads     count varint, each: table u8 | key (length varint) | version u64
//! scans     count varint, each: table u8 | low | high | count varint, each: key (length varint) | version u64
//! bound     0; or 1 (included) or 2 (excluded), and a key (length varint)
//! ```
//!
//! A version is the timestamp of the commit that wrote what was read, or deleted it (then with bit 63); 0: there was no trace of the key.
//! A scan lists every record that it passed, deleted ones included.
//!
//! *As of*: before the first of these was read, everything that committed at or below was installed where that was. So of each key there is no
//! write between the version that was read and this, and where there was no trace there is none: tombstones that old may be gone.
//! A value that was read is the newest if nothing was written later than the larger of the two, and before the transaction's own timestamp.

use std::ops::Bound;

use bytes::Bytes;
use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::log::{Key, TX_HEADER_BYTES, Transactions, Write, Writes};
use highwater_core::transaction::KeyRange;
use highwater_core::{TableId, Timestamp};

/// A key that was read, and which version of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read<'a> {
    /// Where.
    pub table: TableId,
    pub key: &'a [u8],
    /// What was read.
    pub version: Timestamp,
    /// It was a tombstone.
    pub deleted: bool,
}

/// A range that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan<'a> {
    /// Where.
    pub table: TableId,
    /// What part of the table, as far as it was visited.
    pub range: KeyRange<'a>,
    /// The records that were there, in the order of the visit.
    pub items: Vec<(&'a [u8], Timestamp)>,
    /// Which of them were tombstones.
    pub deleted: Vec<bool>,
}

/// A hash of a table's key.
#[inline]
pub fn hash(table: TableId, key: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(K);
        product as u64 ^ (product >> 64) as u64
    };
    let (words, rest) = key.as_chunks::<8>();
    let hash =
        words.iter().fold(mix(K, u64::from(table.0) + 1), |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(hash, u64::from_le_bytes(last)), key.len() as u64)
}

impl Scan<'_> {
    /// Whether a key is in the range.
    #[inline]
    pub fn covers(&self, key: &[u8]) -> bool {
        covers(self.range, key)
    }

    /// The key at which it begins; empty: with the table.
    pub fn low(&self) -> &[u8] {
        match self.range.0 {
            Bound::Included(low) | Bound::Excluded(low) => low,
            Bound::Unbounded => &[],
        }
    }

    /// Which version of a key the scan saw; zero if it saw none.
    #[inline]
    pub fn version_of(&self, key: &[u8]) -> Timestamp {
        self.items.iter().find(|(seen, _)| *seen == key).map_or(Timestamp::ZERO, |(_, version)| *version)
    }
}

/// Whether a key is in a range.
pub fn covers(range: KeyRange<'_>, key: &[u8]) -> bool {
    let low = match range.0 {
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
        Bound::Unbounded => true,
    };
    low && match range.1 {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    }
}

/// The bytes that callers know of a key from the log.
pub fn with_key<R>(key: Key<'_>, then: impl FnOnce(&[u8]) -> R) -> R {
    match key {
        Key::U64(key) => then(&key.to_be_bytes()),
        Key::Bytes(key) => then(key),
    }
}

/// A payload that is sound: taking it apart never fails.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Bytes);

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "payload of {} bytes", self.0.len())
    }
}

const SOUND: &str = "a payload was looked at when it came";
/// Set in the first word: it says as of when it read.
const AS_OF: u32 = 1 << 31;

impl Payload {
    /// The payload of a transaction that has ended: as of when it read, its sections, and its writes in wire form.
    pub fn build(
        as_of: Timestamp,
        (reads, read_count): (&[u8], u64),
        (scans, scan_count): (&[u8], u64),
        tx: &[u8],
    ) -> Payload {
        let mut bytes = Vec::with_capacity(12 + 20 + reads.len() + scans.len() + tx.len());
        bytes.extend_from_slice(&[0; 4]);
        let tells = as_of > Timestamp::ZERO && read_count + scan_count > 0;
        if tells {
            bytes.extend_from_slice(&as_of.0.to_le_bytes());
        }
        put_varint(&mut bytes, read_count);
        bytes.extend_from_slice(reads);
        put_varint(&mut bytes, scan_count);
        bytes.extend_from_slice(scans);
        let len = bytes.len() as u32 | if tells { AS_OF } else { 0 };
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(tx);
        Payload(bytes.into())
    }

    /// From the wire.
    ///
    /// # Errors
    /// If it makes no sense.
    pub fn parse(bytes: Bytes) -> Result<Payload, Malformed> {
        let (start, split) = ends(Reader::new(&bytes).u32()?);
        if split < start || split > bytes.len() {
            return Err(Malformed("payload"));
        }
        let mut reader = Reader::new(&bytes[start..split]);
        for _ in 0..reader.varint()? {
            take_read(&mut reader)?;
        }
        for _ in 0..reader.varint()? {
            take_scan(&mut reader)?;
        }
        if !reader.is_empty() {
            return Err(Malformed("payload (bytes behind its scans)"));
        }
        let mut transactions = Transactions::new(&bytes[split..]);
        if let Some(transaction) = transactions.next() {
            Writes::new(transaction?.1).try_for_each(|write| write.map(drop))?;
            if transactions.next().is_some() {
                return Err(Malformed("payload (more than one transaction)"));
            }
        }
        Ok(Payload(bytes))
    }

    #[inline]
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// How long it is, in bytes: never 0.
    #[expect(clippy::len_without_is_empty, reason = "none is")]
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn ends(&self) -> (usize, usize) {
        ends(Reader::new(&self.0).u32().expect(SOUND))
    }

    /// Everything that committed at or below was there before the first of it was read.
    pub fn as_of(&self) -> Timestamp {
        match self.ends().0 {
            4 => Timestamp::ZERO,
            start => Timestamp(Reader::new(&self.0[4..start]).u64().expect(SOUND)),
        }
    }

    /// Keys that were read.
    pub fn reads(&self) -> Reads<'_> {
        let mut reader = Reader::new(&self.0[self.ends().0..]);
        let left = reader.varint().expect(SOUND);
        Reads { reader, left }
    }

    /// Ranges that were read.
    pub fn scans(&self) -> Scans<'_> {
        let mut reads = self.reads();
        reads.by_ref().for_each(drop);
        let left = reads.reader.varint().expect(SOUND);
        Scans { reader: reads.reader, left }
    }

    /// The transaction in wire form, with its timestamp; nothing if it writes nothing.
    #[inline]
    pub fn transaction(&self) -> &[u8] {
        &self.0[self.ends().1..]
    }

    pub fn writes(&self) -> impl Iterator<Item = Write<'_>> {
        let bytes = self.transaction().get(TX_HEADER_BYTES..).unwrap_or_default();
        Writes::new(bytes).map(|write| write.expect(SOUND))
    }

    /// Whether it writes nothing.
    #[inline]
    pub fn only_reads(&self) -> bool {
        self.transaction().is_empty()
    }

    /// The first key that it writes, by its hash; if it writes none, reads; if it reads none, where its first scan begins.
    pub fn first_key(&self) -> Option<u64> {
        let written = self.writes().next().map(|write| with_key(write.key, |key| hash(write.table, key)));
        let read = || self.reads().next().map(|read| hash(read.table, read.key));
        let scanned = || self.scans().next().map(|scan| hash(scan.table, scan.low()));
        written.or_else(read).or_else(scanned)
    }

    /// Up to when it read of a key all that was written, if it read it by itself or in a range: the version that it saw, or as of when it read.
    pub fn version_read(&self, table: TableId, key: &[u8]) -> Option<Timestamp> {
        let read = self.reads().find(|read| read.table == table && read.key == key).map(|read| read.version);
        let seen = read.or_else(|| {
            let scan = self.scans().find(|scan| scan.table == table && scan.covers(key));
            scan.map(|scan| scan.version_of(key))
        });
        seen.map(|version| version.max(self.as_of()))
    }

    /// Whether the two cannot both commit, this one at `ts` and `other` at `at`: one read what the other one, earlier in the order of
    /// timestamps, wrote over. Exact: no replica finds both valid ([`validate`](super::validate::validate)), so nothing is refused that could
    /// have committed.
    #[inline]
    pub fn conflicts(&self, ts: Timestamp, other: &Payload, at: Timestamp) -> bool {
        self.missed(ts, other, at) || other.missed(at, self, ts)
    }

    /// Whether this transaction, at `ts`, should have read what `other` wrote at `at`, and did not.
    fn missed(&self, ts: Timestamp, other: &Payload, at: Timestamp) -> bool {
        at < ts
            && other.writes().any(|write| {
                with_key(write.key, |key| {
                    self.version_read(write.table, key).is_some_and(|version| version < at)
                })
            })
    }
}

/// Of a version that is a tombstone.
const DELETED: u64 = 1 << 63;

/// How a version travels.
pub fn put_version(out: &mut Vec<u8>, version: Timestamp, deleted: bool) {
    let bit = if deleted && version > Timestamp::ZERO { DELETED } else { 0 };
    out.extend_from_slice(&(version.0 | bit).to_le_bytes());
}

/// The places where its sections begin and end.
fn ends(word: u32) -> (usize, usize) {
    (if word & AS_OF == 0 { 4 } else { 12 }, (word & !AS_OF) as usize)
}

fn take_version(reader: &mut Reader<'_>) -> Result<(Timestamp, bool), Malformed> {
    let word = reader.u64()?;
    Ok((Timestamp(word & !DELETED), word & DELETED != 0))
}

fn take_read<'a>(reader: &mut Reader<'a>) -> Result<Read<'a>, Malformed> {
    let (table, key) = (TableId(reader.u8()?), reader.bytes()?);
    let (version, deleted) = take_version(reader)?;
    Ok(Read { table, key, version, deleted })
}

/// Reads a bound of a range.
///
/// # Errors
/// If it is none.
pub fn take_bound<'a>(reader: &mut Reader<'a>) -> Result<Bound<&'a [u8]>, Malformed> {
    Ok(match reader.u8()? {
        0 => Bound::Unbounded,
        1 => Bound::Included(reader.bytes()?),
        2 => Bound::Excluded(reader.bytes()?),
        _ => return Err(Malformed("bound")),
    })
}

fn take_scan<'a>(reader: &mut Reader<'a>) -> Result<Scan<'a>, Malformed> {
    let table = TableId(reader.u8()?);
    let range = (take_bound(reader)?, take_bound(reader)?);
    let count = reader.varint()?;
    let (mut items, mut deleted) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let key = reader.bytes()?;
        let (version, gone) = take_version(reader)?;
        items.push((key, version));
        deleted.push(gone);
    }
    Ok(Scan { table, range, items, deleted })
}

/// Appends a read.
pub fn put_read(out: &mut Vec<u8>, read: Read<'_>) {
    out.push(read.table.0);
    put_bytes(out, read.key);
    put_version(out, read.version, read.deleted);
}

/// Appends a bound of a range.
pub fn put_bound(out: &mut Vec<u8>, bound: Bound<&[u8]>) {
    match bound {
        Bound::Unbounded => out.push(0),
        Bound::Included(key) => {
            out.push(1);
            put_bytes(out, key);
        }
        Bound::Excluded(key) => {
            out.push(2);
            put_bytes(out, key);
        }
    }
}

/// The reads of a payload.
pub struct Reads<'a> {
    reader: Reader<'a>,
    left: u64,
}

impl<'a> Iterator for Reads<'a> {
    type Item = Read<'a>;

    #[inline]
    fn next(&mut self) -> Option<Read<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(take_read(&mut self.reader).expect(SOUND))
    }
}

/// The scans of a payload.
pub struct Scans<'a> {
    reader: Reader<'a>,
    left: u64,
}

impl<'a> Iterator for Scans<'a> {
    type Item = Scan<'a>;

    fn next(&mut self) -> Option<Scan<'a>> {
        self.left = self.left.checked_sub(1)?;
        Some(take_scan(&mut self.reader).expect(SOUND))
    }
}
