//! Heads of the frames between same-numbered workers: a stream's messages, and the copying of state.

use bytes::Bytes;
use highwater_consensus::Message;
use highwater_core::EntryIndex;
use highwater_core::codec::{Malformed, Reader};
use highwater_kit::copy::CopyMessage;

use crate::probes::ProbeMessage;

/// Index of the entry that must travel with `message`, if one must.
#[inline]
pub fn carried_entry(message: &Message) -> Option<EntryIndex> {
    match *message {
        Message::Adopt { start, upto, index, .. } => (start <= upto).then_some(index),
        Message::Accept { index, .. } | Message::Fetched { index, .. } => Some(index),
        _ => None,
    }
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A message of the stream; the frame's body is the entry that travels along.
    Stream(Message),
    /// A message of a state copy; the frame's body is its chunk.
    Copy(CopyMessage),
    /// A message about freshness; no body.
    Probe(ProbeMessage),
}

/// Tag of a stream's message; the others are [`CopyMessage`]'s and [`ProbeMessage`]'s.
const STREAM: u8 = 0;

impl Head {
    /// The head's bytes: `tag u8 | fields`, little endian.
    #[inline]
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(48);
        match self {
            Head::Stream(message) => {
                out.push(STREAM);
                message.encode(&mut out);
            }
            Head::Copy(message) => message.encode(&mut out),
            Head::Probe(message) => message.encode(&mut out),
        }
        out.into()
    }

    /// Reads what [`encode`](Head::encode) wrote.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Head, Malformed> {
        let (tag, mut reader) = (Reader::new(bytes).u8()?, Reader::new(bytes));
        let head = match tag {
            STREAM => {
                reader.u8()?;
                Head::Stream(Message::decode(&mut reader)?)
            }
            tag if ProbeMessage::has_tag(tag) => Head::Probe(ProbeMessage::decode(&mut reader)?),
            _ => Head::Copy(CopyMessage::decode(&mut reader)?),
        };
        if reader.is_empty() { Ok(head) } else { Err(Malformed("frame head length")) }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::Timestamp;

    use super::*;

    #[test]
    fn heads_round_trip() {
        for head in [
            Head::Copy(CopyMessage::CopyStart { copy: 7 }),
            Head::Copy(CopyMessage::CopyChunk { copy: 7, seq: 3, complete_at: None }),
            Head::Copy(CopyMessage::CopyChunk { copy: 7, seq: 4, complete_at: Some(Timestamp(99)) }),
            Head::Copy(CopyMessage::CopyAck { copy: 7, seq: 4 }),
            Head::Probe(ProbeMessage::Probe { asked: 5 }),
            Head::Probe(ProbeMessage::Vouch { asked: 5, upto: Timestamp(99), log: EntryIndex(7) }),
        ] {
            let bytes = head.encode();
            assert_eq!(Head::decode(&bytes), Ok(head));
            for len in 0..bytes.len() {
                assert!(Head::decode(&bytes[..len]).is_err());
            }
        }
    }
}
