//! What an attempt runs, and what it says of one that was too large.

use std::io::Write;

use highwater_core::limits::MAX_REPLY_BYTES;
use highwater_core::work::ADDED;
use highwater_core::{ProcedureId, Work};
use highwater_seam::{Request, Session};

/// What to run.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub procedure: ProcedureId,
    pub args: &'a [u8],
    pub session: Option<Session>,
}

impl<'a> Call<'a> {
    #[inline]
    pub fn of(request: &Request<'a>) -> Call<'a> {
        Call { procedure: request.procedure, args: request.args, session: request.session }
    }
}

/// Says in the reply which limits there are for transactions that write `most` bytes at most, and whether the one that did this work was
/// ended for taking too long.
#[cold]
pub fn explain(reply: &mut Vec<u8>, most: usize, work: &Work) {
    // Not `clear`: it may be the longest that there ever was.
    *reply = Vec::new();
    if work.was_ended() {
        reply.extend_from_slice(
            b"it was ended because it took longer than a request may here; ask for less at once. Also, ",
        );
    }
    write!(
        reply,
        "a transaction writes at most {most} bytes here, replaces or deletes as many, reads {} rows \
         (limits.transaction_rows; a row that it adds counts {ADDED}) and answers {MAX_REPLY_BYTES} bytes",
        work.most()
    )
    .expect("writing to memory does not fail");
}

/// Says in the reply what an operator can do about a write to a table that not all nodes know.
#[cold]
pub fn explain_too_new(reply: &mut Vec<u8>) {
    reply.clear();
    reply.extend_from_slice(
        b"it writes to a table that not every node of this cluster knows: upgrade the nodes that hold the level back, \
          `highwater status` names them",
    );
}
