//! How much one transaction removes of what nobody waits for: so many rows, and so many bytes.
//!
//! A transaction that replaces or deletes more than its limit is refused as a whole, and would be again: whoever removes by number alone is
//! stuck at the first long values.

use highwater_seam::options::MIN_TRANSACTION_BYTES;

/// Keys and values that one transaction removes, about: within the limits of the smallest node.
pub const MOST_BYTES: usize = MIN_TRANSACTION_BYTES / 2;

/// What is left of it.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    rows: usize,
    bytes: usize,
    /// Nothing was taken yet: there is always room for one row, however long.
    fresh: bool,
}

impl Room {
    /// For so many rows.
    pub fn of(rows: usize) -> Room {
        Room { rows, bytes: MOST_BYTES, fresh: true }
    }

    /// The same, for so many bytes.
    pub fn bytes(self, bytes: usize) -> Room {
        Room { bytes, ..self }
    }

    /// Half of it, and the rest.
    pub fn halves(self) -> (Room, Room) {
        let half = Room { rows: self.rows / 2, bytes: self.bytes / 2, ..self };
        (half, Room { rows: self.rows - half.rows, bytes: self.bytes - half.bytes, ..self })
    }

    /// Both together. If either has taken something the other takes no long row beside it.
    pub fn and(self, other: Room) -> Room {
        Room {
            rows: self.rows + other.rows,
            bytes: self.bytes + other.bytes,
            fresh: self.fresh && other.fresh,
        }
    }

    /// Whether there was room for a row of so many bytes.
    pub fn take(&mut self, bytes: usize) -> bool {
        if self.rows == 0 || bytes > self.bytes && !self.fresh {
            return false;
        }
        *self = Room { rows: self.rows - 1, bytes: self.bytes.saturating_sub(bytes), fresh: false };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_always_fits_and_long_ones_alone() {
        let mut room = Room::of(3);
        assert!(room.take(MOST_BYTES * 100));
        assert!(!room.take(1) && !room.take(MOST_BYTES), "it was long");
        let mut room = Room::of(3);
        assert!(room.take(1) && room.take(1) && !room.take(MOST_BYTES));
        assert!(room.take(1) && !room.take(1), "three rows");
    }

    #[test]
    fn what_one_half_leaves_the_other_has() {
        let (mut half, rest) = Room::of(5).halves();
        assert!(half.take(MOST_BYTES * 9) && !half.take(1), "its bytes are used up");
        let mut rest = rest.and(half);
        assert!(!rest.take(MOST_BYTES), "a long one was taken already");
        assert!((0..4).all(|_| rest.take(1)) && !rest.take(1), "five rows in all");
        let (half, rest) = Room::of(1).halves();
        assert!(rest.and(half).take(MOST_BYTES * 9), "nothing was taken yet");
    }
}
