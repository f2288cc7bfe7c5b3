//! Whether disks have room: this node's, and those that keep it from taking writes.

use highwater_core::{Epoch, NodeId};
use highwater_seam::Nanos;

/// What a controller knows of its own disk, and what follows from all of them.
#[derive(Default)]
pub struct DiskRoom {
    /// This node's disk is about to be full.
    pub low: bool,
    /// Since when, while it leads.
    pub low_since: Option<Nanos>,
    /// Whose disks keep this leader from taking writes.
    pub refusing: Vec<NodeId>,
    /// This node does not make way again before this time.
    pub make_way_at: Nanos,
    /// The epoch whose lead this node last tried to hand over because its disk hung.
    pub left_in: Option<Epoch>,
}
