//! One attempt of a request where it is executed: what all engines do alike, whatever their transactions are.

// circle: an attempt under a session is an attempt with a record around it, and `once` makes it with what stands here.

use highwater_core::limits::MAX_REPLY_BYTES;
use highwater_core::{Abort, Outcome, Registry, Timestamp, Transaction, Work};
use highwater_store::Occ;

use crate::call::{Call, explain, explain_too_new};
use crate::sessions::once;

/// Transactions of which a worker runs one after another.
pub trait Attempts: Transaction {
    /// Opens one.
    fn begin(&mut self);

    /// Ends it, and leaves nothing of it.
    fn abort(&mut self);

    /// Nothing that it wrote is written; what it read stays.
    fn drop_writes(&mut self);

    /// Most bytes that one may write.
    fn most(&mut self) -> usize;

    /// The rows that one passes.
    fn work(&mut self) -> &Work;
}

impl Attempts for Occ {
    #[inline]
    fn begin(&mut self) {
        Occ::begin(self);
    }

    #[inline]
    fn abort(&mut self) {
        Occ::abort(self);
    }

    #[inline]
    fn drop_writes(&mut self) {
        Occ::drop_writes(self);
    }

    fn most(&mut self) -> usize {
        self.log().most()
    }

    fn work(&mut self) -> &Work {
        Occ::work(self)
    }
}

/// How a worker's transactions end. Of either, on a conflict nothing is left.
pub trait Ends<T> {
    /// Commits; one that is too large, or for which there is no room, stays open.
    fn commit(&mut self, tx: &mut T) -> Result<Timestamp, Abort>;

    /// Drops what it wrote, and validates what it read.
    fn roll_back(&mut self, tx: &mut T) -> Result<Timestamp, Abort>;
}

/// By the store alone: what commits is the worker's own.
pub struct InStore;

impl Ends<Occ> for InStore {
    #[inline(always)]
    fn commit(&mut self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        occ.commit_here()
    }

    fn roll_back(&mut self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        occ.commit_rollback()
    }
}

/// Runs a procedure once and ends its transaction. `None`: a conflict; nothing is left of the attempt.
///
/// Every decision but a conflict reveals what was read: it is validated, has a timestamp, and waits like a commit. Of a request under a session [`once`] is what runs it.
#[inline(always)]
pub fn attempt<T: Attempts>(
    registry: &Registry<T>,
    tx: &mut T,
    call: Call<'_>,
    reply: &mut Vec<u8>,
    ends: &mut impl Ends<T>,
) -> Option<(Timestamp, Outcome)> {
    reply.clear();
    if let Some(session) = call.session {
        return once::attempt(registry, tx, (session, call), reply, ends);
    }
    tx.begin();
    let ran = registry.run(call.procedure, tx, call.args, reply);
    let why = if reply.len() > MAX_REPLY_BYTES && ran != Err(Abort::Conflict) {
        Abort::TooLarge
    } else if let Err(why) = ran {
        why
    } else {
        match ends.commit(tx) {
            Ok(ts) => return Some((ts, Outcome::Committed)),
            Err(why) => why,
        }
    };
    end_otherwise(why, tx, reply, ends)
}

/// Ends a transaction that does not commit.
#[inline(never)]
fn end_otherwise<T: Attempts>(
    why: Abort,
    tx: &mut T,
    reply: &mut Vec<u8>,
    ends: &mut impl Ends<T>,
) -> Option<(Timestamp, Outcome)> {
    let outcome = match why {
        Abort::Conflict => {
            tx.abort();
            return None;
        }
        Abort::Rollback => Outcome::RolledBack,
        Abort::BadRequest => Outcome::BadRequest,
        Abort::TooLarge => {
            explain(reply, tx.most(), tx.work());
            Outcome::TooLarge
        }
        Abort::TooNew => {
            explain_too_new(reply);
            Outcome::BadRequest
        }
        Abort::NotReady => Outcome::Denied,
        Abort::OutOfMemory => {
            reply.clear();
            Outcome::OutOfMemory
        }
        Abort::DiskFull => {
            reply.clear();
            Outcome::DiskFull
        }
    };
    ends.roll_back(tx).ok().map(|ts| (ts, outcome))
}
