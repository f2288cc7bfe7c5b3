//! Work that is shared out among threads, as many as the system has room for.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder};

/// Does every job, on up to `threads` threads, of which the caller's is one; what came of each, in order. A system that has no room for a
/// thread (`ulimit -u`, the pids of a control group, memory) makes it slower, not impossible.
///
/// # Panics
/// If a job panics.
pub fn share_out<J: Send, R: Send>(
    name: &str,
    jobs: Vec<J>,
    threads: usize,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    share_out_among(jobs, threads, work, |_| Builder::new().name(name.into()))
}

/// The same; `builder` makes the so-manieth thread, from 1 on.
fn share_out_among<J: Send, R: Send>(
    jobs: Vec<J>,
    threads: usize,
    work: impl Fn(J) -> R + Sync,
    builder: impl Fn(usize) -> Builder,
) -> Vec<R> {
    let mut done: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    let helpers = threads.min(jobs.len()).saturating_sub(1);
    let open = Mutex::new(jobs.into_iter().zip(&mut done));
    let take = || {
        loop {
            let Some((job, done)) = lock(&open).next() else { return };
            *done = Some(work(job));
        }
    };
    thread::scope(|scope| {
        for helper in 1..=helpers {
            if builder(helper).spawn_scoped(scope, take).is_err() {
                // The next one would not be had either.
                break;
            }
        }
        take();
    });
    done.into_iter().map(|done| done.expect("every job was taken and done")).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn every_job_is_done_and_results_come_in_order() {
        for (jobs, threads) in [(0, 4), (1, 0), (7, 1), (100, 8), (3, 100)] {
            let doubled = share_out("test", (0..jobs).collect(), threads, |job: u64| 2 * job);
            assert_eq!(doubled, (0..jobs).map(|job| 2 * job).collect::<Vec<_>>(), "{jobs} {threads}");
        }
        let all = Barrier::new(3);
        let ids = share_out("test", vec![(); 3], 3, |()| {
            // Each waits for two others.
            all.wait();
            thread::current().id()
        });
        assert_eq!(ids.iter().map(|id| format!("{id:?}")).collect::<BTreeSet<_>>().len(), 3);
    }

    /// A node that read a checkpoint panicked where there was no room for a thread.
    #[test]
    fn without_room_for_threads_the_caller_does_it_all() {
        for had in 0..3 {
            let builder = |helper| match helper <= had {
                true => Builder::new(),
                // No address space has so much.
                false => Builder::new().stack_size(1 << 60),
            };
            let done = share_out_among((0..50).collect(), 8, |job: u64| job + 1, builder);
            assert_eq!(done, (1..=50).collect::<Vec<_>>());
        }
    }
}
