//! How much one transaction removes of what nobody waits for: so many rows, and so many bytes.
//!
//! A transaction that replaces or deletes more than its limit is refused as a whole, and would be again: whoever removes by number alone is
//! stuck at the first long values.

use highwater_engines::options::MIN_TRANSACTION_BYTES;

/// Keys and values that one transaction removes, about: within the limits of the smallest node.
const MOST_BYTES: usize = MIN_TRANSACTION_BYTES / 2;

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
}
