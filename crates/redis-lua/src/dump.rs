//! What `FUNCTION DUMP` gives and `FUNCTION RESTORE` takes: Redis 7's own form, so that libraries move both ways.
//!
//! ```text
//! payload  library* | version u16 (10) | crc64 u64        little endian; the checksum is over all before it
//! library  245 u8 | length | text
//! length   00xxxxxx: 6 bits; 01xxxxxx u8: 14 bits; 10000000 u32: 32 bits, 10000001 u64, big endian
//!          11000011 | length packed | length whole: the text is packed by LZF (Redis writes this, we do not)
//! ```

use crate::{Failed, MAX_KEPT_BYTES, MAX_SCRIPT_BYTES};

const LIBRARY: u8 = 245;
const VERSION: u16 = 10;
const FOOTER_BYTES: usize = 10;
const PACKED: u8 = 0xc3;

/// What is said of bytes that are no payload.
const WRONG: &str = "ERR DUMP payload version or checksum are wrong";
const TOO_MUCH: &str = "ERR the payload's libraries are longer together than all that are kept may be";
const BROKEN: &str = "ERR Failed loading the functions of the payload";

/// The payload of these texts.
pub fn dump<'a>(texts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for text in texts {
        out.push(LIBRARY);
        match text.len() {
            len @ 0..0x40 => out.push(len as u8),
            len @ 0x40..0x4000 => out.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
            len => {
                out.push(0x80);
                out.extend_from_slice(&(len as u32).to_be_bytes());
            }
        }
        out.extend_from_slice(text);
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = crc64(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// The texts of a payload.
pub fn restore(payload: &[u8]) -> Result<Vec<Vec<u8>>, Failed> {
    let wrong = || Failed::text(WRONG);
    let footer = payload.len().checked_sub(FOOTER_BYTES).ok_or_else(wrong)?;
    let version = u16::from_le_bytes([payload[footer], payload[footer + 1]]);
    let (checked, checksum) = payload.split_at(payload.len() - 8);
    if version > VERSION || crc64(checked).to_le_bytes() != checksum {
        return Err(wrong());
    }
    let (mut rest, mut texts) = (&payload[..footer], Vec::new());
    // What is packed may be a hundred times as long: more than can be kept is not unpacked.
    let mut bytes = 0;
    while !rest.is_empty() {
        let text = library(&mut rest).ok_or_else(|| Failed::text(BROKEN))?;
        bytes += text.len() as u64;
        if bytes > MAX_KEPT_BYTES {
            return Err(Failed::text(TOO_MUCH));
        }
        texts.push(text);
    }
    Ok(texts)
}

fn library(rest: &mut &[u8]) -> Option<Vec<u8>> {
    if take(rest, 1)?[0] != LIBRARY {
        return None;
    }
    if rest.first() != Some(&PACKED) {
        let len = length(rest)?;
        return Some(take(rest, len)?.to_vec());
    }
    take(rest, 1)?;
    let (packed, whole) = (length(rest)?, length(rest)?);
    if whole > MAX_SCRIPT_BYTES {
        return None;
    }
    unpack(take(rest, packed)?, whole)
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(taken)
}

fn length(rest: &mut &[u8]) -> Option<usize> {
    let first = take(rest, 1)?[0];
    match first {
        0..0x40 => Some(first.into()),
        0x40..0x80 => Some(usize::from(first & 0x3f) << 8 | usize::from(take(rest, 1)?[0])),
        0x80 => Some(u32::from_be_bytes(take(rest, 4)?.try_into().ok()?) as usize),
        0x81 => usize::try_from(u64::from_be_bytes(take(rest, 8)?.try_into().ok()?)).ok(),
        _ => None,
    }
}

/// Undoes LZF: runs of bytes, and copies of what came before.
fn unpack(mut packed: &[u8], whole: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(whole);
    while !packed.is_empty() {
        let control = usize::from(take(&mut packed, 1)?[0]);
        if control < 32 {
            out.extend_from_slice(take(&mut packed, control + 1)?);
            continue;
        }
        let mut len = control >> 5;
        if len == 7 {
            len += usize::from(take(&mut packed, 1)?[0]);
        }
        let back = ((control & 31) << 8 | usize::from(take(&mut packed, 1)?[0])) + 1;
        let start = out.len().checked_sub(back)?;
        for at in start..start + len + 2 {
            out.push(out[at]);
        }
        if out.len() > whole {
            return None;
        }
    }
    (out.len() == whole).then_some(out)
}

static TABLE: [u64; 256] = table();

const fn table() -> [u64; 256] {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut sum, mut bit) = (byte as u64, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x95ac_9329_ac4b_c9b5 } else { sum >> 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

/// The checksum by Jones's polynomial, as Redis computes it.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| TABLE[usize::from(sum as u8 ^ byte)] ^ sum >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn what_was_dumped_is_restored() {
        let texts = [vec![], vec![b'a'; 63], vec![b'b'; 64], vec![b'c'; 0x4000], vec![b'd'; 1 << 20]];
        let payload = dump(texts.iter().map(Vec::as_slice));
        assert_eq!(restore(&payload).unwrap(), texts);
        for at in [0, 1, payload.len() / 2, payload.len() - 9, payload.len() - 1] {
            let mut changed = payload.clone();
            changed[at] ^= 1;
            assert_eq!(restore(&changed), Err(Failed::text(WRONG)));
        }
        assert_eq!(restore(b"x"), Err(Failed::text(WRONG)));
    }

    /// Once: `FUNCTION RESTORE` unpacked what cannot be kept: 64 MB of payload to 5 GB.
    #[test]
    fn no_more_is_unpacked_than_can_be_kept() {
        let text = vec![b'-'; 1 << 20];
        let payload = |count: usize| dump(std::iter::repeat_n(&text[..], count));
        assert_eq!(restore(&payload(32)).map(|texts| texts.len()), Ok(32));
        assert_eq!(restore(&payload(33)), Err(Failed::text(TOO_MUCH)));
    }

    #[test]
    fn what_was_packed_is_unpacked() {
        assert_eq!(unpack(&[2, b'a', b'b', b'c', 0x40, 2], 7), Some(b"abcabca".to_vec()));
        assert_eq!(unpack(&[0x20, 5], 3), None);
    }
}
