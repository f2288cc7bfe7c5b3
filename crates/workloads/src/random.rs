//! Seeded randomness for generators and populations: fast, reproducible, not for secrets.

/// xoshiro256++ (Blackman, Vigna), seeded through splitmix64.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A stream that depends on the seed alone.
    #[inline]
    pub fn new(seed: u64) -> Rng {
        let step = |n: u64| mix(seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        Rng { state: [step(1), step(2), step(3), step(4)] }
    }

    /// 64 random bits.
    #[inline]
    pub fn u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// Uniform in `0..n`, up to a bias of n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.u64()) * u128::from(n)) >> 64) as u64
    }

    /// Uniform in `low..=high`.
    #[inline]
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        debug_assert!(low <= high);
        low + self.below(high - low + 1)
    }

    /// Uniform in `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True in `percent` of 100 cases.
    #[inline]
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// NURand (TPC-C 2.1.6): non-uniform in `low..=high`, with the constants `a` and `c` of the column.
    #[inline]
    pub fn nurand(&mut self, a: u64, c: u64, low: u64, high: u64) -> u64 {
        ((self.below(a + 1) | self.within(low, high)) + c) % (high - low + 1) + low
    }
}

/// A bijection of 64 bits that looks random: splitmix64's finaliser.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A random permutation of `0..n`, one element at a time and in no memory: a Feistel network over the next even number
/// of bits, repeated until it lands inside.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// A permutation of `0..n` chosen by `seed`.
    pub fn new(n: u64, seed: u64) -> Permutation {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        Permutation { n, half_bits: bits.div_ceil(2).max(1), seed }
    }

    /// Where `at` goes.
    ///
    /// # Panics
    /// If `at` is not below `n`.
    pub fn at(&self, at: u64) -> u64 {
        assert!(at < self.n, "a permutation of {} has no element {at}", self.n);
        let mut value = at;
        loop {
            value = self.shuffle(value);
            if value < self.n {
                return value;
            }
        }
    }

    fn shuffle(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for round in 0..4 {
            let key = mix(self.seed.wrapping_add(round << 48).wrapping_add(right));
            (left, right) = (right, left ^ (key & mask));
        }
        left << self.half_bits | right
    }
}

/// Zipf-distributed ranks (Gray et al., "Quickly generating billion-record synthetic databases"): rank 0 is the most
/// frequent.
#[derive(Clone, Copy, Debug)]
pub struct Zipfian {
    n: u64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    second: f64,
}

impl Zipfian {
    /// Ranks in `0..n` with skew `theta` in `0.0..1.0`. Takes time linear in `n`.
    ///
    /// # Panics
    /// If `n` is 0 or `theta` outside its range.
    pub fn new(n: u64, theta: f64) -> Zipfian {
        assert!(n > 0 && (0.0..1.0).contains(&theta), "zipfian over 0..{n} with theta {theta}");
        let zeta: f64 = (1..=n).map(|rank| (rank as f64).powf(-theta)).sum();
        let zeta_2 = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta);
        Zipfian { n, alpha: 1.0 / (1.0 - theta), zeta, eta, second: zeta_2 }
    }

    /// The next rank.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let unit = rng.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1.min(self.n - 1);
        }
        let rank = self.n as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n - 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Permutation, Rng, Zipfian};

    proptest! {
        #[test]
        fn ranges_are_kept(seed: u64, low in 0u64..1000, span in 0u64..100_000, a in 0u64..10_000, c in 0u64..10_000) {
            let mut rng = Rng::new(seed);
            let high = low + span;
            for _ in 0..100 {
                prop_assert!((low..=high).contains(&rng.within(low, high)));
                prop_assert!((low..=high).contains(&rng.nurand(a, c, low, high)));
                prop_assert!((0.0..1.0).contains(&rng.unit()));
            }
        }

        #[test]
        fn a_permutation_hits_everything_once(n in 1u64..5000, seed: u64) {
            let permutation = Permutation::new(n, seed);
            let mut hit = vec![false; n as usize];
            for at in 0..n {
                prop_assert!(!std::mem::replace(&mut hit[permutation.at(at) as usize], true));
            }
        }

        #[test]
        fn zipfian_ranks_stay_inside(n in 1u64..1000, theta in 0.0f64..0.999, seed: u64) {
            let (zipf, mut rng) = (Zipfian::new(n, theta), Rng::new(seed));
            for _ in 0..100 {
                prop_assert!(zipf.draw(&mut rng) < n);
            }
        }
    }

    #[test]
    fn zipfian_frequencies_fall_like_the_rank_to_the_theta() {
        let (n, theta, draws) = (1000, 0.99, 400_000);
        let (zipf, mut rng) = (Zipfian::new(n, theta), Rng::new(7));
        let mut counts = vec![0u64; n as usize];
        (0..draws).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
        let zeta: f64 = (1..=n).map(|rank| (rank as f64).powf(-theta)).sum();
        // The method is exact for the first two ranks and approximate behind: sums over ranges hide the seams.
        for (from, to, tolerance) in
            [(0, 1, 0.03), (1, 2, 0.03), (2, 10, 0.15), (10, 100, 0.1), (100, 1000, 0.1)]
        {
            let expected: f64 = (from..to).map(|rank| (rank as f64 + 1.0).powf(-theta) / zeta).sum();
            let seen = counts[from..to].iter().sum::<u64>() as f64 / f64::from(draws);
            assert!((seen / expected - 1.0).abs() < tolerance, "ranks {from}..{to}: {seen} for {expected}");
        }
    }

    #[test]
    fn nurand_prefers_some_values() {
        let mut rng = Rng::new(1);
        let mut counts = vec![0u32; 3001];
        (0..300_000).for_each(|_| counts[rng.nurand(1023, 5, 1, 3000) as usize] += 1);
        assert_eq!(counts[0], 0);
        let hottest = counts.iter().max().copied().unwrap_or(0);
        assert!(hottest > 500, "uniform would be 100 each, the hottest has {hottest}");
    }

    #[test]
    fn streams_depend_on_the_seed_alone() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            [rng.u64(), rng.u64(), rng.u64()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }
}
