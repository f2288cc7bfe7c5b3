//! What is done with sessions, inside any transaction: open, end, ask, sweep.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use highwater_core::random::Random;
use highwater_core::{Abort, Direction, TableId, Transaction};
use highwater_seam::{Owner, Session};

use super::record::{Kept, OWNERS, Record, advance_clock, clock, counts, open_of, set_counts, set_open_of};

/// A session expires once its record is more than so many ticks of the sessions' clock behind.
pub const IDLE_TICKS: u64 = 8;
/// Ids are from here up to twice as large: below 2^53, up to where every client's numbers are exact, and beyond those of builds before owners.
const FIRST_ID: u64 = 1 << 52;
/// A sweep looks at so many sessions.
const SWEEP: usize = 64;
/// A time that the sessions' clock never shows: of a keeper that has not looked at it yet.
pub(super) const UNSEEN: u64 = u64::MAX;

/// How many sessions may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most {
    /// The sessions of all owners together.
    pub of_all: u64,
    /// The sessions of each; nobody's are not counted.
    pub of_each: u64,
}

/// As many sessions are open as may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMany {
    /// The sessions of all owners together.
    OfAll,
    /// The sessions of this one.
    OfOwner,
}

/// Opens a session for an owner and gives its id, unless there are too many. The id is 52 bits of `nonce`, which nobody must be able to guess, or
/// others if a session with it is open; so that an id is given twice is as likely as that it is guessed.
///
/// # Errors
/// What the transaction ends with.
pub fn open<T: Transaction>(
    tx: &mut T,
    table: TableId,
    most: Most,
    owner: Owner,
    nonce: u64,
) -> Result<Result<u64, TooMany>, Abort> {
    let [opened, open] = counts(tx, table)?;
    if open >= most.of_all {
        return Ok(Err(TooMany::OfAll));
    }
    let own = open_of(tx, table, owner)?;
    if own >= most.of_each {
        return Ok(Err(TooMany::OfOwner));
    }
    let id = fresh_id(tx, table, nonce)?;
    if opened == 0 {
        // Requests read the clock. Where there is none, they would rely on its absence, and conflict with whoever opens a session.
        advance_clock(tx, table, 0)?;
    }
    let clock = clock(tx, table)?;
    set_counts(tx, table, [opened + 1, open + 1])?;
    set_open_of(tx, table, owner, own + 1)?;
    Record { clock, owner, sequence: 0, fingerprint: 0, kept: Kept::Nothing, reply: &[] }
        .put(tx, table, id)?;
    Ok(Ok(id))
}

fn fresh_id<T: Transaction>(tx: &mut T, table: TableId, nonce: u64) -> Result<u64, Abort> {
    let (mut chosen, mut others) = (nonce, Random::new(nonce));
    loop {
        let id = FIRST_ID | chosen & (FIRST_ID - 1);
        if Record::get(tx, table, id)?.is_none() {
            return Ok(id);
        }
        chosen = others.bits();
    }
}

/// Ends a session of this owner; whether there was one.
///
/// # Errors
/// What the transaction ends with.
pub fn end<T: Transaction>(tx: &mut T, table: TableId, id: u64, owner: Owner) -> Result<bool, Abort> {
    let found = Record::get(tx, table, id)?.filter(|record| record.is_of(owner));
    let Some(owner) = found.map(|record| record.owner) else { return Ok(false) };
    tx.delete(table, &id.to_be_bytes())?;
    forget(tx, table, &[(id, owner)])?;
    Ok(true)
}

/// Counts sessions that are no more.
fn forget<T: Transaction>(tx: &mut T, table: TableId, gone: &[(u64, Owner)]) -> Result<(), Abort> {
    let [opened, open] = counts(tx, table)?;
    set_counts(tx, table, [opened, open.saturating_sub(gone.len() as u64)])?;
    let mut owners = BTreeMap::<Owner, u64>::new();
    gone.iter().for_each(|(_, owner)| *owners.entry(*owner).or_default() += 1);
    for (owner, fewer) in owners {
        let own = open_of(tx, table, owner)?;
        set_open_of(tx, table, owner, own.saturating_sub(fewer))?;
    }
    Ok(())
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is no such session of this owner any more: what became of its requests is forgotten.
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
    let found = Record::get(tx, table, of.id)?.filter(|record| record.is_of(of.owner));
    let Some(record) = found else { return Ok(Answer::Expired) };
    if record.sequence > of.sequence {
        return Ok(Answer::Stale(record.sequence));
    }
    if record.sequence == of.sequence {
        return Ok(match record.kept {
            Kept::Nothing | Kept::Abandoned => Answer::Never,
            ended => Answer::Ended(ended, record.reply.to_vec()),
        });
    }
    let (owner, clock) = (record.owner, clock(tx, table)?);
    let abandoned =
        Record { clock, owner, sequence: of.sequence, fingerprint: 0, kept: Kept::Abandoned, reply: &[] };
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
    /// The time that the sessions' clock shows.
    pub clock: u64,
}

/// Ends sessions that were unused for long, some of those from id `from` on. From 0, a round begins: the clock advances, if it shows what the
/// keeper has `seen` an interval ago. Else another keeper was faster, or this one has yet to look: nothing is done but that.
///
/// # Errors
/// What the transaction ends with.
pub fn sweep<T: Transaction>(tx: &mut T, table: TableId, from: u64, seen: u64) -> Result<Swept, Abort> {
    let shows = clock(tx, table)?;
    if from == 0 && u64::from(shows) != seen {
        return Ok(Swept { next: None, expired: 0, clock: shows.into() });
    }
    let clock = if from == 0 { advance_clock(tx, table, 1)? } else { shows };
    let (mut last, mut looked, mut expired) = (None, 0, Vec::new());
    let (first, end) = (from.to_be_bytes(), OWNERS.to_be_bytes());
    let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
    tx.scan(table, range, Direction::Forward, |key, value| {
        let id = u64::from_be_bytes(key.try_into().expect("the table's keys have 8 bytes"));
        let record = Record::decode(value).expect("sessions' records are written here alone");
        if record.idle(clock) > IDLE_TICKS {
            expired.push((id, record.owner));
        }
        looked += 1;
        last = Some(id);
        if looked == SWEEP { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    for (id, _) in &expired {
        tx.delete(table, &id.to_be_bytes())?;
    }
    if !expired.is_empty() {
        forget(tx, table, &expired)?;
    }
    let next = last.filter(|_| looked == SWEEP).map(|last| last + 1);
    Ok(Swept { next, expired: expired.len() as u64, clock: clock.into() })
}
