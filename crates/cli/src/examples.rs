//! Every command that the documents and `--help` show is one that this binary understands.

use clap::{CommandFactory, Parser};
use highwater_node::Config;

use crate::args::Cli;

const DOCUMENTS: [(&str, &str); 8] = [
    ("README.md", include_str!("../../../README.md")),
    ("docs/configuration.md", include_str!("../../../docs/configuration.md")),
    ("docs/clients.md", include_str!("../../../docs/clients.md")),
    ("docs/testing.md", include_str!("../../../docs/testing.md")),
    ("docs/guarantees.md", include_str!("../../../docs/guarantees.md")),
    ("docs/bugs.md", include_str!("../../../docs/bugs.md")),
    ("docs/history-format.md", include_str!("../../../docs/history-format.md")),
    ("ARCHITECTURE.md", include_str!("../../../ARCHITECTURE.md")),
];

/// The examples of a command and of those below it.
fn of_help(command: &clap::Command, found: &mut Vec<String>) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    found.extend(help.lines().map(str::trim).filter(|line| line.starts_with("highwater ")).map(Into::into));
    command.get_subcommands().for_each(|below| of_help(below, found));
}

/// Lines of code, and code within lines.
fn of_document(text: &str, found: &mut Vec<String>) {
    for line in text.lines() {
        let command = line.trim_start().trim_start_matches("$ ");
        let ours = command.strip_prefix("cargo run --release -- ").map(|rest| format!("highwater {rest}"));
        let ours = ours.or_else(|| command.starts_with("highwater ").then(|| command.to_string()));
        if let Some(ours) = ours.filter(|_| !line.contains('`')) {
            found.push(ours);
        }
        let inline = line.split('`').skip(1).step_by(2).filter(|code| code.starts_with("highwater "));
        // One word names the command and shows no use of it; capitals stand for something.
        let used = inline.filter(|code| code.contains(" -") && !code.split(' ').any(is_placeholder));
        found.extend(used.map(Into::into));
    }
}

fn is_placeholder(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '.')
}

/// The commands of ours in a line of shell, in words.
fn commands(line: &str) -> Vec<Vec<&str>> {
    // What follows a comment sign, or a wide gap, explains.
    let line = line.split(" #").next().unwrap_or(line);
    let line = line.split("   ").next().unwrap_or(line);
    let parts = line.split(['&', '|', ';']).map(|part| part.split('>').next().unwrap_or(part));
    let words = parts.map(|part| part.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| words.first() == Some(&"highwater")).collect()
}

/// Once: the example in `serve --help` could not run (`workers` is `cluster.workers`; the default config has no node 1);
/// examples named three different ports.
#[test]
fn every_documented_command_is_understood() {
    let mut found = Vec::new();
    of_help(&Cli::command(), &mut found);
    let of_help = found.len();
    for (_, text) in DOCUMENTS {
        of_document(text, &mut found);
    }
    assert!(of_help > 25 && found.len() > of_help + 25, "{of_help} and {}", found.len());
    for line in &found {
        let commands = commands(line);
        assert!(!commands.is_empty(), "{line}");
        for words in commands {
            if let Err(error) = Cli::try_parse_from(&words) {
                panic!("{line}: {error}");
            }
            let overrides = words.windows(2).filter(|pair| pair[0] == "--set");
            let overrides: Vec<_> =
                overrides.map(|pair| crate::flags::key_value(pair[1]).expect(line)).collect();
            Config::load(None, [], &overrides).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }
}

#[test]
fn a_bad_example_would_be_found() {
    assert!(Cli::try_parse_from(["highwater", "serve", "--no-such-flag"]).is_err());
    let mut found = Vec::new();
    of_document(
        "Try `highwater sim --seeds 3`, or `highwater demo`, or `highwater check --edn FILE`.",
        &mut found,
    );
    assert_eq!(found, ["highwater sim --seeds 3"]);
    assert_eq!(
        commands("highwater a b > c && highwater d   words # e"),
        [vec!["highwater", "a", "b"], vec!["highwater", "d"]]
    );
}
