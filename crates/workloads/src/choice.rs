//! Which keys a request is about: uniform or skewed, for every workload that has this choice.

use crate::random::{Permutation, Rng, Zipfian};

/// How keys are chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Each as often as any other.
    Uniform,
    /// A few often: rank r with a frequency proportional to r^-theta; the ranks are scattered over the keys.
    Zipfian {
        /// The skew, from 0.0 (none) to below 1.0.
        theta: f64,
    },
}

impl Distribution {
    /// That of a Zipf coefficient, as papers give it: 0.0 is uniform.
    pub fn of_coefficient(theta: f64) -> Distribution {
        if theta == 0.0 { Distribution::Uniform } else { Distribution::Zipfian { theta } }
    }
}

/// Draws keys. Made once for a workload, because making it can take time linear in the number of keys.
#[derive(Debug)]
pub struct Chooser {
    keys: u64,
    /// If the choice is skewed: what rank, and which key has it.
    skew: Option<(Zipfian, Permutation)>,
}

impl Chooser {
    /// Draws from `0..keys`.
    ///
    /// # Panics
    /// If there is no key, or a skew is outside its range.
    pub fn new(keys: u64, distribution: Distribution) -> Chooser {
        assert!(keys > 0, "there is no key to choose");
        let skew = match distribution {
            Distribution::Uniform => None,
            Distribution::Zipfian { theta } => Some((Zipfian::new(keys, theta), Permutation::new(keys, 0))),
        };
        Chooser { keys, skew }
    }

    /// The next key.
    #[inline]
    pub fn key(&self, rng: &mut Rng) -> u64 {
        match &self.skew {
            None => rng.below(self.keys),
            Some((ranks, scatter)) => scatter.at(ranks.draw(rng)),
        }
    }

    /// Fills `wanted` with keys, no two alike. There must be as many.
    #[inline]
    pub fn distinct(&self, rng: &mut Rng, wanted: &mut [u64]) {
        debug_assert!(wanted.len() as u64 <= self.keys, "there are only {} keys", self.keys);
        let mut count = 0;
        while count < wanted.len() {
            let key = self.key(rng);
            if !wanted[..count].contains(&key) {
                wanted[count] = key;
                count += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of 1000 keys is drawn in 200,000.
    fn counts(theta: f64) -> Vec<u32> {
        let (chooser, mut rng) = (Chooser::new(1000, Distribution::of_coefficient(theta)), Rng::new(3));
        let mut counts = vec![0; 1000];
        (0..200_000).for_each(|_| counts[chooser.key(&mut rng) as usize] += 1);
        counts
    }

    #[test]
    fn a_coefficient_of_zero_is_uniform_and_the_hottest_key_grows_with_it() {
        let hottest = |theta| counts(theta).into_iter().max().unwrap_or(0);
        assert_eq!(Distribution::of_coefficient(0.0), Distribution::Uniform);
        let hottest = [0.0, 0.3, 0.6, 0.9, 0.99].map(hottest);
        assert!(hottest[0] < 300, "{hottest:?}");
        assert!(hottest.is_sorted_by(|cooler, hotter| cooler * 5 / 4 < *hotter), "{hottest:?}");
    }

    #[test]
    fn hot_keys_are_spread() {
        let counts = counts(0.99);
        let mut hot: Vec<_> = (0..1000).collect();
        hot.sort_unstable_by_key(|key| std::cmp::Reverse(counts[*key]));
        hot.truncate(20);
        let low = hot.iter().filter(|key| **key < 500).count();
        assert!((4..=16).contains(&low), "{low} of the 20 hottest keys are in the lower half");
    }

    #[test]
    fn distinct_keys_can_be_all_of_them() {
        let (chooser, mut rng) = (Chooser::new(10, Distribution::Zipfian { theta: 0.99 }), Rng::new(5));
        let mut keys = [0; 10];
        chooser.distinct(&mut rng, &mut keys);
        keys.sort_unstable();
        assert_eq!(keys, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
}
