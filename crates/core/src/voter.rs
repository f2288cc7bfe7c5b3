//! A voter: a node in one life of its memory.

use std::fmt;

use crate::ids::{Incarnation, NodeId};

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
