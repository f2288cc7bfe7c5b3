//! What the workers of donor and receiver say to each other.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::wire::{Form, Wire};
use highwater_core::{Random, Timestamp, wire};

wire! {
    /// The head of a frame that belongs to a copy. An engine tells it from its own frames by the tag in front: 1, 2 or 3.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CopyMessage: "message of a copy" {
        /// Receiver to donor: send me your part of the state.
        CopyStart = 1 {
            /// Names the copy.
            copy: u64,
        },
        /// Donor to receiver; the body is `crc32 u32 | chunk`.
        CopyChunk = 2 {
            /// Names the copy.
            copy: u64,
            /// Counts the chunks from 0.
            seq: u32,
            /// The last one: the state is complete once everything at or below this is applied.
            complete_at: Option<Timestamp> as Padded,
        },
        /// Receiver to donor: chunks up to this one are installed.
        CopyAck = 3 {
            /// Names the copy.
            copy: u64,
            /// The chunk.
            seq: u32,
        },
    }
}

/// An option that takes as many bytes if there is none: zeros.
#[derive(Debug)]
pub struct Padded;

impl Form<Option<Timestamp>> for Padded {
    fn put(value: &Option<Timestamp>, out: &mut Vec<u8>) {
        value.is_some().put(out);
        value.unwrap_or_default().put(out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Option<Timestamp>, Malformed> {
        let (there, value) = (bool::take(from)?, Timestamp::take(from)?);
        Ok(there.then_some(value))
    }

    fn form() -> String {
        "(bool | u64, 0 if there is none)".into()
    }

    fn draw(random: &mut Random) -> Option<Timestamp> {
        Wire::draw(random)
    }
}
