//! Removes what is due: keys whose deadline is past, and rows of collections and of users' tables that are gone. A little at a time, each time in a
//! transaction of its own, so that no client waits for a million rows.
//!
//! *Invariant: a key that is due goes within a bound, whatever garbage there is.* Deadlines have half of each sweep's room, before garbage has the
//! rest; and whoever asks for sweeps has every third one look at deadlines alone ([`Share`]). Such a one reads nothing that those who remove collections
//! write, so they cannot keep it from being through.

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Abort, Direction, Procedure, TableId, Transaction, planted};

use super::expired::LONG_PAST;
use super::room::MOST_BYTES;
use super::rows::{self, Due};
use super::{DUE, ELEMENTS, Failure, ITEMS, Keyspace, Room, Stop};
use crate::moment::Moment;
use crate::tables::Table;

/// Rows that one sweep looks at and removes, about, if nobody says how many.
const MOST: u32 = 512;
/// Bytes of what a sweep notes of how far it has got: with its row's key a note (`store/src/occ/growth.rs`).
const MOST_NOTED: usize = 32;

/// `redis.sweep`: a [`Moment`], whose seed the secret of the cursors is drawn from if there is none yet, then a [`Share`], if it is not the usual one. The reply is two u64 in little endian: when the next key expires (Unix
/// time in ms, 0 if more is due already, the largest number if none does), and how many deadlines had come.
pub struct Sweep;

/// How much one sweep does: `garbage u32 | rows u32 | bytes u32 | deadlines u8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Collections and tables that are gone of which it removes rows. Whatever is read meets whoever writes there: beside others that remove
    /// collections a sweep that reads all of them is never through.
    pub garbage: u32,
    /// Rows that it removes, about.
    pub rows: u32,
    /// Bytes of keys and values, about.
    pub bytes: u32,
    /// Whether it looks at deadlines.
    pub deadlines: bool,
}

impl Default for Share {
    fn default() -> Share {
        Share { garbage: MOST, rows: MOST, bytes: MOST_BYTES as u32, deadlines: true }
    }
}

impl Share {
    /// As it stands behind the moment.
    pub fn encode(self, out: &mut Vec<u8>) {
        [self.garbage, self.rows, self.bytes]
            .iter()
            .for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out.push(u8::from(self.deadlines));
    }

    /// Reads what [`encode`](Share::encode) wrote; nothing is the usual one.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Share, Malformed> {
        if reader.is_empty() {
            return Ok(Share::default());
        }
        let (garbage, rows, bytes) = (reader.u32()?, reader.u32()?, reader.u32()?);
        Ok(Share { garbage, rows, bytes, deadlines: reader.u8()? != 0 })
    }

    fn room(self) -> Room {
        Room::of(self.rows as usize).bytes(self.bytes as usize)
    }
}

impl Procedure for Sweep {
    const NAME: &'static str = "redis.sweep";

    fn run<T: Transaction>(tx: &mut T, args: &[u8], reply: &mut Vec<u8>) -> Result<(), Abort> {
        let mut args = Reader::new(args);
        let Ok(moment) = Moment::decode(&mut args) else { return Err(Abort::BadRequest) };
        let Ok(share) = Share::decode(&mut args) else { return Err(Abort::BadRequest) };
        match Keyspace::new(tx, moment).sweep(share) {
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
pub(super) fn noted(last: &[u8]) -> &[u8] {
    &last[..last.len().min(MOST_NOTED)]
}

impl<T: Transaction> Keyspace<'_, T> {
    /// Removes about so many rows, and not many bytes; when more is due, and how many deadlines had come.
    fn sweep(&mut self, share: Share) -> Result<(u64, u64), Failure> {
        self.draw_secret()?;
        let (garbage, more) = self.garbage(share.garbage as usize)?;
        let all = share.room();
        let (mut room, rest) = if garbage.is_empty() { (all, Room::of(0).bytes(0)) } else { all.halves() };
        let (next, expired) = match share.deadlines {
            true => self.expire_some(share.rows as usize, &mut room)?,
            false => (u64::MAX, 0),
        };
        let swept = self.collect_some(garbage, &mut room.and(rest))?;
        Ok((if more || !swept { 0 } else { next }, expired))
    }

    /// The first so many of what is gone, and whether there is more.
    fn garbage(&mut self, most: usize) -> Result<(Vec<Due>, bool), Failure> {
        let (mut found, mut more) = (Vec::new(), false);
        if most == 0 {
            return Ok((found, more));
        }
        let behind = first_deadline();
        let range = (Bound::Unbounded, Bound::Excluded(&behind[..]));
        self.tx.scan(DUE, range, Direction::Forward, |row, value| {
            more = found.len() == most;
            if more {
                return ControlFlow::Break(());
            }
            found.push(
                Due::decode(row, value).expect("the table of what is due holds what was written there"),
            );
            ControlFlow::Continue(())
        })?;
        Ok((found, more))
    }

    /// Removes rows of what is gone; whether it was all of them.
    fn collect_some(&mut self, garbage: Vec<Due>, room: &mut Room) -> Result<bool, Failure> {
        for due in garbage {
            let whole = match due {
                Due::Garbage { id, from } => {
                    self.collect((ELEMENTS, &rows::garbage_row(id)), id, &from, room)?
                }
                Due::Items { id, from } => {
                    self.collect((ITEMS, &rows::items_garbage_row(id)), id, &from, room)?
                }
                Due::Table { id, from } => self.collect_table(id, &from, room)?,
                Due::Deadline { .. } => continue,
            };
            if !whole {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes keys whose deadline has come, up to so many; when more is due, and how many had come.
    fn expire_some(&mut self, most: usize, room: &mut Room) -> Result<(u64, u64), Failure> {
        let now = self.now();
        let (mut due, mut next) = (Vec::new(), u64::MAX);
        let first = first_deadline();
        self.tx.scan(
            DUE,
            (Bound::Included(&first[..]), Bound::Unbounded),
            Direction::Forward,
            |row, value| {
                let found =
                    Due::decode(row, value).expect("the table of what is due holds what was written there");
                if found.deadline() > now || due.len() == most {
                    next = found.deadline();
                    return ControlFlow::Break(());
                }
                due.push(found);
                ControlFlow::Continue(())
            },
        )?;
        let mut expired = 0;
        for due in due {
            let Due::Deadline { deadline, name } = due else { continue };
            match self.expire(deadline, &name, room)? {
                None => return Ok((0, expired)),
                // Its elements are due, too.
                Some(leaves) => next = if leaves { 0 } else { next },
            }
            expired += 1;
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
        let leaves = match expired || planted!(MovedDeadlineIgnored) {
            true => self.remove_within(name, room)?,
            false => false,
        };
        if stored != Some(deadline) {
            self.forget_deadline(name, deadline)?;
        }
        Ok(Some(leaves))
    }
}

/// The first of the rows that have a key expire: deadlines are 1 at least.
fn first_deadline() -> [u8; 8] {
    1u64.to_be_bytes()
}
