//! How the lead moves on purpose.

use highwater_core::{Nanos, NodeId};

/// What became of the last wish that another replica serve in the place of this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Handover {
    /// There was none, or this replica had nothing to hand over.
    #[default]
    None,
    /// Under way; ends within a bound of the engine's own.
    UnderWay,
    /// Another replica serves.
    Done {
        /// Which.
        to: NodeId,
        /// From the first request that had to wait until this replica heard that the other one serves.
        pause: Nanos,
    },
    /// Nothing came of it, and why, in words. If this replica served, it serves on.
    Failed(String),
}
