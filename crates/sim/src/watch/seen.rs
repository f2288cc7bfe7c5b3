//! What the watch saw.

use super::limits::Limits;

/// What was seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What the engine's rules counted, by name.
    pub counts: Vec<(&'static str, u64)>,
    /// The most that anybody held.
    pub most: Limits,
}

impl Seen {
    /// What was counted under a name; 0 if the engine counts no such thing.
    pub fn count(&self, name: &str) -> u64 {
        self.counts.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count)
    }
}
