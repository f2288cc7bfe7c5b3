//! How a whole cluster is, whatever runs on it.

use std::fmt::Write as _;

use highwater_core::Library;
use highwater_seam::Status;
use highwater_sim::World;

use super::MS;

/// The controllers' last words, every status and stream.
pub fn story<L: Library>(world: &World<L>) -> String {
    let mut text = String::new();
    let skip = world.log.len().saturating_sub(60);
    for (at, node, what) in &world.log[skip..] {
        let _ = writeln!(text, "{:>9.3} ms {node} {what}", *at as f64 / MS as f64);
    }
    for id in world.ids() {
        let _ = writeln!(text, "{id}: {:?}", world.status(id));
        for worker in world.replica(id).map_or(&[][..], |replica| &replica.workers) {
            let _ = writeln!(text, "  {}", worker.describe());
        }
    }
    text
}

/// Whether everyone votes and has a store: so that one may be killed.
pub fn whole<L: Library>(world: &World<L>) -> bool {
    let Some(leader) = world.leader().and_then(|leader| world.status(leader)) else { return false };
    let votes = |own: Status| own.copying_bytes.is_none() && own.votes_by(&leader);
    world.ids().all(|id| world.status(id).is_some_and(votes))
}

/// Whether everyone votes, has a store, and has applied what the leader has.
pub fn converged<L: Library>(world: &World<L>) -> bool {
    world.converged().is_ok()
}
