//! Bytes: varints, bounded readers, order-preserving key encodings.

/// The input ended early or makes no sense. Carries what was being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Appends `value` in LEB128: 7 bits a byte, lowest first.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Walks over bytes that came from outside; every step is checked.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// What has not been read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all has been read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        match self.rest.split_at_checked(n) {
            Some((head, rest)) => {
                self.rest = rest;
                Ok(head)
            }
            None => Err(Malformed("bytes (input too short)")),
        }
    }

    /// The next byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// The next 2 bytes, little endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// The next 4 bytes, little endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// The next 8 bytes, little endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        Ok(self.take(N)?.try_into().expect("take returned N bytes"))
    }

    /// The next LEB128 number: most have one byte.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest.split_first() {
            Some((&byte @ ..0x80, rest)) => {
                self.rest = rest;
                Ok(u64::from(byte))
            }
            _ => {
                let (value, behind) = self.long_varint()?;
                *self = behind;
                Ok(value)
            }
        }
    }

    /// The next LEB128 number, and a reader behind it: one that is never changed through a pointer can be kept in registers.
    fn long_varint(mut self) -> Result<(u64, Reader<'a>), Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            if shift == 63 && byte > 1 {
                return Err(Malformed("varint (over 64 bits)"));
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value, self));
            }
        }
        Err(Malformed("varint (too long)"))
    }

    /// A byte string with its length in front, as [`put_bytes`] writes it.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.varint()?;
        self.take(usize::try_from(len).map_err(|_| Malformed("length"))?)
    }
}

/// Appends a byte string with its length in front.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Order-preserving encodings for composite keys: comparing the encoded bytes compares the parts in turn.
pub mod ordered {
    /// Appends an unsigned integer, big endian.
    #[inline]
    pub fn put_u64(out: &mut Vec<u8>, value: u64) {
        out.extend_from_slice(&value.to_be_bytes());
    }

    /// Appends a signed integer: the sign bit flipped, big endian.
    #[inline]
    pub fn put_i64(out: &mut Vec<u8>, value: i64) {
        put_u64(out, (value as u64) ^ (1 << 63));
    }

    /// Appends a byte string so that a shorter one sorts before its extensions and whatever follows cannot mix in:
    /// 0x00 becomes 0x00 0xff, and the end is 0x00 0x00.
    pub fn put_str(out: &mut Vec<u8>, value: &[u8]) {
        for &byte in value {
            out.push(byte);
            if byte == 0 {
                out.push(0xff);
            }
        }
        out.extend_from_slice(&[0, 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_round_trips_at_the_edges() {
        for value in [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.varint(), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn an_overlong_varint_is_refused() {
        assert!(Reader::new(&[0xff; 10]).varint().is_err());
        assert!(Reader::new(&[0x80]).varint().is_err());
    }

    #[test]
    fn ordered_strings_compare_like_their_parts() {
        let encode = |a: &[u8], b: &[u8]| {
            let mut out = Vec::new();
            ordered::put_str(&mut out, a);
            ordered::put_str(&mut out, b);
            out
        };
        let mut parts: Vec<(&[u8], &[u8])> =
            vec![(b"", b"z"), (b"a", b""), (b"a", b"\0"), (b"a\0", b""), (b"ab", b""), (b"b", b"a")];
        parts.sort();
        let encoded: Vec<_> = parts.iter().map(|(a, b)| encode(a, b)).collect();
        assert!(encoded.is_sorted());
    }

    #[test]
    fn ordered_integers_compare_like_integers() {
        let encode = |value| {
            let mut out = Vec::new();
            ordered::put_i64(&mut out, value);
            out
        };
        assert!(encode(i64::MIN) < encode(-1) && encode(-1) < encode(0) && encode(0) < encode(i64::MAX));
    }
}
