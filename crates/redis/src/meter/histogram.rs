//! How long things took: counts in buckets whose width grows with the time, eight to a doubling.

use std::sync::atomic::{AtomicU64, Ordering};

use highwater_seam::Nanos;
use serde::{Deserialize, Serialize};

/// Below so many microseconds each has a bucket of its own.
const LINEAR: u64 = 16;
/// Buckets to a doubling, above.
const STEPS: u64 = 8;
/// What takes 2 to this power of microseconds (67 s) or longer is in the last bucket.
const LAST_POWER: u64 = 26;
/// All buckets.
pub const BUCKETS: usize = (LINEAR + (LAST_POWER - 4) * STEPS + 1) as usize;
/// Powers of two microseconds that are told apart where eight to a doubling would be too many.
pub const POWERS: usize = LAST_POWER as usize + 2;

/// Written by one thread, read by anyone.
#[derive(Debug)]
#[repr(align(128))]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: std::array::from_fn(|_| AtomicU64::new(0)), sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// One more took so long. Only the owner counts.
    #[inline]
    pub fn count(&self, took: Nanos) {
        super::add(&self.counts[bucket(took / 1000)], 1);
        super::add(&self.sum_ns, took);
    }

    pub fn counts(&self) -> Counts {
        Counts {
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
        }
    }
}

/// What a histogram has counted, or several together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts {
    counts: Vec<u64>,
    /// All times together.
    pub sum_ns: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts { counts: vec![0; BUCKETS], sum_ns: 0 }
    }
}

/// Counts as they travel: the buckets that are not empty, each with the microseconds at which it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountsReport {
    /// Below so many microseconds, so many that are in no bucket before.
    pub buckets: Vec<(u64, u64)>,
    /// All times together, in nanoseconds.
    pub sum_ns: u64,
}

impl Counts {
    /// How many.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Counts) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.sum_ns += other.sum_ns;
    }

    /// How many took less than 2 to this power of microseconds; the power is at least 4.
    pub fn below(&self, power: u32) -> u64 {
        self.counts[..bucket(1 << power)].iter().sum()
    }

    /// As it travels.
    pub fn report(&self) -> CountsReport {
        let buckets = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        CountsReport { buckets: buckets.map(|(at, count)| (end(at), *count)).collect(), sum_ns: self.sum_ns }
    }
}

impl CountsReport {
    /// How many.
    pub fn total(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// What was counted since `before`, which the same histogram said earlier.
    pub fn since(&self, before: &CountsReport) -> CountsReport {
        let earlier =
            |end: u64| before.buckets.iter().find(|(at, _)| *at == end).map_or(0, |(_, count)| *count);
        let buckets = self.buckets.iter().map(|(end, count)| (*end, count.saturating_sub(earlier(*end))));
        CountsReport {
            buckets: buckets.filter(|(_, count)| *count > 0).collect(),
            sum_ns: self.sum_ns.saturating_sub(before.sum_ns),
        }
    }

    /// So many microseconds took this share of them at most (up to the width of a bucket); `None` if there are none.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let rank = (self.total() as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets.iter().find_map(|(end, count)| {
            seen += count;
            (seen >= rank).then_some(*end)
        })
    }
}

/// The bucket of a time.
#[inline]
fn bucket(us: u64) -> usize {
    if us < LINEAR {
        return us as usize;
    }
    let power = u64::from(us.ilog2());
    if power >= LAST_POWER {
        return BUCKETS - 1;
    }
    (LINEAR + (power - 4) * STEPS + (us >> (power - 3) & (STEPS - 1))) as usize
}

/// The microseconds at which a bucket ends; the last one ends nowhere.
fn end(bucket: usize) -> u64 {
    let at = bucket as u64;
    if at < LINEAR {
        return at + 1;
    }
    if bucket == BUCKETS - 1 {
        return u64::MAX;
    }
    let (power, step) = ((at - LINEAR) / STEPS + 4, (at - LINEAR) % STEPS);
    (1 << power) + ((step + 1) << (power - 3))
}

/// The power of two microseconds below which a time is: 0 for less than one.
#[inline]
pub fn power(us: u64) -> usize {
    ((u64::BITS - us.leading_zeros()) as usize).min(POWERS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_that_ends_behind_it() {
        let begin = |at: usize| if at == 0 { 0 } else { end(at - 1) };
        let times =
            (0..200).chain((0..40).map(|power| (1u64 << power) - 1)).chain((0..40).map(|power| 1 << power));
        for us in times {
            let at = bucket(us);
            assert!(begin(at) <= us && us < end(at), "{us}: {} to {}", begin(at), end(at));
        }
        for at in 1..BUCKETS - 1 {
            assert!(end(at) > begin(at) && end(at) - begin(at) <= (begin(at) / 8).max(1), "{at}");
        }
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let histogram = Histogram::default();
        assert_eq!(histogram.counts().report().quantile(0.5), None);
        (1..=1000).for_each(|us| histogram.count(us * 1000));
        let report = histogram.counts().report();
        assert_eq!(report.total(), 1000);
        for (share, exact) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let told = report.quantile(share).unwrap();
            assert!((exact..=exact + exact / 8 + 1).contains(&told), "{share}: {told}");
        }
        histogram.count(5_000_000_000);
        let since = histogram.counts().report().since(&report);
        assert_eq!((since.total(), since.sum_ns), (1, 5_000_000_000));
        assert!((5_000_000..5_700_000).contains(&since.quantile(0.5).unwrap()));
    }

    #[test]
    fn powers_add_up() {
        let histogram = Histogram::default();
        for us in [3, 15, 16, 1000, 100_000_000] {
            histogram.count(us * 1000);
        }
        let counts = histogram.counts();
        assert_eq!([4, 5, 9, 10, 26].map(|power| counts.below(power)), [2, 3, 3, 4, 4]);
        assert_eq!([0, 1, 2, 3, 4, u64::MAX].map(power), [0, 1, 2, 2, 3, POWERS - 1]);
    }
}
