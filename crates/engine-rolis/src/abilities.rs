//! What Rolis can do: its workers refuse the rest.

use highwater_seam::engine::Abilities;

/// See [`Rolis`](crate::Rolis).
pub(super) const ABILITIES: Abilities = Abilities {
    replicates: true,
    members: true,
    fails_over: true,
    snapshots: true,
    interruptible: true,
    durable: true,
    disks_behind: true,
    knows_old_disks: true,
    real_time: true,
    sessions: true,
    freshness: true,
    leaderless: false,
    in_order: true,
    client_coordinators: false,
    closures: true,
};
