//! When something took long, and how long: what `LATENCY` tells, by events as Redis names them.

use std::collections::{BTreeMap, VecDeque};

/// Samples that are kept of an event.
pub const MOST_SAMPLES: usize = 160;

/// The longest of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Unix time in seconds.
    pub unix_s: u64,
    /// How long it took.
    pub ms: u64,
}

/// The last samples of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// The oldest first.
    pub samples: VecDeque<Sample>,
    /// The longest ever.
    pub longest_ms: u64,
}

/// Samples by event.
pub type Latencies = BTreeMap<&'static str, Series>;

impl Series {
    /// It took so long at that time. Of one second the longest is kept.
    pub fn note(&mut self, unix_s: u64, ms: u64) {
        self.longest_ms = self.longest_ms.max(ms);
        if let Some(last) = self.samples.back_mut().filter(|last| last.unix_s == unix_s) {
            last.ms = last.ms.max(ms);
            return;
        }
        if self.samples.len() == MOST_SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { unix_s, ms });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_second_the_longest_is_kept_and_of_all_the_last() {
        let mut series = Series::default();
        for (unix_s, ms) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            series.note(unix_s, ms);
        }
        assert_eq!(series.samples, [Sample { unix_s: 1, ms: 9 }, Sample { unix_s: 2, ms: 3 }]);
        (3..500).for_each(|unix_s| series.note(unix_s, 1));
        assert_eq!((series.samples.len(), series.longest_ms), (MOST_SAMPLES, 9));
        assert_eq!(series.samples.back(), Some(&Sample { unix_s: 499, ms: 1 }));
    }
}
