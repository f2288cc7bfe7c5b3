//! ACL, but for SETUSER and DELUSER, which are transactions ([`change`](crate::acl::change)).

use super::help;
use super::words::{integer, is};
use crate::Door;
use crate::acl::categories::{self, Categories};
use crate::acl::log::Entry;
use crate::acl::selector::Selector;
use crate::acl::{Denied, User, absent, ids, may};
use crate::client_state::ClientState;
use crate::command::Opcode;
use crate::command::entry::commands;
use crate::effort::{Effort, LOOK, few};
use crate::errors::CommandError;
use crate::reply::Reply;
use crate::request::Args;

commands! {
    local(args, client, door, effort, reply);

    ACL = 203 {
        run: acl(args, client, door, effort, reply),
        name: "acl", arity: -2, flags: NOSCRIPT | LOADING | STALE | STANDS_ALONE | CHANGES_USERS | LONG,
        keys: NO_DATA, group: "server", since: "6.0.0",
        summary: "A container for Access List Control commands",
        told: Some(Flags(0)),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "acl":
            "cat" -2 {
                flags: NOSCRIPT | LOADING | STALE, categories: 0,
                docs: "
                    summary List the ACL categories or the commands inside a category
                    since 6.0.0
                    complexity O(1) since the categories and commands are a fixed set.
                    - categoryname: string optional
                ",
            }
            "deluser" -3 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary Remove the specified ACL users and the associated rules
                    since 6.0.0
                    complexity O(1) amortized time considering the typical user.
                    - username: string multiple
                ",
            }
            "dryrun" -4 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary Returns whether the user can execute the given command without executing the command.
                    since 7.0.0
                    complexity O(1).
                    - username: string
                    - command: string
                    - arg: string optional multiple
                ",
            }
            "genpass" -2 {
                flags: NOSCRIPT | LOADING | STALE, categories: 0,
                docs: "
                    summary Generate a pseudorandom secure password to use for ACL users
                    since 6.0.0
                    complexity O(1)
                    - bits: integer optional
                ",
            }
            "getuser" 3 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary Get the rules for a specific ACL user
                    since 6.0.0
                    complexity O(N). Where N is the number of password, command and pattern rules that the user has.
                    history 6.2.0 Added Pub/Sub channel patterns.
                    history 7.0.0 Added selectors and changed the format of key and channel patterns from a list to their rule representation.
                    - username: string
                ",
            }
            help "6.0.0" { categories: 0 }
            "list" 2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary List the current ACL rules in ACL config file format
                    since 6.0.0
                    complexity O(N). Where N is the number of configured users.
                ",
            }
            "load" 2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary Reload the ACLs from the configured ACL file
                    since 6.0.0
                    complexity O(N). Where N is the number of configured users.
                ",
            }
            "log" -2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary List latest events denied because of ACLs in place
                    since 6.0.0
                    complexity O(N) with N being the number of entries shown.
                    - operation: oneof optional
                    -- count: integer
                    -- reset: pure-token 'RESET'
                ",
            }
            "save" 2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary Save the current ACL rules in the configured ACL file
                    since 6.0.0
                    complexity O(N). Where N is the number of configured users.
                ",
            }
            "setuser" -3 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary Modify or create the rules for a specific ACL user
                    since 6.0.0
                    complexity O(N). Where N is the number of rules provided.
                    history 6.2.0 Added Pub/Sub channel patterns.
                    history 7.0.0 Added selectors and key based permissions.
                    - username: string
                    - rule: string optional multiple
                ",
            }
            "users" 2 {
                flags: ADMIN | NOSCRIPT | LOADING | STALE, categories: category::ADMIN,
                docs: "
                    summary List the username of all the configured ACL rules
                    since 6.0.0
                    complexity O(N). Where N is the number of configured users.
                ",
            }
            "whoami" 2 {
                flags: NOSCRIPT | LOADING | STALE, categories: 0,
                docs: "
                    summary Return the name of the user associated to the current connection
                    since 6.0.0
                    complexity O(1)
                ",
            }
        },
    }
}

/// Steps of one user more, to be named.
const USER: u64 = 32;
/// Steps of a word that may be a key, and is held against a user's patterns.
const WORD_OF_DRYRUN: u64 = 200;

/// `ACL subcommand ..`
pub fn acl(
    mut args: Args<'_>,
    client: &ClientState,
    door: &Door,
    effort: &Effort,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    effort.spend(4 * LOOK);
    match args.promised()?.to_ascii_lowercase().as_slice() {
        b"whoami" => reply.bulk(client.caller.user().name()),
        b"cat" => cat(args, reply)?,
        b"list" => {
            let users = door.access.users();
            effort.spend(LOOK * users.len() as u64);
            reply.array(users.len());
            users
                .iter()
                .for_each(|user| reply.bulk(&[b"user ", user.name(), b" ", &user.describe()].concat()));
        }
        b"users" => {
            let users = door.access.users();
            effort.spend(USER * users.len() as u64);
            reply.array(users.len());
            users.iter().for_each(|user| reply.bulk(user.name()));
        }
        b"getuser" => match door.access.user(args.promised()?) {
            Some(user) => tell_user(&user, reply),
            None => reply.null(),
        },
        b"genpass" => genpass(args, door, reply)?,
        b"dryrun" => {
            few(args)?;
            effort.spend(WORD_OF_DRYRUN * args.len() as u64);
            dry_run(args, door, reply)?;
        }
        b"log" => log(args, client, door, reply)?,
        b"save" => return Err(CommandError::Text(SAVED)),
        b"load" => return Err(CommandError::Text(LOADED)),
        _ => help::full("ACL", &HELP, reply),
    }
    Ok(())
}

const SAVED: &str = "ERR This Redis instance is not configured to use an ACL file: the cluster keeps users as it keeps data, on every node";
const LOADED: &str = "ERR This Redis instance is not configured to use an ACL file: auth.users_file gives a cluster its first users, once. \
                      Use ACL SETUSER and ACL DELUSER";

/// `ACL CAT [category]`
fn cat(mut args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    match (args.next(), args.next()) {
        (None, _) => {
            reply.array(categories::NAMES.len());
            categories::NAMES.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        (Some(name), None) => {
            let unknown = || CommandError::UnknownCategory(String::from_utf8_lossy(name).into_owned());
            let category = Categories::find(name).ok_or_else(unknown)?;
            let found: Vec<_> = ids::all().filter(|named| Categories::of(named).meets(category)).collect();
            reply.array(found.len());
            found.iter().for_each(|named| reply.bulk(named.full_name().as_bytes()));
        }
        _ => return Err(CommandError::AclArity("CAT")),
    }
    Ok(())
}

/// `ACL GETUSER name`
fn tell_user(user: &User, reply: &mut Reply<'_>) {
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    let passwords = user.passwords();
    reply.array(passwords.len());
    passwords.for_each(|digits| reply.bulk(digits.as_bytes()));
    tell_selector(user.root(), reply);
    reply.bulk(b"selectors");
    reply.array(user.selectors().len());
    for selector in user.selectors() {
        reply.map(3);
        tell_selector(selector, reply);
    }
}

fn tell_selector(selector: &Selector, reply: &mut Reply<'_>) {
    let commands = selector.commands().into_bytes();
    let (keys, channels) = (selector.keys().join(&b' '), selector.channels().join(&b' '));
    for (name, text) in [("commands", commands), ("keys", keys), ("channels", channels)] {
        reply.bulk(name.as_bytes());
        reply.bulk(&text);
    }
}

/// `ACL GENPASS [bits]`
fn genpass(mut args: Args<'_>, door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let bits = args.next().map_or(Ok(256), integer)?;
    if args.next().is_some() {
        return Err(CommandError::AclArity("GENPASS"));
    }
    if !(1..=4096).contains(&bits) {
        return Err(CommandError::Text(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ));
    }
    let mut chance = vec![0; (bits as usize).div_ceil(8)];
    if !(door.entropy)(&mut chance) {
        return Err(CommandError::Text("ERR the system has no random numbers at the moment"));
    }
    let digits: String = chance.iter().map(|byte| format!("{byte:02x}")).collect();
    reply.bulk(&digits.as_bytes()[..(bits as usize).div_ceil(4)]);
    Ok(())
}

/// `ACL DRYRUN name command ..`
fn dry_run(mut args: Args<'_>, door: &Door, reply: &mut Reply<'_>) -> Result<(), CommandError> {
    let (name, command) = (args.promised()?, args.promised()?);
    let shown = |text: &[u8]| String::from_utf8_lossy(&text[..text.len().min(128)]).into_owned();
    let user = door.access.user(name).ok_or_else(|| CommandError::NoSuchUser(shown(name)))?;
    let no_such = || CommandError::NoSuchCommand(shown(command));
    let lower = shown(command).to_ascii_lowercase();
    if Opcode::find(command).is_none() && absent::is_known(&lower, true) {
        reply.bulk(
            format!("This user has no permissions to run the '{lower}' command: it is not offered here")
                .as_bytes(),
        );
        return Ok(());
    }
    let opcode = Opcode::find(command).ok_or_else(no_such)?;
    opcode.spec().check(args).map_err(|error| match error {
        CommandError::UnknownSubcommand { .. } => no_such(),
        other => other,
    })?;
    match may(&user, opcode, args) {
        Ok(()) => reply.ok(),
        Err(Denied::Command(name)) => {
            reply.bulk(format!("This user has no permissions to run the '{name}' command").as_bytes());
        }
        Err(denied @ (Denied::Key(_) | Denied::Table(_))) => {
            let object = denied.object();
            reply.bulk(&[b"This user has no permissions to access the '", &object[..], b"' key"].concat());
        }
    }
    Ok(())
}

/// `ACL LOG [count | RESET]`
fn log(
    mut args: Args<'_>,
    client: &ClientState,
    door: &Door,
    reply: &mut Reply<'_>,
) -> Result<(), CommandError> {
    let first = args.next();
    if args.next().is_some() {
        return Err(CommandError::AclArity("LOG"));
    }
    if first.is_some_and(|word| is(word, "reset")) {
        door.access.log(|log| log.clear());
        reply.ok();
        return Ok(());
    }
    let most = usize::try_from(first.map_or(Ok(10), integer)?.max(0)).unwrap_or(usize::MAX);
    door.access.log(|log| {
        reply.array(log.entries().len().min(most));
        log.entries().take(most).for_each(|entry| tell_entry(entry, client.unix_ms, reply));
    });
    Ok(())
}

fn tell_entry(entry: &Entry, now_ms: u64, reply: &mut Reply<'_>) {
    let texts = [
        ("reason", entry.reason.name().as_bytes()),
        ("context", entry.context.name().as_bytes()),
        ("object", &entry.object[..]),
        ("username", &entry.user[..]),
    ];
    reply.map(7);
    reply.bulk(b"count");
    reply.integer(entry.count as i64);
    for (name, text) in texts {
        reply.bulk(name.as_bytes());
        reply.bulk(text);
    }
    let age = now_ms.saturating_sub(entry.at_ms) as f64 / 1000.0;
    reply.bulk(b"age-seconds");
    reply.double(age);
    reply.bulk(b"client-info");
    reply.bulk(entry.client.as_bytes());
}

/// In Redis's words.
const HELP: [&str; 26] = [
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
];
