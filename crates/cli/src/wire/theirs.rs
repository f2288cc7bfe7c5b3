//! Replies by somebody else's parser.

use std::io;

use redis_protocol::resp2::decode::decode_range;
use redis_protocol::resp2::types::RangeFrame;

use super::{Reply, nonsense};

/// The reply that `bytes` begin with, and its length in bytes; nothing if it is not all there.
///
/// # Errors
/// If that is no RESP2.
pub fn decode(bytes: &[u8]) -> io::Result<Option<(Reply, usize)>> {
    let Some((frame, len)) = decode_range(bytes).map_err(nonsense)? else { return Ok(None) };
    let reply = match frame {
        // The parser knows one nil only: which of the two it is, its tag says.
        RangeFrame::Null if bytes[0] == b'*' => Reply::Array(None),
        frame => reply_of(bytes, frame)?,
    };
    Ok(Some((reply, len)))
}

/// A parsed reply as the load looks at it.
fn reply_of(bytes: &[u8], frame: RangeFrame) -> io::Result<Reply> {
    let text = |(from, to): (usize, usize)| String::from_utf8(bytes[from..to].to_vec()).map_err(nonsense);
    Ok(match frame {
        RangeFrame::SimpleString(range) => Reply::Simple(text(range)?),
        RangeFrame::Error(range) => Reply::Error(text(range)?),
        RangeFrame::Integer(number) => Reply::Integer(number),
        RangeFrame::BulkString((from, to)) => Reply::Bulk(Some(bytes[from..to].to_vec())),
        RangeFrame::Array(frames) => {
            let replies = frames.into_iter().map(|frame| reply_of(bytes, frame));
            Reply::Array(Some(replies.collect::<io::Result<_>>()?))
        }
        RangeFrame::Null => Reply::Bulk(None),
    })
}
