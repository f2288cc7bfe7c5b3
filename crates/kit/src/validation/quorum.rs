//! How many replicas have to agree. `n` nodes are configured, and stay so many, whoever is there.
//!
//! | what | how many | why |
//! |---|---|---|
//! | majority | n/2 + 1, rounded down | two have a replica in common |
//! | fast | least F with 2 (F + majority - n) > majority; with n = 2f + 1: f + ceil(f/2) + 1 | of what F replicas found valid, every majority shows so many that two transactions in conflict cannot both have as many there |
//!
//! ```text
//! n         1  2  3  4  5  6  7
//! majority  1  2  2  3  3  4  4
//! fast      1  2  3  3  4  5  6
//! ```

/// The quorums of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quorums {
    /// Nodes.
    pub all: u32,
    /// More than half of them.
    pub majority: u32,
    /// As many as decide without a second round.
    pub fast: u32,
}

impl Quorums {
    /// Of a cluster of `n` nodes.
    pub fn of(n: u8) -> Quorums {
        let all = u32::from(n);
        let majority = all / 2 + 1;
        let shows = majority / 2 + 1;
        Quorums { all, majority, fast: (all - majority + shows).max(majority) }
    }

    /// The same, but a decision without a second round takes all replicas: then a change of epoch commits nothing that less than a
    /// majority found valid, for a candidate of its rule 4 has been found valid by all that replied. With up to three nodes it is the
    /// same anyway.
    #[inline]
    pub fn unanimous(self) -> Quorums {
        Quorums { fast: self.all, ..self }
    }

    /// What so many replies show at least of a transaction that `fast` replicas found valid.
    #[inline]
    pub fn shown_of_fast(self, replies: u32) -> u32 {
        (self.fast + replies).saturating_sub(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_s_sizes() {
        for f in 0..8u8 {
            let quorums = Quorums::of(2 * f + 1);
            assert_eq!(quorums.majority, u32::from(f) + 1);
            assert_eq!(quorums.fast, u32::from(f) + u32::from(f).div_ceil(2) + 1, "section 5.2.2, step 3");
            assert_eq!(
                quorums.shown_of_fast(quorums.majority),
                u32::from(f).div_ceil(2) + 1,
                "section 5.3.1, rule 4"
            );
        }
    }

    /// Where real time is promised less than a majority's yes must not do.
    /// Once: (While it was built.) Engine `meerkat-strict` with four replicas or more: a change of epoch could commit, by
    /// rule 4, a transaction that a replica had refused as too late and less than a majority had found valid, and so one
    /// that came before another that was answered before it was asked for. Its fast path takes all replicas now.
    #[test]
    fn what_all_have_to_agree_on_a_majority_found_valid() {
        for n in 1..=31 {
            let quorums = Quorums::of(n).unanimous();
            for replies in quorums.majority..=quorums.all {
                assert!(quorums.shown_of_fast(replies) >= quorums.majority, "{quorums:?}, {replies} replies");
            }
            assert!(n > 3 || quorums == Quorums::of(n));
        }
    }

    /// Two transactions in conflict: no replica finds both valid, so a majority's replies never show both to have been able to
    /// commit on the fast path.
    #[test]
    fn two_in_conflict_are_never_both_shown() {
        for n in 1..=31 {
            let quorums = Quorums::of(n);
            assert!(quorums.fast <= quorums.all && quorums.fast >= quorums.majority);
            assert!(2 * quorums.shown_of_fast(quorums.majority) > quorums.majority, "{quorums:?}");
            let less = Quorums { fast: quorums.fast - 1, ..quorums };
            let smallest =
                less.fast < less.majority || 2 * less.shown_of_fast(less.majority) <= less.majority;
            assert!(smallest, "{quorums:?} asks for more than needed");
        }
    }
}
