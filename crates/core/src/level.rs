//! Levels: what builds of different age agree to write.
//!
//! A *level* stands for everything that a replica may write for others to read: the format of the log's entries, and which tables
//! there are. A build knows a range of them, its [`Levels`]. It says so in the first bytes of each connection, with the level that its
//! node uses. The level in use begins at the oldest that its build speaks, and its leader raises it once every member has said that it
//! can: docs/internals/versions.md has the rules, and why they are safe.

use std::fmt;

use crate::log::FORMAT_VERSION;

/// A number for what may be written. Grows from release to release, by one at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(pub u8);

/// The newest level that this build writes.
pub const NEWEST: Level = Level(1);
/// The oldest one that it speaks: that of the release before, or the first.
pub const OLDEST: Level = Level(1);
/// What tests rehearse an upgrade with: the level that the next release may give a meaning to. Entries of it can be read, and only
/// whoever is [built](Levels) for it writes them.
pub const REHEARSED: Level = Level(NEWEST.0 + 1);

/// The log's format at the first level.
const FIRST_FORMAT: u8 = FORMAT_VERSION as u8;

const _: () = assert!(OLDEST.0 >= 1 && OLDEST.0 <= NEWEST.0 && NEWEST.0 <= OLDEST.0 + 1, "n talks to n + 1");

impl Level {
    /// The first that there was.
    pub const FIRST: Level = Level(1);

    /// The version of the log's format that is written at this level.
    pub const fn format(self) -> u8 {
        FIRST_FORMAT - 1 + self.0
    }

    /// Whose format this is, if this build can read it: those of all levels before its own are read, for they stay on disks and in
    /// logs when a level is raised.
    pub fn of_format(format: u8) -> Option<Level> {
        let level = Level(format.checked_sub(FIRST_FORMAT - 1)?);
        (Level::FIRST..=REHEARSED).contains(&level).then_some(level)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "level {}", self.0)
    }
}

/// The levels that a node speaks.
///
/// Invariant: `oldest <= newest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// It can write as this one does, and does so as long as others need it.
    pub oldest: Level,
    /// It reads everything up to this one.
    pub newest: Level,
}

impl Default for Levels {
    /// This build's.
    fn default() -> Levels {
        Levels { oldest: OLDEST, newest: NEWEST }
    }
}

impl Levels {
    /// Of a build whose newest level is this: it speaks the one before, too.
    ///
    /// # Panics
    /// If this build cannot play that one.
    pub fn up_to(newest: Level) -> Levels {
        assert!((Level::FIRST..=REHEARSED).contains(&newest), "this build knows no {newest}");
        Levels { oldest: Level((newest.0 - 1).max(1)), newest }
    }

    /// One level alone.
    pub const fn only(level: Level) -> Levels {
        Levels { oldest: level, newest: level }
    }

    /// Whether a node that speaks these can work with one that uses `level`.
    pub fn speak(self, level: Level) -> bool {
        (self.oldest..=self.newest).contains(&level)
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "level {}", self.newest.0),
            false => write!(f, "levels {} to {}", self.oldest.0, self.newest.0),
        }
    }
}

/// What a node says of itself: what it speaks, and the level that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaks {
    /// It could use these.
    pub levels: Levels,
    /// What it holds may be of this one, and it sends what it holds.
    pub in_use: Level,
}

impl Speaks {
    /// As every build did before there were levels.
    pub const FIRST: Speaks = Speaks { levels: Levels::only(Level::FIRST), in_use: Level::FIRST };

    /// Whether two nodes can work together: each speaks what the other uses.
    pub fn fits(self, other: Speaks) -> bool {
        self.levels.speak(other.in_use) && other.levels.speak(self.in_use)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speaks(oldest: u8, newest: u8, in_use: u8) -> Speaks {
        Speaks { levels: Levels { oldest: Level(oldest), newest: Level(newest) }, in_use: Level(in_use) }
    }

    #[test]
    fn neighbours_fit_until_the_newer_one_is_in_use() {
        assert!(speaks(1, 1, 1).fits(speaks(1, 2, 1)));
        assert!(!speaks(1, 1, 1).fits(speaks(1, 2, 2)), "it could not read what the other sends");
        assert!(speaks(1, 2, 1).fits(speaks(1, 2, 2)), "it has not heard of it yet");
        assert!(speaks(1, 2, 2).fits(speaks(2, 3, 2)));
        assert!(
            !speaks(1, 2, 1).fits(speaks(2, 3, 2)),
            "one of them could still write what the other does not"
        );
        for (one, other) in [(speaks(1, 1, 1), speaks(1, 2, 2)), (speaks(1, 2, 1), speaks(1, 1, 1))] {
            assert_eq!(one.fits(other), other.fits(one));
        }
    }

    #[test]
    fn a_level_has_one_format_and_unknown_ones_none() {
        assert_eq!(Level(1).format(), 3);
        assert_eq!(Level::of_format(3), Some(Level(1)));
        assert_eq!(Level::of_format(REHEARSED.format()), Some(REHEARSED));
        for unknown in [0, 1, 2, REHEARSED.format() + 1, 255] {
            assert_eq!(Level::of_format(unknown), None);
        }
        assert_eq!(Levels::up_to(Level(1)).to_string(), "level 1");
        assert_eq!(Levels::up_to(Level(2)).to_string(), "levels 1 to 2");
    }
}
