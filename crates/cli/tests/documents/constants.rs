//! What constants are, by their definitions in the source; and what prose says that they are.

use super::links::Link;
use super::read;

/// The value of `const NAME: type = value;` in a source file, durations in nanoseconds. Of `if cfg!(..) { a } else { b }` it
/// is `b`.
pub fn constant(source: &str, name: &str) -> u64 {
    let text = read(source);
    let defined = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(&format!("const {name}:"))?;
        rest.split_once(" = ")?.1.split(';').next()
    });
    let value = defined.unwrap_or_else(|| panic!("no constant {name} in {source}"));
    let value = value.split_once("else {").map_or(value, |(_, value)| value.trim_end_matches('}'));
    evaluate(source, value)
        .unwrap_or_else(|| panic!("{source}: {name} = {value} is more than this test can compute"))
}

/// A number or another constant of the file; a shift, products and sums of those.
fn evaluate(source: &str, text: &str) -> Option<u64> {
    let text = text.trim();
    if text.contains('+') {
        return text.split('+').map(|term| evaluate(source, term)).sum();
    }
    if let Some((left, right)) = text.trim_matches(['(', ')']).split_once("<<") {
        return Some(evaluate(source, left)? << evaluate(source, right)?);
    }
    if text.contains('*') {
        return text.split('*').map(|factor| evaluate(source, factor)).product();
    }
    for (unit, nanos) in [("secs", 1_000_000_000), ("millis", 1_000_000)] {
        if let Some(rest) = text.strip_prefix(&format!("Duration::from_{unit}(")) {
            return Some(evaluate(source, rest.trim_end_matches(')'))? * nanos);
        }
    }
    let name = text.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    if name { Some(constant(source, text)) } else { number(text) }
}

fn number(text: &str) -> Option<u64> {
    text.replace(['_', ','], "").parse().ok()
}

/// What prose says that a constant is, where it says `64 KiB ([`NAME`](file.rs))`: a number, perhaps a word or two, and the
/// link in brackets. Other links to constants say nothing about them.
pub fn quoted(link: &Link) -> Option<Result<(), String>> {
    let name = link.item()?.rsplit("::").next().unwrap();
    if !name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_') {
        return None;
    }
    let before: Vec<&str> = link.before.strip_suffix('(')?.split_whitespace().rev().take(3).collect();
    let bare = |word: &&str| number(word.trim_matches(['*', '`', '(', '|']));
    let said = before.iter().enumerate().find_map(|(at, word)| Some((at, bare(word)?)));
    let Some((at, value)) = said else {
        return Some(Err(format!("{}: no number in front of ([`{name}`]..)", link.document)));
    };
    let unit = if at > 0 { before[at - 1] } else { "" };
    let source = link.file()?.to_str().unwrap().to_string();
    let (said, is) = (value * scale(unit), constant(&source, name));
    let wrong = || format!("{}: says {value} {unit}, but {name} in {source} is {is}", link.document);
    Some(if said == is { Ok(()) } else { Err(wrong()) })
}

/// Bytes and nanoseconds in a unit; anything else is counted in ones.
fn scale(unit: &str) -> u64 {
    match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        _ => 1,
    }
}
