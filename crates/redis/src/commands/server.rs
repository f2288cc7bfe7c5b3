//! What commands there are: COMMAND.

use super::words::is;
use super::{documents, help, keyspecs};
use crate::acl::categories::Categories;
use crate::acl::ids::{self, Named};
use crate::acl::keys;
use crate::command::entry::commands;
use crate::command::{Command, Control, Opcode, Spec, Subcommand, flags};
use crate::effort::{Effort, LOOK, few};
use crate::errors::CommandError;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    local(args, client, door, effort, reply);

    COMMAND = 154 {
        run: command(args, effort, reply),
        name: "command", arity: -1, flags: LOADING | STALE | LONG, keys: NO_DATA, group: "server",
        since: "2.8.13",
        summary: "Get array of Redis command details",
        categories: Some(category::CONNECTION),
        tips: "nondeterministic_output_order",
        docs: "
            complexity O(N) where N is the total number of Redis commands
        ",
        subcommands: subcommands! { "command":
            "count" 2 {
                flags: LOADING | STALE,
                docs: "
                    summary Get total number of Redis commands
                    since 2.8.13
                    complexity O(1)
                ",
            }
            "info" -2 {
                flags: LOADING | STALE, tips: "nondeterministic_output_order",
                docs: "
                    summary Get array of specific Redis command details, or all when no argument is given.
                    since 2.8.13
                    complexity O(N) where N is the number of commands to look up
                    history 7.0.0 Allowed to be called with no argument to get info on all commands.
                    - command-name: string optional multiple
                ",
            }
            "docs" -2 {
                flags: LOADING | STALE, tips: "nondeterministic_output_order",
                docs: "
                    summary Get array of specific Redis command documentation
                    since 7.0.0
                    complexity O(N) where N is the number of commands to look up
                    - command-name: string optional multiple
                ",
            }
            "list" -2 {
                flags: LOADING | STALE, tips: "nondeterministic_output_order",
                docs: "
                    summary Get an array of Redis command names
                    since 7.0.0
                    complexity O(N) where N is the total number of Redis commands
                    - filterby: oneof 'FILTERBY' optional
                    -- module-name: string 'MODULE'
                    -- category: string 'ACLCAT'
                    -- pattern: pattern 'PATTERN'
                ",
            }
            "getkeys" -4 {
                flags: LOADING | STALE,
                docs: "
                    summary Extract keys given a full Redis command
                    since 2.8.13
                    complexity O(N) where N is the number of arguments to the command
                ",
            }
            help "5.0.0" {}
            "getkeysandflags" -4 {
                flags: LOADING | STALE,
                docs: "
                    summary Extract keys and access flags given a full Redis command
                    since 7.0.0
                    complexity O(N) where N is the number of arguments to the command
                ",
            }
        },
    }
}

/// `COMMAND [COUNT | LIST [FILTERBY ..] | GETKEYS command .. | INFO [name ..] | DOCS [name ..]]`
pub fn command(mut args: Args<'_>, effort: &Effort, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let Some(subcommand) = args.next() else {
        reply.array(Opcode::all().len());
        Opcode::all().for_each(|opcode| describe(opcode.spec(), reply));
        return Ok(());
    };
    match subcommand.to_ascii_lowercase().as_slice() {
        b"count" => reply.integer(Opcode::all().len() as i64),
        b"list" => {
            let names = listed(args, effort)?;
            reply.array(names.len());
            names.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        b"getkeys" => {
            let keys = keys_of(args)?;
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
        b"getkeysandflags" => {
            few(args)?;
            let keys = keyspecs::keys_and_flags(args, keys_of(args)?);
            reply.array(keys.len());
            for (key, flags) in keys {
                reply.array(2);
                reply.bulk(key);
                reply.set(flags.len());
                flags.iter().for_each(|flag| reply.simple(flag));
            }
        }
        b"info" if args.len() == 0 => return command(args, effort, reply),
        b"info" => describe_some(args, reply)?,
        b"docs" => documents::document(args, reply)?,
        b"help" => help::help(
            "COMMAND",
            &[
                "COUNT",
                "LIST",
                "GETKEYS <full-command>",
                "GETKEYSANDFLAGS <full-command>",
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
fn listed(mut args: Args<'_>, effort: &Effort) -> Result<Vec<&'static str>, CommandError> {
    let those = |fits: &dyn Fn(&Named) -> bool| {
        ids::all().filter(fits).map(|named| named.full_name()).collect::<Vec<_>>()
    };
    let Some(word) = args.next() else { return Ok(those(&|_| true)) };
    let (Some(by), Some(what), None, true) = (args.next(), args.next(), args.next(), is(word, "filterby"))
    else {
        return Err(CommandError::Syntax);
    };
    match by {
        _ if is(by, "module") => Ok(Vec::new()),
        _ if is(by, "pattern") => {
            let pattern = effort.pattern(what)?;
            let names = those(&|named| effort.fits(&pattern, named.full_name().as_bytes()));
            effort.check_patterns().map(|()| names)
        }
        _ if is(by, "aclcat") => {
            effort.spend(LOOK);
            let category = Categories::find(what);
            Ok(those(&|named| category.is_some_and(|category| Categories::of(named).meets(category))))
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
        // The keys are those of the command behind the number, which is no other of the kind: however many stand there, none is called for another.
        let behind = behind(args, 2);
        let again = behind.into_iter().next().and_then(Opcode::find) == Some(opcode);
        return if args.len() > 2 && !again { keys_of(behind) } else { Err(ARITY) };
    }
    if !spec.subcommands.is_empty() {
        let words = std::iter::once(spec.name.as_bytes()).chain(args).collect();
        let keys = keyspecs::find(words);
        let keys: Vec<&[u8]> = keys.into_iter().map(|(key, _)| key).collect();
        const NONE: CommandError = CommandError::Text("ERR The command has no key arguments");
        return if keys.is_empty() { Err(NONE) } else { Ok(keys) };
    }
    if spec.keys.first == 0 && !spec.has(flags::MOVABLEKEYS) {
        return Err(CommandError::Text("ERR The command has no key arguments"));
    }
    spec.check(args).map_err(|_| ARITY)?;
    let mut keys = Vec::new();
    keys::visit(opcode, args, |key, _| {
        keys.push(key);
        true
    });
    if spec.has(flags::MOVABLEKEYS)
        && !spec.has(flags::NO_MANDATORY_KEYS)
        && keys::counted(spec, args).next().is_none()
    {
        return Err(ARITY);
    }
    Ok(keys)
}

fn describe_some(names: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    few(names)?;
    reply.array(names.len());
    for name in names {
        match find(name) {
            Some(Named { spec, sub: None, .. }) => describe(spec, reply),
            Some(named) => entry(&named, &[], reply),
            None => reply.null(),
        }
    }
    Ok(())
}

/// A command, or a subcommand behind `|`.
pub fn find(name: &[u8]) -> Option<Named> {
    let mut words = name.splitn(2, |byte| *byte == b'|');
    let opcode = Opcode::find(words.next()?)?;
    let Some(word) = words.next() else { return Some(Named::of(opcode, None)) };
    Some(Named::of(opcode, Some(word))).filter(|named| named.sub.is_some())
}

fn describe(spec: &'static Spec, reply: &mut Reply<'_>) {
    entry(&Named { id: 0, spec, sub: None }, spec.subcommands, reply);
}

/// Ten fields: name, arity, flags, first key, last key, step, categories, tips, key specifications, subcommands.
fn entry(named: &Named, subcommands: &'static [Subcommand], reply: &mut Reply<'_>) {
    let spec = named.spec;
    let (flags, places, tips, keys) = match named.sub {
        None => (spec.told.unwrap_or(spec.flags), spec.keys, spec.tips, spec.specs),
        Some(sub) => {
            let (flags, keys) = sub.flags.map_or((spec.flags, spec.keys), |flags| (flags, sub.keys));
            (flags, keys, sub.tips, sub.specs)
        }
    };
    reply.array(10);
    reply.bulk(named.full_name().as_bytes());
    reply.integer(i64::from(named.sub.map_or(spec.arity, |sub| sub.arity)));
    let flags = flags.words();
    reply.set(flags.clone().count());
    flags.for_each(|flag| reply.simple(flag));
    for number in [places.first, places.last, places.step] {
        reply.integer(i64::from(number));
    }
    reply_categories(named, reply);
    let tips = tips.split(',').filter(|tip| !tip.is_empty());
    reply.set(tips.clone().count());
    tips.for_each(|tip| reply.bulk(tip.as_bytes()));
    keyspecs::reply(keys, reply);
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
