//! How long the kernel lets a thread wait behind others.
//!
//! A worker that wakes up on a busy core waits until the one who runs there has used its slice: milliseconds, many times a
//! transaction's latency. A thread that asks for short slices gets the core sooner and gives it up sooner, for the same
//! share of it in the end.

use std::mem::size_of;

/// What a worker and the control thread ask for, in nanoseconds: the shortest that the kernel grants.
const SLICE_NANOS: u64 = 100_000;

/// Asks for short slices for this thread. Kernels before 6.12 ignore it, and some forbid it: so be it.
pub fn ask_for_short_slices() {
    // SAFETY: `sched_attr` is made of integers, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = size_of::<libc::sched_attr>() as libc::c_uint;
    // SAFETY: the kernel writes at most `size` bytes to a structure of that size.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if read != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return;
    }
    attributes.size = size;
    attributes.sched_runtime = SLICE_NANOS;
    // SAFETY: the kernel reads `size` bytes of the structure; the call concerns this thread only.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}
