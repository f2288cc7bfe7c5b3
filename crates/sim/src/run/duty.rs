//! Whether a majority that could serve does, whatever befalls the others.
//!
//! A set of replicas *owes service* since a moment if from then on, all the time:
//! - they are more than half of every membership that may be in force ([`memberships`]), each votes with a complete store by every account that counts ([`sound`]);
//! - each has been told of the cluster's birth;
//! - each is up, not paused, and every thread of it gets its turns at its usual pace;
//! - frames flow between each two of them, in both directions and on every connection;
//! - whatever goes on beside does not change: no fault begins or ends, nothing passes (a pause, flapping connections, a
//!   burst), and frames do not take many times as long.
//!
//! An engine that does not go on when a replica is lost owes service as long as all replicas are such a set.
//!
//! The others may be dead, stuck, slow, or cut off from some and heard by others; one of them may lead. Within its bound
//! (`Run::bound`) some transaction of each worker's number must be acknowledged, at any node. That bound is the one that a healed cluster gets in the second
//! stage, for the same reasons: an election that fails (candidates at the same time, an interrupted worker, a frame of the
//! long tail) is followed by another one within two election timeouts at the machine's own rate, a takeover that cannot end
//! is given up after ten, and each of some tens of attempts succeeds with a chance of far more than a half. What is outside
//! cannot take part in more elections than one per timeout either.

use highwater_core::{Library, NodeId};
use highwater_seam::Nanos;

use crate::faults::{Hand, memberships, outvotes, sound};
use crate::network::Channel;
use crate::world::World;

/// Since when a majority owes service.
#[derive(Debug, Default)]
pub(super) struct Duty {
    /// What the hand had done then.
    changes: u64,
    since: Nanos,
    /// Who was sound and well at every look since: a bit each.
    fit: u32,
    pub next_look: Nanos,
}

impl Duty {
    /// Since when somebody owes service, if anybody does.
    pub fn owed<L: Library>(&mut self, world: &World<L>, hand: &Hand) -> Option<Nanos> {
        // Who was never told that the cluster is born must not believe so: only those who know can serve.
        let knows = |id: &NodeId| world.status(*id).is_some_and(|status| !status.members.is_empty());
        let fit =
            sound(world).filter(|id| world.is_well(*id)).filter(knows).fold(0, |fit, id| fit | 1 << id.0);
        let same = hand.changes == self.changes && !hand.is_restless();
        if !same || majority(world, self.fit & fit).is_none() {
            (self.changes, self.since, self.fit) = (hand.changes, world.now, fit);
        }
        self.fit &= fit;
        let owed = !hand.is_restless() && majority(world, self.fit).is_some();
        owed.then_some(self.since)
    }
}

/// A majority from among `fit` whose members hear each other.
fn majority<L: Library>(world: &World<L>, fit: u32) -> Option<u32> {
    let memberships = memberships(world);
    let hears = |a: NodeId, b: NodeId| a == b || world.hear_each_other(a, b);
    let subsets = std::iter::successors(Some(fit), |set| set.checked_sub(1).map(|less| less & fit));
    let enough = |set: u32| match world.engine().abilities().fails_over {
        true => outvotes(set, &memberships),
        false => world.ids().all(|id| set >> id.0 & 1 == 1),
    };
    subsets.take_while(|set| *set != 0).find(|set| {
        let inside = || world.ids().filter(|id| set >> id.0 & 1 == 1);
        enough(*set) && inside().all(|a| inside().all(|b| hears(a, b)))
    })
}

impl<L: Library> World<L> {
    fn hear_each_other(&self, a: NodeId, b: NodeId) -> bool {
        self.channels()
            .all(|channel: Channel| self.network.flows(a, b, channel) && self.network.flows(b, a, channel))
    }
}
