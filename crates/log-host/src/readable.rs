//! What of the log a build can read, by its level; and what is said of the rest.

use highwater_core::level::REHEARSED;
use highwater_core::{Level, Levels};

/// Why a node cannot go on with what is of a later level.
pub fn beyond(levels: Levels) -> String {
    format!("and this build reads up to {}: start this node with a newer build", levels.newest)
}

/// Later than all that are known.
const UNKNOWN: Level = Level(REHEARSED.0 + 1);

/// The level of an entry, by its bytes, whatever else it holds.
#[inline]
pub fn level_of(entry: &[u8]) -> Level {
    entry.get(1).and_then(|format| Level::of_format(*format)).unwrap_or(UNKNOWN)
}

/// In words.
pub fn name(level: Level) -> String {
    if level < UNKNOWN { level.to_string() } else { "a later level".into() }
}
