//! What every part of a worker may look at.

use std::sync::Arc;

use highwater_core::NodeId;
use highwater_kit::validation::stamps::Coordinator;
use highwater_seam::options::Options;
use highwater_seam::{Counters, Nanos};

use crate::shared::{Cell, Shared};

/// Which worker of which replica this is, and what it shares with the others.
pub(super) struct Context {
    /// The worker's number.
    pub at: u16,
    pub me: NodeId,
    /// With the other workers and the controller.
    pub shared: Arc<Shared>,
    /// What this worker counts.
    pub counters: Arc<Counters>,
}

impl Context {
    /// The replica's settings.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// What this worker says of itself.
    pub fn cell(&self) -> &Cell {
        &self.shared.cells[self.at as usize]
    }

    pub fn beat(&self) -> Nanos {
        self.shared.options.heartbeat
    }

    /// Whose timestamps this worker proposes.
    pub fn coordinator(&self) -> Coordinator {
        Coordinator { node: self.me, worker: self.at }
    }
}
