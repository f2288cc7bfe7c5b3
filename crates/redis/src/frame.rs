//! Bytes to commands: an incremental parser for RESP arrays of bulk strings and for inline commands.
//!
//! The parser never looks at a byte of a bulk string, never copies one, and remembers how far it came: a command
//! that arrives in many pieces is read once. What it answers depends on the bytes only, never on how they were cut.

use std::fmt;
use std::ops::Range;

use highwater_core::limits::{MAX_COMMAND_BYTES, MAX_COMMAND_PARTS, MAX_LINE_BYTES, MAX_VALUE_BYTES};

use super::number::parse_integer;

/// Why the bytes are no RESP. Nothing after them can be trusted: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// An inline command without an end.
    InlineTooLong,
    /// An inline command with an open quote, or with text right behind a closing one.
    UnbalancedQuotes,
    /// The line after `*` without an end.
    PartCountTooLong,
    /// Not a number after `*`, or too large a one.
    PartCount,
    /// A part must be a bulk string.
    NotABulk(u8),
    /// The line after `$` without an end.
    BulkLengthTooLong,
    /// Not a number after `$`, or a negative one.
    BulkLength,
    /// A bulk string longer than the longest value.
    BulkTooLong,
    /// All parts together are too long.
    CommandTooLong,
    /// Too many parts of somebody who has not said who it is.
    UnauthenticatedPartCount,
    /// Too long a part of such a one.
    UnauthenticatedBulk,
}

/// So many parts has a command at most, before a client has said who it is.
pub const MAX_STRANGERS_PARTS: i64 = 10;
/// And so many bytes each of them.
pub const MAX_STRANGERS_BULK_BYTES: usize = 16 << 10;

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        match self {
            ProtocolError::InlineTooLong => f.write_str("too big inline request"),
            ProtocolError::UnbalancedQuotes => f.write_str("unbalanced quotes in request"),
            ProtocolError::PartCountTooLong => f.write_str("too big mbulk count string"),
            ProtocolError::PartCount => f.write_str("invalid multibulk length"),
            ProtocolError::NotABulk(byte) => write!(f, "expected '$', got '{}'", char::from(*byte)),
            ProtocolError::BulkLengthTooLong => f.write_str("too big bulk count string"),
            ProtocolError::BulkLength => f.write_str("invalid bulk length"),
            ProtocolError::BulkTooLong => {
                write!(f, "invalid bulk length (a value has at most {MAX_VALUE_BYTES} bytes)")
            }
            ProtocolError::UnauthenticatedPartCount => f.write_str("unauthenticated multibulk length"),
            ProtocolError::UnauthenticatedBulk => f.write_str("unauthenticated bulk length"),
            ProtocolError::CommandTooLong => {
                write!(f, "too big command (at most {MAX_COMMAND_BYTES} bytes)")
            }
        }
    }
}

/// One command as it came: its name and its arguments.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    bytes: &'a [u8],
    parts: &'a [Range<usize>],
    /// How many bytes of the input it took.
    pub len: usize,
}

impl<'a> Frame<'a> {
    /// The name and the arguments. None at all for an empty line or array, which clients may send and which get
    /// no reply.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + Clone + use<'a> {
        let bytes = self.bytes;
        self.parts.iter().map(move |part| &bytes[part.clone()])
    }
}

/// Where a parser stands in the command that it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before its first byte.
    #[default]
    Start,
    /// So many parts are missing; the header of the next one comes.
    Header { missing: usize },
    /// The same, and the content of the next one comes: so many bytes.
    Content { missing: usize, len: usize },
}

/// Reads commands one after another.
#[derive(Debug, Default)]
pub struct Parser {
    state: State,
    /// How much of the command was read.
    at: usize,
    /// Bytes of the line at `at` that are known to hold no end: a line that comes byte by byte is looked at once.
    scanned: usize,
    /// The parts read: places in the input, or in `unquoted` for an inline command.
    parts: Vec<Range<usize>>,
    /// The parts of an inline command, quotes and escapes resolved.
    unquoted: Vec<u8>,
    inline: bool,
    /// Who sends has not said who it is.
    stranger: bool,
}

impl Parser {
    /// Whether what comes is of somebody who has not said who it is: of such only short commands are taken.
    pub fn set_stranger(&mut self, stranger: bool) {
        self.stranger = stranger;
    }

    /// Reads the command at the start of `input`; `None` if it is not complete. The next call must pass the same
    /// bytes with more behind them, or, after a frame, what follows its [`len`](Frame::len).
    pub fn parse<'a>(&'a mut self, input: &'a [u8]) -> Result<Option<Frame<'a>>, ProtocolError> {
        if self.state == State::Start {
            (self.at, self.inline) = (0, false);
            self.parts.clear();
        }
        if !self.advance(input)? {
            return Ok(None);
        }
        self.state = State::Start;
        let bytes = if self.inline { &self.unquoted } else { input };
        Ok(Some(Frame { bytes, parts: &self.parts, len: self.at }))
    }

    /// Reads as far as the bytes go; whether the command is complete.
    fn advance(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        loop {
            let more = match self.state {
                State::Start => match input.first() {
                    None => return Ok(false),
                    Some(b'*') => self.part_count(input)?,
                    Some(_) => return self.inline(input),
                },
                State::Header { missing: 0 } => return Ok(true),
                State::Header { missing } => self.bulk_header(input, missing)?,
                State::Content { missing, len } => self.bulk_content(input, missing, len),
            };
            if !more {
                return Ok(false);
            }
        }
    }

    fn part_count(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let Some(digits) = self.header(&input[1..], ProtocolError::PartCountTooLong)? else {
            return Ok(false);
        };
        let count = parse_integer(digits).filter(|&count| count <= MAX_COMMAND_PARTS as i64);
        let count = count.ok_or(ProtocolError::PartCount)?;
        if self.stranger && count > MAX_STRANGERS_PARTS {
            return Err(ProtocolError::UnauthenticatedPartCount);
        }
        let missing = count.max(0) as usize;
        self.at = 1 + digits.len() + 2;
        self.state = State::Header { missing };
        Ok(true)
    }

    fn bulk_header(&mut self, input: &[u8], missing: usize) -> Result<bool, ProtocolError> {
        match input.get(self.at) {
            None => return Ok(false),
            Some(b'$') => {}
            Some(&byte) => return Err(ProtocolError::NotABulk(byte)),
        }
        let Some(digits) = self.header(&input[self.at + 1..], ProtocolError::BulkLengthTooLong)? else {
            return Ok(false);
        };
        let len = parse_integer(digits).and_then(|len| usize::try_from(len).ok());
        let len = len.ok_or(ProtocolError::BulkLength)?;
        if len > MAX_VALUE_BYTES {
            return Err(ProtocolError::BulkTooLong);
        }
        if self.stranger && len > MAX_STRANGERS_BULK_BYTES {
            return Err(ProtocolError::UnauthenticatedBulk);
        }
        self.at += 1 + digits.len() + 2;
        if self.at + len > MAX_COMMAND_BYTES {
            return Err(ProtocolError::CommandTooLong);
        }
        self.state = State::Content { missing, len };
        Ok(true)
    }

    fn bulk_content(&mut self, input: &[u8], missing: usize, len: usize) -> bool {
        // As Redis does, the line end is taken for granted: two bytes, whatever they are.
        let end = self.at + len;
        if input.len() < end + 2 {
            return false;
        }
        self.parts.push(self.at..end);
        self.at = end + 2;
        self.state = State::Header { missing: missing - 1 };
        true
    }

    fn inline(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let Some(line) = self.line(input, b'\n', ProtocolError::InlineTooLong)? else { return Ok(false) };
        self.at = line.len() + 1;
        self.inline = true;
        self.unquoted.clear();
        split_inline(line.strip_suffix(b"\r").unwrap_or(line), &mut self.unquoted, &mut self.parts)?;
        Ok(true)
    }

    /// The text before the first `end`, if that has come.
    fn line<'a>(
        &mut self,
        input: &'a [u8],
        end: u8,
        too_long: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let window = &input[..input.len().min(MAX_LINE_BYTES + 1)];
        match window[self.scanned..].iter().position(|&byte| byte == end) {
            Some(at) => {
                let line = &window[..self.scanned + at];
                self.scanned = 0;
                Ok(Some(line))
            }
            None if input.len() > MAX_LINE_BYTES => Err(too_long),
            None => {
                self.scanned = window.len();
                Ok(None)
            }
        }
    }

    /// The text before the first line end of two bytes, if both have come.
    fn header<'a>(
        &mut self,
        input: &'a [u8],
        too_long: ProtocolError,
    ) -> Result<Option<&'a [u8]>, ProtocolError> {
        let Some(digits) = self.line(input, b'\r', too_long)? else { return Ok(None) };
        if input.len() < digits.len() + 2 {
            // The end is looked at again with the next byte.
            self.scanned = digits.len();
            return Ok(None);
        }
        Ok(Some(digits))
    }

    /// Whether a command is surely not complete with so many bytes, because more of a long string is missing.
    pub fn lacks(&self, input_len: usize) -> bool {
        matches!(self.state, State::Content { len, .. } if input_len < self.at + len + 2)
    }

    /// Memory of its own in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.parts.capacity() * size_of::<Range<usize>>() + self.unquoted.capacity()
    }

    /// Gives back memory that a long command took, between two commands. True unless one is being read.
    pub fn rest(&mut self, keep_parts: usize) -> bool {
        if self.state != State::Start {
            return false;
        }
        self.parts.clear();
        self.unquoted.clear();
        self.parts.shrink_to(keep_parts);
        self.unquoted.shrink_to(keep_parts * size_of::<Range<usize>>());
        true
    }
}

/// Cuts an inline command into parts, with Redis's quoting: `"..."` with escapes, `'...'` with `\'` only.
fn split_inline(line: &[u8], text: &mut Vec<u8>, parts: &mut Vec<Range<usize>>) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(());
        }
        let start = text.len();
        while let Some((&byte, tail)) = rest.split_first().filter(|(byte, _)| !byte.is_ascii_whitespace()) {
            rest = match byte {
                b'"' => double_quoted(tail, text)?,
                b'\'' => single_quoted(tail, text)?,
                _ => {
                    text.push(byte);
                    tail
                }
            };
        }
        parts.push(start..text.len());
    }
}

/// Reads up to the closing quote; gives what follows, which must be a space or the end.
fn double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [b'"', tail @ ..] => return after_quote(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), tail)
            }
            [b'\\', escaped, tail @ ..] => (unescape(*escaped), tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        text.push(byte);
        rest = tail;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [b'\'', tail @ ..] => return after_quote(tail),
            [byte, tail @ ..] => (*byte, tail),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        text.push(byte);
        rest = tail;
    }
}

fn after_quote(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).map_or(0, |value| value as u8)
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line that came byte by byte was searched from its start with every byte.
    #[test]
    fn what_was_searched_for_a_line_end_is_not_searched_again() {
        let inline = [b"PING ".as_slice(), &vec![b'x'; 50_000], b"\r\n"].concat();
        let mut parser = Parser::default();
        for end in 1..inline.len() {
            assert!(parser.parse(&inline[..end]).unwrap().is_none());
            assert_eq!(parser.scanned, end, "searched again");
        }
        assert_eq!(parser.parse(&inline).unwrap().unwrap().len, inline.len());
        // A line end in two pieces, and what follows starts anew.
        for command in [b"*1\r\n$4\r\nPING\r\n".as_slice(), b"PING\r\n"] {
            for end in 1..command.len() {
                assert!(parser.parse(&command[..end]).unwrap().is_none(), "{end}");
            }
            assert_eq!(parser.parse(command).unwrap().unwrap().len, command.len());
        }
    }
}
