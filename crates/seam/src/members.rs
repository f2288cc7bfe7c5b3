//! Who belongs to a cluster, and how an operator changes that.

use bytes::Bytes;
use highwater_core::NodeId;

/// A change of who belongs. Safe to ask for again: what is done already is [`Done`](MemberAnswer::Done).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// This node votes, once it runs and holds everything.
    Add {
        /// Who: an id that was never removed.
        node: NodeId,
        /// Where it is found, in the host's words.
        contact: Bytes,
    },
    /// This node votes no more, and its id is never used again.
    Remove {
        /// Who.
        node: NodeId,
    },
    /// `by` votes in the place of `node`, in one step; or, if they are the same, the node is found elsewhere from now on.
    Replace {
        /// Who is removed.
        node: NodeId,
        /// Who takes its place.
        by: NodeId,
        /// Where that one is found, in the host's words.
        contact: Bytes,
    },
    /// Nobody wants this node any more, which was ordered and is no member yet.
    Withdraw {
        /// Who.
        node: NodeId,
    },
}

/// What becomes of a [`MemberChange`]. Whoever wants it asks until it is done or refused: an order that nobody asks for any more
/// lapses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAnswer {
    /// It is so.
    Done,
    /// It is under way, and waits for this, in words.
    Waits(String),
    /// It cannot be, and why. Nothing was changed.
    Refused(String),
    /// Another node decides: this one, as far as is known.
    Ask(Option<NodeId>),
}

/// With whom a node speaks, and with whom it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// Members, and those who are about to be: where they are found, in the host's words; empty if nobody said.
    pub contacts: Vec<(NodeId, Bytes)>,
    /// Who was removed.
    pub removed: Vec<NodeId>,
}
