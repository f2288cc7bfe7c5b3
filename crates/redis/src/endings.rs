//! The ends of requests for which no command has written a reply.

use highwater_core::{Abort, Outcome};

use super::errors::RequestError;
use super::reply::{Protocol, Reply};

/// The words to a client whose request needs a module that this node is compiling.
pub const COMPILING: &[u8] =
    b"COMPILING this node is compiling a module that the request needs; nothing was done, ask again after a while";

/// Longest reply of a request that is done only if its reply is [short](super::request::Framing::is_short): what a socket takes at once.
pub const SHORT_REPLY_BYTES: usize = 16 << 10;

/// Whether a request that is done only if its reply is short ended so because it is not. Any other reply has bytes.
pub fn is_not_short(outcome: Outcome, reply: &[u8]) -> bool {
    outcome == Outcome::RolledBack && reply.is_empty()
}

/// Says why a request stopped, where nobody else does: the store takes no key or value that is too long, and tells nobody but the command
/// that asked. Whatever ends with its procedure's own decision has a reply, or its client would take the next one for it.
pub(super) fn stopped(why: Abort, reply: &mut Vec<u8>) -> Abort {
    match why {
        Abort::NotReady => {
            reply.clear();
            reply.extend_from_slice(COMPILING);
        }
        Abort::BadRequest => {
            reply.clear();
            Reply::new(reply, Protocol::Resp2).error(RequestError::TooLong);
        }
        _ => {}
    }
    why
}

/// As an error of the door: whatever bytes a reply has go to the client's socket.
#[cold]
pub(super) fn panicked(message: &str, reply: &mut Vec<u8>) {
    Reply::new(reply, Protocol::Resp2).error(RequestError::Panicked { message });
}

#[cold]
pub(super) fn malformed(reply: &mut Vec<u8>) -> Result<(), Abort> {
    reply.clear();
    Reply::new(reply, Protocol::Resp2).error(RequestError::Malformed);
    Err(Abort::BadRequest)
}
