//! Processes that have nothing to do with the cluster but the machine.

use std::hint::black_box;

use super::job::Job;

/// Turns between two looks at the clock.
const SPIN: u64 = 100_000;
/// Bytes of a page.
const PAGE: usize = 4096;

/// Burns one CPU.
pub fn cpu(job: &mut Job) {
    let mut sum = 0u64;
    while !job.over() {
        sum = (0..SPIN).fold(sum, |sum, n| black_box(sum.wrapping_add(n)));
    }
    job.count("CPU hogs", 1);
}

/// Takes fresh memory, touches all of it, walks over it again and again, and gives it back, as often as time allows.
pub fn memory(job: &mut Job) {
    let bytes = (job.args.memory_mb << 20) as usize;
    while !job.over() {
        // Zeroed by the kernel, page by page, as each is touched.
        let mut fresh = vec![0u8; bytes];
        for page in fresh.chunks_mut(PAGE) {
            page[0] = black_box(1);
        }
        job.count("MiB faulted in by hogs", job.args.memory_mb);
        for _ in 0..4 {
            let sum: u64 = fresh.iter().step_by(64).map(|byte| u64::from(*byte)).sum();
            black_box(sum);
            if job.over() {
                break;
            }
        }
    }
    job.count("memory hogs", 1);
}
