//! What a copy of this worker's part of the state can be taken of, and where in the log its receiver goes on.

use highwater_consensus::Stream;
use highwater_core::{EntryIndex, Epoch, Timestamp};
use highwater_kit::copy::Source;

use crate::context::With;
use crate::hooks;
use crate::progress::Progress;

use super::entries::CheckedEntry;

/// A replica as a donor. If it leads, its store is ahead of the mark: what was read is settled when the mark has passed it. If not,
/// everything in its store is settled, unless another worker has begun to lead, or has led and does not know yet what became of its
/// transactions.
pub struct Donor<'a, M> {
    /// Whose store it is.
    pub context: &'a With<M>,
    /// This worker executes transactions.
    pub leads: bool,
}

impl<M: Progress> Source for Donor<'_, M> {
    fn is_sound(&self) -> bool {
        self.leads || self.context.shared.is_certain()
    }

    fn position(&self) -> Timestamp {
        self.context.marks.position(self.leads)
    }

    fn settled(&self) -> Timestamp {
        let mark = self.context.marks.mark();
        if self.leads { hooks::settled(mark) } else { Timestamp::MAX }
    }
}

/// The first entry that who begins in `epoch` with everything at or below `floor` has to look at, if it is still kept: it may hold a
/// transaction above the floor, or it ends that epoch. `begun`: this replica's store came as a copy or checkpoint that lacks what this
/// entry and later ones hold above this timestamp.
///
/// The end counts whatever its timestamp. A takeover that dies may leave its epoch's first entry in one stream, with a base above all
/// that *its* voters knew; the next leader finds more of the epoch that ends in other streams, and its mark goes on beyond that base.
/// Who begins behind such an entry takes it for one of the epoch that ends, and believes claims about the lost one that stood there.
///
/// Everything before the entry that is found is known to be decided here. Of a copied state the stream may not have heard so yet, and
/// what it holds there may still be something else: it has to hear of it first.
pub fn locate(
    stream: &Stream,
    begun: (EntryIndex, Timestamp),
    (epoch, floor): (Epoch, Timestamp),
) -> Option<EntryIndex> {
    let tail = stream.tail();
    if tail.decided.next() < begun.0 {
        return None;
    }
    let (mut low, mut high) = (tail.first.0, tail.decided.0 + 1);
    if hooks::copy_starts_late() {
        return Some(EntryIndex(high));
    }
    // Epochs and closing timestamps grow along a log.
    while low < high {
        let middle = low + (high - low) / 2;
        let entry =
            CheckedEntry::held(stream, EntryIndex(middle)).expect("entries between first and last are held");
        let header = entry.header();
        if header.closed_ts > floor || header.epoch > epoch {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    // If even the first entry held is above the floor, so may be what was trimmed before it; not what this replica never had.
    let whole = tail.first == begun.0 && begun.1 <= floor;
    let reaches_back = low > tail.first.0 || whole;
    let copied = if begun.1 <= floor { begun.0 } else { EntryIndex::NONE };
    let start = reaches_back.then_some(EntryIndex(low).max(copied))?;
    assert!(!begins_too_late(stream, epoch, start), "who begins in {epoch} at {start} misses its end");
    Some(start)
}

/// Whether who begins in `epoch` with the entry `start` misses where that epoch ends, by what is known of the stream here.
pub fn begins_too_late(stream: &Stream, epoch: Epoch, start: EntryIndex) -> bool {
    let before = EntryIndex(start.0.saturating_sub(1));
    let held = if before <= stream.decided() { CheckedEntry::held(stream, before) } else { None };
    held.is_some_and(|entry| entry.header().epoch > epoch)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use highwater_consensus::{Change, Recovered, RecoveryPoint, StreamOptions, Voter};
    use highwater_core::log::{ENTRY_HEADER_BYTES, EntryHeader, EntryKind};
    use highwater_core::{Ballot, Durability, Incarnation, Level, NodeId, StreamId};

    use super::*;

    fn entry(kind: EntryKind, epoch: u64, index: u64, closed: u64) -> Bytes {
        let mut bytes = vec![0; ENTRY_HEADER_BYTES];
        let (epoch, index, closed) = (Epoch(epoch), EntryIndex(index), Timestamp(closed));
        let header = EntryHeader::without_transactions(kind, Level::FIRST, StreamId(0), epoch, index, closed);
        header.seal(&mut bytes, &[]);
        bytes.into()
    }

    /// Epoch 3 began in this stream only, at 15, and never opened; epoch 1 went on to 30 in the others.
    fn stream() -> Stream {
        let ballot = Ballot { epoch: Epoch(4), node: NodeId(1) };
        let mut state = Recovered::begin(RecoveryPoint::default());
        let log = [
            entry(EntryKind::EpochChange, 1, 1, 1),
            entry(EntryKind::Batch, 1, 2, 10),
            entry(EntryKind::EpochChange, 3, 3, 15),
            entry(EntryKind::EpochChange, 4, 4, 44),
        ];
        let accepted = [Change::Promised(ballot), Change::Adopted { keep: EntryIndex::NONE, entries: 0 }];
        let changes = accepted.into_iter().chain(log.map(Change::Appended));
        for change in changes.chain([Change::Decided(EntryIndex(4))]) {
            state.apply(change).unwrap();
        }
        let me = Voter { node: NodeId(0), incarnation: Incarnation(7) };
        Stream::recover(me, state, StreamOptions { durability: Durability::Sync, ..StreamOptions::default() })
    }

    #[test]
    fn nobody_begins_behind_the_end_of_the_epoch_whatever_its_timestamp() {
        let (stream, begun) = (stream(), (EntryIndex(1), Timestamp::ZERO));
        for (epoch, floor, start) in [(1, 5, 2), (1, 10, 3), (1, 14, 3), (1, 15, 3), (1, 30, 3), (4, 44, 5)] {
            let found = locate(&stream, begun, (Epoch(epoch), Timestamp(floor)));
            assert_eq!(found, Some(EntryIndex(start)), "in epoch {epoch} from {floor}");
        }
        assert!(!begins_too_late(&stream, Epoch(1), EntryIndex(3)));
        assert!(begins_too_late(&stream, Epoch(1), EntryIndex(4)));
        assert!(!begins_too_late(&stream, Epoch(4), EntryIndex(5)));
    }
}
