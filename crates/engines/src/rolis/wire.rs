//! Heads of the frames between same-numbered workers: a stream's messages, and the copying of state.

use bytes::Bytes;
use highwater_consensus::Message;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{EntryIndex, Timestamp};

/// Index of the entry that must travel with `message`, if one must.
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
    /// Receiver to donor: send me your part of the state.
    CopyStart {
        /// Names the copy.
        copy: u64,
    },
    /// Donor to receiver; the body is `crc32 u32 | chunk`.
    CopyChunk {
        /// Names the copy.
        copy: u64,
        /// Counts the chunks from 0.
        seq: u32,
        /// The last one: the state is complete once everything at or below this is applied.
        complete_at: Option<Timestamp>,
    },
    /// Receiver to donor: chunks up to this one are installed.
    CopyAck {
        /// Names the copy.
        copy: u64,
        /// The chunk.
        seq: u32,
    },
}

impl Head {
    /// The head's bytes: `tag u8 | fields`, little endian.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(48);
        match *self {
            Head::Stream(ref message) => {
                out.push(0);
                message.encode(&mut out);
            }
            Head::CopyStart { copy } => {
                out.push(1);
                out.extend_from_slice(&copy.to_le_bytes());
            }
            Head::CopyChunk { copy, seq, complete_at } => {
                out.push(2);
                out.extend_from_slice(&copy.to_le_bytes());
                out.extend_from_slice(&seq.to_le_bytes());
                out.push(complete_at.is_some().into());
                out.extend_from_slice(&complete_at.unwrap_or_default().0.to_le_bytes());
            }
            Head::CopyAck { copy, seq } => {
                out.push(3);
                out.extend_from_slice(&copy.to_le_bytes());
                out.extend_from_slice(&seq.to_le_bytes());
            }
        }
        out.into()
    }

    /// Reads what [`encode`](Head::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Head, Malformed> {
        let mut reader = Reader::new(bytes);
        let head = match reader.u8()? {
            0 => Head::Stream(Message::decode(&mut reader)?),
            1 => Head::CopyStart { copy: reader.u64()? },
            2 => {
                let (copy, seq) = (reader.u64()?, reader.u32()?);
                let (last, ts) = (reader.u8()? != 0, Timestamp(reader.u64()?));
                Head::CopyChunk { copy, seq, complete_at: last.then_some(ts) }
            }
            3 => Head::CopyAck { copy: reader.u64()?, seq: reader.u32()? },
            _ => return Err(Malformed("frame tag")),
        };
        if reader.is_empty() { Ok(head) } else { Err(Malformed("frame head length")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_round_trip() {
        for head in [
            Head::CopyStart { copy: 7 },
            Head::CopyChunk { copy: 7, seq: 3, complete_at: None },
            Head::CopyChunk { copy: 7, seq: 4, complete_at: Some(Timestamp(99)) },
            Head::CopyAck { copy: 7, seq: 4 },
        ] {
            let bytes = head.encode();
            assert_eq!(Head::decode(&bytes), Ok(head));
            for len in 0..bytes.len() {
                assert!(Head::decode(&bytes[..len]).is_err());
            }
        }
    }
}
