//! Entries as workers hold them: those that need no check any more, and the buffer of one that is begun.

use bytes::Bytes;
use highwater_consensus::{Members, Stream};
use highwater_core::codec::Reader;
use highwater_core::log::{ENTRY_HEADER_BYTES, Entry, EntryHeader};
use highwater_core::{EntryIndex, Level, StreamId, Timestamp};
use highwater_store::{Applied, Applier};

/// An entry that a stream holds. Streams take in what this node sealed, and of what arrives only what is sound (`level_if_sound`): whoever has
/// one of these may take it apart without a look at its checksum, and it cannot be damaged.
pub struct CheckedEntry(Bytes);

/// Least room in a new entry's buffer.
pub const FRESH_BYTES: usize = 16 << 10;
/// Entries below this size are copied out of the receive buffer.
const OWN_BELOW_BYTES: usize = 192 << 10;

/// A buffer with room for an entry's header.
pub fn fresh_entry() -> Vec<u8> {
    let mut buffer = Vec::with_capacity(FRESH_BYTES);
    buffer.resize(ENTRY_HEADER_BYTES, 0);
    buffer
}

/// An entry that may be kept for long. A small one gets memory of its own: as a part of a receive buffer it would keep
/// all of that, which may be a hundred times as much.
pub(super) fn own_entry(body: Bytes) -> Bytes {
    if body.len() < OWN_BELOW_BYTES { Bytes::copy_from_slice(&body) } else { body }
}

/// The level of what arrived, if it is an entry of this stream and index, whole and undamaged. The only look at checksums.
pub(super) fn level_if_sound(bytes: &[u8], stream: StreamId, index: EntryIndex) -> Option<Level> {
    let header = EntryHeader::open(bytes, true).ok()?.header;
    (header.stream == stream && header.index == index).then_some(header.level)
}

impl CheckedEntry {
    /// The entry at `index`, if the stream holds it.
    #[inline]
    pub fn held(stream: &Stream, index: EntryIndex) -> Option<CheckedEntry> {
        stream.entry(index).cloned().map(CheckedEntry)
    }

    /// Its bytes, header included.
    #[inline]
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Its parts.
    #[inline]
    pub fn open(&self) -> Entry<'_> {
        EntryHeader::open(&self.0, false).expect("what is held was sound when it arrived")
    }

    /// Its fixed part.
    #[inline]
    pub fn header(&self) -> EntryHeader {
        self.open().header
    }

    /// The membership of a change of epoch.
    #[inline]
    pub fn members(&self) -> Members {
        Members::decode(&mut Reader::new(self.open().body)).expect("the leader wrote a membership")
    }

    /// Installs of a batch what stands behind the first `offset` bytes of its body: transactions with `after < ts <= upto`.
    #[inline]
    pub fn apply(&self, applier: &mut Applier, offset: usize, after: Timestamp, upto: Timestamp) -> Applied {
        let end = ENTRY_HEADER_BYTES + self.header().body_len as usize;
        let body = &self.0[ENTRY_HEADER_BYTES + offset..end];
        applier.apply(body, after, upto).expect("the leader wrote transactions")
    }
}
