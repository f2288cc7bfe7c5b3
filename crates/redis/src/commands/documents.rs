//! `COMMAND DOCS`: rows and [`docs`](crate::command::docs) in Redis's form.

use super::server::find;
use crate::acl::ids::Named;
use crate::command::Opcode;
use crate::command::docs::{Arguments, Docs};
use crate::effort::few;
use crate::errors::CommandError;
use crate::reply::Reply;
use crate::request::Args;

/// `COMMAND DOCS [name ..]`: a subcommand is named with a `|` in front of it; of what is not known nothing is told.
///
/// # Errors
/// Too many names.
pub fn document(names: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    few(names)?;
    let all = names.len() == 0;
    let every = Opcode::all().filter(move |_| all);
    let known = every.map(|opcode| Named::of(opcode, None)).chain(names.into_iter().filter_map(find));
    reply.map(known.clone().count());
    known.for_each(|named| one(&named, reply));
    Ok(())
}

/// Its name, and a map of what is told.
fn one(named: &Named, reply: &mut Reply<'_>) {
    let (spec, told) = (named.spec, Docs::of(named.sub.map_or(named.spec.docs, |sub| sub.docs)));
    let (summary, since) = match named.sub {
        None => (spec.summary, spec.since),
        Some(_) => (told.field("summary").unwrap_or_default(), told.field("since").unwrap_or_default()),
    };
    let own = [("summary", Some(summary)), ("since", Some(since)), ("group", Some(spec.group))];
    let plain = own.into_iter().chain([("complexity", told.field("complexity"))]);
    let late = ["deprecated_since", "replaced_by"].map(|field| (field, told.field(field)));
    let flags = told.field("doc_flags");
    let (history, arguments) = (told.fields("history"), told.arguments());
    let subcommands = if named.sub.is_none() { spec.subcommands } else { &[] };

    let texts = plain.clone().chain(late).filter(|(_, text)| text.is_some()).count();
    let lists = [flags.is_some(), history.clone().next().is_some(), arguments.clone().next().is_some()];
    let lists = lists.into_iter().filter(|there| *there).count() + usize::from(!subcommands.is_empty());
    reply.bulk(named.full_name().as_bytes());
    reply.map(texts + lists);
    plain.for_each(|(field, text)| pair(field, text, reply));
    if let Some(flags) = flags {
        reply.bulk(b"doc_flags");
        status_set(flags.split(' '), reply);
    }
    late.into_iter().for_each(|(field, text)| pair(field, text, reply));
    changes(told, reply);
    list(arguments, reply);
    if !subcommands.is_empty() {
        reply.bulk(b"subcommands");
        reply.map(subcommands.len());
        subcommands.iter().for_each(|sub| one(&Named { sub: Some(sub), ..*named }, reply));
    }
}

fn pair(field: &str, text: Option<&str>, reply: &mut Reply<'_>) {
    if let Some(text) = text {
        reply.bulk(field.as_bytes());
        reply.bulk(text.as_bytes());
    }
}

fn status_set<'a>(words: impl Iterator<Item = &'a str> + Clone, reply: &mut Reply<'_>) {
    reply.set(words.clone().count());
    words.for_each(|word| reply.simple(word));
}

/// What changed in which version.
fn changes(told: Docs, reply: &mut Reply<'_>) {
    let history = told.fields("history");
    let count = history.clone().count();
    if count == 0 {
        return;
    }
    reply.bulk(b"history");
    reply.set(count);
    for change in history {
        let (version, what) = change.split_once(' ').expect("a change has a version and words");
        reply.array(2);
        reply.bulk(version.as_bytes());
        reply.bulk(what.as_bytes());
    }
}

/// The field `arguments`, if there are any.
fn list(arguments: Arguments, reply: &mut Reply<'_>) {
    let count = arguments.clone().count();
    if count == 0 {
        return;
    }
    reply.bulk(b"arguments");
    reply.array(count);
    for argument in arguments {
        let (key, flags) = (argument.key_spec(), argument.flags());
        let texts = [
            ("token", argument.token()),
            ("since", argument.since()),
            ("deprecated_since", argument.deprecated_since()),
        ];
        let some = [key.is_some(), flags.clone().next().is_some(), argument.parts.clone().next().is_some()];
        let some = some.into_iter().filter(|there| *there).count();
        reply.map(2 + some + texts.iter().filter(|(_, text)| text.is_some()).count());
        pair("name", Some(argument.name()), reply);
        pair("type", Some(argument.kind()), reply);
        if let Some(key) = key {
            reply.bulk(b"key_spec_index");
            reply.integer(key);
        }
        texts.into_iter().for_each(|(field, text)| pair(field, text, reply));
        if flags.clone().next().is_some() {
            reply.bulk(b"flags");
            status_set(flags, reply);
        }
        list(argument.parts, reply);
    }
}
