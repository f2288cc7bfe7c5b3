//! Where commit timestamps come from.
//!
//! A timestamp is a reading of a clock that moves with real time on all cores, plus an offset chosen at the start of
//! each epoch so that the epoch's first timestamp exceeds every timestamp in any older log. So there is one 62-bit
//! order for all time.
//!
//! Sources: the CPU's time-stamp counter where the machine vouches for it (see [`Machine`]); else the operating
//! system's monotonic clock, made strictly increasing with one shared atomic; in the simulator a counter that moves at
//! every reading, and that the simulator may push forward in between.
//!
//! Property: if reading A happens before reading B (in the memory model's sense, over any threads), then A <= B, and
//! A < B where A and B are on different threads or come from the counter or the OS source.

mod machine;
mod stopwatch;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::ids::Timestamp;

pub use machine::Machine;
pub use stopwatch::{Stopwatch, Ticks};

/// Which source an operator wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockChoice {
    /// The counter where the machine vouches for it, else the operating system's clock.
    #[default]
    Auto,
    /// The counter: the operator vouches for it.
    Tsc,
    /// The operating system's clock.
    Os,
}

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
    Counter(Arc<AtomicU64>),
}

impl Clock {
    /// The best clock of this machine.
    pub fn system() -> Clock {
        Clock::chosen(ClockChoice::Auto).expect("there always is a clock").0
    }

    /// The clock that was chosen, and why it is this one. An error, in words, only where the counter is demanded and
    /// there is none.
    pub fn chosen(choice: ClockChoice) -> Result<(Clock, &'static str), &'static str> {
        match choice {
            ClockChoice::Auto => {
                let counter = Machine::this().vouches_for_tsc().and_then(|why| Ok((Clock::tsc()?, why)));
                Ok(counter.unwrap_or_else(|why| (Clock::os(), why)))
            }
            ClockChoice::Tsc => Ok((Clock::tsc()?, "chosen by the operator")),
            ClockChoice::Os => Ok((Clock::os(), "chosen by the operator")),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn tsc() -> Result<Clock, &'static str> {
        if !machine::has_rdtscp() {
            return Err("this machine cannot read its time-stamp counter in order (no rdtscp)");
        }
        Ok(Clock { source: Source::Tsc, offset: AtomicU64::new(0) })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn tsc() -> Result<Clock, &'static str> {
        Err("this machine has no time-stamp counter")
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
        Clock::shared_counter(Arc::default())
    }

    /// The same, on a counter that somebody else may push forward: the simulator lets it follow virtual time.
    pub fn shared_counter(counter: Arc<AtomicU64>) -> Clock {
        Clock { source: Source::Counter(counter), offset: AtomicU64::new(0) }
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

    /// Makes every later reading exceed `floor`. Where the order of commits rests on offsets it is called between epochs, when no
    /// worker commits; the caller publishes the new epoch to the workers afterwards (that publication orders the offset too). Several
    /// callers at once move it no further than the highest floor.
    pub fn advance_past(&self, floor: Timestamp) {
        let mut offset = self.offset.load(Ordering::Acquire);
        loop {
            // A reading that may have been made with a later offset is no lower.
            let now = self.now();
            if now > floor {
                break;
            }
            let moved = offset + (floor.0 - now.0 + 1);
            match self.offset.compare_exchange(offset, moved, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(known) => offset = known,
            }
        }
        assert!(self.now() > floor, "the clock passed {floor}");
    }

    /// By how much it has been advanced, all in all.
    pub fn advanced_by(&self) -> u64 {
        self.offset.load(Ordering::Relaxed)
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

#[cfg(target_arch = "x86_64")]
#[inline]
fn tsc() -> u64 {
    use std::arch::x86_64::{__rdtscp, _mm_lfence};
    let mut aux = 0;
    // SAFETY: `Clock::tsc` checked for rdtscp, lfence is in every x86_64 CPU; they touch no memory but `aux`.
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
    fn an_operator_gets_the_clock_that_was_chosen() {
        let source = |choice| Clock::chosen(choice).map(|(clock, _)| clock.source_name());
        assert_eq!(source(ClockChoice::Os), Ok("os"));
        match Machine::this().vouches_for_tsc() {
            Ok(_) => assert_eq!(source(ClockChoice::Auto), Ok("tsc")),
            Err(_) => assert_eq!(source(ClockChoice::Auto), Ok("os")),
        }
        assert!(matches!(source(ClockChoice::Tsc), Ok("tsc") | Err(_)));
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
