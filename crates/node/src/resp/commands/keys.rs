//! Commands on keys whatever their value: DEL EXISTS.

use highwater_core::Transaction;

use crate::resp::keyspace::{Failure, Keyspace};
use crate::resp::reply::Reply;
use crate::resp::request::Args;

/// `DEL key ..`: how many there were.
pub fn del<T: Transaction>(
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let mut deleted = 0;
    for key in args {
        deleted += i64::from(keyspace.delete(key)?);
    }
    reply.integer(deleted);
    Ok(())
}

/// `EXISTS key ..`: how many there are; a key named twice counts twice.
pub fn exists<T: Transaction>(
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let mut found = 0;
    for key in args {
        found += i64::from(keyspace.exists(key)?);
    }
    reply.integer(found);
    Ok(())
}
