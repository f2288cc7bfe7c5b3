//! The entries of one stream that a replica still holds.

use std::collections::VecDeque;

use bytes::Bytes;
use highwater_core::EntryIndex;

/// A contiguous run of entries in memory, and where it ends: appended at the back, cut at the back by a new leader's
/// adoption, trimmed at the front.
///
/// Invariant: holds exactly the entries `first()..=last()`; `last() + 1 == first()` when it holds none.
#[derive(Debug)]
pub struct Log {
    /// Each entry with its position: the number of bytes in front of it since this log began. The difference of two
    /// positions is the size of what is between them, so that windows and budgets need no walk over the entries.
    entries: VecDeque<(u64, Bytes)>,
    /// Index of the first entry held, or of the next one.
    first: u64,
    /// The position that the next entry gets: bytes ever appended, less what was cut off at the back.
    end_position: u64,
}

impl Log {
    /// Holds nothing; the next entry follows `base`.
    pub fn after(base: EntryIndex) -> Log {
        Log { entries: VecDeque::new(), first: base.0 + 1, end_position: 0 }
    }

    /// Index of the first entry held (or of the next one, if none is).
    pub fn first(&self) -> EntryIndex {
        EntryIndex(self.first)
    }

    /// Index of the last entry that was appended.
    pub fn last(&self) -> EntryIndex {
        EntryIndex(self.first + self.entries.len() as u64 - 1)
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.end_position - self.entries.front().map_or(self.end_position, |(position, _)| *position)
    }

    /// The entry at `index`, if held.
    #[inline]
    pub fn get(&self, index: EntryIndex) -> Option<&Bytes> {
        let at = index.0.checked_sub(self.first)?;
        self.entries.get(at as usize).map(|(_, entry)| entry)
    }

    /// Bytes of the held entries in `from..=to`.
    pub fn bytes_between(&self, from: EntryIndex, to: EntryIndex) -> u64 {
        let start = |index: u64| {
            let at = index.saturating_sub(self.first) as usize;
            self.entries.get(at).map_or(self.end_position, |(position, _)| *position)
        };
        start(to.0 + 1).saturating_sub(start(from.0))
    }

    /// Appends an entry; its index is `last().next()`.
    pub fn append(&mut self, entry: Bytes) {
        let len = entry.len() as u64;
        self.entries.push_back((self.end_position, entry));
        self.end_position += len;
    }

    /// Drops every entry behind `last`: those that a new leader has overruled.
    ///
    /// # Panics
    /// If entries up to `last` were trimmed: they are decided, and nobody overrules them.
    pub fn truncate(&mut self, last: EntryIndex) {
        assert!(last.0 + 1 >= self.first, "cannot cut into what was trimmed");
        while self.last() > last {
            let (position, _) = self.entries.pop_back().expect("entries behind `last` are held");
            self.end_position = position;
        }
    }

    /// Drops entries from the front up to `upto`, oldest first, until at most `keep_bytes` are held.
    pub fn trim(&mut self, upto: EntryIndex, keep_bytes: u64) {
        while self.first <= upto.0 && self.bytes() > keep_bytes && self.entries.pop_front().is_some() {
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_truncate_and_trim_keep_count_of_bytes() {
        let mut log = Log::after(EntryIndex(10));
        assert_eq!((log.first(), log.last(), log.bytes()), (EntryIndex(11), EntryIndex(10), 0));
        for len in [1usize, 2, 3, 4] {
            log.append(Bytes::from(vec![0; len]));
        }
        assert_eq!((log.last(), log.bytes()), (EntryIndex(14), 10));
        assert_eq!(log.bytes_between(EntryIndex(12), EntryIndex(13)), 5);
        log.truncate(EntryIndex(13));
        assert_eq!((log.last(), log.bytes()), (EntryIndex(13), 6));
        log.trim(EntryIndex(12), 0);
        assert_eq!((log.first(), log.bytes()), (EntryIndex(13), 3));
        assert!(log.get(EntryIndex(12)).is_none() && log.get(EntryIndex(13)).is_some());
        log.trim(EntryIndex(13), 3);
        assert_eq!(log.first(), EntryIndex(13), "kept: within the budget");
        log.trim(EntryIndex(20), 0);
        assert_eq!((log.first(), log.last(), log.bytes()), (EntryIndex(14), EntryIndex(13), 0));
    }
}
