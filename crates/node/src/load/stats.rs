//! What one worker's load driver counts.

use hdrhistogram::Histogram;
use highwater_core::Outcome;
use highwater_seam::Nanos;

use super::ranges::Ranges;

/// Counts of one worker since the load's start or the last reset.
#[derive(Clone, Debug)]
pub struct WorkerStats {
    /// One per procedure of the mix.
    pub kinds: Vec<KindStats>,
    /// Requests given up after too many conflicts.
    pub gave_up: u64,
    /// Requests that were answered with [`Outcome::BadRequest`]: no work was done for them, so they are no throughput.
    pub bad_requests: u64,
    /// Requests whose outcome was lost with leadership.
    pub unknown: u64,
    /// CPU time of the generator, extrapolated from samples.
    pub generator_ns: u64,
    /// Acknowledged audit rows. Kept by a reset.
    pub audit: Ranges,
    /// The generator number of the audit rows, if there are any.
    pub audit_generator: Option<u32>,
    /// Released commits over time. Kept by a reset.
    pub slices: Slices,
    /// When the first commit was released, 0 if none was. Kept by a reset.
    pub first_release: Nanos,
    /// When the last one was.
    pub last_release: Nanos,
    /// Whether requests are being submitted.
    pub running: bool,
}

/// Counts of one procedure on one worker.
#[derive(Clone, Debug)]
pub struct KindStats {
    pub name: &'static str,
    /// Released commits.
    pub committed: u64,
    /// Released roll-backs.
    pub user_aborts: u64,
    /// Nanoseconds from submission to release, of commits.
    pub latency: Histogram<u32>,
}

/// Longest latency told apart: a minute.
const MAX_LATENCY: u64 = 60_000_000_000;

impl KindStats {
    fn new(name: &'static str) -> KindStats {
        KindStats { name, committed: 0, user_aborts: 0, latency: histogram() }
    }
}

/// Latencies in nanoseconds to 1 %: small enough (15 KiB) to stay in the cache.
pub fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, MAX_LATENCY, 2).expect("the bounds are in order")
}

impl WorkerStats {
    /// Nothing counted yet, of procedures with these names.
    pub fn new(names: &[&'static str], audit_generator: Option<u32>) -> WorkerStats {
        WorkerStats {
            kinds: names.iter().map(|name| KindStats::new(name)).collect(),
            gave_up: 0,
            bad_requests: 0,
            unknown: 0,
            generator_ns: 0,
            audit: Ranges::default(),
            audit_generator,
            slices: Slices::default(),
            first_release: 0,
            last_release: 0,
            running: true,
        }
    }

    /// Of a worker that never ran a load.
    pub fn idle() -> WorkerStats {
        WorkerStats { running: false, ..WorkerStats::new(&[], None) }
    }

    /// Sets to 0 what a reset sets to 0.
    pub fn reset(&mut self) {
        for kind in &mut self.kinds {
            (kind.committed, kind.user_aborts) = (0, 0);
            kind.latency.reset();
        }
        (self.gave_up, self.bad_requests, self.unknown, self.generator_ns) = (0, 0, 0, 0);
    }

    /// Counts a reply of procedure `kind` that took `latency`.
    #[inline]
    pub fn count(&mut self, kind: usize, outcome: Outcome, latency: Nanos, now: Nanos) {
        let stats = &mut self.kinds[kind];
        match outcome {
            Outcome::Committed => {
                stats.committed += 1;
                stats.latency.saturating_record(latency.max(1));
                self.slices.add(now, 1);
                self.last_release = now;
                if self.first_release == 0 {
                    self.first_release = now;
                }
            }
            Outcome::RolledBack => stats.user_aborts += 1,
            Outcome::BadRequest => self.bad_requests += 1,
            Outcome::Conflict
            | Outcome::TooLarge
            | Outcome::OutOfMemory
            | Outcome::DiskFull
            | Outcome::Denied => self.gave_up += 1,
            Outcome::Unknown => self.unknown += 1,
        }
    }
}

/// Events per 10 ms over the last minute. Slices are numbered on the monotonic clock, so those of different workers
/// and processes of one machine line up.
#[derive(Clone, Debug)]
pub struct Slices {
    ring: Vec<u32>,
    /// Number of the newest slice in the ring.
    newest: u64,
}

/// Length of a slice.
pub const SLICE: Nanos = 10_000_000;
/// How many are kept: a minute's worth.
pub const SLICES: usize = 6000;

impl Default for Slices {
    fn default() -> Slices {
        Slices { ring: vec![0; SLICES], newest: 0 }
    }
}

impl Slices {
    /// Counts `n` events at `now`, which is not much older than the newest.
    #[inline]
    pub fn add(&mut self, now: Nanos, n: u32) {
        let slice = now / SLICE;
        if slice > self.newest {
            self.advance(slice);
        }
        if slice + SLICES as u64 > self.newest {
            self.ring[slice as usize % SLICES] += n;
        }
    }

    /// The count of a slice; 0 if it is not kept.
    pub fn get(&self, slice: u64) -> u32 {
        let kept = slice <= self.newest && slice + SLICES as u64 > self.newest;
        if kept { self.ring[slice as usize % SLICES] } else { 0 }
    }

    #[cold]
    fn advance(&mut self, slice: u64) {
        let from = (self.newest + 1).max(slice.saturating_sub(SLICES as u64 - 1));
        for passed in from..=slice {
            self.ring[passed as usize % SLICES] = 0;
        }
        self.newest = slice;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_keep_the_last_minute() {
        let mut slices = Slices::default();
        let start = 123_456 * SLICE;
        slices.add(start, 5);
        slices.add(start + SLICE / 2, 2);
        slices.add(start + 3 * SLICE, 1);
        let at = |n: u64| start / SLICE + n;
        assert_eq!([0, 1, 2, 3, 4].map(|n| slices.get(at(n))), [7, 0, 0, 1, 0]);
        slices.add(start + SLICES as u64 * SLICE, 9);
        assert_eq!([0, 3, SLICES as u64].map(|n| slices.get(at(n))), [0, 1, 9]);
        slices.add(start + 10 * SLICES as u64 * SLICE, 1);
        assert_eq!(slices.get(at(SLICES as u64)), 0);
    }

    /// Once: malformed requests counted as throughput.
    #[test]
    fn a_bad_request_is_no_throughput() {
        let mut stats = WorkerStats::new(&["a.b"], None);
        for outcome in [Outcome::BadRequest, Outcome::BadRequest, Outcome::Committed, Outcome::RolledBack] {
            stats.count(0, outcome, 5000, 7 * SLICE);
        }
        let kind = &stats.kinds[0];
        assert_eq!((kind.committed, kind.user_aborts, kind.latency.len()), (1, 1, 1));
        assert_eq!((stats.bad_requests, stats.slices.get(7)), (2, 1));
        let mut refused = WorkerStats::new(&["a.b"], None);
        refused.count(0, Outcome::BadRequest, 5000, 7 * SLICE);
        assert_eq!((refused.first_release, refused.last_release), (0, 0), "nothing was released");
        stats.reset();
        assert_eq!(stats.bad_requests, 0);
    }

    #[test]
    fn a_reset_keeps_what_tells_of_gaps_and_promises() {
        let mut stats = WorkerStats::new(&["a.b"], Some(3));
        stats.count(0, Outcome::Committed, 5000, 7 * SLICE);
        stats.count(0, Outcome::RolledBack, 0, 7 * SLICE);
        stats.audit.insert(0);
        stats.reset();
        assert_eq!(
            (stats.kinds[0].committed, stats.kinds[0].user_aborts, stats.kinds[0].latency.len()),
            (0, 0, 0)
        );
        assert_eq!(
            (stats.slices.get(7), stats.first_release, stats.audit.as_slice()),
            (1, 7 * SLICE, &[(0, 0)][..])
        );
    }
}
