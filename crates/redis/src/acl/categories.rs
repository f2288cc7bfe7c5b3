//! Categories of commands, as Redis 7.0 derives them from flags and groups, and where it says otherwise.

use super::ids::Named;
use crate::command::{Spec, Subcommand, facts};

/// All names, in Redis's order, and behind them ours; a category's bit is its place here.
pub const NAMES: [&str; 22] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
    "table",
];

/// A set of categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    /// One, by its name in letters of any size.
    pub fn find(name: &[u8]) -> Option<Categories> {
        let at = NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))?;
        Some(Categories(1 << at))
    }

    /// Those of a command or subcommand.
    pub fn of(named: &Named) -> Categories {
        let mut found = Categories(0);
        match named.sub {
            None => of_command(named.spec, &mut found),
            Some(sub) => of_subcommand(named.spec, sub, &mut found),
        }
        if !found.has("fast") {
            found.add("slow");
        }
        if found.has("admin") {
            found.add("dangerous");
        }
        found
    }

    /// Whether it has some of those.
    pub fn meets(self, others: Categories) -> bool {
        self.0 & others.0 != 0
    }

    /// The names of those in it.
    pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        NAMES.into_iter().enumerate().filter(move |(at, _)| self.0 >> at & 1 == 1).map(|(_, name)| name)
    }

    fn has(self, name: &str) -> bool {
        Categories::find(name.as_bytes()).is_some_and(|wanted| self.meets(wanted))
    }

    fn add(&mut self, name: &str) {
        self.0 |= Categories::find(name.as_bytes()).expect("only names of the list are added").0;
    }
}

/// Commands of a group that says nothing of what they are.
const DANGEROUS: [&str; 6] = ["keys", "flushdb", "flushall", "info", "swapdb", "lastsave"];

fn of_command(spec: &Spec, found: &mut Categories) {
    // Redis has nothing to say of a command that is nothing without its second word.
    if is_container(spec) || spec.name == "hw.keysinslot" {
        // The latter is looked at as `CLUSTER GETKEYSINSLOT`, which has no category either.
        return;
    }
    let group = match (spec.name, spec.group) {
        ("wait" | "command", _) => Some("connection"),
        ("dbsize" | "flushdb" | "flushall", _) => Some("keyspace"),
        (_, "generic") => Some("keyspace"),
        (_, "sorted-set") => Some("sortedset"),
        (_, "transactions") => Some("transaction"),
        (_, "cluster") => Some("connection"),
        (_, "tables") => Some("table"),
        (_, group) => NAMES.into_iter().find(|known| *known == group),
    };
    group.into_iter().for_each(|group| found.add(group));
    for (flag, category) in [
        ("write", "write"),
        ("readonly", "read"),
        ("admin", "admin"),
        ("fast", "fast"),
        ("blocking", "blocking"),
    ] {
        // A script is neither: what it calls is.
        if spec.has_flag(flag) && !(matches!(flag, "readonly" | "write") && spec.group == "scripting") {
            found.add(category);
        }
    }
    // Refused to all, or of no use to any; their categories are Redis's.
    match spec.name {
        "role" | "lastsave" => found.add("admin"),
        "lolwut" => found.add("read"),
        "swapdb" => ["keyspace", "write"].into_iter().for_each(|name| found.add(name)),
        _ => {}
    }
    if DANGEROUS.contains(&spec.name) {
        found.add("dangerous");
    }
}

fn of_subcommand(spec: &Spec, of: &Subcommand, found: &mut Categories) {
    let sub = of.name;
    let help = sub == "help";
    match spec.name {
        "object" => {
            found.add("keyspace");
            if !help {
                found.add("read");
            }
        }
        "memory" if sub == "usage" => found.add("read"),
        "client" | "command" => {
            found.add("connection");
            let admins = ["no-evict", "kill", "list", "pause", "unpause", "unblock"];
            if spec.name == "client" && admins.contains(&sub) {
                found.add("admin");
            }
        }
        // Unlike in Redis, `+@connection` gives a client of its libraries what they ask of the cluster; but no word of its keys.
        "cluster" if facts::of_subcommand(of).is_some_and(|(flags, ..)| flags.contains("admin")) => {
            found.add("admin");
        }
        "cluster" if help || sub == "countkeysinslot" || sub == "getkeysinslot" => {}
        "cluster" | "sentinel" => found.add("connection"),
        "config" | "slowlog" | "latency" if !help => found.add("admin"),
        "acl" if !help && !["cat", "genpass", "whoami"].contains(&sub) => found.add("admin"),
        "memory" | "config" | "slowlog" | "latency" | "acl" => {}
        "hw.table" => {
            found.add("table");
            match sub {
                "list" | "describe" => found.add("read"),
                "create" => found.add("write"),
                // All of its rows go, as with `FLUSHALL`.
                "drop" => ["write", "dangerous"].into_iter().for_each(|name| found.add(name)),
                _ => {}
            }
        }
        "script" | "function" => {
            found.add("scripting");
            if spec.name == "function" && ["delete", "flush", "load", "restore"].contains(&sub) {
                found.add("write");
            }
        }
        _ => of_command(spec, found),
    }
}

/// Whether it only says which family its second word is of.
fn is_container(spec: &Spec) -> bool {
    const CONTAINERS: [&str; 12] = [
        "cluster", "sentinel", "object", "memory", "client", "config", "slowlog", "latency", "acl", "script",
        "function", "hw.table",
    ];
    CONTAINERS.contains(&spec.name)
}
