//! When it was what time: timestamps are readings of a CPU's counter, and people ask for three o'clock.

use bytes::Bytes;
use highwater_core::Timestamp;
use highwater_core::codec::{Malformed, Reader};

/// What such a record of the controller begins with; no membership's epoch is so high.
const RECORD: u64 = u64::MAX - 1;

/// At this time of the node's wall clock everything that had been released by then was at or below this timestamp, and hardly anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// The mark.
    pub mark: Timestamp,
}

impl Moment {
    /// A record of it: `2^64 - 2 u64 | unix_ms u64 | mark u64`.
    pub fn record(self) -> Bytes {
        [RECORD, self.unix_ms, self.mark.0].map(u64::to_le_bytes).concat().into()
    }

    /// Reads one; `None` if it is another record.
    ///
    /// # Errors
    /// If it begins as one and is none.
    pub fn decode(record: &Bytes) -> Result<Option<Moment>, Malformed> {
        let mut reader = Reader::new(record);
        if reader.u64()? != RECORD {
            return Ok(None);
        }
        let moment = Moment { unix_ms: reader.u64()?, mark: Timestamp(reader.u64()?) };
        if reader.is_empty() { Ok(Some(moment)) } else { Err(Malformed("length of a moment")) }
    }
}

/// A moment is written down as often, in milliseconds; not while nothing is committed.
const EVERY_MS: u64 = 1000;

/// Says when a moment is to be written down.
#[derive(Debug, Default)]
pub(crate) struct Timekeeper {
    unix_ms: u64,
    last: Option<Moment>,
}

impl Timekeeper {
    /// It is that late by the node's wall clock.
    pub fn set(&mut self, unix_ms: u64) {
        self.unix_ms = unix_ms;
    }

    /// The moment that is to be written down now, if any.
    pub fn moment(&mut self, mark: Timestamp) -> Option<Moment> {
        let due = |last: Moment| last.unix_ms.abs_diff(self.unix_ms) >= EVERY_MS && last.mark < mark;
        if self.unix_ms == 0 || !self.last.is_none_or(due) {
            return None;
        }
        self.last = Some(Moment { unix_ms: self.unix_ms, mark });
        self.last
    }
}

/// The timestamp of a time, between the moments before and after it; `None` if it is not between two. Of a clock that went back the
/// last reading counts: nothing that had been released by then is left out.
pub fn timestamp_at(moments: &[Moment], unix_ms: u64) -> Option<Timestamp> {
    let before = moments.iter().rposition(|moment| moment.unix_ms <= unix_ms)?;
    let low = moments[before];
    if low.unix_ms == unix_ms {
        return Some(low.mark);
    }
    let high = moments.get(before + 1)?;
    let (passed, between) = (unix_ms - low.unix_ms, high.unix_ms - low.unix_ms);
    let grown = high.mark.0.saturating_sub(low.mark.0);
    Some(Timestamp(low.mark.0 + (u128::from(grown) * u128::from(passed) / u128::from(between)) as u64))
}
