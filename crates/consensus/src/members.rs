//! Who votes.
//!
//! A voter is a node *in one life of its memory*: a process that forgot what it promised must not vote as the one that
//! promised. It comes back under a new incarnation and is admitted by replacing the old voter in the next epoch's
//! [`Members`].
//!
//! Two majorities of one membership have a voter in common, and that is what all of Paxos rests on. A majority of the
//! members of epoch e and one of those of epoch e+1 need not: of n0, n1, n2 and n0, n1, n2' (a new life of node 2) the
//! majorities {n0, n2} and {n1, n2'} have nobody in common. So the change itself is decided by a majority of *both*
//! ([`Quorums`]), and a candidate that meets an undecided change in somebody's log must have promises from a majority
//! of both, too.

use std::fmt;

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Epoch, Incarnation, NodeId, planted};

/// A node in one life of its memory: what it promised and accepted, this life remembers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Voter {
    /// Which node.
    pub node: NodeId,
    /// Which life.
    pub incarnation: Incarnation,
}

impl fmt::Debug for Voter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.node, self.incarnation)
    }
}

/// The voters of one epoch.
///
/// Invariant: sorted by node, each node at most once, never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct Members {
    /// The epoch that made this membership. [`Epoch`] 0: the first meeting of all nodes.
    pub epoch: Epoch,
    voters: Vec<Voter>,
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.epoch, self.voters)
    }
}

impl Members {
    /// A membership.
    ///
    /// # Panics
    /// If there are no voters or a node is named twice.
    pub fn new(epoch: Epoch, mut voters: Vec<Voter>) -> Members {
        voters.sort();
        assert!(!voters.is_empty(), "a membership has voters");
        assert!(voters.windows(2).all(|pair| pair[0].node != pair[1].node), "a node votes once: {voters:?}");
        Members { epoch, voters }
    }

    /// The voters, by node.
    pub fn voters(&self) -> &[Voter] {
        &self.voters
    }

    /// Whether this life of this node votes.
    pub fn contains(&self, voter: Voter) -> bool {
        self.voters.contains(&voter)
    }

    /// The smallest majority.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// The members of `epoch`: these, with `voter` in the place of whatever life of its node voted before.
    pub fn with(&self, epoch: Epoch, voter: Voter) -> Members {
        let others = self.voters.iter().filter(|other| other.node != voter.node).copied();
        Members::new(epoch, others.chain([voter]).collect())
    }

    /// The same voters in a later epoch.
    pub fn in_epoch(&self, epoch: Epoch) -> Members {
        Members { epoch, voters: self.voters.clone() }
    }

    /// Appends `epoch u64 | count u8 | (node u8 | incarnation u64)*`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.epoch.0.to_le_bytes());
        out.push(self.voters.len() as u8);
        for voter in &self.voters {
            out.push(voter.node.0);
            out.extend_from_slice(&voter.incarnation.0.to_le_bytes());
        }
    }

    /// Reads what [`encode`](Members::encode) wrote.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Members, Malformed> {
        let epoch = Epoch(reader.u64()?);
        let count = reader.u8()?;
        let mut voters = Vec::with_capacity(count as usize);
        for _ in 0..count {
            voters.push(Voter { node: NodeId(reader.u8()?), incarnation: Incarnation(reader.u64()?) });
        }
        let distinct = voters.windows(2).all(|pair| pair[0].node < pair[1].node);
        if voters.is_empty() || !distinct {
            return Err(Malformed("membership"));
        }
        Ok(Members { epoch, voters })
    }
}

/// Memberships that must each agree by majority: one as a rule, and two or more while a change of membership is under
/// way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quorums {
    sets: Vec<Members>,
}

impl Quorums {
    /// One membership decides alone.
    pub fn of(members: Members) -> Quorums {
        Quorums { sets: vec![members] }
    }

    /// Requires a majority of `members` too.
    pub fn and(&mut self, members: Members) {
        if self.sets.iter().all(|set| set.voters != members.voters) {
            self.sets.push(members);
        }
    }

    /// Whether those for whom `agrees` holds are a majority of each membership.
    pub fn reached(&self, mut agrees: impl FnMut(Voter) -> bool) -> bool {
        self.sets
            .iter()
            .all(|set| set.voters.iter().filter(|voter| agrees(**voter)).count() >= set.majority())
    }

    /// The largest number that a majority of each membership has reached. With acknowledged indexes as numbers, that is
    /// how far a log is decided.
    pub fn largest_reached(&self, reached: impl Fn(Voter) -> u64) -> u64 {
        let of_set = |set: &Members| {
            let mut numbers: Vec<u64> = set.voters.iter().map(|voter| reached(*voter)).collect();
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            numbers[set.majority() - if planted!(MinorityDecides) { 2 } else { 1 }]
        };
        self.sets.iter().map(of_set).min().expect("there is at least one membership")
    }

    /// Every voter of any membership, once.
    pub fn voters(&self) -> Vec<Voter> {
        let mut all: Vec<Voter> = self.sets.iter().flat_map(|set| set.voters.iter().copied()).collect();
        all.sort();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voter(node: u8, incarnation: u64) -> Voter {
        Voter { node: NodeId(node), incarnation: Incarnation(incarnation) }
    }

    #[test]
    fn members_round_trip() {
        let members = Members::new(Epoch(7), vec![voter(2, 9), voter(0, 1), voter(1, 5)]);
        let mut bytes = Vec::new();
        members.encode(&mut bytes);
        assert_eq!(Members::decode(&mut Reader::new(&bytes)), Ok(members));
        assert!(Members::decode(&mut Reader::new(&bytes[..12])).is_err());
    }

    #[test]
    fn replacing_a_voter_needs_a_majority_of_both_memberships() {
        let old = Members::new(Epoch(1), vec![voter(0, 1), voter(1, 1), voter(2, 1)]);
        let new = old.with(Epoch(2), voter(2, 2));
        let mut both = Quorums::of(old);
        both.and(new);
        assert!(both.reached(|v| v.node.0 < 2), "the two that stay are a majority of both");
        assert!(
            !both.reached(|v| v == voter(0, 1) || v == voter(2, 2)),
            "the newcomer is no voter of the old one"
        );
        assert!(
            !both.reached(|v| v == voter(0, 1) || v == voter(2, 1)),
            "the lost one is no voter of the new one"
        );
    }

    #[test]
    fn the_largest_number_that_a_majority_reached() {
        let quorums = Quorums::of(Members::new(Epoch(1), (0..5).map(|node| voter(node, 1)).collect()));
        let reached = [9, 1, 7, 3, 5];
        assert_eq!(quorums.largest_reached(|v| reached[v.node.0 as usize]), 5);
    }
}
