//! A group while it is made, in the form in which it is written.

use super::format::{GROUP_HEAD_BYTES, GroupHead, put_record, whole_bytes};

/// What is longer gives its memory back.
const KEPT_BYTES: usize = 4 << 20;

/// Records that will be one group.
#[derive(Debug)]
pub(super) struct Batch {
    /// Room for the head, and the records.
    bytes: Vec<u8>,
    records: u32,
    /// By how much each writer gets on, as the records came.
    gains: Vec<(u16, u64)>,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { bytes: vec![0; GROUP_HEAD_BYTES], records: 0, gains: Vec::new() }
    }
}

impl Batch {
    pub(super) fn push(&mut self, writer: u16, bytes: &[u8]) {
        put_record(&mut self.bytes, writer, bytes);
        self.records += 1;
        match self.gains.last_mut() {
            Some((last, gain)) if *last == writer => *gain += bytes.len() as u64,
            _ => self.gains.push((writer, bytes.len() as u64)),
        }
    }

    /// Bytes of the records.
    pub(super) fn len(&self) -> u64 {
        (self.bytes.len() - GROUP_HEAD_BYTES) as u64
    }

    pub(super) fn records(&self) -> u32 {
        self.records
    }

    pub(super) fn crc(&self) -> u32 {
        crc32fast::hash(&self.bytes[GROUP_HEAD_BYTES..GROUP_HEAD_BYTES + self.len() as usize])
    }

    /// What it takes in a segment.
    pub(super) fn whole_bytes(&self) -> u64 {
        whole_bytes(self.len())
    }

    /// What it would take with one more record of so many bytes.
    pub(super) fn whole_bytes_with(&self, record: usize) -> u64 {
        whole_bytes(self.len() + (super::format::RECORD_HEAD_BYTES + record) as u64)
    }

    /// All of its blocks, under this head. Nothing is added any more.
    pub(super) fn finish(&mut self, head: &GroupHead) -> &[u8] {
        self.bytes[..GROUP_HEAD_BYTES].copy_from_slice(&head.encode());
        // Whole blocks, so that the system need not read what they held before.
        self.bytes.resize(head.whole_bytes() as usize, 0);
        &self.bytes
    }

    /// Empty again, with its memory unless that is much.
    pub(super) fn cleared(mut self) -> Batch {
        self.bytes.truncate(GROUP_HEAD_BYTES);
        self.bytes.shrink_to(KEPT_BYTES);
        Batch { bytes: self.bytes, records: 0, gains: Vec::new() }
    }

    /// Moves the writers' positions behind it.
    pub(super) fn advance(&self, positions: &mut [u64]) {
        for &(writer, gain) in &self.gains {
            positions[usize::from(writer)] += gain;
        }
    }
}
