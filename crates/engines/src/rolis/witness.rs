//! What a node knows of the others' disks: whether one that comes back has all that it told to be durable.
//!
//! A disk never loses what was synced. So what a node told before, it still has when its process starts again, and each start has a
//! number of its own, one more than the one before. A folder that was restored from an older copy breaks one or the other. Who notices
//! says so, and the node begins another life: what it once promised and accepted is not on that disk.
//!
//! | the copy was taken | noticed by whoever |
//! |---|---|
//! | before the node's last start | met the node in that start, and has since kept its own disk or process |
//! | since the node's last start | heard how far the disk was synced later than that, and whose process has run since |
//!
//! Invariant: a node that comes back with a disk takes part in nothing before a majority of the voters, itself among them, has said that
//! it knows nothing against that disk. The voters are those of the newest membership that it was told of: who was removed while it was
//! away need not be there to speak for it. Who came meanwhile never met it, and may speak: the epoch that let it in was opened without
//! this node, by a majority of its members, and they hold what was decided before and have promised as much.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use highwater_consensus::{Members, Quorums, Voter};
use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Incarnation, NodeId};

use super::hooks;
use crate::seam::DiskState;

/// What a node says of its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskWord {
    /// Which start of its process it is: drawn at random.
    pub start: u64,
    /// Starts on this disk, this one included.
    pub generation: u64,
    /// Bytes that the disk had when the process started.
    pub had: u64,
    /// Bytes that it surely has by now.
    pub synced: u64,
}

/// In front of what a controller writes of others' disks; where it writes a membership stands an epoch that there will never be.
const RECORD: u64 = u64::MAX;

/// What this node heard, and what others said of its own disk.
#[derive(Debug, Default)]
pub struct Witness {
    /// The last start of each life that was met.
    known: BTreeMap<Voter, DiskWord>,
    /// This process started with what an earlier one wrote, and must be cleared.
    came_back: bool,
    /// Who knows nothing against its disk.
    cleared_by: BTreeSet<Voter>,
    cleared: bool,
}

impl Witness {
    /// This node comes back with its disk.
    pub fn come_back(&mut self) {
        self.came_back = true;
    }

    /// Whether this node may take part.
    pub fn is_cleared(&self) -> bool {
        !self.came_back || self.cleared
    }

    /// Takes what a node says of its disk: whether the disk is older than what that node once told, and whether the start is news, to be
    /// written.
    pub fn hear(&mut self, from: Voter, word: DiskWord) -> Heard {
        let Some(known) = self.known.get_mut(&from) else {
            self.known.insert(from, word);
            return Heard::News;
        };
        if known.start == word.start {
            known.synced = known.synced.max(word.synced);
            return Heard::Known;
        }
        let goes_on = word.generation > known.generation && word.had >= known.synced;
        if !goes_on && !hooks::believes_old_disks() {
            return Heard::Stale;
        }
        *known = word;
        Heard::News
    }

    /// A voter knows nothing against this node's disk. Whether that makes the majority.
    pub fn clear(&mut self, me: Voter, by: Option<Voter>, members: Option<&Members>) -> bool {
        self.cleared_by.extend(by);
        let (Some(members), false) = (members, self.is_cleared()) else { return false };
        let clears = |voter: Voter| voter == me || self.cleared_by.contains(&voter);
        self.cleared = Quorums::of(members.clone()).reached(clears);
        self.cleared
    }

    /// A record of what was heard of a life's start.
    pub fn record(voter: Voter, word: DiskWord) -> Bytes {
        let mut out = RECORD.to_le_bytes().to_vec();
        out.push(voter.node.0);
        out.extend_from_slice(&voter.incarnation.0.to_le_bytes());
        word.encode(&mut out);
        out.into()
    }

    /// All that was heard, to be written anew: what was written before is about to be dropped.
    pub fn records(&self) -> Vec<Bytes> {
        self.known.iter().map(|(voter, word)| Witness::record(*voter, *word)).collect()
    }

    /// Takes such a record; whether it was one.
    ///
    /// # Errors
    /// If it begins as one and is none.
    pub fn recover(&mut self, record: &Bytes) -> Result<bool, Malformed> {
        let mut reader = Reader::new(record);
        if reader.u64()? != RECORD {
            return Ok(false);
        }
        let voter = Voter { node: NodeId(reader.u8()?), incarnation: Incarnation(reader.u64()?) };
        let word = DiskWord::decode(&mut reader)?;
        if !reader.is_empty() {
            return Err(Malformed("length of a record of a disk"));
        }
        self.known.insert(voter, word);
        Ok(true)
    }
}

/// What a node's word about its disk means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A start that was not met before.
    News,
    /// The start that was met before.
    Known,
    /// The disk is older than what the node told.
    Stale,
}

impl DiskWord {
    /// Of this node's own disk; `None` if it has none.
    pub fn of(state: DiskState) -> Option<DiskWord> {
        let DiskState { start, generation, had, synced, low: _ } = state;
        (generation > 0).then_some(DiskWord { start, generation, had, synced })
    }

    /// Four words, little endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for word in [self.start, self.generation, self.had, self.synced] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads what [`encode`](DiskWord::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<DiskWord, Malformed> {
        Ok(DiskWord {
            start: reader.u64()?,
            generation: reader.u64()?,
            had: reader.u64()?,
            synced: reader.u64()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::Epoch;

    use super::*;

    fn voter(node: u8) -> Voter {
        Voter { node: NodeId(node), incarnation: Incarnation(u64::from(node) + 50) }
    }

    fn word(start: u64, generation: u64, had: u64, synced: u64) -> DiskWord {
        DiskWord { start, generation, had, synced }
    }

    #[test]
    fn an_older_disk_is_recognised_by_its_generation_or_by_what_it_lacks() {
        let mut witness = Witness::default();
        assert_eq!(witness.hear(voter(1), word(7, 3, 100, 100)), Heard::News);
        assert_eq!(witness.hear(voter(1), word(7, 3, 100, 160)), Heard::Known);
        assert_eq!(
            witness.hear(voter(1), word(8, 3, 100, 100)),
            Heard::Stale,
            "copied before the last start"
        );
        assert_eq!(witness.hear(voter(1), word(8, 2, 90, 90)), Heard::Stale);
        assert_eq!(
            witness.hear(voter(1), word(8, 4, 159, 159)),
            Heard::Stale,
            "copied since, and it told more"
        );
        assert_eq!(witness.hear(voter(1), word(8, 4, 160, 160)), Heard::News);
        assert_eq!(
            witness.hear(voter(1), word(7, 3, 100, 160)),
            Heard::Stale,
            "a late word of a start that is over"
        );
        assert_eq!(witness.hear(voter(2), word(1, 1, 0, 0)), Heard::News);
    }

    #[test]
    fn what_was_heard_is_remembered() {
        let (mut before, mut after) = (Witness::default(), Witness::default());
        before.hear(voter(1), word(7, 3, 100, 100));
        let record = Witness::record(voter(1), word(7, 3, 100, 100));
        assert_eq!(after.recover(&record), Ok(true));
        assert_eq!(after.hear(voter(1), word(9, 3, 100, 100)), Heard::Stale);
        let mut members = Vec::new();
        Members::new(Epoch(4), vec![voter(0)]).encode(&mut members);
        assert_eq!(after.recover(&members.into()), Ok(false));
        for len in 8..record.len() {
            assert!(after.recover(&record.slice(..len)).is_err());
        }
    }

    #[test]
    fn who_comes_back_needs_the_word_of_a_majority() {
        let members = Members::new(Epoch(4), (0..5).map(voter).collect());
        let mut witness = Witness::default();
        assert!(witness.is_cleared(), "a node without a past has nothing to be cleared of");
        witness.come_back();
        assert!(!witness.clear(voter(0), Some(voter(1)), None), "whose majority?");
        assert!(!witness.clear(voter(0), None, Some(&members)) && !witness.is_cleared());
        assert!(witness.clear(voter(0), Some(voter(2)), Some(&members)) && witness.is_cleared());
        let alone = Members::new(Epoch(1), vec![voter(0)]);
        let mut witness = Witness::default();
        witness.come_back();
        assert!(witness.clear(voter(0), None, Some(&alone)));
    }
}
