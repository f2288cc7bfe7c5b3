//! The documents cannot contradict the code: what a link names exists, a number with a link to a constant is that constant,
//! tags are those of the decoders, ports are the same everywhere.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "documents/constants.rs"]
mod constants;
#[path = "documents/links.rs"]
mod links;
#[path = "planted/lists.rs"]
mod lists;

use std::fs;
use std::path::{Path, PathBuf};

use constants::{constant, quoted};
use links::{documents, links};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Words, however the lines are broken.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn links_lead_to_what_they_name() {
    let all: Vec<_> = documents().iter().flat_map(|document| links(document)).collect();
    let items = all.iter().filter(|link| link.item().is_some()).count();
    assert!(all.len() > 150 && items > 80, "links are found: {}, {items} of them to items", all.len());
    let faults: Vec<_> = all.iter().filter_map(|link| link.fault()).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Paths in backquotes that begin at the root. A module's may lack the `.rs`: it is a file or a folder.
#[test]
fn named_paths_exist() {
    let (mut seen, mut missing) = (0, Vec::new());
    for document in documents().iter().filter(|document| *document != "CHANGELOG.md") {
        let text = read(document);
        let spans = text.split('`').skip(1).step_by(2).filter(|span| span.starts_with("crates/"));
        // `NAME` stands for any.
        for span in spans.filter(|span| !span.contains("NAME")) {
            let path = span.split([' ', ':', '*', '{', '<']).next().unwrap();
            seen += 1;
            if !root().join(path).exists() && !root().join(format!("{path}.rs")).exists() {
                missing.push(format!("{document}: there is no {path}"));
            }
        }
    }
    assert!(seen > 30, "paths are found: {seen}");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The tour is for walking: each stop names something in the source.
#[test]
fn the_tour_has_its_stops() {
    let text = read("docs/tour.md");
    let stops: Vec<_> = text.split("\n### ").skip(1).collect();
    assert_eq!(stops.len(), 15 + 10);
    for stop in stops {
        let title = stop.lines().next().unwrap();
        assert!(stop.contains(".rs)"), "{title}: no link");
    }
}

#[test]
fn numbers_with_a_link_are_what_the_code_says() {
    let quotes: Vec<_> =
        documents().iter().flat_map(|document| links(document)).filter_map(|link| quoted(&link)).collect();
    assert!(quotes.len() > 60, "quotes are found: {}", quotes.len());
    let wrong: Vec<_> = quotes.into_iter().filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Document, what it says (`{}` is the number), where the number is from.
type Quote = (&'static str, &'static str, &'static str, &'static str);

/// In blocks of code, where there are no links.
const QUOTES: &[Quote] = &[
    ("docs/internals/occ.md", "split when {} have overflown", "crates/store/src/hash/mod.rs", "CROWDED"),
    ("docs/internals/occ.md", "and it has {} keys", "crates/store/src/hash/mod.rs", "FULL"),
    ("docs/internals/occ.md", "segment {} buckets", "crates/store/src/hash/segment.rs", "BUCKETS"),
    ("docs/internals/occ.md", "next bits of the hash {}", "crates/store/src/hash/segment.rs", "NEXT_BITS"),
    ("docs/internals/log-format.md", "header ({}) | body", LOG, "ENTRY_HEADER_BYTES"),
    ("docs/internals/log-format.md", "claims ({} each)", LOG, "CLAIM_BYTES"),
    ("docs/internals/log-format.md", "version u8 {}", LOG, "FORMAT_VERSION"),
    ("docs/internals/log-format.md", "bits 0-1 {} put,", LOG, "OP_PUT"),
    ("docs/internals/log-format.md", " {} delete,", LOG, "OP_DELETE"),
    ("docs/internals/log-format.md", " {} superseded put,", LOG, "OP_SUPERSEDED"),
    ("docs/internals/log-format.md", "its length if below {}; {}:", LOG, "LONG_KEY"),
    (LOG, "bits 0-1: op ({} put,", LOG, "OP_PUT"),
    (LOG, " {} delete,", LOG, "OP_DELETE"),
    (LOG, " {} superseded put,", LOG, "OP_SUPERSEDED"),
    (LOG, "its length, or {} and then a varint", LOG, "LONG_KEY"),
    ("docs/internals/checkpoint.md", "header ({}) | chunks", CHECKPOINT, "PART_HEADER_BYTES"),
    ("docs/internals/checkpoint.md", "| footer ({})", CHECKPOINT, "FOOTER_BYTES"),
    ("docs/internals/checkpoint.md", "\"HWCKPART\" 8 version u16 {}", CHECKPOINT, "FORMAT_VERSION"),
    ("docs/internals/checkpoint.md", "\"HWCKMANI\" 8 version u16 {}", CHECKPOINT, "FORMAT_VERSION"),
    ("docs/internals/checkpoint.md", "Format {} (", CHECKPOINT, "FORMAT_VERSION"),
    (
        "docs/internals/checkpoint.md",
        "16 number u64 24 floor u64 32 complete_at u64 {} tables",
        MANIFEST,
        "HEAD_BYTES",
    ),
    ("docs/internals/journal.md", "| segment head ({}) |", JOURNAL, "BLOCK_BYTES"),
    (
        "docs/internals/journal.md",
        "group head ({}) | records | zeros up to a multiple",
        JOURNAL,
        "GROUP_HEAD_BYTES",
    ),
    ("docs/internals/journal.md", "zeros up to a multiple of {}", JOURNAL, "BLOCK_BYTES"),
    ("docs/internals/journal.md", "\"HWJOURNL\" 8 version u32 {}", JOURNAL, "FORMAT_VERSION"),
    ("docs/internals/journal.md", "writers u64 1 to {}", JOURNAL, "MAX_WRITERS"),
    (JOURNAL, "writers u64 1 to {}", JOURNAL, "MAX_WRITERS"),
    ("docs/internals/journal.md", "\"HWIDENTY\" 8 version u32 {}", IDENTITY, "FORMAT_VERSION"),
    ("docs/internals/journal.md", "{} cluster the cluster's id", IDENTITY, "HEAD_BYTES"),
    ("docs/internals/journal.md", "UTF-8, at most {} bytes", IDENTITY, "MAX_CLUSTER_BYTES"),
    ("docs/internals/node.md", "reason ({})", HANDSHAKE, "REASON_BYTES"),
    ("docs/internals/node.md", "{} bytes welcome", HANDSHAKE, "HELLO_BYTES"),
    ("docs/internals/node.md", "{} bytes frame", HANDSHAKE, "WELCOME_BYTES"),
];
const CHECKPOINT: &str = "crates/disk/src/checkpoint/format.rs";
const MANIFEST: &str = "crates/disk/src/checkpoint/manifest.rs";
const JOURNAL: &str = "crates/disk/src/journal/format.rs";
const IDENTITY: &str = "crates/disk/src/identity.rs";
const LOG: &str = "crates/core/src/log/mod.rs";
const HANDSHAKE: &str = "crates/node/src/transport/handshake/mod.rs";

#[test]
fn blocks_of_code_quote_what_the_code_says() {
    let mut wrong = Vec::new();
    for (document, sentence, source, name) in QUOTES {
        let expected = sentence.replace("{}", &constant(source, name).to_string());
        if !words(&read(document)).contains(&expected) {
            wrong.push(format!("{document} should say {expected:?}: {name} in {source}"));
        }
    }
    // The one operation without a constant of its own.
    let both = constant(LOG, "OP_DELETE") | constant(LOG, "OP_SUPERSEDED");
    for document in ["docs/internals/log-format.md", LOG] {
        assert!(words(&read(document)).contains(&format!("{both} superseded delete")), "{document}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Once: prose quoted constants that had changed (keys of a segment, fingers, chunks under way, who donates, timer slack)
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
        ("docs/internals/watermark.md", "after `batching.batch_delay_us` ({})", default("batch_delay_us")),
        ("docs/configuration.md", "up to `batch_delay_us` ({})", default("batch_delay_us")),
        ("docs/configuration.md", "half of `max_entry_bytes` ({})", default("max_entry_bytes")),
        ("docs/configuration.md", "At most `pipeline_entries` ({})", default("pipeline_entries")),
        ("docs/clients.md", "`engines.rolis.snapshot_age_us` ({} ms)", default("snapshot_age_us") / 1000),
    ];
    for (document, sentence, value) in quotes {
        let expected = sentence.replace("{}", &value.to_string());
        assert!(words(&read(document)).contains(&expected), "{document} should say {expected:?}");
    }
}

/// How many mistakes there are to plant, and how many of them `.ci/deep` plants.
#[test]
fn planted_bugs_are_counted() {
    let all = lists::names().len();
    let script = read(".ci/deep").replace("\\\n", "");
    let (_, only) = script.split_once("ONLY=").unwrap();
    let some = only.split_whitespace().next().unwrap().split(',').count();
    for (document, sentence) in [
        ("docs/testing.md", format!("made on purpose: {all} switches")),
        ("docs/testing.md", format!("in .ci/deep {some} of the {all}")),
        ("CONTRIBUTING.md", format!("{some} of the planted bugs")),
    ] {
        assert!(words(&read(document)).contains(&sentence), "{document} should say {sentence:?}");
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

/// Errors' first words are what clients decide by: the page has all of them, and no other.
#[test]
fn every_error_has_a_row() {
    let mut words = std::collections::BTreeSet::new();
    for path in [
        "crates/redis/src/errors/command.rs",
        "crates/redis/src/errors/request.rs",
        "crates/redis/src/errors/texts.rs",
        "crates/redis/src/endings.rs",
        "crates/redis/src/modules/mod.rs",
        "crates/kit/src/sessions/mod.rs",
        "crates/engine-rolis/src/reads/bounded.rs",
    ] {
        for literal in read(path).split('"').skip(1).step_by(2) {
            let word = literal.split(' ').next().unwrap_or_default();
            let capital = word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
            if capital && literal.len() > word.len() {
                words.insert(word.to_string());
            }
        }
    }
    let page = read("docs/errors.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let rows: std::collections::BTreeSet<_> = rows.map(str::to_string).collect();
    assert!(rows.len() > 20, "rows are found: {rows:?}");
    assert_eq!(words, rows, "first words in the code, and on the page");
}
