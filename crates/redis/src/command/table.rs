//! The rows.

use super::{Command, Control, Data, Keyless, Keys, Local, Spec, Subcommand};

/// Which words are keys; or why none has a fixed place.
type Reach = (Keys, Option<Keyless>);

const ONE_KEY: Reach = keys(1, 1, 1);
const ALL_KEYS: Reach = keys(1, -1, 1);
const PAIRS: Reach = keys(1, -1, 2);
const TWO_KEYS: Reach = keys(1, 2, 1);
const COUNTED: Reach = keyless(Keyless::Counted);
const OF_SUBCOMMANDS: Reach = keyless(Keyless::OfSubcommands);
const BEHIND: Reach = keyless(Keyless::Behind);
const TABLE: Reach = keyless(Keyless::Table);
const WHOLE: Reach = keyless(Keyless::Whole);
const SESSION: Reach = keyless(Keyless::Session);
const PROCEDURE: Reach = keyless(Keyless::Procedure);
const CODE: Reach = keyless(Keyless::Code);
const NO_DATA: Reach = keyless(Keyless::NoData);

const fn keys(first: i8, last: i8, step: i8) -> Reach {
    (Keys { first, last, step }, None)
}

const fn keyless(why: Keyless) -> Reach {
    (Keys { first: 0, last: 0, step: 0 }, Some(why))
}

const CONTROL_FLAGS: &str = "noscript loading stale fast allow_busy";

macro_rules! spec {
    ($kind:ident $command:ident, $name:literal, $arity:literal, $flags:expr, $keys:expr, $group:literal,
     $since:literal, $summary:literal $(, $subcommands:expr)?) => {{
        #[allow(unused_mut, unused_assignments)]
        let mut subcommands: &'static [Subcommand] = &[];
        $(subcommands = $subcommands;)?
        Spec {
            command: Command::$kind($kind::$command),
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys.0,
            keyless: $keys.1,
            group: $group,
            since: $since,
            summary: $summary,
            subcommands,
        }
    }};
}

macro_rules! subcommands {
    ($($command:literal $name:literal $arity:literal),*) => {
        &[$(Subcommand { name: $name, full_name: concat!($command, "|", $name), arity: $arity }),*]
    };
}

/// All rows; the position is the [`Opcode`](super::Opcode).
#[rustfmt::skip]
pub static COMMANDS: &[Spec] = &[
    spec!(Data Get, "get", 2, "readonly fast", ONE_KEY, "string", "1.0.0", "Get the value of a key"),
    spec!(Data Set, "set", -3, "write denyoom", ONE_KEY, "string", "1.0.0", "Set the string value of a key"),
    spec!(Data Incr, "incr", 2, "write denyoom fast", ONE_KEY, "string", "1.0.0", "Increment the integer value of a key by one"),
    spec!(Data Del, "del", -2, "write", ALL_KEYS, "generic", "1.0.0", "Delete a key"),
    spec!(Control Multi, "multi", 1, CONTROL_FLAGS, NO_DATA, "transactions", "1.2.0", "Mark the start of a transaction block"),
    spec!(Control Exec, "exec", 1, "noscript loading stale skip_slowlog", NO_DATA, "transactions", "1.2.0", "Execute all commands issued after MULTI"),
    spec!(Control Watch, "watch", -2, CONTROL_FLAGS, ALL_KEYS, "transactions", "2.2.0", "Watch the given keys to determine execution of the MULTI/EXEC block"),
    spec!(Control Unwatch, "unwatch", 1, CONTROL_FLAGS, NO_DATA, "transactions", "2.2.0", "Forget about all watched keys"),
    spec!(Control Discard, "discard", 1, CONTROL_FLAGS, NO_DATA, "transactions", "2.0.0", "Discard all commands issued after MULTI"),
    spec!(Data Mget, "mget", -2, "readonly fast", ALL_KEYS, "string", "1.0.0", "Get the values of all the given keys"),
    spec!(Data Mset, "mset", -3, "write denyoom", PAIRS, "string", "1.0.1", "Set multiple keys to multiple values"),
    spec!(Data Incrby, "incrby", 3, "write denyoom fast", ONE_KEY, "string", "1.0.0", "Increment the integer value of a key by the given amount"),
    spec!(Data Decr, "decr", 2, "write denyoom fast", ONE_KEY, "string", "1.0.0", "Decrement the integer value of a key by one"),
    spec!(Data Decrby, "decrby", 3, "write denyoom fast", ONE_KEY, "string", "1.0.0", "Decrement the integer value of a key by the given number"),
    spec!(Data Append, "append", 3, "write denyoom fast", ONE_KEY, "string", "2.0.0", "Append a value to a key"),
    spec!(Data Strlen, "strlen", 2, "readonly fast", ONE_KEY, "string", "2.2.0", "Get the length of the value stored in a key"),
    spec!(Data Exists, "exists", -2, "readonly fast", ALL_KEYS, "generic", "1.0.0", "Determine if a key exists"),
    spec!(Data Setnx, "setnx", 3, "write denyoom fast", ONE_KEY, "string", "1.0.0", "Set the value of a key, only if the key does not exist"),
    spec!(Data Setex, "setex", 4, "write denyoom", ONE_KEY, "string", "2.0.0", "Set the value and expiration of a key"),
    spec!(Data Psetex, "psetex", 4, "write denyoom", ONE_KEY, "string", "2.6.0", "Set the value and expiration in milliseconds of a key"),
    spec!(Data Msetnx, "msetnx", -3, "write denyoom", PAIRS, "string", "1.0.1", "Set multiple keys to multiple values, only if none of the keys exist"),
    spec!(Data Getset, "getset", 3, "write denyoom fast", ONE_KEY, "string", "1.0.0", "Set the string value of a key and return its old value"),
    spec!(Data Getdel, "getdel", 2, "write fast", ONE_KEY, "string", "6.2.0", "Get the value of a key and delete the key"),
    spec!(Data Getex, "getex", -2, "write fast", ONE_KEY, "string", "6.2.0", "Get the value of a key and optionally set its expiration"),
    spec!(Data Getrange, "getrange", 4, "readonly", ONE_KEY, "string", "2.4.0", "Get a substring of the string stored at a key"),
    spec!(Data Substr, "substr", 4, "readonly", ONE_KEY, "string", "1.0.0", "Get a substring of the string stored at a key"),
    spec!(Data Setrange, "setrange", 4, "write denyoom", ONE_KEY, "string", "2.2.0", "Overwrite part of a string at key starting at the specified offset"),
    spec!(Data Incrbyfloat, "incrbyfloat", 3, "write denyoom fast", ONE_KEY, "string", "2.6.0", "Increment the float value of a key by the given amount"),
    spec!(Data Setbit, "setbit", 4, "write denyoom", ONE_KEY, "bitmap", "2.2.0", "Sets or clears the bit at offset in the string value stored at key"),
    spec!(Data Getbit, "getbit", 3, "readonly fast", ONE_KEY, "bitmap", "2.2.0", "Returns the bit value at offset in the string value stored at key"),
    spec!(Data Bitcount, "bitcount", -2, "readonly", ONE_KEY, "bitmap", "2.6.0", "Count set bits in a string"),
    spec!(Data Bitpos, "bitpos", -3, "readonly", ONE_KEY, "bitmap", "2.8.7", "Find first bit set or clear in a string"),
    spec!(Data Bitop, "bitop", -4, "write denyoom", keys(2, -1, 1), "bitmap", "2.6.0", "Perform bitwise operations between strings"),
    spec!(Data Bitfield, "bitfield", -2, "write denyoom", ONE_KEY, "bitmap", "3.2.0", "Perform arbitrary bitfield integer operations on strings"),
    spec!(Data BitfieldRo, "bitfield_ro", -2, "readonly fast", ONE_KEY, "bitmap", "6.0.0", "Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD"),
    spec!(Data Expire, "expire", -3, "write fast", ONE_KEY, "generic", "1.0.0", "Set a key's time to live in seconds"),
    spec!(Data Pexpire, "pexpire", -3, "write fast", ONE_KEY, "generic", "2.6.0", "Set a key's time to live in milliseconds"),
    spec!(Data Expireat, "expireat", -3, "write fast", ONE_KEY, "generic", "1.2.0", "Set the expiration for a key as a UNIX timestamp"),
    spec!(Data Pexpireat, "pexpireat", -3, "write fast", ONE_KEY, "generic", "2.6.0", "Set the expiration for a key as a UNIX timestamp specified in milliseconds"),
    spec!(Data Ttl, "ttl", 2, "readonly fast", ONE_KEY, "generic", "1.0.0", "Get the time to live for a key in seconds"),
    spec!(Data Pttl, "pttl", 2, "readonly fast", ONE_KEY, "generic", "2.6.0", "Get the time to live for a key in milliseconds"),
    spec!(Data Expiretime, "expiretime", 2, "readonly fast", ONE_KEY, "generic", "7.0.0", "Get the expiration Unix timestamp for a key"),
    spec!(Data Pexpiretime, "pexpiretime", 2, "readonly fast", ONE_KEY, "generic", "7.0.0", "Get the expiration Unix timestamp for a key in milliseconds"),
    spec!(Data Persist, "persist", 2, "write fast", ONE_KEY, "generic", "2.2.0", "Remove the expiration from a key"),
    spec!(Data Type, "type", 2, "readonly fast", ONE_KEY, "generic", "1.0.0", "Determine the type stored at key"),
    spec!(Data Unlink, "unlink", -2, "write fast", ALL_KEYS, "generic", "4.0.0", "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking."),
    spec!(Data Touch, "touch", -2, "readonly fast", ALL_KEYS, "generic", "3.2.1", "Alters the last access time of a key(s). Returns the number of existing keys specified."),
    spec!(Data Rename, "rename", 3, "write", TWO_KEYS, "generic", "1.0.0", "Rename a key"),
    spec!(Data Renamenx, "renamenx", 3, "write fast", TWO_KEYS, "generic", "1.0.0", "Rename a key, only if the new key does not exist"),
    spec!(Data Copy, "copy", -3, "write denyoom", TWO_KEYS, "generic", "6.2.0", "Copy a key"),
    spec!(Data Scan, "scan", -2, "readonly", WHOLE, "generic", "2.8.0", "Incrementally iterate the keys space"),
    spec!(Data Keys, "keys", 2, "readonly", WHOLE, "generic", "1.0.0", "Find all keys matching the given pattern"),
    spec!(Data Randomkey, "randomkey", 1, "readonly", WHOLE, "generic", "1.0.0", "Return a random key from the keyspace"),
    spec!(Data Dbsize, "dbsize", 1, "readonly fast", WHOLE, "server", "1.0.0", "Return the number of keys in the selected database"),
    spec!(Data Flushdb, "flushdb", -1, "write", WHOLE, "server", "1.0.0", "Remove all keys from the current database"),
    spec!(Data Flushall, "flushall", -1, "write", WHOLE, "server", "1.0.0", "Remove all keys from all databases"),
    spec!(Data Object, "object", -2, "readonly", OF_SUBCOMMANDS, "generic", "2.2.3", "A container for object introspection commands",
        subcommands!["object" "encoding" 3, "object" "freq" 3, "object" "help" 2, "object" "idletime" 3, "object" "refcount" 3]),
    spec!(Data Memory, "memory", -2, "readonly", OF_SUBCOMMANDS, "server", "4.0.0", "A container for memory diagnostics commands",
        subcommands!["memory" "usage" -3, "memory" "help" 2, "memory" "doctor" 2, "memory" "malloc-stats" 2, "memory" "purge" 2, "memory" "stats" 2]),
    spec!(Data Hset, "hset", -4, "write denyoom fast", ONE_KEY, "hash", "2.0.0", "Set the string value of a hash field"),
    spec!(Data Hmset, "hmset", -4, "write denyoom fast", ONE_KEY, "hash", "2.0.0", "Set multiple hash fields to multiple values"),
    spec!(Data Hsetnx, "hsetnx", 4, "write denyoom fast", ONE_KEY, "hash", "2.0.0", "Set the value of a hash field, only if the field does not exist"),
    spec!(Data Hget, "hget", 3, "readonly fast", ONE_KEY, "hash", "2.0.0", "Get the value of a hash field"),
    spec!(Data Hmget, "hmget", -3, "readonly fast", ONE_KEY, "hash", "2.0.0", "Get the values of all the given hash fields"),
    spec!(Data Hgetall, "hgetall", 2, "readonly", ONE_KEY, "hash", "2.0.0", "Get all the fields and values in a hash"),
    spec!(Data Hdel, "hdel", -3, "write fast", ONE_KEY, "hash", "2.0.0", "Delete one or more hash fields"),
    spec!(Data Hlen, "hlen", 2, "readonly fast", ONE_KEY, "hash", "2.0.0", "Get the number of fields in a hash"),
    spec!(Data Hkeys, "hkeys", 2, "readonly", ONE_KEY, "hash", "2.0.0", "Get all the fields in a hash"),
    spec!(Data Hvals, "hvals", 2, "readonly", ONE_KEY, "hash", "2.0.0", "Get all the values in a hash"),
    spec!(Data Hexists, "hexists", 3, "readonly fast", ONE_KEY, "hash", "2.0.0", "Determine if a hash field exists"),
    spec!(Data Hincrby, "hincrby", 4, "write denyoom fast", ONE_KEY, "hash", "2.0.0", "Increment the integer value of a hash field by the given number"),
    spec!(Data Hincrbyfloat, "hincrbyfloat", 4, "write denyoom fast", ONE_KEY, "hash", "2.6.0", "Increment the float value of a hash field by the given amount"),
    spec!(Data Hstrlen, "hstrlen", 3, "readonly fast", ONE_KEY, "hash", "3.2.0", "Get the length of the value of a hash field"),
    spec!(Data Hrandfield, "hrandfield", -2, "readonly", ONE_KEY, "hash", "6.2.0", "Get one or multiple random fields from a hash"),
    spec!(Data Hscan, "hscan", -3, "readonly", ONE_KEY, "hash", "2.8.0", "Incrementally iterate hash fields and associated values"),
    spec!(Data Sadd, "sadd", -3, "write denyoom fast", ONE_KEY, "set", "1.0.0", "Add one or more members to a set"),
    spec!(Data Srem, "srem", -3, "write fast", ONE_KEY, "set", "1.0.0", "Remove one or more members from a set"),
    spec!(Data Smembers, "smembers", 2, "readonly", ONE_KEY, "set", "1.0.0", "Get all the members in a set"),
    spec!(Data Sismember, "sismember", 3, "readonly fast", ONE_KEY, "set", "1.0.0", "Determine if a given value is a member of a set"),
    spec!(Data Smismember, "smismember", -3, "readonly fast", ONE_KEY, "set", "6.2.0", "Returns the membership associated with the given elements for a set"),
    spec!(Data Scard, "scard", 2, "readonly fast", ONE_KEY, "set", "1.0.0", "Get the number of members in a set"),
    spec!(Data Spop, "spop", -2, "write fast", ONE_KEY, "set", "1.0.0", "Remove and return one or multiple random members from a set"),
    spec!(Data Srandmember, "srandmember", -2, "readonly", ONE_KEY, "set", "1.0.0", "Get one or multiple random members from a set"),
    spec!(Data Smove, "smove", 4, "write fast", TWO_KEYS, "set", "1.0.0", "Move a member from one set to another"),
    spec!(Data Sscan, "sscan", -3, "readonly", ONE_KEY, "set", "2.8.0", "Incrementally iterate Set elements"),
    spec!(Data Sinter, "sinter", -2, "readonly", ALL_KEYS, "set", "1.0.0", "Intersect multiple sets"),
    spec!(Data Sunion, "sunion", -2, "readonly", ALL_KEYS, "set", "1.0.0", "Add multiple sets"),
    spec!(Data Sdiff, "sdiff", -2, "readonly", ALL_KEYS, "set", "1.0.0", "Subtract multiple sets"),
    spec!(Data Sinterstore, "sinterstore", -3, "write denyoom", ALL_KEYS, "set", "1.0.0", "Intersect multiple sets and store the resulting set in a key"),
    spec!(Data Sunionstore, "sunionstore", -3, "write denyoom", ALL_KEYS, "set", "1.0.0", "Add multiple sets and store the resulting set in a key"),
    spec!(Data Sdiffstore, "sdiffstore", -3, "write denyoom", ALL_KEYS, "set", "1.0.0", "Subtract multiple sets and store the resulting set in a key"),
    spec!(Data Sintercard, "sintercard", -3, "readonly movablekeys", COUNTED, "set", "7.0.0", "Intersect multiple sets and return the cardinality of the result"),
    spec!(Data Lpush, "lpush", -3, "write denyoom fast", ONE_KEY, "list", "1.0.0", "Prepend one or multiple elements to a list"),
    spec!(Data Rpush, "rpush", -3, "write denyoom fast", ONE_KEY, "list", "1.0.0", "Append one or multiple elements to a list"),
    spec!(Data Lpushx, "lpushx", -3, "write denyoom fast", ONE_KEY, "list", "2.2.0", "Prepend an element to a list, only if the list exists"),
    spec!(Data Rpushx, "rpushx", -3, "write denyoom fast", ONE_KEY, "list", "2.2.0", "Append an element to a list, only if the list exists"),
    spec!(Data Lpop, "lpop", -2, "write fast", ONE_KEY, "list", "1.0.0", "Remove and get the first elements in a list"),
    spec!(Data Rpop, "rpop", -2, "write fast", ONE_KEY, "list", "1.0.0", "Remove and get the last elements in a list"),
    spec!(Data Llen, "llen", 2, "readonly fast", ONE_KEY, "list", "1.0.0", "Get the length of a list"),
    spec!(Data Lrange, "lrange", 4, "readonly", ONE_KEY, "list", "1.0.0", "Get a range of elements from a list"),
    spec!(Data Lindex, "lindex", 3, "readonly", ONE_KEY, "list", "1.0.0", "Get an element from a list by its index"),
    spec!(Data Lset, "lset", 4, "write denyoom", ONE_KEY, "list", "1.0.0", "Set the value of an element in a list by its index"),
    spec!(Data Linsert, "linsert", 5, "write denyoom", ONE_KEY, "list", "2.2.0", "Insert an element before or after another element in a list"),
    spec!(Data Lrem, "lrem", 4, "write", ONE_KEY, "list", "1.0.0", "Remove elements from a list"),
    spec!(Data Ltrim, "ltrim", 4, "write", ONE_KEY, "list", "1.0.0", "Trim a list to the specified range"),
    spec!(Data Lpos, "lpos", -3, "readonly", ONE_KEY, "list", "6.0.6", "Return the index of matching elements on a list"),
    spec!(Data Lmove, "lmove", 5, "write denyoom", TWO_KEYS, "list", "6.2.0", "Pop an element from a list, push it to another list and return it"),
    spec!(Data Rpoplpush, "rpoplpush", 3, "write denyoom", TWO_KEYS, "list", "1.2.0", "Remove the last element in a list, prepend it to another list and return it"),
    spec!(Data Lmpop, "lmpop", -4, "write movablekeys", COUNTED, "list", "7.0.0", "Pop elements from a list"),
    spec!(Data Zadd, "zadd", -4, "write denyoom fast", ONE_KEY, "sorted-set", "1.2.0", "Add one or more members to a sorted set, or update its score if it already exists"),
    spec!(Data Zrem, "zrem", -3, "write fast", ONE_KEY, "sorted-set", "1.2.0", "Remove one or more members from a sorted set"),
    spec!(Data Zscore, "zscore", 3, "readonly fast", ONE_KEY, "sorted-set", "1.2.0", "Get the score associated with the given member in a sorted set"),
    spec!(Data Zmscore, "zmscore", -3, "readonly fast", ONE_KEY, "sorted-set", "6.2.0", "Get the score associated with the given members in a sorted set"),
    spec!(Data Zincrby, "zincrby", 4, "write denyoom fast", ONE_KEY, "sorted-set", "1.2.0", "Increment the score of a member in a sorted set"),
    spec!(Data Zcard, "zcard", 2, "readonly fast", ONE_KEY, "sorted-set", "1.2.0", "Get the number of members in a sorted set"),
    spec!(Data Zrandmember, "zrandmember", -2, "readonly", ONE_KEY, "sorted-set", "6.2.0", "Get one or multiple random elements from a sorted set"),
    spec!(Data Zscan, "zscan", -3, "readonly", ONE_KEY, "sorted-set", "2.8.0", "Incrementally iterate sorted sets elements and associated scores"),
    spec!(Data Zmpop, "zmpop", -4, "write movablekeys", COUNTED, "sorted-set", "7.0.0", "Remove and return members with scores in a sorted set"),
    spec!(Data Zpopmin, "zpopmin", -2, "write fast", ONE_KEY, "sorted-set", "5.0.0", "Remove and return members with the lowest scores in a sorted set"),
    spec!(Data Zpopmax, "zpopmax", -2, "write fast", ONE_KEY, "sorted-set", "5.0.0", "Remove and return members with the highest scores in a sorted set"),
    spec!(Data Zrank, "zrank", 3, "readonly fast", ONE_KEY, "sorted-set", "2.0.0", "Determine the index of a member in a sorted set"),
    spec!(Data Zrevrank, "zrevrank", 3, "readonly fast", ONE_KEY, "sorted-set", "2.0.0", "Determine the index of a member in a sorted set, with scores ordered from high to low"),
    spec!(Data Zcount, "zcount", 4, "readonly fast", ONE_KEY, "sorted-set", "2.0.0", "Count the members in a sorted set with scores within the given values"),
    spec!(Data Zlexcount, "zlexcount", 4, "readonly fast", ONE_KEY, "sorted-set", "2.8.9", "Count the number of members in a sorted set between a given lexicographical range"),
    spec!(Data Zrange, "zrange", -4, "readonly", ONE_KEY, "sorted-set", "1.2.0", "Return a range of members in a sorted set"),
    spec!(Data Zrangestore, "zrangestore", -5, "write denyoom", TWO_KEYS, "sorted-set", "6.2.0", "Store a range of members from sorted set into another key"),
    spec!(Data Zrangebyscore, "zrangebyscore", -4, "readonly", ONE_KEY, "sorted-set", "1.0.5", "Return a range of members in a sorted set, by score"),
    spec!(Data Zrevrangebyscore, "zrevrangebyscore", -4, "readonly", ONE_KEY, "sorted-set", "2.2.0", "Return a range of members in a sorted set, by score, with scores ordered from high to low"),
    spec!(Data Zrangebylex, "zrangebylex", -4, "readonly", ONE_KEY, "sorted-set", "2.8.9", "Return a range of members in a sorted set, by lexicographical range"),
    spec!(Data Zrevrangebylex, "zrevrangebylex", -4, "readonly", ONE_KEY, "sorted-set", "2.8.9", "Return a range of members in a sorted set, by lexicographical range, ordered from higher to lower strings."),
    spec!(Data Zrevrange, "zrevrange", -4, "readonly", ONE_KEY, "sorted-set", "1.2.0", "Return a range of members in a sorted set, by index, with scores ordered from high to low"),
    spec!(Data Zremrangebyscore, "zremrangebyscore", 4, "write", ONE_KEY, "sorted-set", "1.2.0", "Remove all members in a sorted set within the given scores"),
    spec!(Data Zremrangebylex, "zremrangebylex", 4, "write", ONE_KEY, "sorted-set", "2.8.9", "Remove all members in a sorted set between the given lexicographical range"),
    spec!(Data Zremrangebyrank, "zremrangebyrank", 4, "write", ONE_KEY, "sorted-set", "2.0.0", "Remove all members in a sorted set within the given indexes"),
    spec!(Data Zunion, "zunion", -3, "readonly movablekeys", COUNTED, "sorted-set", "6.2.0", "Add multiple sorted sets"),
    spec!(Data Zunionstore, "zunionstore", -4, "write denyoom movablekeys", ONE_KEY, "sorted-set", "2.0.0", "Add multiple sorted sets and store the resulting sorted set in a new key"),
    spec!(Data Zinter, "zinter", -3, "readonly movablekeys", COUNTED, "sorted-set", "6.2.0", "Intersect multiple sorted sets"),
    spec!(Data Zinterstore, "zinterstore", -4, "write denyoom movablekeys", ONE_KEY, "sorted-set", "2.0.0", "Intersect multiple sorted sets and store the resulting sorted set in a new key"),
    spec!(Data Zdiff, "zdiff", -3, "readonly movablekeys", COUNTED, "sorted-set", "6.2.0", "Subtract multiple sorted sets"),
    spec!(Data Zdiffstore, "zdiffstore", -4, "write denyoom movablekeys", ONE_KEY, "sorted-set", "6.2.0", "Subtract multiple sorted sets and store the resulting sorted set in a new key"),
    spec!(Data Zintercard, "zintercard", -3, "readonly movablekeys", COUNTED, "sorted-set", "7.0.0", "Intersect multiple sorted sets and return the cardinality of the result"),
    spec!(Data Blpop, "blpop", -3, "write noscript blocking", keys(1, -2, 1), "list", "2.0.0", "Remove and get the first element in a list, or block until one is available"),
    spec!(Data Brpop, "brpop", -3, "write noscript blocking", keys(1, -2, 1), "list", "2.0.0", "Remove and get the last element in a list, or block until one is available"),
    spec!(Data Bzpopmin, "bzpopmin", -3, "write noscript blocking fast", keys(1, -2, 1), "sorted-set", "5.0.0", "Remove and return the member with the lowest score from one or more sorted sets, or block until one is available"),
    spec!(Data Bzpopmax, "bzpopmax", -3, "write noscript blocking fast", keys(1, -2, 1), "sorted-set", "5.0.0", "Remove and return the member with the highest score from one or more sorted sets, or block until one is available"),
    spec!(Data Blmove, "blmove", 6, "write denyoom noscript blocking", TWO_KEYS, "list", "6.2.0", "Pop an element from a list, push it to another list and return it; or block until one is available"),
    spec!(Data Brpoplpush, "brpoplpush", 4, "write denyoom noscript blocking", TWO_KEYS, "list", "2.2.0", "Pop an element from a list, push it to another list and return it; or block until one is available"),
    spec!(Data Blmpop, "blmpop", -5, "write blocking movablekeys", COUNTED, "list", "7.0.0", "Pop elements from a list, or block until one is available"),
    spec!(Data Bzmpop, "bzmpop", -5, "write blocking movablekeys", COUNTED, "sorted-set", "7.0.0", "Remove and return members with scores in a sorted set or block until one is available"),
    spec!(Local Ping, "ping", -1, "fast", NO_DATA, "connection", "1.0.0", "Ping the server"),
    spec!(Local Echo, "echo", 2, "loading stale fast", NO_DATA, "connection", "1.0.0", "Echo the given string"),
    spec!(Local Hello, "hello", -1, "noscript loading stale fast no_auth allow_busy", NO_DATA, "connection", "6.0.0", "Handshake with Redis"),
    spec!(Local Select, "select", 2, "loading stale fast", NO_DATA, "connection", "1.0.0", "Change the selected database for the current connection"),
    spec!(Local Auth, "auth", -2, "noscript loading stale fast no_auth allow_busy", NO_DATA, "connection", "1.0.0", "Authenticate to the server"),
    spec!(Local Client, "client", -2, "noscript loading stale", NO_DATA, "connection", "2.4.0", "A container for client connection commands",
        subcommands!["client" "id" 2, "client" "info" 2, "client" "list" -2, "client" "kill" -3, "client" "pause" -3, "client" "unpause" 2,
            "client" "reply" 3, "client" "unblock" -3, "client" "getredir" 2, "client" "tracking" -3, "client" "trackinginfo" 2, "client" "caching" 3,
            "client" "no-evict" 3, "client" "no-touch" 3, "client" "getname" 2, "client" "setname" 3, "client" "setinfo" 4, "client" "help" 2]),
    spec!(Local Command, "command", -1, "loading stale", NO_DATA, "server", "2.8.13", "Get array of Redis command details",
        subcommands!["command" "count" 2, "command" "info" -2, "command" "docs" -2, "command" "list" -2, "command" "getkeys" -4, "command" "help" 2, "command" "getkeysandflags" -4]),
    spec!(Local Info, "info", -1, "loading stale", NO_DATA, "server", "1.0.0", "Get information and statistics about the server"),
    spec!(Local Config, "config", -2, "loading", NO_DATA, "server", "2.0.0", "A container for server configuration commands",
        subcommands!["config" "get" -3, "config" "help" 2, "config" "resetstat" 2, "config" "rewrite" 2, "config" "set" -4]),
    spec!(Local Time, "time", 1, "loading stale fast", NO_DATA, "server", "2.6.0", "Return the current server time"),
    spec!(Local Role, "role", 1, "noscript loading stale fast", NO_DATA, "server", "2.8.12", "Return the role of the instance in the context of replication"),
    spec!(Local Cluster, "cluster", -2, "loading stale", NO_DATA, "cluster", "3.0.0", "A container for Redis Cluster commands",
        subcommands!["cluster" "slots" 2, "cluster" "shards" 2, "cluster" "nodes" 2, "cluster" "info" 2, "cluster" "keyslot" 3,
            "cluster" "countkeysinslot" 3, "cluster" "getkeysinslot" 4, "cluster" "myid" 2, "cluster" "myshardid" 2, "cluster" "replicas" 3,
            "cluster" "slaves" 3, "cluster" "count-failure-reports" 3, "cluster" "links" 2, "cluster" "help" 2, "cluster" "addslots" -3,
            "cluster" "addslotsrange" -4, "cluster" "bumpepoch" 2, "cluster" "delslots" -3, "cluster" "delslotsrange" -4, "cluster" "failover" -2,
            "cluster" "flushslots" 2, "cluster" "forget" 3, "cluster" "meet" -4, "cluster" "replicate" 3, "cluster" "reset" -2,
            "cluster" "saveconfig" 2, "cluster" "set-config-epoch" 3, "cluster" "setslot" -4]),
    spec!(Local Sentinel, "sentinel", -2, "loading stale", NO_DATA, "sentinel", "2.8.4", "A container for Sentinel commands",
        subcommands!["sentinel" "get-master-addr-by-name" 3, "sentinel" "masters" 2, "sentinel" "master" 3, "sentinel" "replicas" 3,
            "sentinel" "slaves" 3, "sentinel" "sentinels" 3, "sentinel" "ckquorum" 3, "sentinel" "myid" 2,
            "sentinel" "is-master-down-by-addr" 6, "sentinel" "help" 2, "sentinel" "failover" 3, "sentinel" "flushconfig" 2,
            "sentinel" "monitor" 6, "sentinel" "remove" 3, "sentinel" "reset" 3, "sentinel" "set" -5]),
    spec!(Local Save, "save", 1, "admin noscript no_async_loading no_multi", NO_DATA, "server", "1.0.0", "Refused: checkpoints are written by themselves"),
    spec!(Local Save, "bgsave", -1, "admin noscript no_async_loading", NO_DATA, "server", "1.0.0", "Refused: checkpoints are written by themselves"),
    spec!(Local Save, "bgrewriteaof", 1, "admin noscript no_async_loading", NO_DATA, "server", "1.0.0", "Refused: checkpoints are written by themselves"),
    spec!(Local Shutdown, "shutdown", -1, "admin noscript no_multi loading stale allow_busy", NO_DATA, "server", "1.0.0", "Refused: nodes are ended by signals"),
    spec!(Local Replicaof, "replicaof", 3, "admin noscript no_async_loading stale", NO_DATA, "server", "5.0.0", "Refused: the cluster decides who replicates whom"),
    spec!(Local Replicaof, "slaveof", 3, "admin noscript no_async_loading stale", NO_DATA, "server", "1.0.0", "Refused: the cluster decides who replicates whom"),
    spec!(Local Replicaof, "failover", -1, "admin noscript stale", NO_DATA, "server", "6.2.0", "Refused: leads are handed over by operators"),
    spec!(Local Swapdb, "swapdb", 3, "fast write", NO_DATA, "server", "4.0.0", "Refused: there is one database"),
    spec!(Local Monitor, "monitor", 1, "admin noscript loading stale", NO_DATA, "server", "1.0.0", "Refused: commands are not shown as they come"),
    spec!(Local Debug, "debug", -2, "admin noscript loading stale", NO_DATA, "server", "1.0.0", "What test suites use of it"),
    spec!(Local Lolwut, "lolwut", -1, "fast readonly", NO_DATA, "server", "5.0.0", "Display some art and the version"),
    spec!(Local Wait, "wait", 3, "noscript", NO_DATA, "generic", "3.0.0", "Wait for the synchronous replication of all the write commands sent in the context of the current connection"),
    spec!(Local Slowlog, "slowlog", -2, "loading", NO_DATA, "server", "2.2.12", "A container for slow log commands",
        subcommands!["slowlog" "get" -2, "slowlog" "help" 2, "slowlog" "len" 2, "slowlog" "reset" 2]),
    spec!(Local Latency, "latency", -2, "loading", NO_DATA, "server", "2.8.13", "A container for latency diagnostics commands",
        subcommands!["latency" "doctor" 2, "latency" "help" 2, "latency" "histogram" -2, "latency" "history" 3, "latency" "latest" 2, "latency" "reset" -2]),
    spec!(Control Reset, "reset", 1, "noscript loading stale fast no_auth allow_busy", NO_DATA, "connection", "6.2.0", "Reset the connection"),
    spec!(Local Readonly, "readonly", 1, "loading stale fast", NO_DATA, "cluster", "3.0.0", "Let the reads of this connection run on a replica's snapshot"),
    spec!(Local Readwrite, "readwrite", 1, "loading stale fast", NO_DATA, "cluster", "3.0.0", "Send the reads of this connection to the leader again"),
    spec!(Control Quit, "quit", -1, "allow_busy noscript loading stale fast no_auth", NO_DATA, "connection", "1.0.0", "Close the connection"),
    spec!(Data Keysinslot, "hw.keysinslot", -2, "readonly", WHOLE, "generic", "0.2.0", "Count the keys of a hash slot, or get some of them"),
    spec!(Data Eval, "eval", -3, "write noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys", COUNTED, "scripting", "2.6.0", "Execute a Lua script server side"),
    spec!(Data EvalRo, "eval_ro", -3, "readonly noscript stale skip_monitor no_mandatory_keys movablekeys", COUNTED, "scripting", "7.0.0", "Execute a read-only Lua script server side"),
    spec!(Data Evalsha, "evalsha", -3, "write noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys", COUNTED, "scripting", "2.6.0", "Execute a Lua script server side"),
    spec!(Data EvalshaRo, "evalsha_ro", -3, "readonly noscript stale skip_monitor no_mandatory_keys movablekeys", COUNTED, "scripting", "7.0.0", "Execute a read-only Lua script server side"),
    spec!(Data Script, "script", -2, "write noscript", CODE, "scripting", "2.6.0", "A container for Lua scripts management commands",
        subcommands!["script" "debug" 3, "script" "exists" -3, "script" "flush" -2, "script" "help" 2, "script" "kill" 2, "script" "load" 3]),
    spec!(Data Fcall, "fcall", -3, "write noscript stale skip_monitor may_replicate no_mandatory_keys movablekeys", COUNTED, "scripting", "7.0.0", "Invoke a function"),
    spec!(Data FcallRo, "fcall_ro", -3, "readonly noscript stale skip_monitor no_mandatory_keys movablekeys", COUNTED, "scripting", "7.0.0", "Invoke a read-only function"),
    spec!(Data Function, "function", -2, "write noscript", CODE, "scripting", "7.0.0", "A container for function commands",
        subcommands!["function" "delete" 3, "function" "dump" 2, "function" "flush" -2, "function" "help" 2, "function" "kill" 2, "function" "list" -2,
            "function" "load" -3, "function" "restore" -3, "function" "stats" 2]),
    spec!(Control Once, "hw.once", -3, "noscript fast movablekeys", BEHIND, "transactions", "0.1.0", "Run a command, or inside MULTI the block, once under a number of a session"),
    spec!(Data Session, "hw.session", -2, "write denyoom fast", SESSION, "transactions", "0.1.0", "Open or end a session, which numbers a client's requests",
        subcommands!["hw.session" "new" -2, "hw.session" "end" 3, "hw.session" "help" 2]),
    spec!(Data Outcome, "hw.outcome", -3, "write fast", SESSION, "transactions", "0.1.0", "Tell what became of a numbered request, or see to it that it never happens"),
    spec!(Local Freshness, "hw.freshness", -2, "loading stale fast", NO_DATA, "cluster", "0.1.0", "Say how old a replica's snapshot may be that this connection reads",
        subcommands!["hw.freshness" "within" 3, "hw.freshness" "since" 3, "hw.freshness" "any" 2, "hw.freshness" "help" 2]),
    spec!(Control Call, "hw.call", -2, "noscript write denyoom", PROCEDURE, "transactions", "0.1.0", "Call a procedure by name, as a transaction of its own"),
    spec!(Data Table, "hw.table", -2, "write denyoom", TABLE, "tables", "0.1.0", "Create, drop, list and describe tables of typed keys",
        subcommands!["hw.table" "create" -4, "hw.table" "drop" 3, "hw.table" "list" 2, "hw.table" "describe" 3, "hw.table" "help" 2]),
    spec!(Data HwGet, "hw.get", -3, "readonly fast", TABLE, "tables", "0.1.0", "Get the value of a table's row"),
    spec!(Data HwPut, "hw.put", -4, "write denyoom fast", TABLE, "tables", "0.1.0", "Set a table's row"),
    spec!(Data HwDel, "hw.del", -3, "write fast", TABLE, "tables", "0.1.0", "Delete a table's row"),
    spec!(Data HwRange, "hw.range", -4, "readonly", TABLE, "tables", "0.1.0", "Get a table's rows between two keys, in their order"),
    spec!(Control Begin, "hw.begin", -1, "noscript fast", NO_DATA, "transactions", "0.1.0", "Begin a transaction whose commands are answered one by one"),
    spec!(Control Commit, "hw.commit", 1, "noscript denyoom", NO_DATA, "transactions", "0.1.0", "Commit the transaction that HW.BEGIN began, if every reply in it still holds"),
    spec!(Control Rollback, "hw.rollback", 1, "noscript fast", NO_DATA, "transactions", "0.1.0", "End the transaction that HW.BEGIN began, with nothing done"),
    spec!(Local Procedures, "hw.procedures", -1, "loading stale fast", NO_DATA, "server", "0.1.0", "List the procedures that may be called, with their signatures"),
    spec!(Control Token, "hw.token", 1, "noscript fast", NO_DATA, "cluster", "0.1.0", "Get the moment up to which this connection has seen everything, for HW.FRESHNESS SINCE"),
    spec!(Local Acl, "acl", -2, "noscript loading stale", NO_DATA, "server", "6.0.0", "A container for Access List Control commands",
        subcommands!["acl" "cat" -2, "acl" "deluser" -3, "acl" "dryrun" -4, "acl" "genpass" -2, "acl" "getuser" 3, "acl" "help" 2, "acl" "list" 2, "acl" "load" 2,
            "acl" "log" -2, "acl" "save" 2, "acl" "setuser" -3, "acl" "users" 2, "acl" "whoami" 2]),
    spec!(Local HotKeys, "hw.hotkeys", -1, "admin loading stale", NO_DATA, "server", "0.1.0", "Get the keys at which transactions meet most",
        subcommands!["hw.hotkeys" "reset" 2, "hw.hotkeys" "help" 2]),
    spec!(Data Module, "hw.module", -2, "write denyoom admin noscript", CODE, "scripting", "0.2.0", "Load, unload, list and describe WebAssembly modules",
        subcommands!["hw.module" "load" -4, "hw.module" "unload" 3, "hw.module" "list" 2, "hw.module" "info" 3, "hw.module" "compile" 2, "hw.module" "help" 2]),
    spec!(Data Invoke, "hw.invoke", -2, "write noscript", PROCEDURE, "scripting", "0.2.0", "Call a procedure of a module: what HW.CALL of one becomes"),
    spec!(Data InvokeRo, "hw.call_ro", -2, "readonly noscript", PROCEDURE, "scripting", "0.2.0", "Call a procedure of a module that only reads"),
    spec!(Data DebugObject, "hw.debugobject", 2, "readonly admin", ONE_KEY, "server", "0.2.0", "Tell how a key stands in its row: DEBUG OBJECT"),
    spec!(Local MemoryOf, "hw.memory", -2, "admin", NO_DATA, "server", "0.2.0", "Tell of the node's memory: MEMORY DOCTOR, MALLOC-STATS, PURGE and STATS"),
    spec!(Control Subscribe, "subscribe", -2, "pubsub noscript loading stale", NO_DATA, "pubsub", "2.0.0", "Listen to channels of Redis's sentinels"),
    spec!(Control Psubscribe, "psubscribe", -2, "pubsub noscript loading stale", NO_DATA, "pubsub", "2.0.0", "Listen to channels of Redis's sentinels that match patterns"),
    spec!(Control Unsubscribe, "unsubscribe", -1, "pubsub noscript loading stale", NO_DATA, "pubsub", "2.0.0", "Stop listening to channels"),
    spec!(Control Punsubscribe, "punsubscribe", -1, "pubsub noscript loading stale", NO_DATA, "pubsub", "2.0.0", "Stop listening to channels that match patterns"),
    spec!(Local Lastsave, "lastsave", 1, "loading stale fast", NO_DATA, "server", "1.0.0", "Get the Unix time of the last checkpoint"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_pairs_are_every_second_word() {
        let keys: Vec<usize> = (0..7).filter(|&word| PAIRS.0.contains(word)).collect();
        assert_eq!(keys, [1, 3, 5]);
        assert!(!(0..7).any(|word| NO_DATA.0.contains(word)));
        assert!(ONE_KEY.0.contains(1) && !ONE_KEY.0.contains(2));
    }
}
