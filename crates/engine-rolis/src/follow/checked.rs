//! Entries that need no check any more.

use bytes::Bytes;
use highwater_consensus::{Members, Stream};
use highwater_core::codec::Reader;
use highwater_core::log::{ENTRY_HEADER_BYTES, Entry, EntryHeader};
use highwater_core::{EntryIndex, Level, StreamId, Timestamp};
use highwater_store::{Applied, Applier};

/// An entry that a stream holds. Streams take in what this node sealed, and of what arrives only [what is sound](level_if_sound): whoever has
/// one of these may take it apart without a look at its checksum, and it cannot be damaged.
pub(crate) struct CheckedEntry(Bytes);

/// The level of what arrived, if it is an entry of this stream and index, whole and undamaged. The only look at checksums.
pub(crate) fn level_if_sound(bytes: &[u8], stream: StreamId, index: EntryIndex) -> Option<Level> {
    let header = EntryHeader::open(bytes, true).ok()?.header;
    (header.stream == stream && header.index == index).then_some(header.level)
}

impl CheckedEntry {
    /// The entry at `index`, if the stream holds it.
    pub fn held(stream: &Stream, index: EntryIndex) -> Option<CheckedEntry> {
        stream.entry(index).cloned().map(CheckedEntry)
    }

    /// Its bytes, header included.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Its parts.
    pub fn open(&self) -> Entry<'_> {
        EntryHeader::open(&self.0, false).expect("what is held was sound when it arrived")
    }

    /// Its fixed part.
    pub fn header(&self) -> EntryHeader {
        self.open().header
    }

    /// The membership of a change of epoch.
    pub fn members(&self) -> Members {
        Members::decode(&mut Reader::new(self.open().body)).expect("the leader wrote a membership")
    }

    /// Installs of a batch what stands behind the first `offset` bytes of its body: transactions with `after < ts <= upto`.
    pub fn apply(&self, applier: &mut Applier, offset: usize, after: Timestamp, upto: Timestamp) -> Applied {
        let end = ENTRY_HEADER_BYTES + self.header().body_len as usize;
        let body = &self.0[ENTRY_HEADER_BYTES + offset..end];
        applier.apply(body, after, upto).expect("the leader wrote transactions")
    }
}
