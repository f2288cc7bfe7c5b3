//! Wall-clock times, in and out: RFC 3339, UTC where nothing else is said.

use highwater_core::Timestamp;
use highwater_engine_rolis::remains::Moment;
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, PrimitiveDateTime};

/// `2026-11-22T10:00:00.250Z`.
pub fn text_of(unix_ms: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(unix_ms) * 1_000_000);
    moment.ok().and_then(|moment| moment.format(&Rfc3339).ok()).unwrap_or_else(|| format!("{unix_ms} ms"))
}

/// Milliseconds since 1970 of `2026-11-22T10:00:00Z`, `2026-11-22 10:00:00` (UTC), or with any offset and fraction.
///
/// # Errors
/// In words, if it is none of these.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim().replacen(' ', "T", 1);
    let zoned = OffsetDateTime::parse(&text, &Rfc3339);
    let utc = || PrimitiveDateTime::parse(&format!("{text}Z"), &Rfc3339).map(PrimitiveDateTime::assume_utc);
    let moment = zoned.or_else(|_| utc()).ok().filter(|moment| moment.unix_timestamp() >= 0);
    let moment =
        moment.ok_or("a time is written like 2026-11-22T10:00:00Z, or 2026-11-22T11:00:00.250+01:00")?;
    Ok((moment.unix_timestamp_nanos() / 1_000_000) as u64)
}

/// The last time that was written down at or before a timestamp, in words.
pub fn about(moments: &[Moment], mark: Timestamp) -> Option<String> {
    let before = moments.iter().filter(|moment| moment.mark <= mark);
    before.map(|moment| moment.unix_ms).max().map(text_of)
}

/// Between which of the times that were noted a timestamp was committed: the last one at or below it, and the first one at or above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Not before this time, in milliseconds since 1970.
    pub not_before: Option<u64>,
    /// Not after this one.
    pub not_after: Option<u64>,
}

impl Bounds {
    /// Of a timestamp, by what was noted.
    pub fn of(moments: &[Moment], mark: Timestamp) -> Bounds {
        let before = moments.iter().filter(|moment| moment.mark <= mark).map(|moment| moment.unix_ms);
        let after = moments.iter().filter(|moment| moment.mark >= mark).map(|moment| moment.unix_ms);
        Bounds { not_before: before.max(), not_after: after.min() }
    }

    /// In brackets, behind a timestamp; nothing if nothing is known.
    pub fn words(self) -> String {
        match (self.not_before.map(text_of), self.not_after.map(text_of)) {
            (Some(from), Some(to)) if from == to => format!(" (of {from})"),
            (Some(from), Some(to)) => format!(" (between {from} and {to})"),
            (Some(from), None) => format!(" (of {from} or later)"),
            (None, Some(to)) => format!(" (of {to} or before)"),
            (None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last time that was noted was shown as if it were the moment's, and was up to a second too early.
    #[test]
    fn a_moment_lies_between_two_times_that_were_noted() {
        let moment = |unix_ms, mark| Moment { unix_ms, mark: Timestamp(mark) };
        let moments = [moment(1000, 10), moment(2000, 20), moment(3000, 30)];
        let words = |mark| Bounds::of(&moments, Timestamp(mark)).words();
        assert_eq!(words(15), " (between 1970-01-01T00:00:01Z and 1970-01-01T00:00:02Z)");
        assert_eq!(words(20), " (of 1970-01-01T00:00:02Z)");
        assert_eq!(words(31), " (of 1970-01-01T00:00:03Z or later)");
        assert_eq!(words(5), " (of 1970-01-01T00:00:01Z or before)");
        assert_eq!(Bounds::of(&[], Timestamp(5)).words(), "");
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for text in ["2026-11-22T10:00:00Z", "2026-11-22T10:00:00.25Z", "1970-01-01T00:00:00Z"] {
            assert_eq!(text_of(parse(text).unwrap()), text);
        }
        assert_eq!(parse("2026-11-22 10:00:00"), parse("2026-11-22T11:00:00+01:00"));
        for nonsense in ["", "yesterday", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z", "10:00"] {
            assert!(parse(nonsense).unwrap_err().contains("2026-11-22T10:00:00Z"), "{nonsense}");
        }
    }
}
