//! Why a transaction did not commit, by what its application can do.

use std::fmt;

use crate::core::Trouble;

/// Why a transaction did not commit, or why it is not known whether it did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Other transactions were in the way, again and again. Nothing was done: try again later.
    Conflict,
    /// It may have committed or not, and nobody who could be asked says which. Read, before you try again.
    Unknown,
    /// Replicas do not hear a majority. Nothing was done: try again later.
    NoQuorum,
    /// No replica takes transactions, or too much is under way at all of them. Nothing was done: try again later.
    NotServing,
    /// The transaction's code rolled it back; what it read was committed.
    RolledBack,
    /// It can never be done like this, and why. Nothing was done.
    Refused(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Conflict => f.write_str("other transactions were in the way; nothing was done"),
            Error::Unknown => f.write_str("it is not known whether the transaction committed"),
            Error::NoQuorum => f.write_str("replicas do not hear a majority; nothing was done"),
            Error::NotServing => f.write_str("no replica takes transactions; nothing was done"),
            Error::RolledBack => f.write_str("the transaction rolled back"),
            Error::Refused(why) => write!(f, "refused: {why}; nothing was done"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Error {
        match trouble {
            Trouble::NotServing | Trouble::Busy => Error::NotServing,
            Trouble::NoQuorum => Error::NoQuorum,
        }
    }
}
