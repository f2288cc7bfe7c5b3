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
    /// When `shown` was last looked at, and by how much others had advanced the clock until then.
    held: (Nanos, u64),
    /// The sum of its own leaps, in its units.
    leapt: u64,
    /// When it was last looked how fast the clock goes, what it showed, and its units in a microsecond.
    pace: (Nanos, Timestamp, u64),
    /// When it was last looked whether the clock moves, what it showed, and that it did not.
    pulse: (Nanos, Timestamp, bool),
}

impl Default for Pace {
    fn default() -> Pace {
        let zero = Timestamp::ZERO;
        Pace { shown: zero, held: (0, 0), leapt: 0, pace: (0, zero, 1000), pulse: (0, zero, false) }
    }
}

impl Pace {
    /// A clock that went back, as that of a machine may that was moved, goes on from where it was seen to be.
    /// One that is further than any clock goes meanwhile has leapt, as that of a machine may that stood still. `now` may be as old as a worker's pass is
    /// long, and the clock is read anew: what is not more than a worker may be silent for is no leap.
    pub fn hold(&mut self, now: Nanos, shared: &Shared) {
        let (before, (at, told)) = (self.shown, self.held);
        // Another worker may hear of a later clock in between.
        let advanced = loop {
            let advanced = shared.clock.advanced_by();
            self.shown = shared.hold_clock(before);
            if shared.clock.advanced_by() == advanced {
                break advanced;
            }
        };
        self.held = (now, advanced);
        let went = (self.shown.0 - before.0).saturating_sub(advanced.saturating_sub(told));
        let time = now.saturating_sub(at).saturating_add(shared.options.election_timeout);
        self.leapt = self.leapt.saturating_add(went.saturating_sub(time.saturating_mul(FASTEST) / 1000));
        self.look(now, shared);
    }

    /// The sum of its leaps, in its units: that is no time.
    pub fn leapt(&self) -> u64 {
        self.leapt
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use highwater_core::{Clock, Incarnation, NodeId};

    use super::*;
    use crate::Options;

    const MS: Nanos = 1_000_000;
    const SECOND: Nanos = 1000 * MS;

    /// A lead that was as long as a leap would have its transaction wait for that time.
    #[test]
    fn what_a_clock_leaps_is_no_time_and_what_others_tell_is_no_leap() {
        let counter = Arc::new(AtomicU64::new(SECOND));
        let options = Options::new(NodeId(0), 3, 1, Incarnation(1));
        let shared = Shared::new(options, Arc::new(Clock::shared_counter(counter.clone())), true);
        let mut pace = Pace::default();
        pace.hold(SECOND, &shared);
        let (mut now, timeout) = (SECOND, shared.options.election_timeout);
        let mut leapt = |passed: Nanos, by: u64, told: u64| {
            let before = pace.leapt();
            now += passed;
            counter.fetch_add(by, Ordering::SeqCst);
            if told > 0 {
                shared.clock.advance_past(Timestamp(shared.clock.now().0 + told));
            }
            pace.hold(now, &shared);
            pace.leapt() - before
        };
        assert_eq!(leapt(MS, MS, 0), 0, "it goes");
        assert_eq!(leapt(MS, 8 * MS, 0), 0, "it goes as fast as clocks do");
        assert_eq!(leapt(MS, MS, 5 * SECOND), 0, "others told it");
        for _ in 0..100 {
            assert_eq!(leapt(0, 3 * MS, 0), 0, "a pass is under way, and its time is what it was");
        }
        assert_eq!(leapt(300 * MS, 0, 0), 0, "and then it is told");
        let long = leapt(MS, 7 * SECOND, 0);
        assert!((7 * SECOND - 9 * timeout..=7 * SECOND).contains(&long), "it leapt: {long}");
        assert_eq!(leapt(MS, MS, 0), 0, "it goes on from there");
    }
}
