//! What a part and a manifest begin with, and how a part's checksum grows; docs/internals/checkpoint.md draws the bytes.

use highwater_core::Timestamp;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::limits::MAX_CHUNK_BYTES;

/// Version of parts and manifests. In files of any version, magic, version and the first checksum have the same places.
pub const FORMAT_VERSION: u16 = 1;

/// What a part begins with.
pub const PART_MAGIC: [u8; 8] = *b"HWCKPART";
/// What a manifest begins with.
pub const MANIFEST_MAGIC: [u8; 8] = *b"HWCKMANI";

/// Bytes of a part in front of its chunks.
pub const PART_HEADER_BYTES: usize = 28;
/// Bytes in front of a chunk's records: their length and the checksum.
pub const CHUNK_HEAD_BYTES: usize = 8;
/// Bytes of the end of a part: a chunk's head of length 0, and the counts.
pub const FOOTER_BYTES: usize = CHUNK_HEAD_BYTES + COUNTS_BYTES;
/// Bytes of the counts behind the last head.
pub const COUNTS_BYTES: usize = 16;
/// Longest chunk of records.
pub const MAX_CHUNK_RECORDS_BYTES: usize = MAX_CHUNK_BYTES;

/// Which part of which checkpoint a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHeader {
    /// The checkpoint.
    pub number: u64,
    /// The part, from 0.
    pub part: u16,
    /// How many parts there are.
    pub parts: u16,
}

impl PartHeader {
    /// The file's first bytes, and the checksum that its chunks continue.
    pub fn encode(self) -> ([u8; PART_HEADER_BYTES], u32) {
        let mut bytes = [0; PART_HEADER_BYTES];
        bytes[..8].copy_from_slice(&PART_MAGIC);
        bytes[8..10].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.part.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.parts.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        let crc = continued(0, &[&bytes[..24]]);
        bytes[24..].copy_from_slice(&crc.to_le_bytes());
        (bytes, crc)
    }
}

/// The checksum of a part up to some chunk: the CRC-32 (IEEE) of everything in front, checksums left out, continued over
/// the chunk's length and records. So a chunk that belongs elsewhere is noticed, and the last one is that of the file.
pub fn continued(before: u32, bytes: &[&[u8]]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    bytes.iter().for_each(|bytes| hasher.update(bytes));
    hasher.finalize()
}

/// A chunk's head: how many bytes of records follow (0: the footer's counts), and the checksum up to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHead {
    /// Bytes of records.
    pub len: u32,
    /// The part's checksum up to their end.
    pub crc: u32,
}

impl ChunkHead {
    /// The head of these bytes, behind what has the checksum `before`.
    pub fn of(len: u32, bytes: &[u8], before: u32) -> ChunkHead {
        ChunkHead { len, crc: continued(before, &[&len.to_le_bytes(), bytes]) }
    }

    /// The bytes in the file.
    pub fn encode(self) -> [u8; CHUNK_HEAD_BYTES] {
        let mut bytes = [0; CHUNK_HEAD_BYTES];
        bytes[..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// Reads what [`encode`](ChunkHead::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<ChunkHead, Malformed> {
        Ok(ChunkHead { len: reader.u32()?, crc: reader.u32()? })
    }
}

/// What a part holds, at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Records, tombstones included.
    pub records: u64,
    /// The largest timestamp among them.
    pub newest: Timestamp,
}

impl Counts {
    /// The bytes behind the last head.
    pub fn encode(self) -> [u8; COUNTS_BYTES] {
        let mut bytes = [0; COUNTS_BYTES];
        bytes[..8].copy_from_slice(&self.records.to_le_bytes());
        bytes[8..].copy_from_slice(&self.newest.0.to_le_bytes());
        bytes
    }

    /// Reads what [`encode`](Counts::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Counts, Malformed> {
        Ok(Counts { records: reader.u64()?, newest: Timestamp(reader.u64()?) })
    }
}
