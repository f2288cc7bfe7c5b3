//! Which of several things that take each other's place an answer is about.
//!
//! A thread or a peer that was asked for something may answer when the thing that it was asked about is gone: its store was replaced, its
//! folder was lost, the copy was given up. An answer that says which one it is about can be told from one about the thing that is there now.
//!
//! docs/internals/completions.md lists every answer of a node, and what tells it from a late one.

/// Numbers things that take each other's place: stores of a replica, times that its workers let go of one, looks at a folder. Two things of one
/// kind in one process never have the same one. It says nothing across processes: there an [`Incarnation`](crate::Incarnation) and the number of
/// a start do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(u64);

impl Generation {
    /// Something takes the place of what was there: the generation of that.
    pub fn advance(&mut self) -> Generation {
        self.0 += 1;
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_later_than_all_before_it() {
        let mut generation = Generation::default();
        let first = generation;
        let second = generation.advance();
        assert!(first < second && second == generation && second < generation.advance());
    }
}
