//! The host's time: timeouts and latencies. Never the order of commits (that is [`highwater_core::Clock`]).

use highwater_engines::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds: one clock for all processes of a machine, so that reports of several replicas
/// can be laid side by side.
#[inline]
pub fn monotonic() -> Nanos {
    read(ClockId::Monotonic)
}

/// Unix time in ms: what keys expire by. It may jump.
#[inline]
pub fn unix_ms() -> u64 {
    read(ClockId::Realtime) / 1_000_000
}

/// CPU time of this process, user and system, over all threads.
pub fn process_cpu() -> Nanos {
    read(ClockId::ProcessCPUTime)
}

/// CPU time of this thread, in ms.
pub fn thread_cpu_ms() -> u64 {
    read(ClockId::ThreadCPUTime) / 1_000_000
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

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
    pub fn calibrate() -> Stopwatch {
        let invariant_tsc = highwater_core::Clock::system().source_name() == "tsc";
        let mut stopwatch = Stopwatch { invariant_tsc, scale: 1 << FRACTION };
        if invariant_tsc {
            let (start, start_ticks) = (monotonic(), stopwatch.now());
            std::thread::sleep(std::time::Duration::from_millis(10));
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
    pub fn nanos(&self, start: Ticks, end: Ticks) -> Nanos {
        let ticks = end.0.saturating_sub(start.0);
        ((u128::from(ticks) * u128::from(self.scale)) >> FRACTION) as u64
    }

    /// How many ticks `nanos` take.
    #[inline]
    pub fn ticks(&self, nanos: Nanos) -> u64 {
        u64::try_from((u128::from(nanos) << FRACTION) / u128::from(self.scale)).unwrap_or(u64::MAX)
    }
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
