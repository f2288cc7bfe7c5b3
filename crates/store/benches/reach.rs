//! What a cache miss costs as memory grows: where the curves of growth bend, and why.
//!
//! ```text
//! cargo bench -p highwater-store --bench reach [-- gib=N] [rounds=N]
//! ```
//!
//! Reads random lines of so much memory, on pages as the store's heaps have them (2 MiB where the system grants them) and on pages of 4 KiB: one after
//! another, each known only from the one before (latency), and 16 at a time, asked for ahead, as transactions do. Prints ns of CPU time a line, the median of some
//! rounds. A step that both kinds of pages make at one size is a cache that ends there; one that small pages make sooner is the TLB.
#![cfg(not(any(loom, shuttle)))]

use std::hint::black_box;
use std::time::Duration;

const LINE: usize = 64;
/// Lines of one round.
const READS: usize = 1 << 20;
/// As many misses as a transaction has in flight.
const TOGETHER: usize = 16;
const MIB: usize = 1 << 20;

/// CPU time of this thread so far.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Words of so many bytes, all written, on pages of 2 MiB or of 4 KiB.
struct Lines {
    words: *mut u64,
    bytes: usize,
}

impl Lines {
    fn new(bytes: usize, huge: bool) -> Option<Lines> {
        let (kind, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: an anonymous private mapping touches no existing memory; advice about it is a hint.
        let at = unsafe {
            let at = libc::mmap(std::ptr::null_mut(), bytes, kind, flags, -1, 0);
            if at == libc::MAP_FAILED {
                return None;
            }
            libc::madvise(at, bytes, if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE });
            at.cast::<u64>()
        };
        let lines = Lines { words: at, bytes };
        for line in 0..lines.len() {
            // SAFETY: within the mapping.
            unsafe { at.add(line * (LINE / 8)).write(line as u64) };
        }
        Some(lines)
    }

    fn len(&self) -> usize {
        self.bytes / LINE
    }

    /// The line that a random number means.
    fn at(&self, random: u64) -> *const u64 {
        let line = ((u128::from(random) * self.len() as u128) >> 64) as usize;
        // SAFETY: within the mapping.
        unsafe { self.words.add(line * (LINE / 8)) }
    }

    /// ns a line, each known only when the one before is there.
    fn one_by_one(&self, seed: u64) -> f64 {
        let (mut random, mut seen) = (seed, 0);
        let start = cpu_time();
        for _ in 0..READS {
            // What was read is mixed in, and comes to nothing: the next address waits for it.
            random = next(random ^ (seen >> 63));
            // SAFETY: a line of the mapping, which is initialised.
            seen = unsafe { self.at(random).read_volatile() };
        }
        black_box(seen);
        (cpu_time() - start).as_nanos() as f64 / READS as f64
    }

    /// ns a line, asked for ahead in groups.
    fn together(&self, seed: u64) -> f64 {
        let (mut random, mut sum) = (seed, 0u64);
        let start = cpu_time();
        for _ in 0..READS / TOGETHER {
            let mut wanted = [std::ptr::null(); TOGETHER];
            for line in &mut wanted {
                random = next(random);
                *line = self.at(random);
                highwater_core::sync::prefetch(*line);
            }
            for line in wanted {
                // SAFETY: as above.
                sum = sum.wrapping_add(unsafe { line.read_volatile() });
            }
        }
        black_box(sum);
        (cpu_time() - start).as_nanos() as f64 / READS as f64
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and used by nobody any more.
        unsafe { libc::munmap(self.words.cast(), self.bytes) };
    }
}

fn next(mut random: u64) -> u64 {
    random ^= random << 13;
    random ^= random >> 7;
    random ^ random << 17
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let number = |name: &str, default: usize| {
        let word = std::env::args().find_map(|word| word.strip_prefix(name).map(str::to_owned));
        word.map_or(default, |word| {
            word.parse().unwrap_or_else(|_| panic!("{name}{word}: a number is wanted, as in {name}{default}"))
        })
    };
    let (most, rounds) = (number("gib=", 8) << 30, number("rounds=", 3).max(1));
    println!("   memory   one by one: 2 MiB   4 KiB   16 together: 2 MiB   4 KiB   ns a line");
    let mut size = 8 * MIB;
    while size <= most {
        let columns = [true, false].map(|huge| {
            let Some(lines) = Lines::new(size, huge) else {
                eprintln!("no memory for {} MiB: give a smaller limit, as in gib=2", size / MIB);
                std::process::exit(1);
            };
            let seeds = 1..=rounds as u64;
            let each = |read: fn(&Lines, u64) -> f64| {
                median(
                    seeds
                        .clone()
                        .map(|seed| read(&lines, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                        .collect(),
                )
            };
            (each(Lines::one_by_one), each(Lines::together))
        });
        let [(huge, huge_together), (small, small_together)] = columns;
        println!("{:6} MiB {huge:19.1} {small:7.1} {huge_together:20.1} {small_together:7.1}", size / MIB);
        size *= 2;
    }
}
