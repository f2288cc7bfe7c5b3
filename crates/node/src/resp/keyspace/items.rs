//! Lists: an item a row, at positions without gaps from the head's `next` on.

use std::ops::ControlFlow;

use highwater_core::{Direction, Transaction};

use super::head::Head;
use super::{Done, ELEMENTS, Failure, Keyspace, check_value, rows};

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In front of the first item.
    Left,
    /// Behind the last one.
    Right,
}

impl<T: Transaction> Keyspace<'_, T> {
    /// The item at an index below the count.
    pub fn item(&mut self, head: &Head, index: u64) -> Result<&[u8], Failure> {
        let row = rows::item_row(head.id, head.next.wrapping_add(index as i64));
        Ok(self.tx.get(ELEMENTS, &row)?.expect("a list has an item at every position"))
    }

    /// Replaces the item at an index below the count.
    pub fn set_item(&mut self, head: &Head, index: u64, value: &[u8]) -> Done {
        check_value(value.len())?;
        let row = rows::item_row(head.id, head.next.wrapping_add(index as i64));
        Ok(self.tx.put(ELEMENTS, &row, value)?)
    }

    /// Adds an item.
    pub fn push_item(&mut self, head: &mut Head, end: End, value: &[u8]) -> Done {
        head.count += 1;
        match end {
            End::Left => {
                head.next = head.next.wrapping_sub(1);
                self.set_item(head, 0, value)
            }
            End::Right => self.set_item(head, head.count - 1, value),
        }
    }

    /// Takes an item away.
    pub fn pop_item(&mut self, head: &mut Head, end: End) -> Result<Vec<u8>, Failure> {
        let index = if end == End::Left { 0 } else { head.count - 1 };
        let value = self.item(head, index)?.to_vec();
        self.tx.delete(ELEMENTS, &rows::item_row(head.id, head.next.wrapping_add(index as i64)))?;
        head.count -= 1;
        if end == End::Left {
            head.next = head.next.wrapping_add(1);
        }
        Ok(value)
    }

    /// Visits items from an index on, forward to the last one or back to the first one, until `visit` breaks.
    pub fn each_item(
        &mut self,
        head: &Head,
        from: u64,
        direction: Direction,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Done {
        let row = |index: u64| rows::item_row(head.id, head.next.wrapping_add(index as i64));
        let (start, end) = match direction {
            Direction::Forward => (row(from), rows::collection_end(head.id)),
            Direction::Backward => (row(0), [row(from), vec![0]].concat()),
        };
        self.scan(ELEMENTS, &start, &end, direction, visit)
    }

    /// The items from one index to another, which is below the count.
    pub fn items(&mut self, head: &Head, from: u64, to: u64) -> Result<Vec<Vec<u8>>, Failure> {
        let mut items = Vec::new();
        if from > to {
            return Ok(items);
        }
        self.each_item(head, from, Direction::Forward, |_, item| {
            items.push(item.to_vec());
            if items.len() as u64 <= to - from { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(items)
    }

    /// Removes the items at these indexes, which grow. What is on the shorter side of all of them moves up.
    pub fn delete_items(&mut self, head: &mut Head, indexes: &[u64]) -> Done {
        let (Some(&first), Some(&last)) = (indexes.first(), indexes.last()) else { return Ok(()) };
        let (count, gone) = (head.count, indexes.len() as u64);
        let left = last < count - 1 - first;
        let moved = if left { self.items(head, 0, last)? } else { self.items(head, first, count - 1)? };
        let base = if left { 0 } else { first };
        let mut kept =
            moved.iter().enumerate().filter(|(at, _)| indexes.binary_search(&(base + *at as u64)).is_err());
        if left {
            // What stays of the front moves towards the rest; the first rows go.
            for index in gone..=last {
                let (_, value) = kept.next().expect("as many stay as are left");
                self.set_item(head, index, value)?;
            }
            for index in 0..gone {
                self.tx.delete(ELEMENTS, &rows::item_row(head.id, head.next.wrapping_add(index as i64)))?;
            }
            head.next = head.next.wrapping_add(gone as i64);
        } else {
            for index in first..count - gone {
                let (_, value) = kept.next().expect("as many stay as are left");
                self.set_item(head, index, value)?;
            }
            for index in count - gone..count {
                self.tx.delete(ELEMENTS, &rows::item_row(head.id, head.next.wrapping_add(index as i64)))?;
            }
        }
        head.count -= gone;
        Ok(())
    }

    /// Puts an item in front of the one at an index; what is on the shorter side moves.
    pub fn insert_item(&mut self, head: &mut Head, index: u64, value: &[u8]) -> Done {
        if index < head.count / 2 {
            let moved = if index == 0 { Vec::new() } else { self.items(head, 0, index - 1)? };
            self.push_item(head, End::Left, value)?;
            for (at, item) in moved.iter().enumerate() {
                self.set_item(head, at as u64, item)?;
            }
            return self.set_item(head, index, value);
        }
        let moved = if index == head.count { Vec::new() } else { self.items(head, index, head.count - 1)? };
        self.push_item(head, End::Right, value)?;
        for (at, item) in moved.iter().enumerate() {
            self.set_item(head, index + 1 + at as u64, item)?;
        }
        self.set_item(head, index, value)
    }
}
