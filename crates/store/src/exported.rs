//! The bytes of a chunk of exported state: written by [`export`](crate::export), read by [`import`](crate::import) and by
//! who looks into files.
//!
//! ```text
//! chunk   records
//! record  ts u64 (bit 62: tombstone) | table u8 | key length varint | key | value length varint | value
//! ```
//! Integer keys are 8 bytes, big endian; a tombstone's value has no bytes.

use highwater_core::codec::{Malformed, Reader, put_bytes};
use highwater_core::{TableId, Timestamp};

use crate::word::{TIMESTAMP, TOMBSTONE};

/// One record of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedRecord<'a> {
    /// The commit that wrote it.
    pub ts: Timestamp,
    pub table: TableId,
    /// Its key; of a table of integers 8 bytes, big endian.
    pub key: &'a [u8],
    /// Its value; `None`: a tombstone.
    pub value: Option<&'a [u8]>,
}

impl ExportedRecord<'_> {
    /// Appends it to a chunk.
    #[inline]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.word().to_le_bytes());
        out.push(self.table.0);
        put_bytes(out, self.key);
        put_bytes(out, self.value.unwrap_or_default());
    }

    /// The word of a store's record of this timestamp.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        self.ts.0 | if self.value.is_none() { TOMBSTONE } else { 0 }
    }
}

/// The records of a chunk, in its order. Ends behind the first that makes no sense.
#[derive(Clone, Debug)]
pub struct ExportedRecords<'a>(Reader<'a>);

impl<'a> ExportedRecords<'a> {
    /// The records of `chunk`.
    pub fn new(chunk: &'a [u8]) -> ExportedRecords<'a> {
        ExportedRecords(Reader::new(chunk))
    }

    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<ExportedRecord<'a>, Malformed> {
        let word = reader.u64()?;
        let table = TableId(reader.u8()?);
        let (key, value) = (reader.bytes()?, reader.bytes()?);
        let gone = word & TOMBSTONE != 0;
        if word > TOMBSTONE | TIMESTAMP || gone && !value.is_empty() {
            return Err(Malformed("record word"));
        }
        Ok(ExportedRecord { ts: Timestamp(word & TIMESTAMP), table, key, value: (!gone).then_some(value) })
    }
}

impl<'a> Iterator for ExportedRecords<'a> {
    type Item = Result<ExportedRecord<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let record = ExportedRecords::decode(&mut self.0);
        if record.is_err() {
            self.0 = Reader::new(&[]);
        }
        Some(record)
    }
}
