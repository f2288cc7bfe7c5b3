//! Bytes of rows, arguments and replies: fixed little-endian fields, without allocation.
//!
//! Besides the usual integers there are two narrow ones, because bytes that are logged, sent and applied are time:
//! 24 bits (item ids, amounts in cents) and 48 bits (dates in milliseconds).

use std::fmt;

use highwater_core::Abort;
use highwater_core::codec::{Malformed, Reader};

/// Somewhere to append fields.
pub trait Sink {
    /// Appends bytes as they are.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a byte.
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Appends 2 bytes.
    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    /// Appends the low 3 bytes.
    #[inline]
    fn put_u24(&mut self, value: u32) {
        debug_assert!(value < 1 << 24);
        self.put(&value.to_le_bytes()[..3]);
    }

    /// Appends 4 bytes.
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    /// Appends the low 6 bytes.
    #[inline]
    fn put_u48(&mut self, value: u64) {
        debug_assert!(value < 1 << 48);
        self.put(&value.to_le_bytes()[..6]);
    }

    /// Appends 8 bytes.
    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends 8 bytes, two's complement.
    #[inline]
    fn put_i64(&mut self, value: i64) {
        self.put(&value.to_le_bytes());
    }

    /// Appends at most 255 bytes with their length in one byte in front.
    #[inline]
    fn put_text(&mut self, text: &[u8]) {
        let text = &text[..text.len().min(255)];
        self.put_u8(text.len() as u8);
        self.put(text);
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Up to `N` bytes on the stack. What does not fit is cut off.
#[derive(Clone, Copy)]
pub struct StackBytes<const N: usize> {
    len: usize,
    bytes: [u8; N],
}

impl<const N: usize> Default for StackBytes<N> {
    #[inline]
    fn default() -> Self {
        StackBytes { len: 0, bytes: [0; N] }
    }
}

impl<const N: usize> StackBytes<N> {
    /// Empty.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// What is in, to be changed in place.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }
}

impl<const N: usize> Sink for StackBytes<N> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(N - self.len);
        self.bytes[self.len..self.len + fits].copy_from_slice(&bytes[..fits]);
        self.len += fits;
    }
}

impl<const N: usize> fmt::Write for StackBytes<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

/// The fields that [`Reader`] does not know.
pub trait Fields<'a> {
    /// The next 3 bytes.
    fn u24(&mut self) -> Result<u32, Malformed>;
    /// The next 6 bytes.
    fn u48(&mut self) -> Result<u64, Malformed>;
    /// The next 8 bytes, two's complement.
    fn i64(&mut self) -> Result<i64, Malformed>;
    /// What [`Sink::put_text`] wrote.
    fn text(&mut self) -> Result<&'a [u8], Malformed>;
    /// Nothing must be left.
    fn end(&self) -> Result<(), Malformed>;
}

impl<'a> Fields<'a> for Reader<'a> {
    #[inline]
    fn u24(&mut self) -> Result<u32, Malformed> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    #[inline]
    fn u48(&mut self) -> Result<u64, Malformed> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    #[inline]
    fn i64(&mut self) -> Result<i64, Malformed> {
        Ok(self.u64()? as i64)
    }

    #[inline]
    fn text(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.u8()?;
        self.take(len.into())
    }

    #[inline]
    fn end(&self) -> Result<(), Malformed> {
        if self.is_empty() { Ok(()) } else { Err(Malformed("bytes (trailing)")) }
    }
}

/// Ends the transaction as a bad request, with the reason as its reply.
#[cold]
pub fn bad_request(reply: &mut Vec<u8>, why: &str) -> Abort {
    reply.clear();
    reply.extend_from_slice(why.as_bytes());
    Abort::BadRequest
}

/// Ends the transaction by its own decision, with the reason as its reply.
#[cold]
pub fn rollback(reply: &mut Vec<u8>, why: &str) -> Abort {
    reply.clear();
    reply.extend_from_slice(why.as_bytes());
    Abort::Rollback
}

/// Decodes a row that the arguments claim exists; a bad request if it is absent or malformed.
#[inline]
pub fn require<'a, R>(
    row: Option<&'a [u8]>,
    decode: impl FnOnce(&'a [u8]) -> Result<R, Malformed>,
    what: &str,
    reply: &mut Vec<u8>,
) -> Result<R, Abort> {
    match row.map(decode) {
        Some(Ok(row)) => Ok(row),
        Some(Err(error)) => Err(bad_request(reply, error.0)),
        None => Err(bad_request(reply, what)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_fields_round_trip() {
        let mut bytes = Vec::new();
        bytes.put_u24(0xabcdef);
        bytes.put_u48(0x1234_5678_9abc);
        bytes.put_i64(-5);
        bytes.put_text(b"text");
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.u24(), Ok(0xabcdef));
        assert_eq!(reader.u48(), Ok(0x1234_5678_9abc));
        assert_eq!(reader.i64(), Ok(-5));
        assert_eq!(reader.text(), Ok(&b"text"[..]));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn stack_bytes_cut_off_what_does_not_fit() {
        let mut bytes = StackBytes::<4>::new();
        bytes.put(b"abc");
        bytes.put(b"def");
        assert_eq!(bytes.as_slice(), b"abcd");
    }
}
