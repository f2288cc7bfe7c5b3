//! Items of a [`List`]: at its ends, in its rows, and in between.

use std::ops::ControlFlow;

use highwater_core::limits::MAX_VALUE_BYTES;
use highwater_core::{Direction, TableId, Transaction};

use super::list::List;
use super::packed::{Packed, Pieces, packed_bytes};
use super::{Done, ELEMENTS, Failure, ITEMS, Keyspace, rows};
use crate::errors::CommandError;

/// Bytes of the longest item: in its row stands its length, too.
pub const MAX_ITEM_BYTES: usize = MAX_VALUE_BYTES - 4;

const _: () = assert!(packed_bytes(MAX_ITEM_BYTES) == MAX_VALUE_BYTES);

fn check_item(item: &[u8]) -> Result<(), CommandError> {
    if item.len() > MAX_ITEM_BYTES { Err(CommandError::ItemTooLong) } else { Ok(()) }
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// In front of the first item.
    Left,
    /// Behind the last one.
    Right,
}

impl<T: Transaction> Keyspace<'_, T> {
    /// Adds an item.
    pub fn push_item(&mut self, list: &mut List, end: End, item: &[u8]) -> Done {
        let bytes = packed_bytes(item.len());
        check_item(item)?;
        let room = list.room();
        if list.end(end).bytes().len() + bytes > room {
            self.spill(list, end)?;
        }
        if bytes > room {
            let rows = list.in_rows();
            let first = list.position(if end == End::Left { rows.start.wrapping_sub(1) } else { rows.end });
            self.put_row(list, first, &Packed::one(item))?;
        } else {
            list.end(end).push(end, item);
        }
        list.head.count += 1;
        if end == End::Left {
            list.head.next = list.head.next.wrapping_sub(1);
        }
        Ok(())
    }

    /// Takes an item away from a list that has some.
    pub fn pop_item(&mut self, list: &mut List, end: End) -> Result<Vec<u8>, Failure> {
        self.fill(list, end)?;
        let item = list.end(end).pop(end).expect("the end was filled");
        list.head.count -= 1;
        if end == End::Left {
            list.head.next = list.head.next.wrapping_add(1);
        }
        Ok(item)
    }

    /// Lets so many items go, which the list has.
    pub fn drop_items(&mut self, list: &mut List, end: End, mut count: u64) -> Done {
        while count > 0 {
            self.fill(list, end)?;
            let some = count.min(list.end(end).count() as u64);
            list.end(end).drop_some(end, some as usize);
            list.head.count -= some;
            if end == End::Left {
                list.head.next = list.head.next.wrapping_add(some as i64);
            }
            count -= some;
        }
        Ok(())
    }

    /// Sees to it that there is an item at an end, of a list that has some: the next row's, or those of the other end.
    fn fill(&mut self, list: &mut List, end: End) -> Done {
        if !list.end(end).is_empty() {
            return Ok(());
        }
        let rows = list.in_rows();
        let filled = match end {
            _ if rows.is_empty() && end == End::Left => std::mem::take(&mut list.right),
            _ if rows.is_empty() => std::mem::take(&mut list.left),
            End::Left => self.take_row(list, rows.start)?,
            End::Right => self.take_row(list, rows.end - 1)?,
        };
        *list.end(end) = filled;
        Ok(())
    }

    /// What stands at an end gets a row.
    fn spill(&mut self, list: &mut List, end: End) -> Done {
        let first = list.position(if end == End::Left { 0 } else { list.in_rows().end });
        let spilled = std::mem::take(list.end(end));
        self.put_rows(list, first, &spilled)
    }

    /// Takes the row with the item at an index away.
    fn take_row(&mut self, list: &List, index: u64) -> Result<Packed, Failure> {
        let (first, items) = self.row_of(list, index)?;
        self.delete_row(list, first)?;
        Ok(items)
    }

    /// The item at an index below the count.
    pub fn item(&mut self, list: &List, index: u64) -> Result<Vec<u8>, Failure> {
        let rows = list.in_rows();
        if index < rows.start {
            return Ok(list.left.get(index as usize).to_vec());
        }
        if index >= rows.end {
            return Ok(list.right.get((index - rows.end) as usize).to_vec());
        }
        let (first, items) = self.row_of(list, index)?;
        Ok(items.get((index - list.index(first)) as usize).to_vec())
    }

    /// Replaces the item at an index below the count.
    pub fn set_item(&mut self, list: &mut List, index: u64, item: &[u8]) -> Done {
        check_item(item)?;
        let rows = list.in_rows();
        let (end, at) = match index {
            _ if index < rows.start => (End::Left, index),
            _ if index >= rows.end => (End::Right, index - rows.end),
            _ => {
                let (first, mut items) = self.row_of(list, index)?;
                items.replace((index - list.index(first)) as usize, item);
                return self.put_rows(list, first, &items);
            }
        };
        list.end(end).replace(at as usize, item);
        if list.end(end).bytes().len() > list.room() { self.spill(list, end) } else { Ok(()) }
    }

    /// Visits items from an index on, forward to the last one or back to the first one, until `visit` breaks.
    pub fn each_item(
        &mut self,
        list: &List,
        from: u64,
        direction: Direction,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Done {
        let rows = list.in_rows();
        let (left, right) = ((0, &list.left), (rows.end, &list.right));
        let (near, far) = if direction == Direction::Forward { (left, right) } else { (right, left) };
        if visit_some(near, from, direction, &mut visit).is_break() {
            return Ok(());
        }
        let outside = if direction == Direction::Forward { from >= rows.end } else { from < rows.start };
        if !rows.is_empty() && !outside {
            let from = from.clamp(rows.start, rows.end - 1);
            if self.each_in_rows(list, from, direction, &mut visit)?.is_break() {
                return Ok(());
            }
        }
        let _ = visit_some(far, from, direction, &mut visit);
        Ok(())
    }

    /// The same of those that have rows, from one of them on.
    fn each_in_rows(
        &mut self,
        list: &List,
        from: u64,
        direction: Direction,
        visit: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Failure> {
        let forward = direction == Direction::Forward;
        // Where an item has a row of its own, or the first row is meant, its key is known.
        let known = !forward || !list.head.packed || from == list.in_rows().start;
        let first = if known { list.position(from) } else { self.row_of(list, from)?.0 };
        let mut flow = ControlFlow::Continue(());
        self.each_row(list, first, direction, |first, items| {
            flow = visit_some((list.index(first), &items), from, direction, visit);
            flow
        })?;
        Ok(flow)
    }

    /// Removes the items at these indexes, which grow. What is on the shorter side of all of them moves up.
    pub fn delete_items(&mut self, list: &mut List, indexes: &[u64]) -> Done {
        let (Some(&first), Some(&last)) = (indexes.first(), indexes.last()) else { return Ok(()) };
        let left = last < list.count() - 1 - first;
        let end = if left { End::Left } else { End::Right };
        let (base, mut items) = self.cut(list, end, if left { last } else { first })?;
        let mut index = base;
        items.retain(|_| {
            index += 1;
            indexes.binary_search(&(index - 1)).is_err()
        });
        self.join(list, end, &items)
    }

    /// Puts an item in front of the one at an index, or behind the last one; what is on the shorter side moves.
    pub fn insert_item(&mut self, list: &mut List, index: u64, item: &[u8]) -> Done {
        check_item(item)?;
        let last = list.count() - 1;
        let end = if index < list.count() / 2 { End::Left } else { End::Right };
        let (base, mut items) = self.cut(list, end, index.min(last))?;
        items.insert((index - base) as usize, item.to_vec());
        self.join(list, end, &items)
    }

    /// Takes all items from an end to this index away, and those that share its row; the index of the first of them.
    fn cut(&mut self, list: &mut List, end: End, index: u64) -> Result<(u64, Vec<Vec<u8>>), Failure> {
        let (rows, count) = (list.in_rows(), list.count());
        // The indexes that stay.
        let kept = match end {
            End::Left if index < rows.start => rows.start..count,
            End::Left if index >= rows.end => count..count,
            End::Right if index < rows.start => 0..0,
            End::Right if index >= rows.end => 0..rows.end,
            _ => {
                let (first, items) = self.row_of(list, index)?;
                let first = list.index(first);
                if end == End::Left { first + items.count() as u64..count } else { 0..first }
            }
        };
        let gone = if end == End::Left { 0..kept.start } else { kept.end..count };
        let mut items = Vec::new();
        self.each_item(list, gone.start, Direction::Forward, |item| {
            if items.len() as u64 == gone.end - gone.start {
                return ControlFlow::Break(());
            }
            items.push(item.to_vec());
            ControlFlow::Continue(())
        })?;
        self.delete_rows(list, gone.start.max(rows.start)..gone.end.min(rows.end))?;
        if gone.start < rows.start {
            list.left = Packed::default();
        }
        if gone.end > rows.end {
            list.right = Packed::default();
        }
        list.head.next = list.position(kept.start);
        list.head.count = kept.end - kept.start;
        Ok((gone.start, items))
    }

    /// Puts items back that were cut off.
    fn join(&mut self, list: &mut List, end: End, items: &[Vec<u8>]) -> Done {
        match end {
            End::Left => items.iter().rev().try_for_each(|item| self.push_item(list, end, item)),
            End::Right => items.iter().try_for_each(|item| self.push_item(list, end, item)),
        }
    }

    // Rows.

    /// The row with the item at an index: the position of its first item, and its items.
    fn row_of(&mut self, list: &List, index: u64) -> Result<(i64, Packed), Failure> {
        let mut found = None;
        self.each_row(list, list.position(index), Direction::Backward, |first, items| {
            found = Some((first, items));
            ControlFlow::Break(())
        })?;
        Ok(found.expect("a list has an item at every position"))
    }

    /// Visits rows from a position on, forward or back.
    fn each_row(
        &mut self,
        list: &List,
        from: i64,
        direction: Direction,
        mut visit: impl FnMut(i64, Packed) -> ControlFlow<()>,
    ) -> Done {
        let packed = list.head.packed;
        let key = |position: i64| rows::item_row(list.head.id, packed, position);
        let rows = list.in_rows();
        let (start, end) = match direction {
            Direction::Forward => (key(from), key(list.position(rows.end))),
            // A row's key is in front of all that it holds, and the first row's that of the first item.
            Direction::Backward => (key(list.position(rows.start)), key(from.wrapping_add(1))),
        };
        self.scan(table_of(list), &start, &end, direction, |row, value| {
            visit(rows::position_in(row), if packed { Packed::new(value) } else { Packed::one(value) })
        })
    }

    /// Puts items in rows, from a position on: as few as there is room in.
    fn put_rows(&mut self, list: &mut List, mut first: i64, items: &Packed) -> Done {
        if items.bytes().len() <= list.room() {
            return if items.is_empty() { Ok(()) } else { self.put_row(list, first, items) };
        }
        let mut row = Packed::default();
        for item in items.iter() {
            if !row.is_empty() && row.bytes().len() + packed_bytes(item.len()) > list.room() {
                self.put_row(list, first, &row)?;
                first = first.wrapping_add(row.count() as i64);
                row = Packed::default();
            }
            row.push(End::Right, item);
        }
        self.put_row(list, first, &row)
    }

    fn put_row(&mut self, list: &mut List, first: i64, items: &Packed) -> Done {
        if list.head.id == 0 {
            list.head.id = self.fresh_id(table_of(list))?;
        }
        let key = rows::item_row(list.head.id, list.head.packed, first);
        let packed = list.head.packed;
        assert!(packed || items.count() == 1, "a list that is not packed has a row for each item");
        let value = if packed { items.bytes() } else { items.get(0) };
        Ok(self.tx.put(table_of(list), &key, value)?)
    }

    fn delete_row(&mut self, list: &List, first: i64) -> Done {
        self.tx.delete(table_of(list), &rows::item_row(list.head.id, list.head.packed, first))?;
        Ok(())
    }

    /// Deletes the rows of some indexes, which they hold alone.
    fn delete_rows(&mut self, list: &List, indexes: std::ops::Range<u64>) -> Done {
        if indexes.is_empty() {
            return Ok(());
        }
        let (mut firsts, end) = (Vec::new(), list.position(indexes.end));
        self.each_row(list, list.position(indexes.start), Direction::Forward, |first, _| {
            if first == end {
                return ControlFlow::Break(());
            }
            firsts.push(first);
            ControlFlow::Continue(())
        })?;
        firsts.into_iter().try_for_each(|first| self.delete_row(list, first))
    }
}

/// Where a list's rows are.
fn table_of(list: &List) -> TableId {
    if list.head.has_items() { ITEMS } else { ELEMENTS }
}

/// Visits those of some items, the first of which has an index, that are at or behind `from`, in that direction.
fn visit_some(
    (first, items): (u64, &Packed),
    from: u64,
    direction: Direction,
    visit: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if direction == Direction::Forward {
        let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        return items.iter().skip(skipped).try_for_each(visit);
    }
    let Some(upto) = from.checked_sub(first) else { return ControlFlow::Continue(()) };
    let items: Vec<&[u8]> = Pieces::new(items.bytes()).take(upto.saturating_add(1) as usize).collect();
    items.into_iter().rev().try_for_each(visit)
}
