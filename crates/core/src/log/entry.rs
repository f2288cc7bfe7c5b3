//! Entries: what stands in front of transactions and behind them.

use super::{CLAIM_BYTES, ENTRY_HEADER_BYTES};
use crate::codec::{Malformed, Reader};
use crate::ids::{EntryIndex, Epoch, StreamId, Timestamp};
use crate::level::Level;

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
/// Invariant, asserted by [`EntryHeader::seal`] and checked by [`EntryHeader::open`]: `first_ts <= last_ts <= closed_ts`.
/// Of a batch, `count` is 0 exactly if `body_len` is: whoever seals sees to that, nothing checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// What the entry is for.
    pub kind: EntryKind,
    /// The level that it was written at: its format. Kept when a later leader proposes it again.
    pub level: Level,
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
    /// Of an entry that holds no transaction and promises that none up to `at` follows.
    pub fn without_transactions(
        kind: EntryKind,
        level: Level,
        stream: StreamId,
        epoch: Epoch,
        index: EntryIndex,
        at: Timestamp,
    ) -> EntryHeader {
        let (first_ts, last_ts, closed_ts) = (at, at, at);
        EntryHeader {
            kind,
            level,
            stream,
            epoch,
            index,
            first_ts,
            last_ts,
            closed_ts,
            count: 0,
            body_len: 0,
            claims: 0,
        }
    }

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
        buffer[1] = self.level.format();
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
        let level = Level::of_format(reader.u8()?).ok_or(Malformed("entry format version"))?;
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
        let header = EntryHeader {
            kind,
            level,
            stream,
            epoch,
            index,
            first_ts,
            last_ts,
            closed_ts,
            count,
            body_len,
            claims,
        };
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
