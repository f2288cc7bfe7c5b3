//! How long something took, as cheaply as the machine can tell.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// A reading of the cheapest clock of the machine; see [`Stopwatch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

/// Stamps each request of a load for a few nanoseconds: the CPU's time-stamp counter where it is invariant, else the
/// monotonic clock. Not ordered with the instructions around it, which is fine for latencies.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    invariant_tsc: bool,
    /// Nanoseconds of a tick, in units of 2^-32: each request is measured, and integers are cheaper than floating point.
    scale: u64,
}

/// Bits of [`Stopwatch`]'s scale behind the point.
const FRACTION: u32 = 32;

impl Stopwatch {
    /// Measures the counter's rate against the monotonic clock; takes 10 ms.
    #[expect(clippy::disallowed_methods, reason = "a host does this once, before its threads run")]
    pub fn calibrate() -> Stopwatch {
        let invariant_tsc = super::Clock::system().source_name() == "tsc";
        let mut stopwatch = Stopwatch { invariant_tsc, scale: 1 << FRACTION };
        if invariant_tsc {
            let (start, start_ticks) = (monotonic(), stopwatch.now());
            std::thread::sleep(Duration::from_millis(10));
            let (end, end_ticks) = (monotonic(), stopwatch.now());
            let ticks = (end_ticks.0 - start_ticks.0).max(1);
            let scale = (u128::from(end - start) << FRACTION) / u128::from(ticks);
            stopwatch.scale = u64::try_from(scale).unwrap_or(u64::MAX).max(1);
        }
        stopwatch
    }

    /// Now.
    #[inline]
    pub fn now(&self) -> Ticks {
        #[cfg(target_arch = "x86_64")]
        if self.invariant_tsc {
            // SAFETY: every CPU that reports an invariant TSC has the instruction; it touches no memory.
            return Ticks(unsafe { std::arch::x86_64::_rdtsc() });
        }
        Ticks(monotonic())
    }

    /// Nanoseconds from `start` to `end`; 0 if they are out of order.
    #[inline]
    pub fn nanos(&self, start: Ticks, end: Ticks) -> u64 {
        let ticks = end.0.saturating_sub(start.0);
        ((u128::from(ticks) * u128::from(self.scale)) >> FRACTION) as u64
    }

    /// How many ticks `nanos` take.
    #[inline]
    pub fn ticks(&self, nanos: u64) -> u64 {
        u64::try_from((u128::from(nanos) << FRACTION) / u128::from(self.scale)).unwrap_or(u64::MAX)
    }
}

/// Nanoseconds since the first reading of this process, by the operating system's monotonic clock.
fn monotonic() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopwatch_agrees_with_the_monotonic_clock() {
        let stopwatch = Stopwatch::calibrate();
        let (start, start_ticks) = (monotonic(), stopwatch.now());
        while monotonic() - start < 5_000_000 {}
        let measured = stopwatch.nanos(start_ticks, stopwatch.now());
        assert!((4_500_000..1_000_000_000).contains(&measured), "5 ms measured as {measured} ns");
        assert_eq!(stopwatch.nanos(stopwatch.now(), start_ticks), 0);
        // A year, and back.
        let year = 365 * 86_400 * 1_000_000_000;
        let back = stopwatch.nanos(Ticks(0), Ticks(stopwatch.ticks(year)));
        assert!(back.abs_diff(year) < year / 1_000_000, "{back} ns of a year");
        assert!(stopwatch.ticks(u64::MAX) > stopwatch.ticks(year), "it does not wrap");
    }
}
