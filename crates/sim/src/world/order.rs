//! An operator's order, and who votes by an account.

use bytes::Bytes;
use highwater_core::NodeId;
use highwater_seam::MemberChange;

/// An order, until everybody knows what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Votes from then on.
    pub comes: Option<NodeId>,
    /// Votes no more.
    pub goes: Option<NodeId>,
    /// Whether it is done, or refused: nobody asks any more.
    pub answered: bool,
}

impl Order {
    /// One wants a node to come, another to go, or both in one step.
    pub(crate) fn new(comes: Option<NodeId>, goes: Option<NodeId>) -> Order {
        Order { comes, goes, answered: false }
    }

    pub(super) fn change(&self) -> MemberChange {
        let contact = Bytes::new();
        match (self.comes, self.goes) {
            (Some(node), None) => MemberChange::Add { node, contact },
            (None, Some(node)) => MemberChange::Remove { node },
            (Some(by), Some(node)) => MemberChange::Replace { node, by, contact },
            (None, None) => unreachable!("somebody comes or goes"),
        }
    }

    /// Of these nodes (a bit each) those that vote once it is done.
    pub(crate) fn apply(&self, members: u32) -> u32 {
        let bit = |node: Option<NodeId>| node.map_or(0, |node| 1 << node.0);
        (members | bit(self.comes)) & !bit(self.goes)
    }
}

/// Who votes, by an account.
pub(crate) trait Voters {
    /// A bit for each.
    fn voters(&self) -> u32;
}

impl Voters for highwater_seam::Status {
    fn voters(&self) -> u32 {
        self.members.iter().filter(|member| member.voter).fold(0, |all, member| all | 1 << member.node.0)
    }
}
