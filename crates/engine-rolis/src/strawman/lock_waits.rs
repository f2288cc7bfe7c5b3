//! The price of the lock of the [`funnel`](crate::strawman::funnel) costs those who take it: how often, how often in vain at first, and for how long then.
//!
//! Each worker counts for itself. Time is taken only by one that found the lock taken, and decides nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
#[expect(
    clippy::disallowed_types,
    reason = "a report's, of threads that stand still: the host cannot tell, and nothing depends on it"
)]
use std::time::Instant;

use highwater_seam::padded::Padded;
use highwater_seam::{Counters, Figure};

/// Figures, of each worker: how often it took the lock that all workers commit under,
const LOCKS: &str = "locks";
/// how often it found it taken,
const LOCK_WAITS: &str = "lock_waits";
/// and for how many nanoseconds it waited then.
const LOCK_WAIT_NS: &str = "lock_wait_ns";

/// What all workers waited.
pub struct LockWaits(Vec<Padded<OfWorker>>);

/// What one worker waited: written by it alone.
#[derive(Default)]
struct OfWorker {
    locks: AtomicU64,
    waits: AtomicU64,
    nanos: AtomicU64,
}

impl LockWaits {
    /// Nobody has waited yet.
    pub fn new(workers: usize) -> LockWaits {
        LockWaits((0..workers).map(|_| Padded::default()).collect())
    }

    /// Locks `mutex` for `worker`.
    #[inline]
    pub fn lock<'a, T>(&self, worker: usize, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        let own = &self.0[worker];
        Counters::add(&own.locks, 1);
        match mutex.try_lock() {
            Ok(guard) => guard,
            Err(_) => own.wait(mutex),
        }
    }

    /// For `status`.
    pub fn figures(&self) -> [Figure; 3] {
        let each = |name, value: fn(&OfWorker) -> &AtomicU64| {
            Figure::each(name, self.0.iter().map(|own| value(own).load(Ordering::Relaxed)))
        };
        [
            each(LOCKS, |own| &own.locks),
            each(LOCK_WAITS, |own| &own.waits),
            each(LOCK_WAIT_NS, |own| &own.nanos),
        ]
    }
}

impl OfWorker {
    #[cold]
    fn wait<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        #[expect(clippy::disallowed_types, reason = "see above; nobody waits here in a simulator")]
        let since = Instant::now();
        let guard = mutex.lock().expect("nobody panics while committing");
        Counters::add(&self.waits, 1);
        Counters::add(&self.nanos, since.elapsed().as_nanos() as u64);
        guard
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn values(waits: &LockWaits, at: usize) -> Vec<u64> {
        waits.figures()[at].values.clone()
    }

    #[test]
    fn only_who_finds_the_lock_taken_waits() {
        let (mutex, waits) = (Arc::new(Mutex::new(0)), Arc::new(LockWaits::new(2)));
        let held = waits.lock(0, &mutex);
        let other = {
            let (mutex, waits) = (mutex.clone(), waits.clone());
            std::thread::spawn(move || *waits.lock(1, &mutex) += 1)
        };
        // It counts that it takes the lock before it tries.
        while values(&waits, 0) != [1, 1] {
            std::thread::yield_now();
        }
        drop(held);
        other.join().unwrap();
        assert_eq!((values(&waits, 0), *mutex.lock().unwrap()), (vec![1, 1], 1));
        let (waited, nanos) = (values(&waits, 1), values(&waits, 2));
        assert_eq!(waited[0], 0, "the first one found it free");
        assert_eq!(
            waited[1] == 0,
            nanos[1] == 0,
            "whether the second one did is a race; only then time was taken"
        );
    }
}
