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
pub struct Timekeeper {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_once_a_second_while_something_is_committed() {
        let mut keeper = Timekeeper::default();
        assert_eq!(keeper.moment(Timestamp(1)), None, "no clock");
        let mut at = |unix_ms, mark| {
            keeper.set(unix_ms);
            keeper.moment(Timestamp(mark)).is_some()
        };
        assert!(at(5_000, 1) && !at(5_999, 2) && at(6_000, 2) && !at(9_000, 2) && at(9_001, 3));
        assert!(at(2_000, 4), "a clock that went back");
        let moment = Moment { unix_ms: 1, mark: Timestamp(2) };
        assert_eq!(Moment::decode(&moment.record()), Ok(Some(moment)));
        assert!(Moment::decode(&moment.record().slice(..20)).is_err());
        assert_eq!(Moment::decode(&Bytes::from_static(&[0; 24])), Ok(None));
    }

    #[test]
    fn times_between_two_moments_are_computed_from_both() {
        let moment = |unix_ms, mark| Moment { unix_ms, mark: Timestamp(mark) };
        let moments = [moment(1000, 10), moment(2000, 1010), moment(4000, 1010), moment(5000, 2010)];
        let at = |unix_ms| timestamp_at(&moments, unix_ms).map(|mark| mark.0);
        assert_eq!([at(999), at(1000), at(1500), at(2000)], [None, Some(10), Some(510), Some(1010)]);
        assert_eq!([at(3000), at(4500), at(5000), at(5001)], [Some(1010), Some(1510), Some(2010), None]);
        let back = [moment(1000, 10), moment(3000, 30), moment(2000, 50), moment(4000, 70)];
        assert_eq!(timestamp_at(&back, 2500), Some(Timestamp(55)), "after the clock went back");
    }
}
