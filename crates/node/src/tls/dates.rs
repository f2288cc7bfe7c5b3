//! As much of a certificate as a warning needs: its version, and from when until when it is good (RFC 5280, section 4.1).
//!
//! ```text
//! Certificate    ::= SEQUENCE { tbsCertificate, .. }
//! TBSCertificate ::= SEQUENCE { [0] version OPTIONAL, serial, algorithm, issuer, validity, .. }
//! validity       ::= SEQUENCE { from Time, until Time }
//! ```

/// From when until when, in seconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dates {
    pub from: i64,
    pub until: i64,
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The dates of a certificate in DER; `None`: it is none.
pub fn of(certificate: &[u8]) -> Option<Dates> {
    let (_, mut rest) = version_and_rest(certificate)?;
    for _ in ["serial", "algorithm", "issuer"] {
        rest = element(rest)?.2;
    }
    let (tag, validity, _) = element(rest)?;
    let (from, until) = take_time(validity).filter(|_| tag == SEQUENCE)?;
    Some(Dates { from, until: take_time(until)?.0 })
}

/// The version: 1 to 3.
pub fn version(certificate: &[u8]) -> Option<u8> {
    version_and_rest(certificate).map(|(version, _)| version)
}

fn version_and_rest(certificate: &[u8]) -> Option<(u8, &[u8])> {
    let inside = |bytes| element(bytes).filter(|(tag, ..)| *tag == SEQUENCE).map(|(_, content, _)| content);
    let body = inside(inside(certificate)?)?;
    match element(body)? {
        (VERSION, number, rest) => Some((element(number)?.1.last()?.checked_add(1)?, rest)),
        _ => Some((1, body)),
    }
}

/// The first element of DER: its tag, its content, and what is behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
            (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some((tag, content, rest))
}

/// `YYMMDDHHMMSSZ`, or with four digits of the year.
fn take_time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (tag, text, rest) = element(bytes)?;
    let text = str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, text) = match tag {
        UTC_TIME => {
            let (year, text) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, text)
        }
        GENERALIZED_TIME => {
            let (year, text) = text.split_at_checked(4)?;
            (year.parse().ok()?, text)
        }
        _ => return None,
    };
    let two = |at: usize| text.get(at..at + 2)?.parse::<i64>().ok();
    let days = days_to(year, two(0)?, two(2)?);
    Some((((days * 24 + two(4)?) * 60 + two(6)?) * 60 + two(8)?, rest))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that a leap day is a year's last.
fn days_to(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        assert_eq!(days_to(1970, 1, 1), 0);
        assert_eq!(days_to(2000, 2, 29), 11_016);
        assert_eq!(days_to(2000, 3, 1), 11_017);
        assert_eq!(days_to(2126, 11, 3), 57_284);
    }

    #[test]
    fn dates_and_versions_are_read_as_openssl_reads_them() {
        let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let plain = der(include_str!("tests/plain.crt"));
        assert_eq!(of(&plain), Some(Dates { from: FROM, until: UNTIL }));
        assert_eq!((version(&plain), version(&der(include_str!("tests/version-1.crt")))), (Some(3), Some(1)));
        // Whatever is cut off or wrong, it is told as nothing.
        for end in 0..plain.len() {
            let _ = of(&plain[..end]);
            let mut wrong = plain.to_vec();
            wrong[end] ^= 0xff;
            let _ = (of(&wrong), version(&wrong));
        }
        assert_eq!(of(b""), None);
    }

    const FROM: i64 = 1795789873;
    const UNTIL: i64 = 4949389873;
}
