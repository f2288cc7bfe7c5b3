//! A cluster that goes on from a restored state says so in its journals: without the checkpoint that holds that state they lead to
//! another one, which looks like a whole one.

use bytes::Bytes;
use highwater_core::Timestamp;
use highwater_core::codec::{Malformed, Reader};

/// What such a record of the controller begins with; no membership's epoch is so high.
const RECORD: u64 = u64::MAX - 2;

/// The journal's records stand on the state of this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Founded {
    /// Everything at or below is in the first checkpoint.
    pub moment: Timestamp,
}

impl Founded {
    /// A record of it: `2^64 - 3 u64 | moment u64`.
    pub fn record(self) -> Bytes {
        [RECORD, self.moment.0].map(u64::to_le_bytes).concat().into()
    }

    /// Reads one; `None` if it is another record.
    ///
    /// # Errors
    /// If it begins as one and is none.
    pub fn decode(record: &Bytes) -> Result<Option<Founded>, Malformed> {
        let mut reader = Reader::new(record);
        if reader.u64()? != RECORD {
            return Ok(None);
        }
        let moment = Timestamp(reader.u64()?);
        if reader.is_empty() { Ok(Some(Founded { moment })) } else { Err(Malformed("length of a founding")) }
    }

    /// Checks that what the records are read behind holds that state: a checkpoint that is complete at `complete_at`, or none.
    ///
    /// # Errors
    /// In words, if it does not.
    pub fn check(self, complete_at: Option<Timestamp>) -> Result<(), String> {
        if complete_at.is_some_and(|complete_at| complete_at >= self.moment) {
            return Ok(());
        }
        Err(format!(
            "it goes on from a state that was restored at {}, and the checkpoint that holds that is missing; put the checkpoint back, \
             or restore again",
            self.moment
        ))
    }
}
