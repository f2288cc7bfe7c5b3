//! How ballots and indexes travel: little endian, as all numbers do.

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Ballot, EntryIndex, Epoch, NodeId};

/// Appends a ballot: `epoch u64 | node u8`.
pub(crate) fn put_ballot(out: &mut Vec<u8>, ballot: Ballot) {
    out.extend_from_slice(&ballot.epoch.0.to_le_bytes());
    out.push(ballot.node.0);
}

/// Reads what [`put_ballot`] wrote.
pub(crate) fn ballot(reader: &mut Reader<'_>) -> Result<Ballot, Malformed> {
    Ok(Ballot { epoch: Epoch(reader.u64()?), node: NodeId(reader.u8()?) })
}

/// Appends an index: `u64`.
pub(crate) fn put_index(out: &mut Vec<u8>, index: EntryIndex) {
    out.extend_from_slice(&index.0.to_le_bytes());
}

/// No stream ever gets so long, so a larger index came from a broken peer. It is refused on decoding, and the
/// arithmetic on indexes everywhere else cannot overflow.
const MAX_INDEX: u64 = 1 << 62;

/// Reads what [`put_index`] wrote.
pub(crate) fn index(reader: &mut Reader<'_>) -> Result<EntryIndex, Malformed> {
    match reader.u64()? {
        index if index <= MAX_INDEX => Ok(EntryIndex(index)),
        _ => Err(Malformed("index")),
    }
}
