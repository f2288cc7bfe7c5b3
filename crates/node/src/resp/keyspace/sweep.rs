//! Removes what is due: keys whose deadline is past, and rows of collections and of users' tables that are gone. A little at a time, each time in a
//! transaction of its own, so that no client waits for a million rows.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::Reader;
use highwater_core::{Abort, Direction, Procedure, TableId, Transaction, planted};

use super::expired::LONG_PAST;
use super::rows::{self, Due};
use super::{DUE, Done, ELEMENTS, Failure, ITEMS, Keyspace, Stop};
use crate::resp::moment::Moment;
use crate::resp::tables::Table;

/// Rows that one sweep looks at and removes, about.
const MOST: usize = 512;

/// `redis.sweep`: a [`Moment`]. The reply is when the next key expires, u64 in little endian: Unix time in ms, 0 if more is due already,
/// and the largest number if none does.
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

impl<T: Transaction> Keyspace<'_, T> {
    /// Removes about so many rows; when more is due, and how many deadlines had come.
    fn sweep(&mut self, most: usize) -> Result<(u64, u64), Failure> {
        let now = self.now();
        let (mut due, mut next) = (Vec::new(), u64::MAX);
        self.tx.scan(DUE, (Bound::Unbounded, Bound::Unbounded), Direction::Forward, |row, value| {
            let found =
                Due::decode(row, value).expect("the table of what is due holds what was written there");
            next = found.deadline();
            if next > now || due.len() == most {
                return ControlFlow::Break(());
            }
            next = u64::MAX;
            due.push(found);
            ControlFlow::Continue(())
        })?;
        let (mut left, mut expired) = (most, 0);
        for due in due {
            if left == 0 {
                return Ok((0, expired));
            }
            left -= match due {
                Due::Garbage { id, from } => {
                    self.collect((ELEMENTS, &rows::garbage_row(id)), id, &from, left)?
                }
                Due::Items { id, from } => {
                    self.collect((ITEMS, &rows::items_garbage_row(id)), id, &from, left)?
                }
                Due::Table { id, from } => self.collect_table(id, &from, left)?,
                Due::Deadline { deadline, name } => {
                    expired += 1;
                    self.expire(deadline, &name).map(|()| 1)?
                }
            };
        }
        Ok((if left == 0 || next <= now { 0 } else { next }, expired))
    }

    /// Removes rows of a collection that is gone; how many. Notes how far it has got: what was removed lately may still be in the way.
    fn collect(
        &mut self,
        (table, due): (TableId, &[u8]),
        id: u64,
        from: &[u8],
        most: usize,
    ) -> Result<usize, Failure> {
        let start = rows::collection_start(id);
        let dropped = self.drop_some(table, id, if from.is_empty() { &start } else { from }, most)?;
        match dropped.last() {
            Some(last) if dropped.len() == most => self.tx.put(DUE, due, last)?,
            _ => drop(self.tx.delete(DUE, due)?),
        }
        Ok(dropped.len().max(1))
    }

    /// The same of a user's table.
    fn collect_table(&mut self, id: u64, from: &[u8], most: usize) -> Result<usize, Failure> {
        let (count, last) = Table::sweep(self.tx, id, from, most)?;
        match last {
            Some(last) => self.tx.put(DUE, &rows::table_garbage_row(id), &last)?,
            None => drop(self.tx.delete(DUE, &rows::table_garbage_row(id))?),
        }
        Ok(count.max(1))
    }

    fn expire(&mut self, deadline: u64, name: &[u8]) -> Done {
        // It may have got another deadline, or be gone and back.
        let stored = self.tx.get(super::KEYSPACE, name)?.map(|row| super::Row::decode(row).head.deadline);
        let expired = stored.is_some_and(|stored| stored == deadline || stored == LONG_PAST);
        if expired || planted!(resp::MovedDeadlineIgnored) {
            self.remove(name)?;
        }
        if stored != Some(deadline) {
            self.forget_deadline(name, deadline)?;
        }
        Ok(())
    }
}
