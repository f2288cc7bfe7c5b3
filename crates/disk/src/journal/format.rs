//! The journal's bytes: head of a segment, head of a group, head of a record. Little endian.

use highwater_core::codec::Reader;

/// Version of the format, in every segment's head.
pub const FORMAT_VERSION: u32 = 1;
/// Heads of segments and groups begin at multiples of this. A block that was synced is never written again with other bytes, so
/// that no torn write of a later group can reach an earlier one.
pub const BLOCK_BYTES: u64 = 4096;
/// Head of a group.
pub const GROUP_HEAD_BYTES: usize = 64;
/// Head of a record.
pub const RECORD_HEAD_BYTES: usize = 8;
/// Most writers of one journal.
pub const MAX_WRITERS: u16 = 256;

/// Where the positions begin in a segment's head.
const POSITIONS_AT: usize = 56;
/// Behind room for the positions of all writers.
const REUSED_AT: usize = POSITIONS_AT + MAX_WRITERS as usize * 8;
const _: () = assert!(REUSED_AT + 8 <= BLOCK_BYTES as usize);

const SEGMENT_MAGIC: [u8; 8] = *b"HWJOURNL";
const GROUP_MAGIC: u32 = u32::from_le_bytes(*b"HWJG");

/// The first block of a segment.
///
/// ```text
///  0  magic          8 bytes  "HWJOURNL"
///  8  version        u32      1
/// 12  crc            u32      CRC-32 (IEEE) over the block except these four bytes
/// 16  journal        u64      of all segments of a journal, and of no other journal
/// 24  segment        u64      from 1; the number in the file's name
/// 32  first_group    u64      number of its first group
/// 40  previous_end   u64      where the groups of the segment before end; 0 in segment 1
/// 48  writers        u64      1 to 256
/// 56  positions      u64 * writers: where each stood before the first group; then zeros
/// 2104 reused        u64      1 if the file was another segment's before: behind its groups are that one's then, and no zeros
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SegmentHead {
    pub journal: u64,
    pub segment: u64,
    pub first_group: u64,
    pub previous_end: u64,
    pub positions: Vec<u64>,
    pub reused: bool,
}

/// A head in another version of the format, whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OtherVersion(pub u32);

impl SegmentHead {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(BLOCK_BYTES as usize);
        block.extend_from_slice(&SEGMENT_MAGIC);
        block.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        block.extend_from_slice(&[0; 4]);
        for field in [self.journal, self.segment, self.first_group, self.previous_end] {
            block.extend_from_slice(&field.to_le_bytes());
        }
        block.extend_from_slice(&(self.positions.len() as u64).to_le_bytes());
        self.positions.iter().for_each(|position| block.extend_from_slice(&position.to_le_bytes()));
        block.resize(BLOCK_BYTES as usize, 0);
        block[REUSED_AT] = self.reused.into();
        let crc = segment_crc(&block);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// `None` if the block is none, or damaged. Magic, version and checksum stay where they are in every version.
    pub(super) fn decode(block: &[u8]) -> Option<Result<SegmentHead, OtherVersion>> {
        if block.len() != BLOCK_BYTES as usize || !block.starts_with(&SEGMENT_MAGIC) {
            return None;
        }
        let mut reader = Reader::new(&block[8..]);
        let version = reader.u32().ok()?;
        if reader.u32().ok()? != segment_crc(block) {
            return None;
        }
        if version != FORMAT_VERSION {
            return Some(Err(OtherVersion(version)));
        }
        let mut field = || reader.u64().ok();
        let (journal, segment, first_group, previous_end) = (field()?, field()?, field()?, field()?);
        let writers = field()?;
        if writers == 0 || writers > MAX_WRITERS.into() {
            return None;
        }
        let positions = (0..writers).map(|_| field()).collect::<Option<_>>()?;
        let reused = block[REUSED_AT] != 0;
        Some(Ok(SegmentHead { journal, segment, first_group, previous_end, positions, reused }))
    }
}

fn segment_crc(block: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&block[..12]);
    crc.update(&block[16..]);
    crc.finalize()
}

/// What a group begins with. Its place is part of it, so that one that was written, or copied, to another place is none there.
///
/// ```text
///  0  magic     u32  "HWJG"
///  4  crc       u32  CRC-32 over the rest of the head
///  8  journal   u64
/// 16  segment   u64
/// 24  offset    u64  of this head in its file
/// 32  number    u64  one more than that of the group before, which was synced before this head was written
/// 40  len       u64  bytes of the records, which follow
/// 48  records   u32  how many; 0 is a proof
/// 52  crc       u32  CRC-32 over the records
/// 56  zero      8 bytes
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupHead {
    pub journal: u64,
    pub segment: u64,
    pub offset: u64,
    pub number: u64,
    pub len: u64,
    pub records: u32,
    pub crc: u32,
}

impl GroupHead {
    pub(super) fn encode(&self) -> [u8; GROUP_HEAD_BYTES] {
        let mut head = [0; GROUP_HEAD_BYTES];
        head[..4].copy_from_slice(&GROUP_MAGIC.to_le_bytes());
        let fields = [self.journal, self.segment, self.offset, self.number, self.len];
        for (at, field) in (8..).step_by(8).zip(fields) {
            head[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        head[48..52].copy_from_slice(&self.records.to_le_bytes());
        head[52..56].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32fast::hash(&head[8..]);
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        head
    }

    /// `None` if there is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<GroupHead> {
        let mut reader = Reader::new(bytes.get(..GROUP_HEAD_BYTES)?);
        if reader.u32().ok()? != GROUP_MAGIC || reader.u32().ok()? != crc32fast::hash(reader.rest()) {
            return None;
        }
        let mut field = || reader.u64().ok();
        let (journal, segment, offset, number, len) = (field()?, field()?, field()?, field()?, field()?);
        let (records, crc) = (reader.u32().ok()?, reader.u32().ok()?);
        Some(GroupHead { journal, segment, offset, number, len, records, crc })
    }

    /// Bytes that it takes in its segment.
    pub(super) fn whole_bytes(&self) -> u64 {
        whole_bytes(self.len)
    }
}

/// Bytes that a group with `len` bytes of records takes in its segment: whole blocks.
pub(super) fn whole_bytes(len: u64) -> u64 {
    (GROUP_HEAD_BYTES as u64).saturating_add(len).next_multiple_of(BLOCK_BYTES)
}

/// Head of a record: `len u32 | writer u16 | zero u16`, and then its bytes.
pub(super) fn put_record(out: &mut Vec<u8>, writer: u16, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&u32::from(writer).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// The next record of a group's; `None` if it makes no sense.
pub(super) fn take_record<'a>(reader: &mut Reader<'a>) -> Option<(u16, &'a [u8])> {
    let len = reader.u32().ok()?;
    let writer = u16::try_from(reader.u32().ok()?).ok()?;
    Some((writer, reader.take(len as usize).ok()?))
}

const PREFIX: &str = "journal-";
/// Of files that were segments, and will be again.
const RECLAIMED: &str = "reclaimed-journal-";
const DIGITS: usize = 16;

/// The file of a segment.
pub fn segment_name(segment: u64) -> String {
    format!("{PREFIX}{segment:0DIGITS$}")
}

/// The name of a segment's file while it is none.
pub(super) fn reclaimed_name(segment: u64) -> String {
    format!("{RECLAIMED}{segment:0DIGITS$}")
}

/// Whether a file was a segment, and is none any more.
pub(super) fn is_reclaimed(name: &str) -> bool {
    let digits = name.strip_prefix(RECLAIMED).filter(|digits| digits.len() == DIGITS);
    digits.is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Which segment a file is, if any.
pub fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS)?;
    digits.parse().ok().filter(|number| segment_name(*number) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_as_they_were_and_no_flipped_byte_passes() {
        let head = SegmentHead {
            journal: 7,
            segment: 3,
            first_group: 9,
            previous_end: 8192,
            positions: vec![5; 256],
            reused: true,
        };
        let mut block = head.encode();
        assert_eq!(SegmentHead::decode(&block).unwrap().unwrap(), head);
        for at in 0..block.len() {
            block[at] ^= 1;
            assert!(SegmentHead::decode(&block).is_none(), "{at}");
            block[at] ^= 1;
        }
        let group =
            GroupHead { journal: 7, segment: 3, offset: 4096, number: 9, len: 70, records: 2, crc: 5 };
        let mut bytes = group.encode();
        assert_eq!(GroupHead::decode(&bytes).unwrap(), group);
        for at in 0..bytes.len() {
            bytes[at] ^= 0x80;
            assert!(GroupHead::decode(&bytes).is_none(), "{at}");
            bytes[at] ^= 0x80;
        }
    }

    #[test]
    fn a_newer_format_is_told_apart_from_damage() {
        let head = SegmentHead {
            journal: 7,
            segment: 1,
            first_group: 1,
            previous_end: 0,
            positions: vec![0],
            reused: false,
        };
        let mut block = head.encode();
        block[8] = 7;
        let crc = segment_crc(&block);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(SegmentHead::decode(&block), Some(Err(OtherVersion(7))));
    }

    #[test]
    fn names_are_numbers_of_segments() {
        assert_eq!(segment_name(12), "journal-0000000000000012");
        assert_eq!(segment_number("journal-0000000000000012"), Some(12));
        for other in [
            "journal-12",
            "journal-000000000000001x",
            "journal-0000000000000012.old",
            "identity",
            "journal-+000000000000012",
        ] {
            assert_eq!(segment_number(other), None, "{other}");
        }
    }
}
