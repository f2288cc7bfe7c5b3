//! What keys look like inside: OBJECT, MEMORY USAGE. The answers are Redis's, for the thresholds that it has unless it is told others; here
//! nothing is stored so.

use highwater_core::Transaction;

use super::help;
use super::words::{integer, is};
use crate::command::entry::commands;
use crate::encodings::MAX_EMBEDDED_BYTES;
use crate::errors::CommandError;
use crate::keyspace::head::{Head, Kind, Row};
use crate::keyspace::{Done, Keyspace};
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    data(args, keyspace, reply);

    OBJECT = 56 {
        run: object(args, keyspace, reply),
        name: "object", arity: -2, flags: READONLY, keys: OF_SUBCOMMANDS, group: "generic", since: "2.2.3",
        summary: "A container for object introspection commands",
        told: Some(Flags(0)),
        categories: Some(0),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "object":
            "encoding" 3 {
                flags: READONLY, keys: Keys { first: 2, last: 2, step: 1 }, specs: "RO index 2 range 0 1 0", tips: "nondeterministic_output", categories: category::KEYSPACE | category::READ,
                docs: "
                    summary Inspect the internal encoding of a Redis object
                    since 2.2.3
                    complexity O(1)
                    - key: key #0
                ",
            }
            "freq" 3 {
                flags: READONLY, keys: Keys { first: 2, last: 2, step: 1 }, specs: "RO index 2 range 0 1 0", tips: "nondeterministic_output", categories: category::KEYSPACE | category::READ,
                docs: "
                    summary Get the logarithmic access frequency counter of a Redis object
                    since 4.0.0
                    complexity O(1)
                    - key: key #0
                ",
            }
            help "6.2.0" { categories: category::KEYSPACE }
            "idletime" 3 {
                flags: READONLY, keys: Keys { first: 2, last: 2, step: 1 }, specs: "RO index 2 range 0 1 0", tips: "nondeterministic_output", categories: category::KEYSPACE | category::READ,
                docs: "
                    summary Get the time since a Redis object was last accessed
                    since 2.2.3
                    complexity O(1)
                    - key: key #0
                ",
            }
            "refcount" 3 {
                flags: READONLY, keys: Keys { first: 2, last: 2, step: 1 }, specs: "RO index 2 range 0 1 0", tips: "nondeterministic_output", categories: category::KEYSPACE | category::READ,
                docs: "
                    summary Get the number of references to the value of the key
                    since 2.2.3
                    complexity O(1)
                    - key: key #0
                ",
            }
        },
    }

    MEMORY = 57 {
        run: memory(args, keyspace, reply),
        name: "memory", arity: -2, flags: READONLY, keys: OF_SUBCOMMANDS, group: "server", since: "4.0.0",
        summary: "A container for memory diagnostics commands",
        told: Some(Flags(0)),
        categories: Some(0),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "memory":
            "usage" -3 {
                flags: READONLY, keys: Keys { first: 2, last: 2, step: 1 }, specs: "RO index 2 range 0 1 0", categories: category::READ,
                docs: "
                    summary Estimate the memory usage of a key
                    since 4.0.0
                    complexity O(N) where N is the number of samples.
                    - key: key #0
                    - count: integer 'SAMPLES' optional
                ",
            }
            help "4.0.0" { categories: 0 }
            "doctor" 2 {
                flags: 0, tips: "nondeterministic_output,request_policy:all_shards,response_policy:special", categories: 0,
                docs: "
                    summary Outputs memory problems report
                    since 4.0.0
                    complexity O(1)
                ",
            }
            "malloc-stats" 2 {
                flags: 0, tips: "nondeterministic_output,request_policy:all_shards,response_policy:special", categories: 0,
                docs: "
                    summary Show allocator internal stats
                    since 4.0.0
                    complexity Depends on how much memory is allocated, could be slow
                ",
            }
            "purge" 2 {
                flags: 0, tips: "request_policy:all_shards,response_policy:all_succeeded", categories: 0,
                docs: "
                    summary Ask the allocator to release memory
                    since 4.0.0
                    complexity Depends on how much memory is allocated, could be slow
                ",
            }
            "stats" 2 {
                flags: 0, tips: "nondeterministic_output,request_policy:all_shards,response_policy:special", categories: 0,
                docs: "
                    summary Show memory usage details
                    since 4.0.0
                    complexity O(1)
                ",
            }
        },
    }

    HW_DEBUGOBJECT = 208 {
        run: debug_object(args, keyspace, reply),
        name: "hw.debugobject", arity: 2, flags: READONLY | ADMIN, keys: ONE_KEY, group: "server",
        since: "0.2.0",
        summary: "Tell how a key stands in its row: DEBUG OBJECT",
        docs: "
            complexity O(1)
            - key: key
        ",
    }
}

/// `OBJECT ENCODING | REFCOUNT | IDLETIME | FREQ key`
pub fn object<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let subcommand = args.promised()?;
    if is(subcommand, "help") {
        let lines = [
            "ENCODING <key>",
            "    Return the kind of internal representation used in order to store the value",
            "    associated with a <key>.",
            "FREQ <key>",
            "    Return the access frequency index of the <key>. The returned integer is",
            "    proportional to the logarithm of the recent access frequency of the key.",
            "IDLETIME <key>",
            "    Return the idle time of the <key>, that is the approximated number of",
            "    seconds elapsed since the last access to the key.",
            "REFCOUNT <key>",
            "    Return the number of references of the value associated with the specified",
            "    <key>.",
        ];
        help::full("OBJECT", &lines, reply);
        return Ok(());
    }
    let Some(row) = keyspace.row(args.promised()?)? else {
        reply.null();
        return Ok(());
    };
    match subcommand {
        _ if is(subcommand, "encoding") => reply.bulk(encoding(&row).as_bytes()),
        _ if is(subcommand, "refcount") => reply.integer(references(&row)),
        _ if is(subcommand, "idletime") => reply.integer(0),
        _ => {
            return Err(CommandError::Text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.",
            )
            .into());
        }
    }
    Ok(())
}

/// Small integers are shared.
fn references(row: &Row<'_>) -> i64 {
    let number = parse_integer(row.value).filter(|number| (0..10_000).contains(number));
    let shared = is_integer(row) && number.is_some();
    if shared { i64::from(i32::MAX) } else { 1 }
}

fn is_integer(row: &Row<'_>) -> bool {
    let Head { kind, grown, spelled, .. } = row.head;
    kind == Kind::String && !grown && !spelled && parse_integer(row.value).is_some()
}

fn encoding(row: &Row<'_>) -> &'static str {
    match (row.head.kind, row.head.grown) {
        (Kind::String, false) if is_integer(row) => "int",
        (Kind::String, false) if row.value.len() <= MAX_EMBEDDED_BYTES => "embstr",
        (Kind::String, _) => "raw",
        (Kind::List, _) => "quicklist",
        (Kind::Set, false) => "intset",
        (Kind::Set | Kind::Hash, true) => "hashtable",
        (Kind::SortedSet | Kind::Hash, false) => "listpack",
        (Kind::SortedSet, true) => "skiplist",
    }
}

/// `MEMORY USAGE key [SAMPLES count]`: about what its rows take here; of a collection, of its own row and of elements of 32 bytes in others.
pub fn memory<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let subcommand = args.promised()?;
    if !is(subcommand, "usage") {
        help::full(
            "MEMORY",
            &["USAGE <key> [SAMPLES <count>]", "    Return memory in bytes used by <key> and its value."],
            reply,
        );
        return Ok(());
    }
    let key = args.promised()?;
    while let Some(option) = args.next() {
        if !is(option, "samples") || args.len() == 0 {
            return Err(CommandError::Syntax.into());
        }
        if integer(args.promised()?)? < 0 {
            return Err(CommandError::Syntax.into());
        }
    }
    match keyspace.row(key)? {
        None => reply.null(),
        Some(row) => {
            let each = match row.head.kind {
                _ if row.head.id == 0 => 0,
                Kind::SortedSet => 128,
                Kind::List if row.head.packed => 40,
                _ => 64,
            };
            let elements = row.head.count * each;
            reply.integer(48 + key.len() as i64 * 2 + row.value.len() as i64 + elements as i64);
        }
    }
    Ok(())
}

/// `DEBUG OBJECT key`: in Redis's form. The address is a collection's id; the length that of the value in its row.
pub fn debug_object<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let Some(row) = keyspace.row(args.promised()?)? else { return Err(CommandError::NoSuchKey.into()) };
    reply.simple(&format!(
        "Value at:0x{:x} refcount:{} encoding:{} serializedlength:{} lru:0 lru_seconds_idle:0",
        row.head.id,
        references(&row),
        encoding(&row),
        row.value.len() as u64 + row.head.count
    ));
    Ok(())
}
