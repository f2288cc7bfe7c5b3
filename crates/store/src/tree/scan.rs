//! Scans: one consistent copy of a leaf's part of a range after another.

use std::ops::Bound;

use highwater_core::Direction;

use super::descent::{Seek, Step, Tree, until_undisturbed};
use super::finger::Fingers;
use super::node::{LEAF_KEYS, Node, Restart};
use crate::keys::{Kept, Keys};
use crate::record::Record;
use crate::seen::NodeSeen;

/// The records of a leaf that are in a range, in ascending order, as they were at one moment.
pub(crate) struct LeafCopy {
    records: [Option<Record>; LEAF_KEYS],
    len: usize,
    pub seen: NodeSeen,
    /// The leaf where the scan is likely to go on, to be asked for; or null.
    neighbour: *const Node,
    low: Kept,
    high: Kept,
}

impl LeafCopy {
    pub fn new() -> LeafCopy {
        let seen = NodeSeen { version: std::ptr::null(), seen: 0 };
        let neighbour = std::ptr::null();
        LeafCopy { records: [None; LEAF_KEYS], len: 0, seen, neighbour, low: Kept::NONE, high: Kept::NONE }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Record `at` in the scan's order, if there are so many.
    #[inline]
    pub fn get(&self, at: usize, direction: Direction) -> Option<Record> {
        match direction {
            Direction::Forward if at < self.len => self.records[at],
            Direction::Backward if at < self.len => self.records[self.len - 1 - at],
            _ => None,
        }
    }

    /// Record `at` in the scan's order.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn record(&self, at: usize, direction: Direction) -> Record {
        self.get(at, direction).expect("a copy that was checked holds `len` records")
    }

    /// Asks for the leaf where the scan is likely to go on.
    #[inline]
    pub fn prefetch_neighbour(&self) {
        if !self.neighbour.is_null() {
            Node::prefetch_for_scan(self.neighbour);
        }
    }

    /// Where the scan goes on, if the range does.
    pub fn next<K: Keys>(
        &self,
        range: (Bound<K::Key<'_>>, Bound<K::Key<'_>>),
        direction: Direction,
    ) -> Option<Resume> {
        let more = match direction {
            Direction::Forward => {
                let high = K::kept(&self.high)?;
                match range.1 {
                    Bound::Included(end) => K::compare(high, end).is_le(),
                    Bound::Excluded(end) => K::compare(high, end).is_lt(),
                    Bound::Unbounded => true,
                }
            }
            Direction::Backward => {
                let low = K::kept(&self.low)?;
                match range.0 {
                    Bound::Included(start) | Bound::Excluded(start) => K::compare(start, low).is_lt(),
                    Bound::Unbounded => true,
                }
            }
        };
        let fence = if direction == Direction::Forward { self.high } else { self.low };
        more.then_some(Resume { fence, direction })
    }
}

/// The fence of a leaf, from which a scan goes on. Valid as long as the guard is pinned.
pub(crate) struct Resume {
    fence: Kept,
    direction: Direction,
}

impl Resume {
    fn key<K: Keys>(&self) -> K::Key<'_> {
        K::kept(&self.fence).expect("a scan ends where there is no fence")
    }

    /// A copy of the fence, as callers know keys.
    pub fn key_bytes<K: Keys>(&self) -> Vec<u8> {
        K::shown(self.key::<K>(), <[u8]>::to_vec)
    }

    pub fn seek<K: Keys>(&self) -> Seek<K::Key<'_>> {
        match self.direction {
            Direction::Forward => Seek::At(self.key::<K>()),
            Direction::Backward => Seek::Below(self.key::<K>()),
        }
    }
}

impl<K: Keys> Tree<K> {
    /// Where a scan of the range starts.
    fn start<'k>(range: (Bound<K::Key<'k>>, Bound<K::Key<'k>>), direction: Direction) -> Seek<K::Key<'k>> {
        match direction {
            Direction::Forward => match range.0 {
                Bound::Included(key) | Bound::Excluded(key) => Seek::At(key),
                Bound::Unbounded => Seek::First,
            },
            Direction::Backward => match range.1 {
                Bound::Included(key) => Seek::At(key),
                Bound::Excluded(key) => Seek::Below(key),
                Bound::Unbounded => Seek::Last,
            },
        }
    }

    /// Copies the part of the range that is in its first leaf in this direction, or in the one where it goes on. The
    /// caller is pinned.
    pub fn copy_leaf<'k>(
        &self,
        resume: Option<&Resume>,
        direction: Direction,
        range: (Bound<K::Key<'k>>, Bound<K::Key<'k>>),
        fingers: &mut Fingers,
        copy: &mut LeafCopy,
    ) {
        match resume {
            None => {
                let seek = Self::start(range, direction);
                until_undisturbed(|| {
                    let leaf = match seek {
                        Seek::At(key) => self.leaf_of(key, fingers)?,
                        seek => self.descend(seek)?,
                    };
                    Self::copy_range(leaf, None, range, copy)
                });
            }
            Some(resume) => {
                let seek = resume.seek::<K>();
                until_undisturbed(|| {
                    let (leaf, neighbour) = self.descend_beside(seek, direction)?;
                    Self::copy_range(leaf, neighbour, range, copy)
                });
            }
        }
    }

    fn copy_range(
        Step { node: leaf, version, .. }: Step<'_>,
        neighbour: Option<&Node>,
        range: (Bound<K::Key<'_>>, Bound<K::Key<'_>>),
        copy: &mut LeafCopy,
    ) -> Result<(), Restart> {
        let count = leaf.info().count.min(LEAF_KEYS);
        let from = match range.0 {
            Bound::Included(key) => Self::slots_below(leaf, key, false)?,
            Bound::Excluded(key) => Self::slots_below(leaf, key, true)?,
            Bound::Unbounded => 0,
        };
        let to = match range.1 {
            Bound::Included(key) => Self::slots_below(leaf, key, true)?,
            Bound::Excluded(key) => Self::slots_below(leaf, key, false)?,
            Bound::Unbounded => count,
        };
        copy.len = to.saturating_sub(from);
        for at in 0..copy.len {
            copy.records[at] = leaf.record(from + at);
        }
        (copy.low, copy.high) = (leaf.low(), leaf.high());
        copy.seen = leaf.seen(version);
        copy.neighbour = neighbour.map_or(std::ptr::null(), std::ptr::from_ref);
        leaf.check(version)
    }

    /// How many keys of the leaf are below `key` (or not above it, if `inclusive`). The key may be outside the fences, as a range's ends are for most of its
    /// leaves: then it need not share what the leaf's keys share, only the fences tell, and the leaf's heads are not looked at.
    fn slots_below(leaf: &Node, key: K::Key<'_>, inclusive: bool) -> Result<usize, Restart> {
        let (low, high) = (leaf.low(), leaf.high());
        if K::kept(&low).is_some_and(|low| K::compare(key, low).is_lt()) {
            return Ok(0);
        }
        if K::kept(&high).is_some_and(|high| K::compare(high, key).is_le()) {
            return Ok(leaf.info().count.min(LEAF_KEYS));
        }
        let (at, exact) = leaf.find_slot::<K>(key)?;
        Ok(at + usize::from(exact && inclusive))
    }
}
