//! Replies to bytes, in either version of the protocol.

use std::fmt::Display;
use std::io::Write;

use highwater_core::Abort;
use highwater_core::limits::MAX_REPLY_BYTES;

use super::double::format_double;
use super::number::Line;

/// Which version a client speaks. A connection starts with the second and changes it by `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2: no maps, sets or typed nulls.
    #[default]
    Resp2,
    /// RESP3.
    Resp3,
}

/// Writes replies at the end of a buffer.
pub struct Reply<'a> {
    /// Where to.
    pub out: &'a mut Vec<u8>,
    /// How.
    pub protocol: Protocol,
    /// Longest that all in the buffer may become. A string that is longer alone is left out, and said in `too_long`.
    pub most: usize,
    /// A string was left out: whoever bounds the reply ends the transaction.
    pub too_long: bool,
}

impl<'a> Reply<'a> {
    /// Replies go to the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Reply<'a> {
        Reply { out, protocol, most: MAX_REPLY_BYTES, too_long: false }
    }

    /// `+OK`
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A short text of our own: no line ends.
    pub fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.end();
    }

    /// An error; its text starts with its code. Line ends that a client smuggled in become spaces.
    #[cold]
    pub fn error(&mut self, error: impl Display) {
        self.out.push(b'-');
        let start = self.out.len();
        write!(self.out, "{error}").expect("writing to memory does not fail");
        for byte in &mut self.out[start..] {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        self.end();
    }

    /// An error whose text, with its code, may be any bytes.
    #[cold]
    pub fn error_bytes(&mut self, text: &[u8]) {
        self.line(b'-', text);
    }

    /// A reply of one line: of any bytes, but for ends of lines, which become spaces.
    pub fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.end();
    }

    /// A reply as it stands.
    pub fn raw(&mut self, reply: &[u8]) {
        self.out.extend_from_slice(reply);
    }

    pub fn integer(&mut self, value: i64) {
        self.head(b':', value);
    }

    /// A string of any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        if bytes.len() > self.most {
            self.too_long = true;
            return;
        }
        self.head(b'$', bytes.len() as i64);
        self.out.extend_from_slice(bytes);
        self.end();
    }

    /// A text for people.
    pub fn verbatim(&mut self, text: &str) {
        self.verbatim_as(b"txt", text.as_bytes());
    }

    /// A text in some format, of which three letters are told.
    pub fn verbatim_as(&mut self, format: &[u8], text: &[u8]) {
        if self.protocol == Protocol::Resp2 {
            return self.bulk(text);
        }
        let mut letters = *b"   ";
        letters.iter_mut().zip(format).for_each(|(letter, given)| *letter = *given);
        self.head(b'=', text.len() as i64 + 4);
        self.out.extend_from_slice(&letters);
        self.out.push(b':');
        self.out.extend_from_slice(text);
        self.end();
    }

    /// No value.
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// No array: the answer of an `EXEC` whose watched keys changed.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The head of an array; `len` replies follow.
    pub fn array(&mut self, len: usize) {
        self.head(b'*', len as i64);
    }

    /// The head of something that nobody asked for; `len` replies follow.
    pub fn push(&mut self, len: usize) {
        self.head(if self.protocol == Protocol::Resp3 { b'>' } else { b'*' }, len as i64);
    }

    /// The head of a set; `len` replies follow.
    pub fn set(&mut self, len: usize) {
        self.head(if self.protocol == Protocol::Resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// The head of a map; `len` pairs of replies follow.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', len as i64 * 2),
            Protocol::Resp3 => self.head(b'%', len as i64),
        }
    }

    /// A number in floating point.
    pub fn double(&mut self, value: f64) {
        let text = format_double(value);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.out.push(b',');
                self.out.extend_from_slice(text.as_bytes());
                self.end();
            }
        }
    }

    /// The head of an array of `len` items, each with a second one if `paired`: in RESP3 every pair is an array.
    pub fn pairs(&mut self, len: usize, paired: bool) {
        self.array(if paired && self.protocol == Protocol::Resp2 { len * 2 } else { len });
    }

    /// The head of one pair.
    pub fn pair(&mut self, paired: bool) {
        if paired && self.protocol == Protocol::Resp3 {
            self.array(2);
        }
    }

    /// A reply may not outgrow the limit.
    pub fn check_length(&self) -> Result<(), Abort> {
        if self.out.len() > self.most || self.too_long { Err(Abort::TooLarge) } else { Ok(()) }
    }

    fn head(&mut self, kind: u8, value: i64) {
        self.out.extend_from_slice(Line::new(kind, value).as_bytes());
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Whether these bytes are one reply, in either version of the protocol: what a command answered, and not what a procedure did.
pub fn is_whole(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut wanted = 1usize;
    while wanted > 0 {
        let Some((line, behind)) = line(rest) else { return false };
        let Some((kind, text)) = line.split_first() else { return false };
        let len = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
        rest = behind;
        wanted -= 1;
        match kind {
            b'+' | b'-' | b',' | b'(' | b'#' => {}
            b'_' if text.is_empty() => {}
            b':' if len().is_some() => {}
            b'$' | b'=' | b'*' if len() == Some(-1) => {}
            b'$' | b'=' => {
                let Some(len) = len().and_then(|len| usize::try_from(len).ok()) else { return false };
                match rest.split_at_checked(len).and_then(|(_, behind)| behind.strip_prefix(b"\r\n")) {
                    Some(behind) => rest = behind,
                    None => return false,
                }
            }
            b'*' | b'~' | b'%' => {
                let Some(len) = len().and_then(|len| usize::try_from(len).ok()) else { return false };
                let replies = if *kind == b'%' { len.saturating_mul(2) } else { len };
                wanted = wanted.saturating_add(replies);
            }
            _ => return false,
        }
    }
    rest.is_empty()
}

fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], &bytes[end + 2..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_replies_are_told_from_bytes() {
        for whole in
            ["+OK\r\n", ":-3\r\n", "$3\r\na\rb\r\n", "*2\r\n$-1\r\n%1\r\n+a\r\n_\r\n", "*0\r\n", "-ERR x\r\n"]
        {
            assert!(is_whole(whole.as_bytes()), "{whole:?}");
        }
        for bytes in [
            "",
            "x",
            "+OK",
            "+OK\r\n+OK\r\n",
            "$4\r\nabc\r\n",
            "*2\r\n:1\r\n",
            ":x\r\n",
            "$-2\r\n",
            "*9999999999\r\n",
        ] {
            assert!(!is_whole(bytes.as_bytes()), "{bytes:?}");
        }
        assert!(!is_whole(&[100, 0, 0, 0, 0, 0, 0, 0]));
    }
}
