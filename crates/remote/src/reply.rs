//! What the server says: RESP3 (and so RESP2), from bytes that may come in any pieces.

use crate::error::ServerError;

/// The longest reply that is taken: one transaction answers half of that at most.
pub const MAX_REPLY_BYTES: usize = 128 << 20;
/// Replies in replies: what the server nests is far below.
const MAX_DEPTH: usize = 32;
/// A line: a number, a status, an error.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Room that is made for what a reply says that it will hold; the rest when it comes.
const MAX_RESERVED: usize = 1024;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Nothing is there.
    Nil,
    /// A status, such as `OK`; also a number too big for 64 bits.
    Status(String),
    /// A number.
    Integer(i64),
    /// A number with a fraction.
    Double(f64),
    /// Yes or no.
    Boolean(bool),
    /// A value.
    Bytes(Vec<u8>),
    /// Several replies; sets, too.
    Array(Vec<Reply>),
    /// Pairs.
    Map(Vec<(Reply, Reply)>),
    /// Why not: inside of an array, for one command of a block.
    Error(ServerError),
}

impl Reply {
    /// In a word, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Reply::Nil => "nil",
            Reply::Status(_) => "a status",
            Reply::Integer(_) => "an integer",
            Reply::Double(_) => "a double",
            Reply::Boolean(_) => "a boolean",
            Reply::Bytes(_) => "a value",
            Reply::Array(_) => "an array",
            Reply::Map(_) => "a map",
            Reply::Error(_) => "an error",
        }
    }
}

/// The server says what is no RESP, or too much: the connection is of no more use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// A reply that holds others and has not all of them yet.
#[derive(Debug)]
struct Open {
    kind: u8,
    missing: usize,
    parts: Vec<Reply>,
}

/// Bytes to replies. Each byte is looked at once, however they come, but for those of a line or value that is not whole.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    at: usize,
    open: Vec<Open>,
    /// Bytes of the replies that are open.
    taken: usize,
}

impl Decoder {
    /// More bytes came.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.at > 0 && self.at >= self.bytes.len() / 2 {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Whether something came that was not taken as a reply.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.at == self.bytes.len()
    }

    /// The next whole reply.
    pub fn next(&mut self) -> Result<Option<Reply>, Malformed> {
        loop {
            let before = self.at;
            let Some(part) = self.part()? else { return Ok(None) };
            self.taken += self.at - before;
            if self.taken > MAX_REPLY_BYTES {
                return Err(Malformed("a reply is too long"));
            }
            let mut whole = match part {
                Part::Whole(reply) => reply,
                Part::Opens(kind, 0) => close(kind, Vec::new())?,
                Part::Opens(kind, missing) => {
                    if self.open.len() == MAX_DEPTH {
                        return Err(Malformed("replies are nested too deeply"));
                    }
                    let parts = Vec::with_capacity(missing.min(MAX_RESERVED));
                    self.open.push(Open { kind, missing, parts });
                    continue;
                }
            };
            loop {
                let Some(open) = self.open.last_mut() else {
                    self.taken = 0;
                    return Ok(Some(whole));
                };
                open.parts.push(whole);
                open.missing -= 1;
                if open.missing > 0 {
                    break;
                }
                let Open { kind, parts, .. } = self.open.pop().expect("it was looked at");
                whole = close(kind, parts)?;
            }
        }
    }

    /// A value, or the head of what holds others; `None` if it is not all there.
    fn part(&mut self) -> Result<Option<Part>, Malformed> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\r') else {
            return if rest.len() < MAX_LINE_BYTES { Ok(None) } else { Err(Malformed("a line is too long")) };
        };
        if rest.len() < end + 2 {
            return Ok(None);
        }
        if rest[end + 1] != b'\n' || end == 0 {
            return Err(Malformed("a line does not end as it should"));
        }
        let (kind, line, mut next) = (rest[0], &rest[1..end], end + 2);
        let text = || String::from_utf8_lossy(line).into_owned();
        let reply = match kind {
            b'+' | b'(' => Reply::Status(text()),
            b'-' => Reply::Error(ServerError::parse(&text())),
            b':' => Reply::Integer(number(line)?),
            b'_' => Reply::Nil,
            b'#' => Reply::Boolean(line == b"t"),
            b',' => Reply::Double(text().parse().map_err(|_| Malformed("a double is none"))?),
            b'$' | b'=' | b'!' => match length(line)? {
                None => Reply::Nil,
                Some(len) if len > MAX_REPLY_BYTES => return Err(Malformed("a value is too long")),
                Some(len) if rest.len() < next + len + 2 => return Ok(None),
                Some(len) => {
                    let value = &rest[next..next + len];
                    if &rest[next + len..next + len + 2] != b"\r\n" {
                        return Err(Malformed("a value does not end where it should"));
                    }
                    next += len + 2;
                    match kind {
                        b'!' => Reply::Error(ServerError::parse(&String::from_utf8_lossy(value))),
                        // Three letters of format, and a colon.
                        b'=' => Reply::Bytes(value.get(4..).unwrap_or_default().to_vec()),
                        _ => Reply::Bytes(value.to_vec()),
                    }
                }
            },
            b'*' | b'~' | b'>' | b'%' => match length(line)? {
                None => Reply::Nil,
                Some(count) => {
                    let parts = if kind == b'%' { count.checked_mul(2) } else { Some(count) };
                    let parts = parts.filter(|parts| *parts <= MAX_REPLY_BYTES);
                    let parts = parts.ok_or(Malformed("a reply holds too much"))?;
                    self.at += next;
                    return Ok(Some(Part::Opens(kind, parts)));
                }
            },
            _ => return Err(Malformed("a reply is of no known kind")),
        };
        self.at += next;
        Ok(Some(Part::Whole(reply)))
    }
}

enum Part {
    Whole(Reply),
    Opens(u8, usize),
}

fn close(kind: u8, parts: Vec<Reply>) -> Result<Reply, Malformed> {
    match kind {
        b'*' | b'~' => Ok(Reply::Array(parts)),
        b'%' => {
            let mut pairs = Vec::with_capacity(parts.len() / 2);
            let mut parts = parts.into_iter();
            while let (Some(key), Some(value)) = (parts.next(), parts.next()) {
                pairs.push((key, value));
            }
            Ok(Reply::Map(pairs))
        }
        // Nobody asked for any.
        _ => Err(Malformed("the server pushes what nobody asked for")),
    }
}

fn number(line: &[u8]) -> Result<i64, Malformed> {
    let text = std::str::from_utf8(line).map_err(|_| Malformed("a number is none"))?;
    text.parse().map_err(|_| Malformed("a number is none"))
}

fn length(line: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(line)? {
        -1 => Ok(None),
        len => usize::try_from(len).map(Some).map_err(|_| Malformed("a length is negative")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8], pieces: usize) -> Result<Vec<Reply>, Malformed> {
        let (mut decoder, mut replies) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(pieces.max(1)) {
            decoder.feed(piece);
            while let Some(reply) = decoder.next()? {
                replies.push(reply);
            }
        }
        Ok(replies)
    }

    #[test]
    fn replies_of_both_versions_are_understood_in_any_pieces() {
        let bytes = b"+OK\r\n:-5\r\n$-1\r\n_\r\n*-1\r\n$0\r\n\r\n$3\r\na\r\n\r\n,1.5\r\n#t\r\n(123\r\n=7\r\ntxt:abc\r\n\
            *2\r\n*0\r\n%1\r\n+k\r\n~1\r\n:1\r\n-ERR no\r\n!5\r\nOOM x\r\n";
        let bytes_of = |text: &[u8]| Reply::Bytes(text.to_vec());
        let status = |text: &str| Reply::Status(text.into());
        let expected = vec![
            status("OK"),
            Reply::Integer(-5),
            Reply::Nil,
            Reply::Nil,
            Reply::Nil,
            bytes_of(b""),
            bytes_of(b"a\r\n"),
            Reply::Double(1.5),
            Reply::Boolean(true),
            status("123"),
            bytes_of(b"abc"),
            Reply::Array(vec![
                Reply::Array(vec![]),
                Reply::Map(vec![(status("k"), Reply::Array(vec![Reply::Integer(1)]))]),
            ]),
            Reply::Error(ServerError::parse("ERR no")),
            Reply::Error(ServerError::parse("OOM x")),
        ];
        for pieces in 1..=bytes.len() {
            assert_eq!(all(bytes, pieces).as_ref(), Ok(&expected), "pieces of {pieces}");
        }
    }

    #[test]
    fn what_is_no_reply_is_told() {
        let deep = "*1\r\n".repeat(40);
        let bad: [&[u8]; 8] = [
            b"x\r\n",
            b"+a\rb",
            b":x\r\n",
            b"$-2\r\n",
            b"$99999999999\r\n",
            b"$1\r\nab\r\n",
            b">1\r\n+x\r\n",
            deep.as_bytes(),
        ];
        for bytes in bad {
            assert!(all(bytes, 3).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
        // What is only promised takes no memory.
        assert_eq!(all(b"*100000000\r\n:1\r\n", 5), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>, pieces in 1usize..20) {
            let _ = all(&bytes, pieces);
        }
    }
}
