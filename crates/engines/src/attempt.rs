//! One attempt of a request on the leader: what all engines over [`Occ`] do alike.

use std::io::Write;

use highwater_core::limits::{MAX_OPERATIONS, MAX_REPLY_BYTES};
use highwater_core::{Abort, Outcome, ProcedureId, Registry, Timestamp};
use highwater_store::Occ;

/// Runs a procedure once and ends its transaction by `commit` (`true`: its writes are dropped, what it read is validated).
/// `None`: a conflict; nothing is left of the attempt.
///
/// Every decision but a conflict reveals what was read: it is validated, has a timestamp, and waits for the mark like a
/// commit.
#[inline]
pub(crate) fn attempt(
    registry: &Registry<Occ>,
    occ: &mut Occ,
    (procedure, args): (ProcedureId, &[u8]),
    reply: &mut Vec<u8>,
    mut commit: impl FnMut(&mut Occ, bool) -> Result<Timestamp, Abort>,
) -> Option<(Timestamp, Outcome)> {
    reply.clear();
    occ.begin();
    let ran = registry.run(procedure, occ, args, reply);
    let why = if reply.len() > MAX_REPLY_BYTES && ran != Err(Abort::Conflict) {
        Abort::TooLarge
    } else if let Err(why) = ran {
        why
    } else {
        match commit(occ, false) {
            Ok(ts) => return Some((ts, Outcome::Committed)),
            Err(why) => why,
        }
    };
    let outcome = match why {
        Abort::Conflict => {
            occ.abort();
            return None;
        }
        Abort::Rollback => Outcome::RolledBack,
        Abort::BadRequest => Outcome::BadRequest,
        Abort::TooLarge => {
            explain(reply, occ.log().most());
            Outcome::TooLarge
        }
        Abort::OutOfMemory => {
            reply.clear();
            Outcome::OutOfMemory
        }
    };
    commit(occ, true).ok().map(|ts| (ts, outcome))
}

/// Says in the reply which limits there are; a transaction writes `most` bytes at most.
#[cold]
pub(crate) fn explain(reply: &mut Vec<u8>, most: usize) {
    // Not `clear`: it may be the longest that there ever was.
    *reply = Vec::new();
    write!(
        reply,
        "a transaction writes at most {most} bytes here, replaces or deletes as many, touches {MAX_OPERATIONS} records \
         and answers {MAX_REPLY_BYTES} bytes"
    )
    .expect("writing to memory does not fail");
}
