//! Replies by a parser of ours.

use std::io;

use super::{Reply, nonsense};

/// Replies in replies: what the demo asks for nests less.
const MAX_DEPTH: usize = 8;

/// The reply that `bytes` begin with, and its length in bytes; nothing if it is not all there.
///
/// # Errors
/// If that is no RESP2, or nested too deeply.
pub fn decode(bytes: &[u8]) -> io::Result<Option<(Reply, usize)>> {
    let mut input = Input { bytes, at: 0 };
    Ok(input.reply(0)?.map(|reply| (reply, input.at)))
}

/// Bytes, of which the first `at` were read.
struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn reply(&mut self, depth: usize) -> io::Result<Option<Reply>> {
        let Some((kind, line)) = self.line()? else { return Ok(None) };
        Ok(Some(match kind {
            b'+' => Reply::Simple(line),
            b'-' => Reply::Error(line),
            b':' => Reply::Integer(line.parse().map_err(nonsense)?),
            b'$' => return self.bulk(length(&line)?),
            b'*' if depth < MAX_DEPTH => return self.array(length(&line)?, depth),
            kind => return Err(nonsense(format!("kind {kind}, depth {depth}"))),
        }))
    }

    /// A reply's kind, and its first line without that.
    fn line(&mut self) -> io::Result<Option<(u8, String)>> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        let Some((&kind, line)) = rest[..end].split_first() else { return Err(nonsense("an empty line")) };
        self.at += end + 2;
        Ok(Some((kind, String::from_utf8(line.to_vec()).map_err(nonsense)?)))
    }

    fn bulk(&mut self, len: Option<usize>) -> io::Result<Option<Reply>> {
        let Some(len) = len else { return Ok(Some(Reply::Bulk(None))) };
        let rest = &self.bytes[self.at..];
        if rest.len() < len.saturating_add(2) {
            return Ok(None);
        }
        if &rest[len..len + 2] != b"\r\n" {
            return Err(nonsense("a value does not end where it should"));
        }
        self.at += len + 2;
        Ok(Some(Reply::Bulk(Some(rest[..len].to_vec()))))
    }

    fn array(&mut self, len: Option<usize>, depth: usize) -> io::Result<Option<Reply>> {
        let Some(len) = len else { return Ok(Some(Reply::Array(None))) };
        let mut parts = Vec::new();
        for _ in 0..len {
            let Some(part) = self.reply(depth + 1)? else { return Ok(None) };
            parts.push(part);
        }
        Ok(Some(Reply::Array(Some(parts))))
    }
}

/// A length; nothing stands for nil.
fn length(line: &str) -> io::Result<Option<usize>> {
    if line == "-1" {
        return Ok(None);
    }
    line.parse().map(Some).map_err(nonsense)
}
