//! Where commit timestamps come from.
//!
//! A timestamp is a reading of a clock that moves with real time on all cores, plus an offset chosen at the start of
//! each epoch so that the epoch's first timestamp exceeds every timestamp in any older log. So there is one 62-bit
//! order for all time.
//!
//! Sources: the CPU's time-stamp counter where it says `constant_tsc` and `nonstop_tsc`; else the operating system's
//! monotonic clock, made strictly increasing with one shared atomic; in the simulator a counter that moves at every
//! reading.
//!
//! Property: if reading A happens before reading B (in the memory model's sense, over any threads), then A <= B, and
//! A < B where A and B are on different threads or come from the counter or the OS source.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::ids::Timestamp;

/// A replica's source of commit timestamps; shared by its workers.
#[derive(Debug)]
pub struct Clock {
    source: Source,
    /// Added to every reading. Written between epochs only, when no worker commits.
    offset: AtomicU64,
}

#[derive(Debug)]
enum Source {
    #[cfg(target_arch = "x86_64")]
    Tsc,
    Os {
        start: Instant,
        last: AtomicU64,
    },
    Counter(AtomicU64),
}

impl Clock {
    /// The best clock of this machine.
    pub fn system() -> Clock {
        #[cfg(target_arch = "x86_64")]
        if tsc_is_synchronised() {
            return Clock { source: Source::Tsc, offset: AtomicU64::new(0) };
        }
        Clock::os()
    }

    /// The operating system's monotonic clock, in nanoseconds, made strictly increasing.
    pub fn os() -> Clock {
        Clock {
            source: Source::Os { start: Instant::now(), last: AtomicU64::new(0) },
            offset: AtomicU64::new(0),
        }
    }

    /// A counter that moves by one at every reading: the simulator's clock.
    pub fn counter() -> Clock {
        Clock { source: Source::Counter(AtomicU64::new(0)), offset: AtomicU64::new(0) }
    }

    /// A reading that is ordered after every earlier instruction of this thread and before every later one.
    ///
    /// The commit protocol rests on both: the locks were taken before the reading, the read set is validated after.
    #[inline]
    pub fn now(&self) -> Timestamp {
        let reading = match &self.source {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc => tsc(),
            Source::Os { start, last } => {
                let nanos = start.elapsed().as_nanos() as u64;
                let previous = last.fetch_update(Ordering::AcqRel, Ordering::Acquire, |last| {
                    Some(if nanos > last { nanos } else { last + 1 })
                });
                nanos.max(previous.expect("the update always returns a value") + 1)
            }
            Source::Counter(counter) => counter.fetch_add(1, Ordering::SeqCst) + 1,
        };
        let timestamp = reading.wrapping_add(self.offset.load(Ordering::Relaxed));
        debug_assert!(timestamp <= Timestamp::MAX.0, "timestamps fit in 62 bits");
        Timestamp(timestamp & Timestamp::MAX.0)
    }

    /// Makes every later reading exceed `floor`. Called between epochs, when no worker commits; the caller publishes
    /// the new epoch to the workers afterwards (that publication orders the offset too).
    pub fn advance_past(&self, floor: Timestamp) {
        let now = self.now();
        if now <= floor {
            self.offset.fetch_add(floor.0 - now.0 + 1, Ordering::AcqRel);
        }
        assert!(self.now() > floor, "the clock passed {floor}");
    }

    /// For reports.
    pub fn source_name(&self) -> &'static str {
        match self.source {
            #[cfg(target_arch = "x86_64")]
            Source::Tsc => "tsc",
            Source::Os { .. } => "os",
            Source::Counter(_) => "counter",
        }
    }
}

/// Whether the kernel vouches for a counter that runs at one rate on all cores and never stops.
#[cfg(target_arch = "x86_64")]
fn tsc_is_synchronised() -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.contains(" constant_tsc") && info.contains(" nonstop_tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn tsc() -> u64 {
    use std::arch::x86_64::{__rdtscp, _mm_lfence};
    let mut aux = 0;
    // SAFETY: both instructions exist on every x86_64 CPU that reports constant_tsc, and touch no memory but `aux`.
    // rdtscp waits for all earlier instructions; lfence keeps later ones from starting before it.
    unsafe {
        let reading = __rdtscp(&mut aux);
        _mm_lfence();
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_never_go_back_and_the_offset_jumps_them_forward() {
        for clock in [Clock::system(), Clock::os(), Clock::counter()] {
            let first = clock.now();
            let floor = Timestamp(first.0 + (1 << 40));
            clock.advance_past(floor);
            let second = clock.now();
            assert!(second > floor, "{}", clock.source_name());
            clock.advance_past(Timestamp(1));
            assert!(clock.now() >= second);
        }
    }

    #[test]
    fn the_os_clock_is_strictly_increasing_over_threads() {
        let clock = Clock::os();
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let read = || (0..1000).map(|_| clock.now().0).collect::<Vec<_>>();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
