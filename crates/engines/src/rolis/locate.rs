//! What a copy of this worker's part of the state can be taken of, and where in the log its receiver goes on.

use highwater_consensus::Stream;
use highwater_core::{EntryIndex, Timestamp};

use super::checked::CheckedEntry;
use super::hooks;
use super::shared::Shared;
use crate::copy::Source;

/// A replica as a donor. If it leads, its store is ahead of the mark: what was read is settled when the mark has passed it. If not,
/// everything in its store is settled, unless another worker has begun to lead, or has led and does not know yet what became of its
/// transactions.
pub struct Donor<'a> {
    /// Whose store it is.
    pub shared: &'a Shared,
    /// This worker executes transactions.
    pub leads: bool,
}

impl Source for Donor<'_> {
    fn is_sound(&self) -> bool {
        self.leads || self.shared.is_certain()
    }

    fn position(&self) -> Timestamp {
        if self.leads { self.shared.clock.now() } else { self.shared.watermark.mark() }
    }

    fn settled(&self) -> Timestamp {
        let mark = self.shared.watermark.mark();
        if self.leads { hooks::settled(mark) } else { Timestamp::MAX }
    }
}

/// The first entry that may hold a transaction above `floor`, if it is still kept. `begun`: this replica's store came as a copy or
/// checkpoint that lacks what this entry and later ones hold above this timestamp.
///
/// Everything before the entry that is found is known to be decided here. Of a copied state the stream may not have heard so yet, and
/// what it holds there may still be something else: it has to hear of it first.
pub fn locate(stream: &Stream, begun: (EntryIndex, Timestamp), floor: Timestamp) -> Option<EntryIndex> {
    let tail = stream.tail();
    if tail.decided.next() < begun.0 {
        return None;
    }
    let (mut low, mut high) = (tail.first.0, tail.decided.0 + 1);
    if hooks::copy_starts_late() {
        return Some(EntryIndex(high));
    }
    // Closing timestamps grow along a log.
    while low < high {
        let middle = low + (high - low) / 2;
        let entry =
            CheckedEntry::held(stream, EntryIndex(middle)).expect("entries between first and last are held");
        if entry.header().closed_ts > floor {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    // If even the first entry held is above the floor, so may be what was trimmed before it; not what this replica never had.
    let whole = tail.first == begun.0 && begun.1 <= floor;
    let reaches_back = low > tail.first.0 || whole;
    let copied = if begun.1 <= floor { begun.0 } else { EntryIndex::NONE };
    reaches_back.then_some(EntryIndex(low).max(copied))
}
