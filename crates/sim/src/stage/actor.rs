//! Who is on stage, and why somebody stands still there.

use highwater_core::hooks::Point;
use highwater_core::{Incarnation, NodeId};
use highwater_seam::Teller;

use crate::network::Channel;

/// Who is on stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    pub node: NodeId,
    pub life: Incarnation,
    pub who: Channel,
}

impl Actor {
    /// As the rules of an engine know it.
    pub fn teller(self) -> Teller {
        let worker = match self.who {
            Channel::Worker(worker) => Some(worker),
            Channel::Control => None,
        };
        Teller { node: self.node, life: self.life, worker }
    }
}

/// Why a worker stands in the middle of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Interrupted(Point),
    /// It spins for another one.
    Spins,
}
