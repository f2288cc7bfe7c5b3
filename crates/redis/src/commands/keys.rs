//! Commands on keys whatever their value: DEL UNLINK EXISTS TOUCH TYPE RENAME RENAMENX COPY.

use highwater_core::Transaction;

use super::words::{is, small_integer};
use crate::errors::CommandError;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::reply::Reply;
use crate::request::Args;

/// `DEL key ..` and `UNLINK key ..`: how many there were.
pub fn del<T: Transaction>(
    args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Result<(), Failure> {
    let mut deleted = 0;
    for key in args {
        deleted += i64::from(keyspace.remove(key)?);
    }
    reply.integer(deleted);
    Ok(())
}

/// `EXISTS key ..` and `TOUCH key ..`: how many there are; a key named twice counts twice.
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

/// `TYPE key`
pub fn kind<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let head = keyspace.head(args.promised()?)?;
    reply.simple(head.map_or("none", |head| head.kind.name()));
    Ok(())
}

/// `RENAME key newkey`
pub fn rename<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (from, to) = (args.promised()?, args.promised()?);
    must_exist(from, keyspace)?;
    keyspace.rename(from, to)?;
    reply.ok();
    Ok(())
}

/// `RENAMENX key newkey`: 1 if there was no such key.
pub fn renamenx<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (from, to) = (args.promised()?, args.promised()?);
    must_exist(from, keyspace)?;
    let free = !keyspace.exists(to)?;
    if free {
        keyspace.rename(from, to)?;
    }
    reply.integer(free.into());
    Ok(())
}

fn must_exist<T: Transaction>(key: &[u8], keyspace: &mut Keyspace<'_, T>) -> Done {
    if keyspace.exists(key)? { Ok(()) } else { Err(CommandError::NoSuchKey.into()) }
}

/// `COPY source destination [DB 0] [REPLACE]`: 1 if it was copied.
pub fn copy<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (from, to) = (args.promised()?, args.promised()?);
    let mut replace = false;
    while let Some(option) = args.next() {
        if is(option, "replace") {
            replace = true;
        } else if is(option, "db") && args.len() > 0 {
            if small_integer(args.promised()?)? != 0 {
                return Err(CommandError::NoSuchDatabase.into());
            }
        } else {
            return Err(CommandError::Syntax.into());
        }
    }
    if from == to {
        return Err(CommandError::Text("ERR source and destination objects are the same").into());
    }
    let copied = keyspace.exists(from)? && (replace || !keyspace.exists(to)?);
    if copied {
        keyspace.remove(to)?;
        keyspace.copy(from, to)?;
    }
    reply.integer(copied.into());
    Ok(())
}
