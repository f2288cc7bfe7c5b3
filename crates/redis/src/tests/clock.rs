//! Clocks of scripts in tests, and what a test took of the CPU.

fn read_ms(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time there.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut now) };
    assert_eq!(failed, 0, "every Linux has this clock");
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}

/// The monotonic clock, in ms.
pub fn wall_ms() -> u64 {
    read_ms(libc::CLOCK_MONOTONIC)
}

/// CPU time of this thread, in ms.
pub fn cpu_ms() -> u64 {
    read_ms(libc::CLOCK_THREAD_CPUTIME_ID)
}
