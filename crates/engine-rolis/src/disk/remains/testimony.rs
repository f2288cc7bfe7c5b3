//! Words on the others' disks that a node had heard, by its own disk.
//!
//! A node that comes back is told by the others if its disk is an older copy (the half of the
//! [evidence](highwater_core::evidence) that others keep). Who looks at folders without a node asks their records the same, by the same rule.

use std::fmt;

use highwater_consensus::Voter;
use highwater_core::evidence::{Known, Starts};
use highwater_kit::witness::{RECORD, Witness};

/// Notes of a controller on others' disks.
#[derive(Clone, Debug, Default)]
pub struct Testimony(Witness);

/// Why a disk is older than what its node told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyOlder {
    /// It lacks a start that was met, the so-many-th.
    LacksStart(u64),
    /// It had fewer bytes of records at the start behind that one than were heard to be synced.
    LacksBytes(u64),
}

impl Testimony {
    /// Whether a record begins as one on another's disk does.
    pub fn may_be(record: &[u8]) -> bool {
        record.starts_with(&RECORD.to_le_bytes())
    }

    /// Takes a record of the controller's, in the order in which they were written; others than those on disks say nothing here.
    pub fn take(&mut self, record: &[u8]) {
        // Whoever reads the journal for its logs says that it is malformed.
        let _ = self.0.recover(record);
    }

    /// Why a disk is older than what that life of its node told this one, if it is. `starts`: those on it, and the one to come.
    pub fn against(&self, voter: Voter, starts: &Starts) -> Option<WhyOlder> {
        let Known { start, generation, synced } = self.0.speaks_against(voter, starts)?;
        let lacks =
            starts.generation() <= generation || starts.at(generation).is_some_and(|met| met.number != start);
        Some(if lacks { WhyOlder::LacksStart(generation) } else { WhyOlder::LacksBytes(synced) })
    }
}

impl fmt::Display for WhyOlder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WhyOlder::LacksStart(generation) => {
                write!(f, "start {generation} of its node, which this disk lacks")
            }
            WhyOlder::LacksBytes(bytes) => {
                write!(
                    f,
                    "{bytes} bytes of records that were on its node's disk, of which this one lacks the end"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use highwater_core::evidence::Start;
    use highwater_core::{Incarnation, NodeId};

    use super::*;
    use highwater_kit::witness::DiskWord;

    const OTHER: Voter = Voter { node: NodeId(1), incarnation: Incarnation(51) };

    fn starts(list: &[(u64, u64)]) -> Starts {
        let mut starts = Starts::default();
        list.iter().for_each(|(number, had)| starts.push(Start { number: *number, had: *had }));
        starts
    }

    /// The records of a node that met start 12 of another one, and heard of so many bytes.
    fn heard(synced: u64) -> Testimony {
        let mut witness = Witness::default();
        witness.hear(OTHER, &DiskWord { starts: Arc::new(starts(&[(11, 0), (12, 100)])), synced });
        let mut testimony = Testimony::default();
        testimony.take(b"a record on something else, long enough");
        testimony.take(&witness.record(OTHER));
        testimony
    }

    /// The last start is the one to come: a tool asks as if the node began now.
    #[test]
    fn what_others_noted_down_speaks_against_an_older_copy_as_they_would() {
        let heard = heard(180);
        assert_eq!(heard.against(OTHER, &starts(&[(11, 0), (12, 100), (0, 180)])), None);
        assert_eq!(heard.against(OTHER, &starts(&[(11, 0), (12, 100), (13, 200), (0, 200)])), None);
        assert_eq!(heard.against(OTHER, &starts(&[(11, 0), (0, 100)])), Some(WhyOlder::LacksStart(2)));
        let often = starts(&[(11, 0), (21, 100), (22, 100), (0, 900)]);
        assert_eq!(heard.against(OTHER, &often), Some(WhyOlder::LacksStart(2)), "and started since");
        let middle = starts(&[(11, 0), (12, 100), (0, 179)]);
        assert_eq!(heard.against(OTHER, &middle), Some(WhyOlder::LacksBytes(180)));
        let life = Voter { incarnation: Incarnation(52), ..OTHER };
        assert_eq!(heard.against(life, &starts(&[(0, 0)])), None, "another life was never met");
    }
}
