//! deny.toml is kept, without cargo-deny and, where all crates are there, without a network: licences, duplicate versions, sources.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The strings of a list in deny.toml. `key`: the field of each, if they are tables.
fn rules(section: &str, list: &str, key: Option<&str>) -> BTreeSet<String> {
    let deny: toml::Table = fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap();
    let list = deny[section][list].as_array().unwrap();
    let text = |item: &toml::Value| key.map_or(item, |key| &item[key]).as_str().unwrap().to_string();
    list.iter().map(text).collect()
}

fn cargo(args: &[&str]) -> Output {
    Command::new(env!("CARGO")).args(args).current_dir(root()).output().unwrap()
}

/// Every package that is built here, tests included: name, version, licence. Those of features that nobody has built on this machine are
/// fetched first.
fn packages() -> BTreeSet<(String, String, String)> {
    let args = ["tree", "--workspace", "--all-features", "--offline", "--locked", "--prefix", "none"];
    let args = [&args[..], &["--edges", "normal,build,dev", "--format", "{p}|{l}|"]].concat();
    let mut tree = cargo(&args);
    if !tree.status.success() {
        cargo(&["fetch", "--locked"]);
        tree = cargo(&args);
    }
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let lines = String::from_utf8(tree.stdout).unwrap();
    let package = |line: &str| {
        let mut parts = line.split('|');
        let (package, licence) = (parts.next().unwrap(), parts.next().unwrap());
        let (name, version) = package.split_once(" v").unwrap();
        let version = version.split(' ').next().unwrap();
        (name.to_string(), version.to_string(), licence.to_string())
    };
    lines.lines().filter(|line| !line.is_empty()).map(package).collect()
}

/// Whether a licence expression can be met by what is allowed: `AND` binds more strongly than `OR`; `/` is an old `OR`.
fn is_met(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let met = any(&words, &mut at, allowed);
    met && at == words.len()
}

fn any(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = all(words, at, allowed);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all(words, at, allowed);
    }
    met
}

fn all(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut met = one(words, at, allowed);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= one(words, at, allowed);
    }
    met
}

fn one(words: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(word) = words.get(*at) else { return false };
    *at += 1;
    if *word == "(" {
        let met = any(words, at, allowed);
        *at += 1;
        return met;
    }
    let mut licence = word.to_string();
    if words.get(*at) == Some(&"WITH") {
        licence += &format!(" WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    allowed.contains(&licence)
}

#[test]
fn licences_are_allowed_ones() {
    let allowed = rules("licenses", "allow", None);
    let packages = packages();
    assert!(packages.len() > 100, "packages are found: {}", packages.len());
    let refused: Vec<_> = packages.iter().filter(|(.., licence)| !is_met(licence, &allowed)).collect();
    assert!(refused.is_empty(), "deny.toml allows no licence of {refused:?}");
}

#[test]
fn licence_expressions_are_understood() {
    let allowed: BTreeSet<String> = ["MIT", "Zlib"].map(String::from).into();
    for met in ["MIT", "Apache-2.0/MIT", "(MIT OR Apache-2.0) AND Zlib", "A AND B OR MIT"] {
        assert!(is_met(met, &allowed), "{met}");
    }
    for unmet in ["", "GPL-3.0", "MIT AND GPL-3.0", "MIT WITH x", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
        assert!(!is_met(unmet, &allowed), "{unmet}");
    }
}

#[test]
fn no_package_comes_in_two_versions_but_for_what_is_skipped() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, version, _) in packages() {
        versions.entry(name).or_default().insert(version);
    }
    let mut skipped = rules("bans", "skip", Some("crate"));
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let left: Vec<_> =
            versions.iter().filter(|version| !skipped.remove(&format!("{name}@{version}"))).collect();
        assert!(left.len() <= 1, "{name} comes in the versions {left:?}");
    }
    assert!(skipped.is_empty(), "deny.toml skips what comes in one version, or not at all: {skipped:?}");
}

#[test]
fn sources_are_allowed_ones() {
    let allowed = rules("sources", "allow-registry", None);
    assert!(rules("sources", "allow-git", None).is_empty(), "this test knows of registries only");
    let lock: toml::Table = fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    for package in lock["package"].as_array().unwrap() {
        // Members of the workspace have none.
        let Some(source) = package.get("source") else { continue };
        let source = source.as_str().unwrap();
        let registry = source.strip_prefix("registry+");
        assert!(registry.is_some_and(|url| allowed.contains(url)), "{}: {source}", package["name"]);
        assert!(package.get("checksum").is_some(), "{}: no checksum", package["name"]);
    }
}
