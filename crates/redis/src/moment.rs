//! When a request is run, and its chance: what commands may know of the world beside the data.
//!
//! ```text
//! moment   unix time in ms u64 | seed u64      little endian
//! ```
//!
//! The host says the time and the connection draws the seed, once for each request, and both travel in its arguments. So a
//! transaction has one time from its first command to its last and however often it is tried, every replica that runs it sees the
//! same, and a simulated run repeats itself.

use highwater_core::codec::{Malformed, Reader};

/// The time and the seed of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since 1970, by the clock of the node that submitted the request to its engine, when it did.
    pub unix_ms: u64,
    /// What random choices start from.
    pub seed: u64,
}

impl Moment {
    /// How long it is, written.
    pub const BYTES: usize = 16;

    /// Sets the time of arguments that begin with a moment: when they are submitted, by the clock of the node that does.
    pub fn set_time(args: &mut [u8], unix_ms: u64) {
        if let Some(place) = args.first_chunk_mut() {
            *place = unix_ms.to_le_bytes();
        }
    }

    pub fn decode(reader: &mut Reader<'_>) -> Result<Moment, Malformed> {
        Ok(Moment { unix_ms: reader.u64()?, seed: reader.u64()? })
    }

    /// As [`decode`](Self::decode) reads it.
    pub fn bytes(self) -> [u8; Moment::BYTES] {
        let mut bytes = [0; Moment::BYTES];
        bytes[..8].copy_from_slice(&self.unix_ms.to_le_bytes());
        bytes[8..].copy_from_slice(&self.seed.to_le_bytes());
        bytes
    }
}
