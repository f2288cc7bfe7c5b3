//! What a follower knows of its leader, and a leader of its voters: when they were last heard.

use highwater_core::NodeId;

use crate::Nanos;

/// What a follower knows of its leader's signs of life.
#[derive(Debug, Default)]
pub struct Signs {
    /// When the last sign came, whether a heartbeat that vouched or a message of the leader's streams.
    pub at: Nanos,
    /// When the last heartbeat came that vouched for the leader.
    pub beat_at: Nanos,
    /// When the first heartbeat of this leader in this epoch came.
    pub since: Nanos,
    /// When the last heartbeat came, whether it vouched or not.
    pub met_at: Nanos,
    /// Whether the last heartbeat vouched for the leader.
    pub vouched: bool,
    /// Whether its leader rests.
    pub rests: bool,
    /// The longest silence between two signs lately, without what a leader that rests was allowed; it loses a little with each heartbeat.
    pub longest: Nanos,
    /// How much longer than its patience this node has waited since the last sign, because it was late itself.
    pub doubted: Nanos,
    /// Who gave the last sign.
    pub of: Option<NodeId>,
}

impl Signs {
    /// How much later than usual the next heartbeat may come.
    pub fn allowance(&self, timeout: Nanos) -> Nanos {
        if self.vouched && self.rests { timeout } else { 0 }
    }
}

/// When a voter was last heard by its leader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    /// When it was last heard, or later: see `pardoned`.
    pub at: Nanos,
    /// The leader itself was late since, so that an answer may lie unread, and `at` was moved by as much. Only once for
    /// each answer: a leader that is always late would else never notice that it is alone.
    pub pardoned: bool,
}

impl Heard {
    pub fn at(at: Nanos) -> Heard {
        Heard { at, pardoned: false }
    }

    pub fn hear(&mut self, at: Nanos) {
        if at > self.at {
            *self = Heard::at(at);
        }
    }

    pub fn pardon(&mut self, now: Nanos, late: Nanos) {
        if !std::mem::replace(&mut self.pardoned, true) {
            self.at = now.min(self.at + late);
        }
    }
}
