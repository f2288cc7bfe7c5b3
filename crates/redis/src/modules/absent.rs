//! What stands in the place of WebAssembly in a build without it.

use highwater_core::Transaction;

use super::{Checked, Unready};
use crate::errors::CommandError;
use crate::keyspace::{Failure, Keyspace};
use crate::reply::Reply;
use crate::request::Args;
use crate::scripts::Failed;

/// Refuses: there is nothing to look at a module with.
pub fn check(_bytes: &[u8], _name: &[u8]) -> Result<Checked, Unready> {
    Err(CommandError::NoWasm.into())
}

/// Nothing waits for a compiler.
pub fn is_warm(_name: &[u8]) -> bool {
    true
}

/// There is nothing to compile with.
pub fn prepare<T: Transaction>(_tx: &mut T) -> Result<usize, Failure> {
    Ok(0)
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
