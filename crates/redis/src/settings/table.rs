//! The settings.

use super::value::Value;
use super::{Effect, Now, Setting};
use crate::encodings::{HASH_BYTES, HASH_ENTRIES, SET_ENTRIES, SORTED_SET_BYTES, SORTED_SET_ENTRIES};
use crate::{Door, Redirect};

const FILE: &str = "a node's configuration is its file's: change that, and start the node again";
const NO_FILES: &str = "what is kept on disk is cluster.durability's business, not that of RDB and AOF files";
const NO_EVICTION: &str =
    "nothing is evicted: limits.memory_mb bounds the data, and writes beyond it are refused";
const NO_EVENTS: &str = "nobody can subscribe to events here";
const CLUSTER: &str = "the cluster decides who replicates whom and when a write is answered";
const PASSWORDS: &str = "passwords are the users': ACL SETUSER default >password";
const MOST_BYTES: u64 = i64::MAX as u64;
const MOST_INT: i64 = i32::MAX as i64;

const fn setting(name: &'static str, value: Value, now: Now, effect: Effect) -> Setting {
    Setting { name, alias: None, value, now, effect }
}

const fn kept(name: &'static str, value: Value, now: &'static str) -> Setting {
    setting(name, value, Now::Default(now), Effect::Kept)
}

const fn immutable(name: &'static str, now: &'static str) -> Setting {
    setting(name, Value::Text, Now::Default(now), Effect::Immutable)
}

const fn refused(name: &'static str, value: Value, now: &'static str, why: &'static str) -> Setting {
    setting(name, value, Now::Default(now), Effect::Refused(why))
}

const fn also(alias: &'static str, setting: Setting) -> Setting {
    Setting { alias: Some(alias), ..setting }
}

const fn threshold(
    name: &'static str,
    alias: &'static str,
    most: &'static crate::encodings::Most,
) -> Setting {
    also(alias, setting(name, Value::Memory(0, MOST_BYTES), Now::Default(""), Effect::Threshold(most)))
}

const fn told(name: &'static str, value: Value, tell: fn(&Door) -> String, effect: Effect) -> Setting {
    setting(name, value, Now::Told(tell), effect)
}

/// All of them.
pub static SETTINGS: &[Setting] = &[
    // What works.
    told(
        "slowlog-log-slower-than",
        Value::Integer(-1, i64::MAX),
        |door| door.operations.slower_than_us().map_or_else(|| "-1".into(), |us| us.to_string()),
        Effect::Done(|door, us| door.operations.set_slower_than_us(u64::try_from(us).ok())),
    ),
    told(
        "slowlog-max-len",
        Value::Integer(0, i64::MAX),
        |door| door.operations.most_slow().to_string(),
        Effect::Done(|door, most| {
            door.operations.set_most_slow(usize::try_from(most).unwrap_or(usize::MAX));
        }),
    ),
    told(
        "latency-monitor-threshold",
        Value::Integer(0, i64::MAX),
        |door| door.operations.watched_from_ms().to_string(),
        Effect::Done(|door, ms| door.operations.set_watched_from_ms(ms.unsigned_abs())),
    ),
    told(
        "acllog-max-len",
        Value::Integer(0, MOST_INT),
        |door| door.access.log(|log| log.most()).to_string(),
        Effect::Done(|door, most| door.access.log(|log| log.set_most(most as usize))),
    ),
    kept("latency-tracking", Value::Bool, "yes"),
    kept("latency-tracking-info-percentiles", Value::Percentiles, "50 99 99.9"),
    threshold("hash-max-listpack-entries", "hash-max-ziplist-entries", &HASH_ENTRIES),
    threshold("hash-max-listpack-value", "hash-max-ziplist-value", &HASH_BYTES),
    threshold("zset-max-listpack-entries", "zset-max-ziplist-entries", &SORTED_SET_ENTRIES),
    threshold("zset-max-listpack-value", "zset-max-ziplist-value", &SORTED_SET_BYTES),
    setting(
        "set-max-intset-entries",
        Value::Integer(0, i64::MAX),
        Now::Default(""),
        Effect::Threshold(&SET_ENTRIES),
    ),
    // What changes nothing here.
    also("list-max-ziplist-size", kept("list-max-listpack-size", Value::Integer(-MOST_INT, MOST_INT), "-2")),
    kept("list-compress-depth", Value::Integer(0, MOST_INT), "0"),
    kept("stream-node-max-bytes", Value::Memory(0, MOST_BYTES), "4096"),
    kept("stream-node-max-entries", Value::Integer(0, i64::MAX), "100"),
    kept("hll-sparse-max-bytes", Value::Memory(0, MOST_BYTES), "3000"),
    kept("activerehashing", Value::Bool, "yes"),
    kept("active-expire-effort", Value::Integer(1, 10), "1"),
    kept("lazyfree-lazy-eviction", Value::Bool, "no"),
    kept("lazyfree-lazy-expire", Value::Bool, "no"),
    kept("lazyfree-lazy-server-del", Value::Bool, "no"),
    kept("lazyfree-lazy-user-del", Value::Bool, "no"),
    kept("lazyfree-lazy-user-flush", Value::Bool, "no"),
    also("slave-lazy-flush", kept("replica-lazy-flush", Value::Bool, "no")),
    kept("hz", Value::Integer(0, MOST_INT), "10"),
    kept("dynamic-hz", Value::Bool, "yes"),
    kept("jemalloc-bg-thread", Value::Bool, "yes"),
    kept("maxmemory-samples", Value::Integer(1, MOST_INT), "5"),
    kept("maxmemory-eviction-tenacity", Value::Integer(0, 100), "10"),
    kept("lfu-log-factor", Value::Integer(0, MOST_INT), "10"),
    kept("lfu-decay-time", Value::Integer(0, MOST_INT), "1"),
    kept("sanitize-dump-payload", Value::Choice(&["no", "yes", "clients"]), "no"),
    kept("rdb-key-save-delay", Value::Integer(-MOST_INT, MOST_INT), "0"),
    kept("rdbcompression", Value::Bool, "yes"),
    kept("stop-writes-on-bgsave-error", Value::Bool, "yes"),
    kept("no-appendfsync-on-rewrite", Value::Bool, "no"),
    kept("appendfsync", Value::Choice(&["everysec", "always", "no"]), "everysec"),
    kept("auto-aof-rewrite-percentage", Value::Integer(0, MOST_INT), "100"),
    kept("auto-aof-rewrite-min-size", Value::Memory(0, MOST_BYTES), "67108864"),
    kept("tracking-table-max-keys", Value::Integer(0, i64::MAX), "1000000"),
    // Scripts are ended by bounds of their own, long before others would be told that one runs.
    also("lua-time-limit", kept("busy-reply-threshold", Value::Integer(0, i64::MAX), "5000")),
    // What is as it is.
    told(
        "requirepass",
        Value::Text,
        // Whether there is one. What it is nobody knows: its hash is kept.
        |door| if door.access.default_user().needs_no_password() { "" } else { "********" }.into(),
        Effect::Refused(PASSWORDS),
    ),
    told(
        "maxmemory",
        Value::Memory(0, MOST_BYTES),
        |door| match (door.describe)().memory.1 {
            u64::MAX => "0".into(),
            most => most.to_string(),
        },
        Effect::Refused(NO_EVICTION),
    ),
    refused("maxmemory-policy", Value::Choice(POLICIES), "noeviction", NO_EVICTION),
    refused(
        "maxmemory-clients",
        Value::MemoryOrPercent,
        "0",
        "limits.request_bytes_per_worker and its neighbours bound clients' memory",
    ),
    refused("save", Value::Text, "", NO_FILES),
    refused("appendonly", Value::Bool, "no", NO_FILES),
    refused("notify-keyspace-events", Value::Text, "", NO_EVENTS),
    refused("activedefrag", Value::Bool, "no", "memory is not moved here"),
    also("slaveof", refused("replicaof", Value::Text, "", CLUSTER)),
    refused("masterauth", Value::Text, "", CLUSTER),
    refused("masteruser", Value::Text, "", CLUSTER),
    also("min-slaves-to-write", refused("min-replicas-to-write", Value::Integer(0, MOST_INT), "0", CLUSTER)),
    also("min-slaves-max-lag", refused("min-replicas-max-lag", Value::Integer(0, MOST_INT), "10", CLUSTER)),
    also("slave-serve-stale-data", refused("replica-serve-stale-data", Value::Bool, "yes", CLUSTER)),
    also("slave-read-only", refused("replica-read-only", Value::Bool, "yes", CLUSTER)),
    also("slave-priority", refused("replica-priority", Value::Integer(0, MOST_INT), "100", CLUSTER)),
    told(
        "proto-max-bulk-len",
        Value::Memory(0, MOST_BYTES),
        |_| highwater_core::limits::MAX_VALUE_BYTES.to_string(),
        Effect::Refused("it is a limit of the format of rows"),
    ),
    told(
        "client-query-buffer-limit",
        Value::Memory(0, MOST_BYTES),
        |_| highwater_core::limits::MAX_REQUEST_BYTES.to_string(),
        Effect::Refused("it is a limit of the format of requests"),
    ),
    told(
        "timeout",
        Value::Integer(0, MOST_INT),
        |door| door.operations.idle_timeout_s().to_string(),
        Effect::Refused(FILE),
    ),
    told(
        "maxclients",
        Value::Integer(1, MOST_INT),
        |door| door.operations.most_clients().to_string(),
        Effect::Refused(FILE),
    ),
    refused("loglevel", Value::Choice(&["debug", "verbose", "notice", "warning"]), "notice", FILE),
    told(
        "port",
        Value::Integer(0, 65535),
        |door| {
            door.address(door.node)
                .and_then(|at| Some(at.rsplit_once(':')?.1.to_string()))
                .unwrap_or_else(|| "0".into())
        },
        Effect::Refused(FILE),
    ),
    told(
        "bind",
        Value::Text,
        |door| {
            door.address(door.node)
                .and_then(|at| Some(at.rsplit_once(':')?.0.to_string()))
                .unwrap_or_default()
        },
        Effect::Refused(FILE),
    ),
    told(
        "cluster-enabled",
        Value::Bool,
        |door| if door.redirect == Redirect::Moved { "yes" } else { "no" }.into(),
        Effect::Immutable,
    ),
    immutable("databases", "1"),
    immutable("io-threads", "1"),
    immutable("daemonize", "no"),
    immutable("supervised", "no"),
    immutable("dbfilename", ""),
    immutable("appendfilename", ""),
    immutable("enable-debug-command", "yes"),
    immutable("enable-module-command", "no"),
    immutable("enable-protected-configs", "no"),
];

const POLICIES: &[&str] = &[
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_there_once() {
        let mut names: Vec<_> = SETTINGS.iter().flat_map(Setting::names).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }

    #[test]
    fn defaults_are_what_settings_may_be() {
        for setting in SETTINGS {
            if let Now::Default(text) = setting.now
                && !matches!(setting.effect, Effect::Threshold(_))
            {
                assert_eq!(setting.value.parse(text.as_bytes()).as_deref(), Ok(text), "{}", setting.name);
            }
        }
    }
}
