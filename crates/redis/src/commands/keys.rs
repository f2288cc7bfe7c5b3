//! Commands on keys whatever their value: DEL UNLINK EXISTS TOUCH TYPE RENAME RENAMENX COPY.

use highwater_core::Transaction;

use super::words::{is, small_integer};
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::keyspace::{Done, Failure, Keyspace};
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    DEL = 3 {
        run: del(args, keyspace, reply),
        name: "del", arity: -2, flags: WRITE, keys: ALL_KEYS, group: "generic", since: "1.0.0",
        summary: "Delete a key",
        specs: "RM,delete index 1 range -1 1 0",
        tips: "request_policy:multi_shard,response_policy:agg_sum",
        docs: "
            complexity O(N) where N is the number of keys that will be removed. When a key to remove holds a value other than a string, the individual complexity for this key is O(M) where M is the number of elements in the list, set, sorted set or hash. Removing a single key that holds a string value is O(1).
            - key: key #0 multiple
        ",
    }

    EXISTS = 16 {
        run: exists(args, keyspace, reply),
        name: "exists", arity: -2, flags: READONLY | FAST, keys: ALL_KEYS, group: "generic", since: "1.0.0",
        summary: "Determine if a key exists",
        specs: "RO index 1 range -1 1 0",
        tips: "request_policy:multi_shard,response_policy:agg_sum",
        docs: "
            complexity O(N) where N is the number of keys to check.
            history 3.0.3 Accepts multiple `key` arguments.
            - key: key #0 multiple
        ",
    }

    TYPE = 44 {
        run: kind(args, keyspace, reply),
        name: "type", arity: 2, flags: READONLY | FAST, keys: ONE_KEY, group: "generic", since: "1.0.0",
        summary: "Determine the type stored at key",
        specs: "RO index 1 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
        ",
    }

    UNLINK = 45 {
        run: del(args, keyspace, reply),
        name: "unlink", arity: -2, flags: WRITE | FAST, keys: ALL_KEYS, group: "generic", since: "4.0.0",
        summary: "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.",
        specs: "RM,delete index 1 range -1 1 0",
        tips: "request_policy:multi_shard,response_policy:agg_sum",
        docs: "
            complexity O(1) for each key removed regardless of its size. Then the command does O(N) work in a different thread in order to reclaim memory, where N is the number of allocations the deleted objects where composed of.
            - key: key #0 multiple
        ",
    }

    TOUCH = 46 {
        run: exists(args, keyspace, reply),
        name: "touch", arity: -2, flags: READONLY | FAST, keys: ALL_KEYS, group: "generic", since: "3.2.1",
        summary: "Alters the last access time of a key(s). Returns the number of existing keys specified.",
        specs: "RO index 1 range -1 1 0",
        tips: "request_policy:multi_shard,response_policy:agg_sum",
        docs: "
            complexity O(N) where N is the number of keys that will be touched.
            - key: key #0 multiple
        ",
    }

    RENAME = 47 {
        run: rename(args, keyspace, reply),
        name: "rename", arity: 3, flags: WRITE, keys: TWO_KEYS, group: "generic", since: "1.0.0",
        summary: "Rename a key",
        specs: "RW,access,delete index 1 range 0 1 0;OW,update index 2 range 0 1 0",
        docs: "
            complexity O(1)
            - key: key #0
            - newkey: key #1
        ",
    }

    RENAMENX = 48 {
        run: renamenx(args, keyspace, reply),
        name: "renamenx", arity: 3, flags: WRITE | FAST, keys: TWO_KEYS, group: "generic", since: "1.0.0",
        summary: "Rename a key, only if the new key does not exist",
        specs: "RW,access,delete index 1 range 0 1 0;OW,insert index 2 range 0 1 0",
        docs: "
            complexity O(1)
            history 3.2.0 The command no longer returns an error when source and destination names are the same.
            - key: key #0
            - newkey: key #1
        ",
    }

    COPY = 49 {
        run: copy(args, keyspace, reply),
        name: "copy", arity: -3, flags: WRITE | DENYOOM, keys: TWO_KEYS, group: "generic", since: "6.2.0",
        summary: "Copy a key",
        specs: "RO,access index 1 range 0 1 0;OW,update index 2 range 0 1 0",
        docs: "
            complexity O(N) worst case for collections, where N is the number of nested items. O(1) for string values.
            - source: key #0
            - destination: key #1
            - destination-db: integer 'DB' optional
            - replace: pure-token 'REPLACE' optional
        ",
    }
}

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
