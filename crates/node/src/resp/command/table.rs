//! The rows.

use super::{Command, Control, Data, Keys, Local, Spec, Subcommand};

const NO_KEYS: Keys = Keys { first: 0, last: 0, step: 0 };
const ONE_KEY: Keys = Keys { first: 1, last: 1, step: 1 };
const ALL_KEYS: Keys = Keys { first: 1, last: -1, step: 1 };
const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };
const TWO_KEYS: Keys = Keys { first: 1, last: 2, step: 1 };

const fn keys(first: i8, last: i8, step: i8) -> Keys {
    Keys { first, last, step }
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
            keys: $keys,
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

/// All rows; the position is the [`Opcode`].
#[rustfmt::skip]
pub static COMMANDS: &[Spec] = &[
    spec!(Data Get, "get", 2, "readonly fast", ONE_KEY, "string", "1.0.0", "Get the value of a key"),
    spec!(Data Set, "set", -3, "write denyoom", ONE_KEY, "string", "1.0.0", "Set the string value of a key"),
    spec!(Data Incr, "incr", 2, "write denyoom fast", ONE_KEY, "string", "1.0.0", "Increment the integer value of a key by one"),
    spec!(Data Del, "del", -2, "write", ALL_KEYS, "generic", "1.0.0", "Delete a key"),
    spec!(Control Multi, "multi", 1, CONTROL_FLAGS, NO_KEYS, "transactions", "1.2.0", "Mark the start of a transaction block"),
    spec!(Control Exec, "exec", 1, "noscript loading stale skip_slowlog", NO_KEYS, "transactions", "1.2.0", "Execute all commands issued after MULTI"),
    spec!(Control Watch, "watch", -2, CONTROL_FLAGS, ALL_KEYS, "transactions", "2.2.0", "Watch the given keys to determine execution of the MULTI/EXEC block"),
    spec!(Control Unwatch, "unwatch", 1, CONTROL_FLAGS, NO_KEYS, "transactions", "2.2.0", "Forget about all watched keys"),
    spec!(Control Discard, "discard", 1, CONTROL_FLAGS, NO_KEYS, "transactions", "2.0.0", "Discard all commands issued after MULTI"),
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
    spec!(Data Scan, "scan", -2, "readonly", NO_KEYS, "generic", "2.8.0", "Incrementally iterate the keys space"),
    spec!(Data Keys, "keys", 2, "readonly", NO_KEYS, "generic", "1.0.0", "Find all keys matching the given pattern"),
    spec!(Data Randomkey, "randomkey", 1, "readonly", NO_KEYS, "generic", "1.0.0", "Return a random key from the keyspace"),
    spec!(Data Dbsize, "dbsize", 1, "readonly fast", NO_KEYS, "server", "1.0.0", "Return the number of keys in the selected database"),
    spec!(Data Flushdb, "flushdb", -1, "write", NO_KEYS, "server", "1.0.0", "Remove all keys from the current database"),
    spec!(Data Flushall, "flushall", -1, "write", NO_KEYS, "server", "1.0.0", "Remove all keys from all databases"),
    spec!(Data Object, "object", -2, "readonly", NO_KEYS, "generic", "2.2.3", "A container for object introspection commands",
        subcommands!["object" "encoding" 3, "object" "freq" 3, "object" "help" 2, "object" "idletime" 3, "object" "refcount" 3]),
    spec!(Data Memory, "memory", -2, "readonly", NO_KEYS, "server", "4.0.0", "A container for memory diagnostics commands",
        subcommands!["memory" "usage" -3, "memory" "help" 2]),
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
    spec!(Data Sintercard, "sintercard", -3, "readonly movablekeys", NO_KEYS, "set", "7.0.0", "Intersect multiple sets and return the cardinality of the result"),
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
    spec!(Data Lmpop, "lmpop", -4, "write movablekeys", NO_KEYS, "list", "7.0.0", "Pop elements from a list"),
    spec!(Data Zadd, "zadd", -4, "write denyoom fast", ONE_KEY, "sorted-set", "1.2.0", "Add one or more members to a sorted set, or update its score if it already exists"),
    spec!(Data Zrem, "zrem", -3, "write fast", ONE_KEY, "sorted-set", "1.2.0", "Remove one or more members from a sorted set"),
    spec!(Data Zscore, "zscore", 3, "readonly fast", ONE_KEY, "sorted-set", "1.2.0", "Get the score associated with the given member in a sorted set"),
    spec!(Data Zmscore, "zmscore", -3, "readonly fast", ONE_KEY, "sorted-set", "6.2.0", "Get the score associated with the given members in a sorted set"),
    spec!(Data Zincrby, "zincrby", 4, "write denyoom fast", ONE_KEY, "sorted-set", "1.2.0", "Increment the score of a member in a sorted set"),
    spec!(Data Zcard, "zcard", 2, "readonly fast", ONE_KEY, "sorted-set", "1.2.0", "Get the number of members in a sorted set"),
    spec!(Data Zrandmember, "zrandmember", -2, "readonly", ONE_KEY, "sorted-set", "6.2.0", "Get one or multiple random elements from a sorted set"),
    spec!(Data Zscan, "zscan", -3, "readonly", ONE_KEY, "sorted-set", "2.8.0", "Incrementally iterate sorted sets elements and associated scores"),
    spec!(Data Zmpop, "zmpop", -4, "write movablekeys", NO_KEYS, "sorted-set", "7.0.0", "Remove and return members with scores in a sorted set"),
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
    spec!(Data Zunion, "zunion", -3, "readonly movablekeys", NO_KEYS, "sorted-set", "6.2.0", "Add multiple sorted sets"),
    spec!(Data Zunionstore, "zunionstore", -4, "write denyoom movablekeys", ONE_KEY, "sorted-set", "2.0.0", "Add multiple sorted sets and store the resulting sorted set in a new key"),
    spec!(Data Zinter, "zinter", -3, "readonly movablekeys", NO_KEYS, "sorted-set", "6.2.0", "Intersect multiple sorted sets"),
    spec!(Data Zinterstore, "zinterstore", -4, "write denyoom movablekeys", ONE_KEY, "sorted-set", "2.0.0", "Intersect multiple sorted sets and store the resulting sorted set in a new key"),
    spec!(Data Zdiff, "zdiff", -3, "readonly movablekeys", NO_KEYS, "sorted-set", "6.2.0", "Subtract multiple sorted sets"),
    spec!(Data Zdiffstore, "zdiffstore", -4, "write denyoom movablekeys", ONE_KEY, "sorted-set", "6.2.0", "Subtract multiple sorted sets and store the resulting sorted set in a new key"),
    spec!(Data Zintercard, "zintercard", -3, "readonly movablekeys", NO_KEYS, "sorted-set", "7.0.0", "Intersect multiple sorted sets and return the cardinality of the result"),
    spec!(Data Blpop, "blpop", -3, "write noscript blocking", keys(1, -2, 1), "list", "2.0.0", "Remove and get the first element in a list, or block until one is available"),
    spec!(Data Brpop, "brpop", -3, "write noscript blocking", keys(1, -2, 1), "list", "2.0.0", "Remove and get the last element in a list, or block until one is available"),
    spec!(Data Bzpopmin, "bzpopmin", -3, "write noscript blocking fast", keys(1, -2, 1), "sorted-set", "5.0.0", "Remove and return the member with the lowest score from one or more sorted sets, or block until one is available"),
    spec!(Data Bzpopmax, "bzpopmax", -3, "write noscript blocking fast", keys(1, -2, 1), "sorted-set", "5.0.0", "Remove and return the member with the highest score from one or more sorted sets, or block until one is available"),
    spec!(Data Blmove, "blmove", 6, "write denyoom noscript blocking", TWO_KEYS, "list", "6.2.0", "Pop an element from a list, push it to another list and return it; or block until one is available"),
    spec!(Data Brpoplpush, "brpoplpush", 4, "write denyoom noscript blocking", TWO_KEYS, "list", "2.2.0", "Pop an element from a list, push it to another list and return it; or block until one is available"),
    spec!(Data Blmpop, "blmpop", -5, "write blocking movablekeys", NO_KEYS, "list", "7.0.0", "Pop elements from a list, or block until one is available"),
    spec!(Data Bzmpop, "bzmpop", -5, "write blocking movablekeys", NO_KEYS, "sorted-set", "7.0.0", "Remove and return members with scores in a sorted set or block until one is available"),
    spec!(Local Ping, "ping", -1, "fast", NO_KEYS, "connection", "1.0.0", "Ping the server"),
    spec!(Local Echo, "echo", 2, "loading stale fast", NO_KEYS, "connection", "1.0.0", "Echo the given string"),
    spec!(Local Hello, "hello", -1, "noscript loading stale fast no_auth allow_busy", NO_KEYS, "connection", "6.0.0", "Handshake with Redis"),
    spec!(Local Select, "select", 2, "loading stale fast", NO_KEYS, "connection", "1.0.0", "Change the selected database for the current connection"),
    spec!(Local Auth, "auth", -2, "noscript loading stale fast no_auth allow_busy", NO_KEYS, "connection", "1.0.0", "Authenticate to the server"),
    spec!(Local Client, "client", -2, "noscript loading stale", NO_KEYS, "connection", "2.4.0", "A container for client connection commands",
        subcommands!["client" "id" 2, "client" "info" 2, "client" "getredir" 2, "client" "no-evict" 3, "client" "getname" 2, "client" "setname" 3, "client" "setinfo" 4, "client" "help" 2]),
    spec!(Local Command, "command", -1, "loading stale", NO_KEYS, "server", "2.8.13", "Get array of Redis command details",
        subcommands!["command" "count" 2, "command" "info" -2, "command" "docs" -2, "command" "list" -2, "command" "getkeys" -3, "command" "help" 2]),
    spec!(Local Info, "info", -1, "loading stale", NO_KEYS, "server", "1.0.0", "Get information and statistics about the server"),
    spec!(Local Config, "config", -2, "loading", NO_KEYS, "server", "2.0.0", "A container for server configuration commands",
        subcommands!["config" "get" -3, "config" "help" 2, "config" "resetstat" 2, "config" "rewrite" 2, "config" "set" -4]),
    spec!(Local Time, "time", 1, "loading stale fast", NO_KEYS, "server", "2.6.0", "Return the current server time"),
    spec!(Local Role, "role", 1, "noscript loading stale fast", NO_KEYS, "server", "2.8.12", "Return the role of the instance in the context of replication"),
    spec!(Local Wait, "wait", 3, "noscript", NO_KEYS, "generic", "3.0.0", "Wait for the synchronous replication of all the write commands sent in the context of the current connection"),
    spec!(Local Slowlog, "slowlog", -2, "loading", NO_KEYS, "server", "2.2.12", "A container for slow log commands",
        subcommands!["slowlog" "get" -2, "slowlog" "help" 2, "slowlog" "len" 2, "slowlog" "reset" 2]),
    spec!(Local Latency, "latency", -2, "loading", NO_KEYS, "server", "2.8.13", "A container for latency diagnostics commands",
        subcommands!["latency" "doctor" 2, "latency" "help" 2, "latency" "histogram" -2, "latency" "history" 3, "latency" "latest" 2, "latency" "reset" -2]),
    spec!(Control Reset, "reset", 1, "noscript loading stale fast no_auth allow_busy", NO_KEYS, "connection", "6.2.0", "Reset the connection"),
    spec!(Local Readonly, "readonly", 1, "loading stale fast", NO_KEYS, "cluster", "3.0.0", "Let the reads of this connection run on a replica's snapshot"),
    spec!(Local Readwrite, "readwrite", 1, "loading stale fast", NO_KEYS, "cluster", "3.0.0", "Send the reads of this connection to the leader again"),
    spec!(Control Quit, "quit", -1, "allow_busy noscript loading stale fast no_auth", NO_KEYS, "connection", "1.0.0", "Close the connection"),
    spec!(Control Once, "hw.once", -3, "noscript fast", NO_KEYS, "transactions", "0.1.0", "Run a command, or inside MULTI the block, once under a number of a session"),
    spec!(Data Session, "hw.session", -2, "write denyoom fast", NO_KEYS, "transactions", "0.1.0", "Open or end a session, which numbers a client's requests",
        subcommands!["hw.session" "new" -2, "hw.session" "end" 3, "hw.session" "help" 2]),
    spec!(Data Outcome, "hw.outcome", -3, "write fast", NO_KEYS, "transactions", "0.1.0", "Tell what became of a numbered request, or see to it that it never happens"),
    spec!(Local Freshness, "hw.freshness", -2, "loading stale fast", NO_KEYS, "cluster", "0.1.0", "Say how old a replica's snapshot may be that this connection reads",
        subcommands!["hw.freshness" "within" 3, "hw.freshness" "since" 3, "hw.freshness" "any" 2, "hw.freshness" "help" 2]),
    spec!(Control Call, "hw.call", -2, "noscript denyoom", NO_KEYS, "transactions", "0.1.0", "Call a procedure by name, as a transaction of its own"),
    spec!(Local Procedures, "hw.procedures", -1, "loading stale fast", NO_KEYS, "server", "0.1.0", "List the procedures that may be called, with their signatures"),
    spec!(Control Token, "hw.token", 1, "noscript fast", NO_KEYS, "cluster", "0.1.0", "Get the moment up to which this connection has seen everything, for HW.FRESHNESS SINCE"),
    spec!(Local Acl, "acl", -2, "noscript loading stale", NO_KEYS, "server", "6.0.0", "A container for Access List Control commands",
        subcommands!["acl" "cat" -2, "acl" "deluser" -3, "acl" "dryrun" -4, "acl" "genpass" -2, "acl" "getuser" 3, "acl" "help" 2, "acl" "list" 2, "acl" "load" 2,
            "acl" "log" -2, "acl" "save" 2, "acl" "setuser" -3, "acl" "users" 2, "acl" "whoami" 2]),
    spec!(Local HotKeys, "hw.hotkeys", -1, "loading stale", NO_KEYS, "server", "0.1.0", "Get the keys at which transactions meet most",
        subcommands!["hw.hotkeys" "reset" 2, "hw.hotkeys" "help" 2]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_pairs_are_every_second_word() {
        let keys: Vec<usize> = (0..7).filter(|&word| PAIRS.contains(word)).collect();
        assert_eq!(keys, [1, 3, 5]);
        assert!(!(0..7).any(|word| NO_KEYS.contains(word)));
        assert!(ONE_KEY.contains(1) && !ONE_KEY.contains(2));
    }
}
