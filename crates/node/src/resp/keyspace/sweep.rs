//! Removes what is due: keys whose deadline is past, and rows of collections and of users' tables that are gone. A little at a time, each time in a
//! transaction of its own, so that no client waits for a million rows.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::Reader;
use highwater_core::{Abort, Direction, Procedure, TableId, Transaction, planted};

use super::expired::LONG_PAST;
use super::rows::{self, Due};
use super::{DUE, ELEMENTS, Failure, ITEMS, Keyspace, Room, Stop};
use crate::resp::moment::Moment;
use crate::resp::tables::Table;

/// Rows that one sweep looks at and removes, about.
const MOST: usize = 512;
/// Bytes of what a sweep notes of how far it has got: with its row's key a note (`store/src/occ/growth.rs`).
const MOST_NOTED: usize = 32;
/// Collections and tables that are gone of which one sweep removes rows.
const MOST_GARBAGE: usize = 4;

/// `redis.sweep`: a [`Moment`]. The reply is two u64 in little endian: when the next key expires (Unix time in ms, 0 if more is due already,
/// the largest number if none does), and how many deadlines had come.
pub struct Sweep;

impl Procedure for Sweep {
    const NAME: &'static str = "redis.sweep";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let Ok(moment) = Moment::decode(&mut Reader::new(args)) else { return Err(Abort::BadRequest) };
        match Keyspace::new(tx, moment).sweep(MOST) {
            Ok((next, expired)) => {
                reply.extend_from_slice(&next.to_le_bytes());
                reply.extend_from_slice(&expired.to_le_bytes());
            }
            Err(Failure::Stop(Stop::Abort(abort))) => return Err(abort),
            Err(_) => return Err(Abort::BadRequest),
        }
        Ok(())
    }
}

/// The place to go on behind a row, in so few bytes that the removals pay for them: else a full memory would stay full. In front of the row itself, if
/// that is longer, are removed ones only.
fn noted(last: &[u8]) -> &[u8] {
    &last[..last.len().min(MOST_NOTED)]
}

impl<T: Transaction> Keyspace<'_, T> {
    /// Removes about so many rows, and not many bytes; when more is due, and how many deadlines had come.
    fn sweep(&mut self, most: usize) -> Result<(u64, u64), Failure> {
        let now = self.now();
        let (mut due, mut next, mut garbage) = (Vec::new(), u64::MAX, 0);
        self.tx.scan(DUE, (Bound::Unbounded, Bound::Unbounded), Direction::Forward, |row, value| {
            let found =
                Due::decode(row, value).expect("the table of what is due holds what was written there");
            next = found.deadline();
            if next > now || due.len() == most {
                return ControlFlow::Break(());
            }
            next = u64::MAX;
            garbage += usize::from(!matches!(found, Due::Deadline { .. }));
            due.push(found);
            // What is gone stands in front. Whatever is read meets whoever writes there: beside others that remove collections a sweep that reads
            // all of them is never through.
            if garbage == MOST_GARBAGE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        // There may be more behind.
        let all = garbage < MOST_GARBAGE;
        if !all {
            next = 0;
        }

        let (mut room, mut expired) = (Room::of(most), 0);
        for due in due {
            let whole = match due {
                Due::Garbage { id, from } => {
                    self.collect((ELEMENTS, &rows::garbage_row(id)), id, &from, &mut room)?
                }
                Due::Items { id, from } => {
                    self.collect((ITEMS, &rows::items_garbage_row(id)), id, &from, &mut room)?
                }
                Due::Table { id, from } => self.collect_table(id, &from, &mut room)?,
                Due::Deadline { deadline, name } => match self.expire(deadline, &name, &mut room)? {
                    None => false,
                    Some(leaves) => {
                        expired += 1;
                        // Its elements are due, too, and stand in front.
                        next = if leaves { 0 } else { next };
                        true
                    }
                },
            };
            if !whole {
                return Ok((0, expired));
            }
        }
        Ok((if next <= now { 0 } else { next }, expired))
    }

    /// Removes rows of a collection that is gone; whether it was all of them. Notes how far it has got: what was removed lately may still be in the way.
    fn collect(
        &mut self,
        (table, due): (TableId, &[u8]),
        id: u64,
        from: &[u8],
        room: &mut Room,
    ) -> Result<bool, Failure> {
        let start = rows::collection_start(id);
        let (dropped, all) = self.drop_some(table, id, if from.is_empty() { &start } else { from }, room)?;
        match dropped.last() {
            _ if all => drop(self.tx.delete(DUE, due)?),
            Some(last) => self.tx.put(DUE, due, noted(last))?,
            None => {}
        }
        Ok(all)
    }

    /// The same of a user's table.
    fn collect_table(&mut self, id: u64, from: &[u8], room: &mut Room) -> Result<bool, Failure> {
        let row = rows::table_garbage_row(id);
        let (last, all) = Table::sweep(self.tx, id, from, room)?;
        match last {
            _ if all => drop(self.tx.delete(DUE, &row)?),
            Some(last) => self.tx.put(DUE, &row, noted(&last))?,
            None => {}
        }
        Ok(all)
    }

    /// A key's deadline has come: whether it leaves elements for later; `None`: there was no room.
    fn expire(&mut self, deadline: u64, name: &[u8], room: &mut Room) -> Result<Option<bool>, Failure> {
        // It may have got another deadline, or be gone and back.
        let row = self.tx.get(super::KEYSPACE, name)?;
        let bytes = 3 * name.len() + row.map_or(0, <[u8]>::len);
        let stored = row.map(|row| super::Row::decode(row).head.deadline);
        if !room.take(bytes) {
            return Ok(None);
        }
        let expired = stored.is_some_and(|stored| stored == deadline || stored == LONG_PAST);
        let leaves = match expired || planted!(resp::MovedDeadlineIgnored) {
            true => self.remove_later(name)?,
            false => false,
        };
        if stored != Some(deadline) {
            self.forget_deadline(name, deadline)?;
        }
        Ok(Some(leaves))
    }
}
