//! Why there is no database, and why a transaction did not commit, by what the program can do.

use std::fmt;

use highwater_core::Outcome;

/// The words on code that ended with [`Abort::BadRequest`](highwater_core::Abort::BadRequest) and wrote no reply.
const NO_REASON: &str = "its code gave no reason: it returned Abort::BadRequest, or asked the store for a table that there is not";

/// Why a transaction did not commit, or why it is not known whether it did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Other transactions were in the way, again and again. Nothing was done: try again later.
    Conflict,
    /// Its code rolled it back ([`Abort::Rollback`](highwater_core::Abort::Rollback)); what it read was committed. What a procedure said.
    RolledBack(Vec<u8>),
    /// Its code panicked, or asked for what there is not. Nothing was done, and another try would fail the same way.
    Failed(String),
    /// It was larger than one transaction may be. Nothing was done.
    TooLarge(String),
    /// It would have needed memory that some replica does not have. Nothing was done: make room first.
    OutOfMemory,
    /// It writes, and too many disks are full. Nothing was done: make room first.
    DiskFull,
    /// Another replica takes transactions: the RESP address of that, if it is known. Nothing was done.
    NotServing(Option<String>),
    /// This replica hears no majority, or too much is under way. Nothing was done: try again later.
    NotReady,
    /// The lead was lost, or the replica ended, while it was under way: it may have committed or not. Read, before you try again.
    Unknown,
    /// This engine does not run closures. Nothing was done.
    Unsupported(&'static str),
}

impl Error {
    /// Whether the transaction can be tried again without being done twice.
    pub fn is_safe_to_retry(&self) -> bool {
        *self != Error::Unknown
    }

    /// What an outcome means, unless it was a commit.
    pub(crate) fn of(outcome: Outcome, reply: Vec<u8>) -> Result<Vec<u8>, Error> {
        let text = |reply: &[u8]| String::from_utf8_lossy(reply).into_owned();
        Err(match outcome {
            Outcome::Committed => return Ok(reply),
            Outcome::RolledBack => Error::RolledBack(reply),
            Outcome::BadRequest | Outcome::Denied if reply.is_empty() => Error::Failed(NO_REASON.into()),
            Outcome::BadRequest | Outcome::Denied => Error::Failed(text(&reply)),
            Outcome::Conflict => Error::Conflict,
            Outcome::TooLarge => Error::TooLarge(text(&reply)),
            Outcome::OutOfMemory => Error::OutOfMemory,
            Outcome::DiskFull => Error::DiskFull,
            Outcome::Unknown => Error::Unknown,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Conflict => f.write_str("other transactions were in the way; nothing was done: try again"),
            Error::RolledBack(_) => f.write_str("the transaction rolled back"),
            Error::Failed(why) => write!(f, "the transaction failed: {why}; nothing was done"),
            Error::TooLarge(why) => write!(f, "too large for one transaction: {why}; nothing was done"),
            Error::OutOfMemory => f.write_str("no memory is left for what grows; nothing was done"),
            Error::DiskFull => f.write_str("too many disks are full; nothing was done"),
            Error::NotServing(Some(other)) => write!(f, "ask the node at {other}; nothing was done"),
            Error::NotServing(None) => f.write_str("nobody is known to take transactions; nothing was done"),
            Error::NotReady => {
                f.write_str("no majority is heard, or too much is under way; nothing was done")
            }
            Error::Unknown => {
                f.write_str("it is not known whether the transaction committed: read, then decide")
            }
            Error::Unsupported(engine) => {
                write!(f, "engine {engine} runs no closures: register a procedure, or take engine rolis")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Why a database cannot be opened, or did not end in good order: in one line.
#[derive(Debug)]
pub struct OpenError(pub(crate) String);

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

impl From<highwater_node::NodeError> for OpenError {
    fn from(error: highwater_node::NodeError) -> OpenError {
        OpenError(error.to_string())
    }
}
