//! One attempt of a request on the leader: what all engines over [`Occ`] do alike.

use highwater_core::limits::MAX_REPLY_BYTES;
use highwater_core::{Abort, Outcome, Registry, Timestamp};
use highwater_store::Occ;

use crate::call::{Call, explain, explain_too_new};
use crate::sessions::once;

/// Runs a procedure once and ends its transaction by `commit` (`true`: its writes are dropped, what it read is validated).
/// `None`: a conflict; nothing is left of the attempt.
///
/// Every decision but a conflict reveals what was read: it is validated, has a timestamp, and waits for the mark like a
/// commit. Of a request under a session [`once`] is what runs it.
#[inline]
pub(crate) fn attempt(
    registry: &Registry<Occ>,
    occ: &mut Occ,
    call: Call<'_>,
    reply: &mut Vec<u8>,
    mut commit: impl FnMut(&mut Occ, bool) -> Result<Timestamp, Abort>,
) -> Option<(Timestamp, Outcome)> {
    reply.clear();
    if let Some(session) = call.session {
        return once::attempt(registry, occ, (session, call), reply, commit);
    }
    occ.begin();
    let ran = registry.run(call.procedure, occ, call.args, reply);
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
        Abort::TooNew => {
            explain_too_new(reply);
            Outcome::BadRequest
        }
        Abort::OutOfMemory => {
            reply.clear();
            Outcome::OutOfMemory
        }
        Abort::DiskFull => {
            reply.clear();
            Outcome::DiskFull
        }
    };
    commit(occ, true).ok().map(|ts| (ts, outcome))
}
