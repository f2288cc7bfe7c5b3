//! The clocks of one machine. They belong to the machine, not to the process: a restart does not reset them.
//!
//! - The *monotonic clock* gives timeouts and latencies: an offset, and a rate of its own. It never goes back; it may
//!   leap, as after the machine was suspended.
//! - The *commit clock* gives timestamps. In plain worlds it is a counter that starts anew with each process. With
//!   [`NodeClock::follow_time`] it is a TSC: it follows virtual time at the machine's rate from a value of its own, moves
//!   at every reading, may leap, jump back, and all but stand still for a while.
//!
//! There is no wall clock: `core`, `store`, `consensus` and `engines` read none (their `clippy.toml` forbids it), so jumps of
//! it have nothing to hit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::Clock;
use highwater_seam::Nanos;

/// One machine's clocks.
#[derive(Clone, Debug)]
pub struct NodeClock {
    /// A pair of equal moments: of the world and of the machine.
    anchor: (Nanos, Nanos),
    /// Nanoseconds of the machine in a million of the world.
    rate: u64,
    tsc: Option<Tsc>,
}

#[derive(Clone, Debug)]
struct Tsc {
    counter: Arc<AtomicU64>,
    /// Added to the machine's time.
    ahead: u64,
    /// It moves by reading only before this moment of the machine.
    stalled_until: Nanos,
}

const MILLION: u128 = 1_000_000;

impl Default for NodeClock {
    fn default() -> NodeClock {
        NodeClock { anchor: (0, 0), rate: MILLION as u64, tsc: None }
    }
}

impl NodeClock {
    /// What the machine's monotonic clock shows at a moment of the world.
    pub fn local(&self, now: Nanos) -> Nanos {
        let since = u128::from(now.saturating_sub(self.anchor.0));
        self.anchor.1 + (since * u128::from(self.rate) / MILLION) as Nanos
    }

    /// The first moment of the world at which the machine's clock shows `local` or more.
    pub fn global(&self, local: Nanos) -> Nanos {
        let since = u128::from(local.saturating_sub(self.anchor.1));
        self.anchor.0 + (since * MILLION).div_ceil(u128::from(self.rate)) as Nanos
    }

    /// From `now` on the machine's clock makes `per_million` nanoseconds in a million of the world.
    ///
    /// # Panics
    /// If it would stand still.
    pub fn set_rate(&mut self, now: Nanos, per_million: u64) {
        assert!(per_million > 0, "a clock moves");
        self.anchor = (now, self.local(now));
        self.rate = per_million;
    }

    /// The monotonic clock leaps forward.
    pub fn leap(&mut self, now: Nanos, by: Nanos) {
        self.anchor = (now, self.local(now) + by);
    }

    /// From the machine's next process on its commit clock is a TSC that shows `ahead` more than the monotonic clock.
    pub fn follow_time(&mut self, ahead: u64) {
        let tsc = Tsc { counter: Arc::new(AtomicU64::new(ahead)), ahead, stalled_until: 0 };
        self.tsc = Some(tsc);
    }

    /// The commit clock leaps forward.
    pub fn leap_commits(&mut self, by: u64) {
        if let Some(tsc) = &mut self.tsc {
            tsc.ahead += by;
        }
    }

    /// The commit clock jumps back, as that of a virtual machine may that was moved.
    pub fn set_back_commits(&mut self, by: u64) {
        if let Some(tsc) = &mut self.tsc {
            tsc.ahead = tsc.ahead.saturating_sub(by);
            let shows = tsc.counter.load(Ordering::Relaxed);
            tsc.counter.store(shows.saturating_sub(by), Ordering::Relaxed);
        }
    }

    /// The commit clock moves only by being read, for so long.
    pub fn stall_commits(&mut self, now: Nanos, length: Nanos) {
        let until = self.local(now + length);
        if let Some(tsc) = &mut self.tsc {
            tsc.stalled_until = until;
        }
    }

    /// A process's commit clock.
    pub(crate) fn commits(&self) -> Arc<Clock> {
        Arc::new(match &self.tsc {
            Some(tsc) => Clock::shared_counter(tsc.counter.clone()),
            None => Clock::counter(),
        })
    }

    /// Lets the commit clock follow the time.
    pub(crate) fn tick(&self, now: Nanos) {
        if let Some(tsc) = &self.tsc {
            let local = self.local(now);
            if local >= tsc.stalled_until {
                tsc.counter.fetch_max(local + tsc.ahead, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_have_offsets_and_rates_and_never_go_back() {
        let mut clock = NodeClock::default();
        assert_eq!((clock.local(77), clock.global(77)), (77, 77));
        clock.leap(1000, 500);
        clock.set_rate(2000, 500_000);
        assert_eq!(clock.local(2000), 2500);
        assert_eq!(clock.local(4000), 3500);
        for local in 2500..2600 {
            let at = clock.global(local);
            assert!(clock.local(at) >= local && clock.local(at - 1) < local || at == 2000);
        }
    }

    #[test]
    fn the_commit_clock_follows_time_or_stalls_but_moves_at_every_reading() {
        let mut machine = NodeClock::default();
        machine.follow_time(1 << 40);
        let clock = machine.commits();
        machine.tick(1000);
        let first = clock.now();
        assert!(first.0 > (1 << 40) + 1000);
        machine.stall_commits(1000, 500);
        machine.tick(1400);
        let second = clock.now();
        assert_eq!(second.0, first.0 + 1, "stalled, but it moves");
        machine.tick(1600);
        assert!(clock.now().0 > second.0 + 500);
        assert!(machine.commits().now() > second, "a restart does not set it back");
        machine.tick(5000);
        let third = clock.now();
        machine.set_back_commits(1000);
        machine.tick(5100);
        assert!(clock.now().0 < third.0 - 800, "but a jump does");
    }
}
