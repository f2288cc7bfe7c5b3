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
//!
//! A membership also carries what a change of it must not lose: where each member is found (opaque here), and who was
//! removed. The id of a removed node is never used again, because a process that missed its removal may still speak
//! under it.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
pub use highwater_core::Voter;
use highwater_core::codec::{Malformed, Reader};
use highwater_core::wire::{Form, Kind, List, Wire};
use highwater_core::{Epoch, NodeId, Random, planted, wire_codec};

/// The voters of one epoch.
///
/// Invariant: voters are sorted by node, each node at most once, never none; removed ones likewise, and none of them votes.
#[derive(Clone, PartialEq, Eq)]
pub struct Members {
    /// The epoch that made this membership. [`Epoch`] 0: the first meeting of all nodes.
    pub epoch: Epoch,
    voters: Vec<Voter>,
    contacts: BTreeMap<NodeId, Bytes>,
    removed: Vec<Voter>,
    after_loss: Epoch,
}

/// In the count of voters, of which there are never so many: `after_loss` follows.
const LOSS: u8 = 1 << 7;

/// A change of who votes; all of it happens in one epoch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembersChange {
    /// Votes from now on, in the place of whatever life of its node voted before.
    pub admits: Option<Voter>,
    /// Where a node is found from now on.
    pub contact: Option<(NodeId, Bytes)>,
    /// Votes no more, in no life.
    pub removes: Option<NodeId>,
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.epoch, self.voters)?;
        if self.removed.is_empty() { Ok(()) } else { write!(f, " without {:?}", self.removed) }
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
        Members { epoch, voters, contacts: BTreeMap::new(), removed: Vec::new(), after_loss: Epoch(0) }
    }

    /// The voters, by node.
    pub fn voters(&self) -> &[Voter] {
        &self.voters
    }

    /// Whether this life of this node votes.
    pub fn contains(&self, voter: Voter) -> bool {
        self.voters.contains(&voter)
    }

    /// The life of this node that votes.
    pub fn voter(&self, node: NodeId) -> Option<Voter> {
        self.voters.iter().find(|voter| voter.node == node).copied()
    }

    /// Who was removed, in the life that voted last.
    pub fn removed(&self) -> &[Voter] {
        &self.removed
    }

    /// Whether this node was removed.
    pub fn has_removed(&self, node: NodeId) -> bool {
        self.removed.iter().any(|voter| voter.node == node)
    }

    /// Where a voter is found, in the host's words; empty if nobody said.
    pub fn contact(&self, node: NodeId) -> Bytes {
        self.contacts.get(&node).cloned().unwrap_or_default()
    }

    /// The smallest majority.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// The members of `epoch`: these, with `voter` in the place of whatever life of its node voted before.
    pub fn with(&self, epoch: Epoch, voter: Voter) -> Members {
        self.changed(epoch, &MembersChange { admits: Some(voter), ..MembersChange::default() })
    }

    /// These, with what the host wants to be known of where their nodes are.
    pub fn with_contacts(mut self, contacts: impl IntoIterator<Item = (NodeId, Bytes)>) -> Members {
        let known = contacts.into_iter().filter(|(node, contact)| {
            !contact.is_empty() && self.voters.iter().any(|voter| voter.node == *node)
        });
        self.contacts.extend(known);
        self
    }

    /// The members of `epoch`: these, after a change. Whatever would use a removed node's id again, or leave nobody, is left out.
    pub fn changed(&self, epoch: Epoch, change: &MembersChange) -> Members {
        let mut members = self.in_epoch(epoch);
        if let Some(voter) = change.admits.filter(|voter| !self.has_removed(voter.node)) {
            members.voters.retain(|other| other.node != voter.node);
            members.voters.push(voter);
            members.voters.sort();
        }
        if let Some(voter) = change.removes.and_then(|node| members.voter(node))
            && members.voters.len() > 1
        {
            members.voters.retain(|other| *other != voter);
            members.contacts.remove(&voter.node);
            members.removed.push(voter);
            members.removed.sort();
        }
        members.with_contacts(change.contact.clone())
    }

    /// The same voters in a later epoch.
    pub fn in_epoch(&self, epoch: Epoch) -> Members {
        Members { epoch, ..self.clone() }
    }

    /// The last epoch that was won though too few voters remembered all that they had accepted (`Won::lossy`); 0: there was none.
    /// Whatever was decided before it and stood in no voter's log is lost to the cluster. A node that was none of its voters may hold
    /// such things, and has to copy the state anew.
    pub fn after_loss(&self) -> Epoch {
        self.after_loss
    }

    /// These, in an epoch that was won so.
    pub fn in_epoch_after_loss(&self, epoch: Epoch) -> Members {
        Members { after_loss: epoch, ..self.in_epoch(epoch) }
    }

    /// Whether the two differ in nothing but their epochs, and what was lost before these.
    pub fn is_like(&self, other: &Members) -> bool {
        let alike = self.voters == other.voters && self.removed == other.removed;
        alike && self.contacts == other.contacts
    }

    /// Those whose word counts: the voters.
    fn counted(&self) -> impl Iterator<Item = Voter> {
        let gone = if planted!(RemovedVoterCounted) { &self.removed[..] } else { &[] };
        self.voters.iter().chain(gone).copied()
    }

    /// The type's invariant.
    fn is_sound(&self) -> bool {
        let ascend = |list: &[Voter]| list.windows(2).all(|pair| pair[0].node < pair[1].node);
        let apart = self.removed.iter().all(|gone| self.voter(gone.node).is_none());
        !self.voters.is_empty() && ascend(&self.voters) && ascend(&self.removed) && apart
    }
}

/// The voters, each with its contact, then who was removed. Bit 7 is set in the first count if something was lost; `after_loss` follows it then.
impl Wire for Members {
    const NAME: &'static str = "members";

    fn put(&self, out: &mut Vec<u8>) {
        self.epoch.put(out);
        let lost = self.after_loss > Epoch(0);
        out.push(self.voters.len() as u8 | if lost { LOSS } else { 0 });
        if lost {
            self.after_loss.put(out);
        }
        for voter in &self.voters {
            voter.put(out);
            let contact = self.contact(voter.node);
            (contact.len() as u16).put(out);
            out.extend_from_slice(&contact);
        }
        <Removed as Form<_>>::put(&self.removed, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Members, Malformed> {
        let (mut voters, mut contacts) = (Vec::new(), BTreeMap::new());
        let (epoch, count) = (Epoch::take(from)?, u8::take(from)?);
        let after_loss = if count & LOSS == 0 { Epoch(0) } else { Epoch::take(from)? };
        for _ in 0..count & !LOSS {
            let voter = Voter::take(from)?;
            let length = u16::take(from)?;
            // Kept for as long as the membership is: not at the price of the whole message.
            let contact = Bytes::copy_from_slice(from.take(length.into())?);
            if !contact.is_empty() {
                contacts.insert(voter.node, contact);
            }
            voters.push(voter);
        }
        let removed = <Removed as Form<_>>::take(from)?;
        if count & LOSS != 0 && after_loss == Epoch(0) {
            return Err(Malformed("epoch after a loss"));
        }
        let members = Members { epoch, voters, contacts, removed, after_loss };
        if members.is_sound() { Ok(members) } else { Err(Malformed("membership")) }
    }

    fn draw(random: &mut Random) -> Members {
        let lives = |random: &mut Random, nodes: std::ops::Range<u8>| {
            let some = nodes.filter(|_| random.one_in(2)).map(NodeId).collect::<Vec<_>>();
            some.into_iter().map(|node| Voter { node, incarnation: Wire::draw(random) }).collect::<Vec<_>>()
        };
        let voter = Voter { node: NodeId(0), incarnation: Wire::draw(random) };
        let voters = std::iter::once(voter).chain(lives(random, 1..9)).collect();
        let contact =
            |random: &mut Random| (0..random.below(300)).map(|_| random.bits() as u8).collect::<Bytes>();
        let contacts = [(NodeId(0), contact(random)), (NodeId(2), contact(random))];
        let mut members = Members::new(Wire::draw(random), voters).with_contacts(contacts);
        members.removed = lives(random, 20..25);
        members.after_loss = Epoch(if random.one_in(2) { random.between(1, 9) } else { 0 });
        members
    }
}

impl Members {
    /// Their parts, as documents describe them.
    pub fn kinds() -> Vec<Kind> {
        let voters = format!("u8 (bit 7: after_loss u64 follows) × ({} | contact u16 bytes)", Voter::form());
        let removed = <Removed as Form<Vec<Voter>>>::form();
        vec![Kind::of("Members", [("epoch", Epoch::form()), ("voters", voters), ("removed", removed)])]
    }
}

type Removed = List<u8>;

wire_codec!(Members);

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
        self.sets.iter().all(|set| set.counted().filter(|voter| agrees(*voter)).count() >= set.majority())
    }

    /// Whether those for whom `agrees` holds are in every majority of each membership: too many for one without any of them.
    pub fn covered(&self, mut agrees: impl FnMut(Voter) -> bool) -> bool {
        self.sets.iter().all(|set| {
            let others = set.voters.len() - set.majority();
            set.counted().filter(|voter| agrees(*voter)).count() > others
        })
    }

    /// The largest number that a majority of each membership has reached. With acknowledged indexes as numbers, that is
    /// how far a log is decided.
    pub fn largest_reached(&self, reached: impl Fn(Voter) -> u64) -> u64 {
        let of_set = |set: &Members| {
            let mut numbers: Vec<u64> = set.counted().map(&reached).collect();
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
    use highwater_core::Incarnation;

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
    fn a_change_keeps_what_it_does_not_name_and_a_removed_id_never_votes_again() {
        let contact = |of: &'static str| Bytes::from_static(of.as_bytes());
        let three = Members::new(Epoch(1), vec![voter(0, 1), voter(1, 1), voter(2, 1)])
            .with_contacts([(NodeId(0), contact("a")), (NodeId(2), contact("c"))]);
        let replaced = three.changed(
            Epoch(2),
            &MembersChange {
                admits: Some(voter(3, 1)),
                contact: Some((NodeId(3), contact("d"))),
                removes: Some(NodeId(2)),
            },
        );
        assert_eq!(replaced.voters(), [voter(0, 1), voter(1, 1), voter(3, 1)]);
        assert_eq!(replaced.removed(), [voter(2, 1)]);
        assert_eq!([0, 2, 3].map(|node| replaced.contact(NodeId(node))), ["a", "", "d"].map(contact));
        let again = replaced.with(Epoch(3), voter(2, 7));
        assert!(again.is_like(&replaced), "{again:?}");
        let mut bytes = Vec::new();
        replaced.encode(&mut bytes);
        assert_eq!(Members::decode(&mut Reader::new(&bytes)), Ok(replaced));
        for len in 0..bytes.len() {
            assert!(Members::decode(&mut Reader::new(&bytes[..len])).is_err());
        }
        let one = Members::new(Epoch(1), vec![voter(0, 1)]);
        let nobody = MembersChange { removes: Some(NodeId(0)), ..MembersChange::default() };
        assert!(one.changed(Epoch(2), &nobody).is_like(&one), "somebody votes");
    }

    #[test]
    fn who_was_removed_does_not_count() {
        let three = Members::new(Epoch(1), (0..3).map(|node| voter(node, 1)).collect());
        let two = three.changed(Epoch(2), &MembersChange { removes: Some(NodeId(2)), ..Default::default() });
        let quorums = Quorums::of(two);
        assert!(!quorums.reached(|v| v.node.0 != 1));
        assert_eq!(quorums.largest_reached(|v| [9, 3, 9][v.node.0 as usize]), 3);
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
