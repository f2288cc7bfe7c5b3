//! Sets of sequence numbers that are almost contiguous.

/// A set of numbers as sorted, disjoint, non-adjacent inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// Adds a number that is not in the set. Cheap if it follows one of the last ranges.
    pub fn insert(&mut self, number: u32) {
        // Releases come nearly in order: look from the end.
        let at = self.0.iter().rposition(|range| range.0 <= number).map_or(0, |at| at + 1);
        let joins_before = at > 0 && self.0[at - 1].1 + 1 == number;
        let joins_after = self.0.get(at).is_some_and(|range| number + 1 == range.0);
        match (joins_before, joins_after) {
            (true, true) => self.0[at - 1].1 = self.0.remove(at).1,
            (true, false) => self.0[at - 1].1 = number,
            (false, true) => self.0[at].0 = number,
            (false, false) => self.0.insert(at, (number, number)),
        }
    }

    /// The ranges, in order.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_hold_what_was_inserted(numbers in prop::collection::btree_set(0u32..200, 0..150), seed in any::<u64>()) {
            let mut shuffled: Vec<u32> = numbers.iter().copied().collect();
            shuffled.sort_by_key(|n| (u64::from(*n) ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut ranges = Ranges::default();
            shuffled.into_iter().for_each(|n| ranges.insert(n));
            let held: Vec<u32> = ranges.as_slice().iter().flat_map(|&(first, last)| first..=last).collect();
            prop_assert_eq!(held, numbers.into_iter().collect::<Vec<_>>());
            prop_assert!(ranges.as_slice().windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
        }
    }
}
