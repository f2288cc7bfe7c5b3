//! Specifications of keys: what `COMMAND INFO` and `COMMAND GETKEYSANDFLAGS` tell of them, out of the short form of [`Spec::specs`](crate::command::Spec::specs).

use std::str::SplitAsciiWhitespace;

use crate::command::Opcode;
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;

/// The specifications of a command, one by one: flags, and the words behind them.
fn each(
    specs: &'static str,
) -> impl Iterator<Item = (std::str::Split<'static, char>, SplitAsciiWhitespace<'static>)> + Clone {
    specs.split(';').filter(|spec| !spec.is_empty()).map(|spec| {
        let mut words = spec.split_ascii_whitespace();
        (words.next().unwrap_or_default().split(','), words)
    })
}

fn number(words: &mut SplitAsciiWhitespace<'_>) -> i64 {
    words.next().and_then(|word| word.parse().ok()).expect("facts are well formed")
}

/// As Redis tells them: a set of maps.
pub fn reply(specs: &'static str, reply: &mut Reply<'_>) {
    reply.set(each(specs).count());
    for (flags, mut words) in each(specs) {
        reply.map(3);
        reply.bulk(b"flags");
        reply.set(flags.clone().count());
        flags.for_each(|flag| reply.simple(flag));
        for (field, kinds) in [
            ("begin_search", &[("index", &["index"][..]), ("keyword", &["keyword", "startfrom"])]),
            (
                "find_keys",
                &[
                    ("range", &["lastkey", "keystep", "limit"][..]),
                    ("keynum", &["keynumidx", "firstkey", "keystep"]),
                ],
            ),
        ] {
            let kind = words.next().unwrap_or("unknown");
            reply.bulk(field.as_bytes());
            reply.map(2);
            reply.bulk(b"type");
            reply.bulk(kind.as_bytes());
            reply.bulk(b"spec");
            let names = kinds.iter().find(|(known, _)| *known == kind).map_or(&[][..], |(_, names)| *names);
            reply.map(names.len());
            for name in names {
                reply.bulk(name.as_bytes());
                match *name {
                    "keyword" => reply.bulk(words.next().unwrap_or_default().as_bytes()),
                    _ => reply.integer(number(&mut words)),
                }
            }
        }
    }
}

/// The keys of a full command, each with the flags of its specification. `keys` are those that were found otherwise, for a command that Redis
/// has not.
pub fn keys_and_flags<'a>(args: Args<'a>, keys: Vec<&'a [u8]>) -> Vec<(&'a [u8], Vec<&'static str>)> {
    let found = find(args.collect());
    if found.is_empty() { keys.into_iter().map(|key| (key, Vec::new())).collect() } else { found }
}

/// The keys of a full command by its specifications, each with their flags.
pub fn find(words: Vec<&[u8]>) -> Vec<(&[u8], Vec<&'static str>)> {
    let mut found = Vec::new();
    let Some(opcode) = words.first().and_then(|word| Opcode::find(word)) else { return found };
    let spec = opcode.spec();
    let sub = words.get(1).and_then(|word| spec.subcommand(word));
    let specs = sub.filter(|sub| sub.flags.is_some()).map_or(spec.specs, |sub| sub.specs);
    for (flags, mut rest) in each(specs) {
        let flags = flags_now(spec.name, flags.collect(), &words);
        found.extend(places(&mut rest, &words).into_iter().map(|at| (words[at], flags.clone())));
    }
    found
}

/// Which words one specification means.
fn places(spec: &mut SplitAsciiWhitespace<'_>, words: &[&[u8]]) -> Vec<usize> {
    let is = |at: usize, word: &str| words[at].eq_ignore_ascii_case(word.as_bytes());
    let start = match spec.next() {
        Some("index") => Some(number(spec) as usize),
        Some("keyword") => {
            let (word, from) = (spec.next().unwrap_or_default(), number(spec));
            let from = if from < 0 { words.len() as i64 + from } else { from } as usize;
            (from..words.len()).find(|at| is(*at, word)).map(|at| at + 1)
        }
        _ => None,
    };
    let Some(start) = start.filter(|start| *start < words.len()) else { return Vec::new() };
    let (first, end, step) = match spec.next() {
        Some("range") => {
            let (last, step, limit) = (number(spec), number(spec), number(spec));
            let last = match last {
                last if last >= 0 => start as i64 + last,
                last if limit <= 1 => words.len() as i64 + last,
                _ => start as i64 + (words.len() - start) as i64 / limit + last,
            };
            (start, last + 1, step)
        }
        Some("keynum") => {
            let (at, first, step) = (number(spec) as usize, number(spec) as usize, number(spec));
            let count = words.get(start + at).and_then(|word| parse_integer(word)).unwrap_or(0).max(0);
            let first = start + first;
            (first, (first as i64).saturating_add(count.saturating_mul(step)), step)
        }
        _ => return Vec::new(),
    };
    let end = usize::try_from(end).unwrap_or(0).min(words.len());
    (first..end).step_by(step.max(1) as usize).collect()
}

/// Some commands do less than their specification allows for, by their other words.
fn flags_now(name: &str, flags: Vec<&'static str>, words: &[&[u8]]) -> Vec<&'static str> {
    if !flags.contains(&"variable_flags") {
        return flags;
    }
    let has = |word: &str| words.iter().skip(2).any(|given| given.eq_ignore_ascii_case(word.as_bytes()));
    match name {
        "set" if !has("get") => vec!["OW", "update"],
        "bitfield" if !has("set") && !has("incrby") => vec!["RO", "access"],
        _ => flags.into_iter().filter(|flag| *flag != "variable_flags").collect(),
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::codec::Reader;

    use super::*;
    use crate::reply::Protocol;

    fn flags_of(words: &[&str]) -> Vec<(String, String)> {
        let mut encoded = Vec::new();
        Args::encode(words.iter().map(|word| word.as_bytes()), &mut encoded);
        let args = Args::decode(&mut Reader::new(&encoded)).unwrap();
        let found = keys_and_flags(args, Vec::new());
        found.into_iter().map(|(key, flags)| (String::from_utf8_lossy(key).into(), flags.join(" "))).collect()
    }

    #[test]
    fn every_specification_can_be_told() {
        for spec in Opcode::all().map(Opcode::spec) {
            let mut out = Vec::new();
            reply(spec.specs, &mut Reply::new(&mut out, Protocol::Resp2));
            for sub in spec.subcommands {
                reply(sub.specs, &mut Reply::new(&mut out, Protocol::Resp3));
            }
        }
    }

    #[test]
    fn keys_come_with_what_is_done_to_them() {
        let told = |words: &[&str], expected: &[(&str, &str)]| {
            let expected: Vec<_> = expected.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            assert_eq!(flags_of(words), expected, "{words:?}");
        };
        told(&["SET", "k", "v"], &[("k", "OW update")]);
        told(&["set", "k", "v", "GET"], &[("k", "RW access update")]);
        told(&["mset", "a", "1", "b", "2"], &[("a", "OW update"), ("b", "OW update")]);
        told(&["lmove", "a", "b", "left", "right"], &[("a", "RW access delete"), ("b", "RW insert")]);
        told(
            &["zunionstore", "d", "2", "a", "b"],
            &[("d", "OW update"), ("a", "RO access"), ("b", "RO access")],
        );
        told(&["object", "encoding", "k"], &[("k", "RO")]);
        told(&["eval", "return 1", "99999999999", "k"], &[("k", "RW access update")]);
        told(&["blpop", "a", "b", "0"], &[("a", "RW access delete"), ("b", "RW access delete")]);
        told(&["get"], &[]);
    }
}
