//! What stands in the place of WebAssembly in a build without it.

use highwater_core::Transaction;

use super::Checked;
use crate::resp::errors::CommandError;
use crate::resp::keyspace::{Failure, Keyspace};
use crate::resp::reply::Reply;
use crate::resp::request::Args;
use crate::resp::scripts::Failed;

/// Refuses: there is nothing to look at a module with.
pub fn check(_bytes: &[u8]) -> Result<Checked, CommandError> {
    Err(CommandError::NoWasm)
}

/// Refuses: there is nothing to run a procedure with.
pub fn call<T: Transaction>(
    _name: (&[u8], &[u8]),
    _digest: [u8; 32],
    _args: Args<'_>,
    _read_only: bool,
    _keyspace: &mut Keyspace<'_, T>,
    _reply: &mut Reply<'_>,
) -> Result<Result<(), Failed>, Failure> {
    Err(CommandError::NoWasm.into())
}
