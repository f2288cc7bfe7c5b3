//! What a follower knows of its leader, and a leader of its voters: when they were last heard.

use highwater_core::NodeId;

use crate::Nanos;

/// What a follower knows of its leader's signs of life.
#[derive(Debug, Default)]
pub struct Signs {
    /// The last one, of whatever kind.
    pub at: Nanos,
    /// The last heartbeat that vouched.
    pub beat_at: Nanos,
    /// The first heartbeat of this leader in this epoch.
    pub since: Nanos,
    /// The last heartbeat, whether it vouched or not.
    pub met_at: Nanos,
    /// The last heartbeat vouched for the leader.
    pub vouched: bool,
    /// The longest silence between two signs, fading.
    pub longest: Nanos,
    /// Since the last sign the node waited so much longer, because it was late itself.
    pub doubted: Nanos,
    /// Who gave the last one.
    pub of: Option<NodeId>,
}

/// When a voter was last heard by its leader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heard {
    pub at: Nanos,
    /// The leader itself was late since, and `at` was moved by as much. Once for each answer, or a leader that is always late
    /// would never notice that it is alone.
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
