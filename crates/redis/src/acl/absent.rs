//! Commands of Redis 7 that this build does not offer. Rules may name them, so that lines and files of users that were written for Redis are
//! taken: what does not exist harms nobody, allowed or denied. Such a rule is kept and told, and counts in a build that has the command.

/// As Redis 7.0.15 lists them, and what 7.2 and 7.4 have added.
#[rustfmt::skip]
static NAMES: &[&str] = &[
    "asking", "dump", "geoadd", "geodist", "geohash", "geopos", "georadius", "georadius_ro",
    "georadiusbymember", "georadiusbymember_ro", "geosearch", "geosearchstore", "hexpire", "hexpireat",
    "hexpiretime", "hpersist", "hpexpire", "hpexpireat", "hpexpiretime", "hpttl", "httl",
    "latency|graph", "lcs", "migrate", "module", "module|help", "module|list", "module|load",
    "module|loadex", "module|unload", "move", "pfadd", "pfcount", "pfdebug", "pfmerge", "pfselftest",
    "psync", "publish", "pubsub", "pubsub|channels", "pubsub|help", "pubsub|numpat",
    "pubsub|numsub", "pubsub|shardchannels", "pubsub|shardnumsub", "replconf",
    "restore", "restore-asking", "sort", "sort_ro", "spublish", "ssubscribe",
    "sunsubscribe", "sync", "waitaof", "xack", "xadd", "xautoclaim", "xclaim", "xdel",
    "xgroup", "xgroup|create", "xgroup|createconsumer", "xgroup|delconsumer", "xgroup|destroy",
    "xgroup|help", "xgroup|setid", "xinfo", "xinfo|consumers", "xinfo|groups", "xinfo|help",
    "xinfo|stream", "xlen", "xpending", "xrange", "xread", "xreadgroup", "xrevrange", "xsetid", "xtrim",
];

/// Whether a rule may name this, in small letters: a command, a subcommand behind `|`, or of what has no subcommands a first word that is
/// allowed.
pub fn is_known(name: &str, allow: bool) -> bool {
    if NAMES.contains(&name) {
        return true;
    }
    let Some((command, word)) = name.split_once('|') else { return false };
    let has_subcommands =
        NAMES.iter().any(|known| known.split('|').nth(1).is_some() && known.starts_with(command));
    allow && NAMES.contains(&command) && !has_subcommands && !word.is_empty() && !word.contains('|')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::server::find;

    #[test]
    fn what_is_absent_is_not_offered() {
        for name in NAMES {
            assert!(find(name.as_bytes()).is_none(), "{name}");
            assert!(is_known(name, true) && is_known(name, false));
        }
    }

    #[test]
    fn nonsense_stays_unknown() {
        for name in [
            "",
            "|",
            "x",
            "xadd2",
            "xgroup|",
            "xgroup|nothing",
            "xgroup|create|a",
            "xadd|",
            "xadd|a|b",
            "get|a",
            "XADD",
        ] {
            assert!(!is_known(name, true), "{name}");
        }
        assert!(is_known("xadd|a", true) && !is_known("xadd|a", false));
    }
}
