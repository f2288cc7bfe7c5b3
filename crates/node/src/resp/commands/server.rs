//! What commands there are: COMMAND.

use super::help;
use super::words::is;
use crate::resp::acl::categories::Categories;
use crate::resp::acl::ids::Named;
use crate::resp::acl::keys;
use crate::resp::command::{COMMANDS, Command, Control, Opcode, Spec, Subcommand};
use crate::resp::errors::CommandError;
use crate::resp::glob;
use crate::resp::reply::Reply;
use crate::resp::request::Args;

/// `COMMAND [COUNT | LIST [FILTERBY ..] | GETKEYS command .. | INFO [name ..] | DOCS [name ..]]`
pub fn command(mut args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let Some(subcommand) = args.next() else {
        reply.array(COMMANDS.len());
        COMMANDS.iter().for_each(|spec| describe(spec, reply));
        return Ok(());
    };
    match subcommand.to_ascii_lowercase().as_slice() {
        b"count" => reply.integer(COMMANDS.len() as i64),
        b"list" => {
            let names = listed(args)?;
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        b"getkeys" => {
            let keys = keys_of(args)?;
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        b"info" if args.len() == 0 => return command(args, reply),
        b"info" => describe_some(args, reply),
        b"docs" => document(args, reply),
        b"help" => help::help(
            "COMMAND",
            &[
                "COUNT",
                "LIST",
                "GETKEYS <full-command>",
                "INFO [<command-name> ...]",
                "DOCS [<command-name> ...]",
            ],
            reply,
        ),
        other => return Err(CommandError::unknown_subcommand("command", other)),
    }
    Ok(())
}

/// `[FILTERBY MODULE name | ACLCAT category | PATTERN pattern]`: the names that are left.
fn listed(mut args: Args<'_>) -> Result<Vec<&'static str>, CommandError> {
    let all = COMMANDS.iter();
    let Some(word) = args.next() else { return Ok(all.map(|spec| spec.name).collect()) };
    let (Some(by), Some(what), None, true) = (args.next(), args.next(), args.next(), is(word, "filterby"))
    else {
        return Err(CommandError::Syntax);
    };
    let category = Categories::find(what);
    let has = |spec: &'static Spec| match by {
        _ if is(by, "pattern") => glob::matches(&what.to_ascii_lowercase(), spec.name.as_bytes()),
        _ => {
            category.is_some_and(|category| Categories::of(&Named { id: 0, spec, sub: None }).meets(category))
        }
    };
    match by {
        _ if is(by, "module") => Ok(Vec::new()),
        _ if is(by, "pattern") || is(by, "aclcat") => {
            Ok(all.filter(|spec| has(spec)).map(|spec| spec.name).collect())
        }
        _ => Err(CommandError::Syntax),
    }
}

const ARITY: CommandError = CommandError::Text("ERR Invalid number of arguments specified for command");

fn behind(mut args: Args<'_>, words: usize) -> Args<'_> {
    args.by_ref().take(words).for_each(drop);
    args
}

/// `COMMAND GETKEYS command ..`: which of its words are keys.
fn keys_of(mut args: Args<'_>) -> Result<Vec<&[u8]>, CommandError> {
    let opcode = Opcode::find(args.promised()?);
    let opcode = opcode.ok_or(CommandError::Text("ERR Invalid command specified"))?;
    let spec = opcode.spec();
    if spec.command == Command::Control(Control::Once) {
        // The keys are those of the command behind the number.
        return if args.len() > 2 { keys_of(behind(args, 2)) } else { Err(ARITY) };
    }
    if spec.keys.first == 0 && !spec.has_flag("movablekeys") {
        return Err(CommandError::Text("ERR The command has no key arguments"));
    }
    spec.check(args).map_err(|_| ARITY)?;
    let mut keys = Vec::new();
    keys::visit(opcode, args, |key, _| {
        keys.push(key);
        true
    });
    if spec.has_flag("movablekeys") && keys::counted(spec, args).next().is_none() {
        return Err(ARITY);
    }
    Ok(keys)
}

fn describe_some(names: Args<'_>, reply: &mut Reply<'_>) {
    reply.array(names.len());
    for name in names {
        match Opcode::find(name) {
            Some(found) => describe(found.spec(), reply),
            None => reply.null(),
        }
    }
}

fn describe(spec: &'static Spec, reply: &mut Reply<'_>) {
    entry(&Named { id: 0, spec, sub: None }, spec.subcommands, reply);
}

/// Ten fields: name, arity, flags, first key, last key, step, categories, tips, key specifications, subcommands.
fn entry(named: &Named, subcommands: &'static [Subcommand], reply: &mut Reply<'_>) {
    let spec = named.spec;
    reply.array(10);
    reply.bulk(named.full_name().as_bytes());
    reply.integer(i64::from(named.sub.map_or(spec.arity, |sub| sub.arity)));
    reply.set(spec.flags().count());
    spec.flags().for_each(|flag| reply.simple(flag));
    for number in [spec.keys.first, spec.keys.last, spec.keys.step] {
        reply.integer(i64::from(number));
    }
    reply_categories(named, reply);
    reply.set(0);
    reply.set(0);
    // As Redis: an empty set, or an array.
    if subcommands.is_empty() {
        return reply.set(0);
    }
    reply.array(subcommands.len());
    for sub in subcommands {
        entry(&Named { id: 0, spec, sub: Some(sub) }, &[], reply);
    }
}

fn reply_categories(named: &Named, reply: &mut Reply<'_>) {
    let names = Categories::of(named).names();
    reply.set(names.clone().count());
    names.for_each(|name| reply.simple(&format!("@{name}")));
}

fn document(names: Args<'_>, reply: &mut Reply<'_>) {
    let all = names.len() == 0;
    let chosen = names.into_iter().filter_map(|name| Opcode::find(name).map(Opcode::spec));
    let known = COMMANDS.iter().filter(|_| all).chain(chosen);
    reply.map(known.clone().count());
    for spec in known {
        reply.bulk(spec.name.as_bytes());
        reply.map(3);
        for (field, text) in [("summary", spec.summary), ("since", spec.since), ("group", spec.group)] {
            reply.bulk(field.as_bytes());
            reply.bulk(text.as_bytes());
        }
    }
}
