//! The host's time: timeouts and latencies. Never the order of commits (that is [`highwater_core::Clock`]).

pub use highwater_core::clock::{Stopwatch, Ticks};
use highwater_seam::Nanos;
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
