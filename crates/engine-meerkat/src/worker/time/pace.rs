//! How this node's clock goes, as a worker sees it.

use highwater_core::Timestamp;
use highwater_seam::Nanos;

use crate::shared::Shared;

/// How often it is looked how fast the clock goes.
const PACE_EVERY: Nanos = 1_000_000;
/// No clock goes faster, in its units per microsecond, but by leaps.
const FASTEST: u64 = 8_000;
/// And none that moves goes so slowly.
const STANDS_STILL: u64 = 1000 / 64;

pub struct Pace {
    /// The latest that the clock was seen to show, where real time is promised.
    shown: Timestamp,
    /// When it was last looked how fast the clock goes, what it showed, and its units in a microsecond.
    pace: (Nanos, Timestamp, u64),
    /// When it was last looked whether the clock moves, what it showed, and that it did not.
    pulse: (Nanos, Timestamp, bool),
}

impl Default for Pace {
    fn default() -> Pace {
        let zero = Timestamp::ZERO;
        Pace { shown: zero, pace: (0, zero, 1000), pulse: (0, zero, false) }
    }
}

impl Pace {
    /// A clock that went back, as that of a machine may that was moved, goes on from where it was seen to be.
    pub fn hold(&mut self, now: Nanos, shared: &Shared) {
        self.shown = shared.hold_clock(self.shown);
        self.look(now, shared);
    }

    /// Looks now and then how fast the clock goes.
    pub fn look(&mut self, now: Nanos, shared: &Shared) {
        let (at, showed, _) = self.pace;
        let took = now.saturating_sub(at);
        if took >= PACE_EVERY {
            if !shared.strict {
                self.shown = shared.clock.now();
            }
            let went = self.shown.0.saturating_sub(showed.0);
            self.pace = (now, self.shown, (went.saturating_mul(1000) / took).clamp(1, FASTEST));
        }
    }

    /// Whether it moves by itself: not by being read alone, nor by what others tell.
    pub fn moves(&self) -> bool {
        let (.., pace) = self.pace;
        pace > STANDS_STILL
    }

    /// The distance that it moves in `time`, in its units.
    pub fn units_in(&self, time: Nanos) -> u64 {
        let (.., pace) = self.pace;
        time.saturating_mul(pace) / 1000
    }

    /// How long it takes from one time to another.
    pub fn between(&self, shows: Timestamp, ts: Timestamp) -> Nanos {
        let (.., pace) = self.pace;
        1000 * ts.0.saturating_sub(shows.0).min(1 << 40) / pace
    }

    /// How long it takes to a time from what it was seen to show.
    pub fn left(&self, ts: Timestamp) -> Nanos {
        self.between(self.shown, ts)
    }

    /// Whether it has stood still for a while, it shows `clock` now: no clock that moves is so slow. Leaps are no pace.
    pub fn stands_still(&mut self, now: Nanos, clock: Timestamp, patience: Nanos) -> bool {
        let (at, showed, still) = self.pulse;
        let took = now.saturating_sub(at);
        if took < patience {
            return still;
        }
        let still = clock.0.saturating_sub(showed.0) <= took / 64;
        self.pulse = (now, clock, still);
        still
    }
}
