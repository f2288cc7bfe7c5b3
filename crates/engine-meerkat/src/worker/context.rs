//! The surroundings of a worker's parts: every one may look at them.

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
    /// This worker's counters.
    pub counters: Arc<Counters>,
}

impl Context {
    /// The replica's settings.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// This worker's word on itself.
    pub fn cell(&self) -> &Cell {
        &self.shared.cells[self.at as usize]
    }

    pub fn beat(&self) -> Nanos {
        self.shared.options.heartbeat
    }

    /// The coordinator whose timestamps this worker proposes.
    pub fn coordinator(&self) -> Coordinator {
        Coordinator { node: self.me, worker: self.at }
    }
}
