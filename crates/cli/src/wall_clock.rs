//! Wall-clock times, in and out: RFC 3339, UTC where nothing else is said.

use highwater_core::Timestamp;
use highwater_engines::rolis::remains::Moment;
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

#[cfg(test)]
mod tests {
    use super::*;

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
