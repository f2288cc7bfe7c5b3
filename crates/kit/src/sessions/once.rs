//! One attempt of a request under a session.

use std::io::Write;

use highwater_core::limits::MAX_SESSION_REPLY_BYTES;
use highwater_core::{Abort, Outcome, Registry, TableId, Timestamp, Work, planted};
use highwater_seam::{Owner, Session};

use super::Denial;
use super::record::{Kept, Record, clock};
use crate::attempt::{Attempts, Ends};
use crate::call::{Call, explain, explain_too_new};

/// What a session says to a request.
enum Found {
    /// It may run. The sessions' clock shows this, and this is whose session it is.
    New(u32, Owner),
    /// It has ended so; the reply is written.
    Ended(Outcome),
    /// It may not run.
    Denied(Denial),
}

/// As [`attempt`](crate::attempt::attempt), of a request under a session: runs the procedure unless that number has an end
/// already, and records what it came to in the same transaction.
#[inline(never)]
pub fn attempt<T: Attempts>(
    registry: &Registry<T>,
    tx: &mut T,
    (session, call): (Session, Call<'_>),
    reply: &mut Vec<u8>,
    ends: &mut impl Ends<T>,
) -> Option<(Timestamp, Outcome)> {
    let print = fingerprint(registry, call);
    tx.begin();
    let found = match registry.sessions() {
        None => Ok(Found::Denied(Denial::Unkept)),
        Some(table) => look(tx, table, session, print, reply),
    };
    let (clock, owner) = match found {
        Ok(Found::New(clock, owner)) => (clock, owner),
        Ok(Found::Ended(outcome)) => return ends.roll_back(tx).ok().map(|ts| (ts, outcome)),
        Ok(Found::Denied(denial)) => {
            write!(reply, "{}", denial.of(session)).expect("writing to memory does not fail");
            return ends.roll_back(tx).ok().map(|ts| (ts, Outcome::Denied));
        }
        Err(_conflict) => {
            tx.abort();
            return None;
        }
    };
    let table = registry.sessions().expect("the session was found there");
    let ran = registry.run(call.procedure, tx, call.args, reply);
    let mut kept = match ran {
        Err(Abort::Conflict) => {
            tx.abort();
            return None;
        }
        Err(Abort::OutOfMemory) => return no_room(tx, Outcome::OutOfMemory, reply, ends),
        Err(Abort::DiskFull) => return no_room(tx, Outcome::DiskFull, reply, ends),
        // Nor is this an end: once the cluster is upgraded, the same request runs.
        Err(Abort::TooNew) => {
            explain_too_new(reply);
            return ends.roll_back(tx).ok().map(|ts| (ts, Outcome::BadRequest));
        }
        Err(Abort::NotReady) => return ends.roll_back(tx).ok().map(|ts| (ts, Outcome::Denied)),
        Err(Abort::TooLarge) => Kept::TooLarge,
        _ if reply.len() > MAX_SESSION_REPLY_BYTES => Kept::TooLarge,
        Err(Abort::Rollback) => Kept::RolledBack,
        Err(Abort::BadRequest) => Kept::BadRequest,
        Ok(()) => Kept::Committed,
    };
    if planted!(SessionApart) && kept == Kept::Committed {
        let ts = ends.commit(tx).ok()?;
        tx.begin();
        let record = Record { clock, owner, sequence: session.sequence, fingerprint: print, kept, reply };
        let recorded = record.put(tx, table, session.id).and_then(|()| ends.commit(tx));
        tx.abort();
        return Some((recorded.unwrap_or(ts), Outcome::Committed));
    }
    loop {
        if kept != Kept::Committed {
            tx.drop_writes();
        }
        if kept == Kept::TooLarge {
            explain_here(reply, tx.most(), tx.work());
        }
        let record = Record { clock, owner, sequence: session.sequence, fingerprint: print, kept, reply };
        let ended = record.put(tx, table, session.id).and_then(|()| ends.commit(tx));
        match ended {
            Ok(ts) => return kept.outcome().map(|outcome| (ts, outcome)),
            Err(Abort::Conflict) => {
                tx.abort();
                return None;
            }
            Err(Abort::OutOfMemory) => return no_room(tx, Outcome::OutOfMemory, reply, ends),
            Err(Abort::DiskFull) => return no_room(tx, Outcome::DiskFull, reply, ends),
            // Not even its end finds room: what it read was too much already.
            Err(_) if kept == Kept::TooLarge => {
                return ends.roll_back(tx).ok().map(|ts| (ts, Outcome::TooLarge));
            }
            Err(_) => kept = Kept::TooLarge,
        }
    }
}

/// Looks the request up. What is read here, the procedure's own reads come on top of.
fn look<T: Attempts>(
    tx: &mut T,
    table: TableId,
    session: Session,
    fingerprint: u64,
    reply: &mut Vec<u8>,
) -> Result<Found, Abort> {
    // Whoever tries another one's learns no more than of one that never was.
    let found = Record::get(tx, table, session.id)?.filter(|record| record.is_of(session.owner));
    let Some(record) = found else { return Ok(Found::Denied(Denial::Expired)) };
    if record.sequence > session.sequence || session.sequence == 0 {
        return Ok(Found::Denied(Denial::Stale { last: record.sequence }));
    }
    if record.sequence < session.sequence || planted!(RetryTwice) {
        let owner = record.owner;
        return clock(tx, table).map(|clock| Found::New(clock, owner));
    }
    Ok(match record.kept.outcome() {
        None => Found::Denied(Denial::Abandoned),
        Some(_) if record.fingerprint != fingerprint => Found::Denied(Denial::Reused),
        Some(outcome) => {
            reply.extend_from_slice(record.reply);
            Found::Ended(outcome)
        }
    })
}

/// Tells requests apart; two that differ by chance in nothing of this are not.
fn fingerprint<T: Attempts>(registry: &Registry<T>, call: Call<'_>) -> u64 {
    let args = registry.identity(call.procedure, call.args);
    let (crc, length) = (crc32fast::hash(args), args.len() as u16);
    u64::from(crc) << 32 | u64::from(length) << 16 | u64::from(call.procedure.0)
}

/// No end: nothing is recorded, which would take room, too.
#[cold]
fn no_room<T: Attempts>(
    tx: &mut T,
    outcome: Outcome,
    reply: &mut Vec<u8>,
    ends: &mut impl Ends<T>,
) -> Option<(Timestamp, Outcome)> {
    reply.clear();
    ends.roll_back(tx).ok().map(|ts| (ts, outcome))
}

/// What [`explain`] says, and what else is limited here.
#[cold]
fn explain_here(reply: &mut Vec<u8>, most: usize, work: &Work) {
    explain(reply, most, work);
    write!(reply, "; under a session {MAX_SESSION_REPLY_BYTES} bytes")
        .expect("writing to memory does not fail");
}
