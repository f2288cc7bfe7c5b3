//! The documents cannot contradict the code: where prose quotes a constant, it is compared with the source; ports are the
//! same everywhere.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The value of `const NAME: type = value;` in a source file; of `if cfg!(..) { a } else { b }` it is `b`.
fn constant(source: &str, name: &str) -> u64 {
    let text = read(source);
    let defined = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(&format!("const {name}:"))?;
        rest.split_once(" = ")?.1.split(';').next()
    });
    let value = defined.unwrap_or_else(|| panic!("no constant {name} in {source}"));
    let value = value.split_once("else {").map_or(value, |(_, value)| value.trim_end_matches('}'));
    evaluate(value).unwrap_or_else(|| panic!("{source}: {name} = {value} is more than this test can compute"))
}

/// A number, or a shift or product of two.
fn evaluate(text: &str) -> Option<u64> {
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    if let Some((left, right)) = text.split_once("<<") {
        return Some(number(left)? << number(right)?);
    }
    match text.split_once('*') {
        Some((left, right)) => Some(number(left)? * number(right)?),
        None => number(text),
    }
}

/// Words, however the lines are broken.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Document, what it says (`{}` is the number), where the number is from, and by what it is divided.
type Quote = (&'static str, &'static str, &'static str, &'static str, u64);

const QUOTES: &[Quote] = &[
    ("docs/internals/occ.md", "split when {} have overflown", "crates/store/src/hash/mod.rs", "CROWDED", 1),
    ("docs/internals/occ.md", "and it has {} keys", "crates/store/src/hash/mod.rs", "FULL", 1),
    ("docs/internals/occ.md", "segment {} buckets", "crates/store/src/hash/segment.rs", "BUCKETS", 1),
    ("docs/internals/occ.md", "next bits of the hash {}", "crates/store/src/hash/segment.rs", "NEXT_BITS", 1),
    ("docs/internals/occ.md", "{} *fingers* a table", "crates/store/src/tree/finger.rs", "FINGERS", 1),
    (
        "docs/internals/failover.md",
        "chunks of about {} KiB",
        "crates/core/src/limits.rs",
        "CHUNK_BYTES",
        1 << 10,
    ),
    (
        "docs/internals/failover.md",
        "says nothing for {} s is given up",
        "crates/engines/src/rolis/copy.rs",
        "STALL",
        1_000_000_000,
    ),
    (
        "docs/internals/failover.md",
        "longer than {} election timeouts, or whose log",
        "crates/engines/src/rolis/controller.rs",
        "PATIENCE",
        1,
    ),
    (
        "docs/internals/node.md",
        "gets a share of {} KiB of work",
        "crates/node/src/worker/clients.rs",
        "SHARE",
        1 << 10,
    ),
    ("docs/internals/node.md", "and the load's, {} or", "crates/node/src/load/driver.rs", "BUDGET", 1),
    ("docs/internals/node.md", "or {} us,", "crates/node/src/load/driver.rs", "BUDGET_NANOS", 1000),
    (
        "docs/internals/node.md",
        "at most every {} us and without waiting",
        "crates/node/src/worker/mod.rs",
        "LOOK_EVERY",
        1000,
    ),
    (
        "docs/internals/log-format.md",
        "Version {} (`FORMAT_VERSION`",
        "crates/core/src/log/mod.rs",
        "FORMAT_VERSION",
        1,
    ),
    (
        "docs/internals/log-format.md",
        "header ({}) | body",
        "crates/core/src/log/mod.rs",
        "ENTRY_HEADER_BYTES",
        1,
    ),
    ("docs/internals/log-format.md", "claims ({} each)", "crates/core/src/log/mod.rs", "CLAIM_BYTES", 1),
];

#[test]
fn what_prose_quotes_is_what_the_code_says() {
    let mut wrong = Vec::new();
    for (document, sentence, source, name, divisor) in QUOTES {
        let value = constant(source, name);
        assert_eq!(value % divisor, 0, "{name} in {source}");
        let expected = sentence.replace("{}", &(value / divisor).to_string());
        if !words(&read(document)).contains(&expected) {
            wrong.push(format!("{document} should say {expected:?}: {name} in {source}"));
        }
    }
    // Sixteen is written out.
    assert_eq!(constant("crates/store/src/applier.rs", "WINDOW"), 16);
    assert!(words(&read("docs/internals/occ.md")).contains("Sixteen writes are under way at a time"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn quoted_settings_are_the_defaults() {
    let defaults: Vec<(String, String)> = read("crates/node/src/config/default.toml")
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, value)| (key.trim().to_string(), value.trim().to_string()))
        .collect();
    let default = |key: &str| {
        let found = defaults.iter().find(|(name, _)| name == key);
        found.unwrap_or_else(|| panic!("no key {key}")).1.parse::<u64>().unwrap()
    };
    let quotes = [
        ("docs/internals/failover.md", "`timeouts.heartbeat_ms` | {} |", default("heartbeat_ms")),
        (
            "docs/internals/failover.md",
            "`timeouts.election_timeout_ms` | {} |",
            default("election_timeout_ms"),
        ),
        ("docs/internals/failover.md", "a silent leader takes {} to", default("election_timeout_ms")),
        (
            "docs/internals/failover.md",
            "`limits.log_retain_bytes` | {} MiB per stream",
            default("log_retain_bytes") >> 20,
        ),
        ("docs/configuration.md", "up to `batch_delay_us` ({})", default("batch_delay_us")),
        ("docs/configuration.md", "half of `max_entry_bytes` ({})", default("max_entry_bytes")),
        ("docs/configuration.md", "At most `pipeline_entries` ({})", default("pipeline_entries")),
        ("docs/clients.md", "`limits.snapshot_age_us` ({} ms)", default("snapshot_age_us") / 1000),
    ];
    for (document, sentence, value) in quotes {
        let expected = sentence.replace("{}", &value.to_string());
        assert!(words(&read(document)).contains(&expected), "{document} should say {expected:?}");
    }
}

/// Ports: 71xx between nodes, 72xx for clients, 73xx for operators, whatever the document.
#[test]
fn examples_agree_on_ports() {
    let documents =
        ["README.md", "ARCHITECTURE.md", "docs/configuration.md", "docs/clients.md", "docs/guarantees.md"];
    let mut seen = 0;
    for document in documents {
        for line in read(document).lines() {
            let after_host = line.split([' ', '"', '`', '>', '(', ','] as [char; 6]).filter_map(|word| {
                let (host, port) = word.rsplit_once(':')?;
                let addressed = host == "localhost" || host.parse::<std::net::Ipv4Addr>().is_ok();
                addressed.then(|| port.parse::<u16>().ok()).flatten()
            });
            let after_flag =
                line.split_once(" -p ").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
            for port in after_host.chain(after_flag) {
                seen += 1;
                assert!(
                    (7100..7400).contains(&port) && port % 100 < 10,
                    "{document}: port {port} in {line:?}"
                );
            }
            for (key, hundred) in
                [("peer = \"", 71), ("resp = \"", 72), ("admin = \"", 73), (" -p ", 72), ("--admin ", 73)]
            {
                for rest in line.split(key).skip(1) {
                    let value = rest.split(['"', ' ', '`'] as [char; 3]).next().unwrap();
                    if let Ok(port) = value.rsplit_once(':').map_or(value, |(_, port)| port).parse::<u16>() {
                        assert_eq!(port / 100, hundred, "{document}: {line:?}");
                    }
                }
            }
        }
    }
    assert!(seen > 15, "addresses are found: {seen}");
}
