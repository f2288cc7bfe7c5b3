//! What is done with sessions, inside any transaction: open, end, ask, sweep.

use std::ops::{Bound, ControlFlow};

use highwater_core::{Abort, Direction, TableId, Transaction};

use super::record::{FIRST_RESERVED, Kept, Record, clock, counts, set_clock, set_counts};
use crate::seam::Session;

/// A session expires once its record is more than so many ticks of the sessions' clock behind.
pub const IDLE_TICKS: u64 = 8;
/// Bits of an id that the opener chooses. The others count; both together stay below 2^53 for long, up to where every
/// client's numbers are exact.
const CHOSEN_BITS: u32 = 20;
/// A sweep looks at so many sessions.
const SWEEP: usize = 64;

/// As many sessions are open as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

/// Opens a session and gives its id, unless `most` are open. Ids are never given twice; of `nonce`, some bits get into the id, so
/// that those of another cluster, or of this one's former life without disks, are others as a rule.
///
/// # Errors
/// What the transaction ends with.
pub fn open<T: Transaction>(
    tx: &mut T,
    table: TableId,
    most: u64,
    nonce: u64,
) -> Result<Result<u64, TooMany>, Abort> {
    let [opened, open] = counts(tx, table)?;
    if open >= most {
        return Ok(Err(TooMany));
    }
    let chosen = nonce & ((1 << CHOSEN_BITS) - 1);
    let id = (opened + 1) << CHOSEN_BITS | chosen;
    let clock = clock(tx, table)?;
    if opened == 0 {
        // Requests read the clock. Where there is none, they would rely on its absence, and conflict with whoever opens a session.
        set_clock(tx, table, clock)?;
    }
    set_counts(tx, table, [opened + 1, open + 1])?;
    Record { clock, sequence: 0, fingerprint: 0, kept: Kept::Nothing, reply: &[] }.put(tx, table, id)?;
    Ok(Ok(id))
}

/// Ends a session; whether there was one.
///
/// # Errors
/// What the transaction ends with.
pub fn end<T: Transaction>(tx: &mut T, table: TableId, id: u64) -> Result<bool, Abort> {
    if id >= FIRST_RESERVED || !tx.delete(table, &id.to_be_bytes())? {
        return Ok(false);
    }
    let [opened, open] = counts(tx, table)?;
    set_counts(tx, table, [opened, open.saturating_sub(1)])?;
    Ok(true)
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is no such session any more: what became of its requests is forgotten.
    Expired,
    /// It ended so, with this reply; never [`Kept::Nothing`] or [`Kept::Abandoned`].
    Ended(Kept, Vec<u8>),
    /// It has not happened, and never will.
    Never,
    /// The session has got beyond that number, to this one; what became of earlier ones is forgotten.
    Stale(u64),
}

/// What became of a request. If it has not come so far, it is abandoned: it will be denied.
///
/// # Errors
/// What the transaction ends with.
pub fn ask<T: Transaction>(tx: &mut T, table: TableId, of: Session) -> Result<Answer, Abort> {
    let Some(record) = Record::get(tx, table, of.id)? else { return Ok(Answer::Expired) };
    if record.sequence > of.sequence {
        return Ok(Answer::Stale(record.sequence));
    }
    if record.sequence == of.sequence {
        return Ok(match record.kept {
            Kept::Nothing | Kept::Abandoned => Answer::Never,
            ended => Answer::Ended(ended, record.reply.to_vec()),
        });
    }
    let clock = clock(tx, table)?;
    let abandoned =
        Record { clock, sequence: of.sequence, fingerprint: 0, kept: Kept::Abandoned, reply: &[] };
    abandoned.put(tx, table, of.id)?;
    Ok(Answer::Never)
}

/// What a sweep came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Where the next one goes on; `None`: it was the last of its round.
    pub next: Option<u64>,
    /// How many sessions it ended.
    pub expired: u64,
}

/// Ends sessions that were unused for long, some of those from id `from` on. From 0, a round begins: the clock advances.
///
/// # Errors
/// What the transaction ends with.
pub fn sweep<T: Transaction>(tx: &mut T, table: TableId, from: u64) -> Result<Swept, Abort> {
    let mut clock = clock(tx, table)?;
    if from == 0 {
        clock += 1;
        set_clock(tx, table, clock)?;
    }
    let (mut last, mut looked, mut expired) = (None, 0, Vec::new());
    let (first, end) = (from.to_be_bytes(), FIRST_RESERVED.to_be_bytes());
    let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
    tx.scan(table, range, Direction::Forward, |key, value| {
        let id = u64::from_be_bytes(key.try_into().expect("the table's keys have 8 bytes"));
        let record = Record::decode(value).expect("sessions' records are written here alone");
        if clock.saturating_sub(record.clock) > IDLE_TICKS {
            expired.push(id);
        }
        looked += 1;
        last = Some(id);
        if looked == SWEEP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    for id in &expired {
        tx.delete(table, &id.to_be_bytes())?;
    }
    if !expired.is_empty() {
        let [opened, open] = counts(tx, table)?;
        set_counts(tx, table, [opened, open.saturating_sub(expired.len() as u64)])?;
    }
    let next = last.filter(|_| looked == SWEEP).map(|last| last + 1);
    Ok(Swept { next, expired: expired.len() as u64 })
}
