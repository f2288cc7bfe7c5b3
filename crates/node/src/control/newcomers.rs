//! The addresses at which nodes say that they are found, and where operators say so of nodes that are to become members. A node that was let in at addresses
//! where nobody is would be told to clients; so an order that the node itself contradicts is refused, and withdrawn.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use highwater_core::NodeId;
use highwater_seam::{Controller, MemberChange, Nanos};

use crate::admin::protocol::MemberRequest;
use crate::config::NodeConfig;
use crate::config::contact::{addresses, contradiction};
use crate::roster::Roster;

/// See the module.
#[derive(Default)]
pub struct Newcomers {
    /// The word of each node's own config, as it said when it connected last.
    said: BTreeMap<NodeId, NodeConfig>,
    /// Operators know better.
    as_given: BTreeSet<NodeId>,
}

const ADVICE: &str = "order it where it is, or correct its config; if something stands in between and both are right, say --as-given";

impl Newcomers {
    /// A node says where it is found. If it was ordered elsewhere, and is no member yet, the order is withdrawn.
    pub fn introduced(
        &mut self,
        now: Nanos,
        node: NodeId,
        introduction: &Bytes,
        roster: &Roster,
        controller: &mut dyn Controller,
    ) {
        let Some((said, _)) = addresses(node, introduction) else { return };
        let ordered = roster.node(node).filter(|_| !self.as_given.contains(&node));
        let why = ordered.and_then(|ordered| contradiction(&ordered, &said));
        self.said.insert(node, said);
        let is_member =
            controller.status(now).members.iter().any(|member| member.node == node && member.voter);
        if let Some(why) = why.filter(|_| !is_member) {
            tracing::warn!("{why}: the order is withdrawn; {ADVICE}");
            controller.change_members(now, MemberChange::Withdraw { node });
        }
    }

    /// Whether this order, which waits for its node, cannot be right, and why; it is withdrawn then.
    pub fn refuse(
        &mut self,
        change: &MemberRequest,
        now: Nanos,
        controller: &mut dyn Controller,
    ) -> Option<String> {
        let (ordered, as_given) = change.newcomer()?;
        let node = NodeId(ordered.id);
        if as_given {
            self.as_given.insert(node);
            return None;
        }
        self.as_given.remove(&node);
        let why = contradiction(ordered, self.said.get(&node)?)?;
        controller.change_members(now, MemberChange::Withdraw { node });
        Some(format!("{why}; {ADVICE}"))
    }
}
