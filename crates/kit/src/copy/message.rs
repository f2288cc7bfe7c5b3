//! What the workers of donor and receiver say to each other.

use highwater_core::Timestamp;
use highwater_core::codec::{Malformed, Reader};

/// The head of a frame that belongs to a copy. An engine tells it from its own frames by the tag in front: 1, 2 or 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMessage {
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

use CopyMessage::{CopyAck, CopyChunk, CopyStart};

impl CopyMessage {
    /// `tag u8 | fields`, little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (tag, copy) = match *self {
            CopyStart { copy } => (1, copy),
            CopyChunk { copy, .. } => (2, copy),
            CopyAck { copy, .. } => (3, copy),
        };
        out.push(tag);
        out.extend_from_slice(&copy.to_le_bytes());
        match *self {
            CopyStart { .. } => {}
            CopyChunk { seq, complete_at, .. } => {
                out.extend_from_slice(&seq.to_le_bytes());
                out.push(complete_at.is_some().into());
                out.extend_from_slice(&complete_at.unwrap_or_default().0.to_le_bytes());
            }
            CopyAck { seq, .. } => out.extend_from_slice(&seq.to_le_bytes()),
        }
    }

    /// Reads what [`encode`](CopyMessage::encode) wrote behind its tag.
    pub fn decode(tag: u8, reader: &mut Reader<'_>) -> Result<CopyMessage, Malformed> {
        Ok(match tag {
            1 => CopyMessage::CopyStart { copy: reader.u64()? },
            2 => {
                let (copy, seq) = (reader.u64()?, reader.u32()?);
                let (last, ts) = (reader.u8()? != 0, Timestamp(reader.u64()?));
                CopyMessage::CopyChunk { copy, seq, complete_at: last.then_some(ts) }
            }
            3 => CopyMessage::CopyAck { copy: reader.u64()?, seq: reader.u32()? },
            _ => return Err(Malformed("frame tag")),
        })
    }
}
