//! Whom a fault hits, by what replicas say of themselves.
//!
//! *Leader* and *opener* are whom an engine's statuses show to serve. *Candidate* and *learner* are roles by name: an engine
//! without such a role has no such victims, and what waits for one never happens.

use highwater_core::{Epoch, Library, NodeId};

use super::Victim;
use super::standing::lead;
use crate::world::World;

/// Who a victim is.
pub(super) enum Found {
    Now(NodeId),
    /// Nobody yet, but somebody may come.
    Later,
    /// Nobody: the moment is over, or who it would be is down.
    Nobody,
}

/// Who a victim is now. `before` is the epoch that was open at the look before, if somebody waits for an opener;
/// `holds_down` says which nodes are down by faults.
pub(super) fn find<L: Library>(
    world: &World<L>,
    victim: Victim,
    before: Option<Epoch>,
    holds_down: impl Fn(NodeId) -> bool,
) -> Found {
    let role =
        |wanted: &str| world.ids().find(|id| world.status(*id).is_some_and(|status| status.role == wanted));
    let (found, wait) = match victim {
        Victim::Leader => (world.leader(), false),
        Victim::Candidate => (role("candidate"), true),
        Victim::Learner => (role("learner"), true),
        Victim::Opener => {
            let new = |(_, epoch): &(NodeId, Epoch)| before.is_some_and(|before| *epoch > before);
            (lead(world).filter(new).map(|(leader, _)| leader), true)
        }
        Victim::Node(node) => (world.ids().find(|id| *id == NodeId(node)), false),
    };
    match found {
        Some(node) if world.is_up(node) && !holds_down(node) => Found::Now(node),
        None if wait => Found::Later,
        _ => Found::Nobody,
    }
}
