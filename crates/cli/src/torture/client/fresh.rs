//! How fresh a read on a snapshot asks to be, and what that says to the checker.

use highwater_workloads::random::Rng;
use serde::{Deserialize, Serialize};

/// Bounds that are asked for, in milliseconds: everything acknowledged before, about as old as snapshots are, and older.
const BOUNDS_MS: [u64; 4] = [0, 0, 10, 200];

/// What a read on a snapshot asks for: `HW.FRESHNESS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fresh {
    /// Whatever the replica has.
    #[default]
    Any,
    /// Everything that was acknowledged to anybody at least so many milliseconds before.
    Within(u64),
    /// Everything up to a token.
    Since {
        /// The token.
        token: i64,
        /// When a transaction began that it covers: what had ended then comes before that one.
        began: u64,
    },
}

impl Fresh {
    /// What has ended before this moment has to be in the snapshot of a read that began at `t0`.
    pub fn since(self, t0: u64) -> Option<u64> {
        match self {
            Fresh::Any => None,
            Fresh::Within(ms) => Some(t0.saturating_sub(ms * 1_000_000)),
            Fresh::Since { began, .. } => Some(began),
        }
    }

    /// In the words of the protocol.
    pub fn words(self) -> Vec<String> {
        let (word, number) = match self {
            Fresh::Any => ("ANY", None),
            Fresh::Within(ms) => ("WITHIN", Some(ms.to_string())),
            Fresh::Since { token, .. } => ("SINCE", Some(token.to_string())),
        };
        ["HW.FRESHNESS", word].into_iter().map(String::from).chain(number).collect()
    }

    /// Draws what a client asks for that has no token: nothing half of the time, else a bound.
    pub fn draw(rng: &mut Rng) -> Fresh {
        match rng.percent(50) {
            true => Fresh::Any,
            false => Fresh::Within(BOUNDS_MS[rng.below(BOUNDS_MS.len() as u64) as usize]),
        }
    }
}

/// How many reads that asked for freshness ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounded {
    /// Answered within a bound.
    pub within: u64,
    /// Answered with what a token covers.
    pub since: u64,
    /// Refused: `NOTFRESH`. Nothing was promised then.
    pub refused: u64,
}

impl Bounded {
    /// All of both.
    pub fn plus(self, more: Bounded) -> Bounded {
        Bounded {
            within: self.within + more.within,
            since: self.since + more.since,
            refused: self.refused + more.refused,
        }
    }

    /// One more that asked for this, and was answered or not; so many were refused.
    pub fn note(&mut self, asked: Fresh, answered: bool, refused: u64) {
        match asked {
            Fresh::Within(_) => self.within += u64::from(answered),
            Fresh::Since { .. } => self.since += u64::from(answered),
            Fresh::Any => {}
        }
        self.refused += refused;
    }
}
