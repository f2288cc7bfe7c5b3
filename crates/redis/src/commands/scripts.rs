//! Scripts: EVAL EVAL_RO EVALSHA EVALSHA_RO SCRIPT.
//!
//! A script's text is a row under its SHA-1, so that every node knows it, after a failover, too. One row more says how many there are and how
//! long they are together: they are bounded, so that `SCRIPT FLUSH` is one transaction.
//!
//! ```text
//! scripts   sha-1 (20 bytes)   text
//!           0                  count u64 | bytes u64, little endian
//! ```

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::Reader;
use highwater_core::{Abort, Direction, Transaction};
use mlua::Function;

use super::help;
use super::words::{integer, is};
use crate::acl::{Denied, User, may};
use crate::command::Opcode;
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::keyspace::{Done, Failure, Keyspace, SCRIPTS, Stop};
use crate::reply::{Protocol, Reply};
use crate::request::Args;
use crate::scripts::bridge::Host;
use crate::scripts::vm::{self, Task, Vm};
use crate::scripts::{Failed, MAX_KEPT_BYTES, MAX_SCRIPT_BYTES, sha1, shebang};

commands! {
    data(args, keyspace, reply);

    EVAL = 180 {
        run: eval(args, (false, false), keyspace, reply),
        name: "eval", arity: -3,
        flags: WRITE | NOSCRIPT | STALE | SKIP_MONITOR | MAY_REPLICATE | NO_MANDATORY_KEYS | MOVABLEKEYS | RUNS_SCRIPTS,
        keys: COUNTED, group: "scripting", since: "2.6.0",
        summary: "Execute a Lua script server side",
        told: Some(Flags(NOSCRIPT | STALE | SKIP_MONITOR | NO_MANDATORY_KEYS | MOVABLEKEYS)),
        specs: "RW,access,update index 2 keynum 0 1 1",
        docs: "
            complexity Depends on the script that is executed.
            - script: string
            - numkeys: integer
            - key: key #0 optional multiple
            - arg: string optional multiple
        ",
    }

    EVAL_RO = 181 {
        run: eval(args, (false, true), keyspace, reply),
        name: "eval_ro", arity: -3,
        flags: READONLY | NOSCRIPT | STALE | SKIP_MONITOR | NO_MANDATORY_KEYS | MOVABLEKEYS | RUNS_SCRIPTS,
        keys: COUNTED, group: "scripting", since: "7.0.0",
        summary: "Execute a read-only Lua script server side",
        specs: "RO,access index 2 keynum 0 1 1",
        docs: "
            complexity Depends on the script that is executed.
            - script: string
            - numkeys: integer
            - key: key #0 optional multiple
            - arg: string optional multiple
        ",
    }

    EVALSHA = 182 {
        run: eval(args, (true, false), keyspace, reply),
        name: "evalsha", arity: -3,
        flags: WRITE | NOSCRIPT | STALE | SKIP_MONITOR | MAY_REPLICATE | NO_MANDATORY_KEYS | MOVABLEKEYS | RUNS_SCRIPTS,
        keys: COUNTED, group: "scripting", since: "2.6.0",
        summary: "Execute a Lua script server side",
        told: Some(Flags(NOSCRIPT | STALE | SKIP_MONITOR | NO_MANDATORY_KEYS | MOVABLEKEYS)),
        specs: "RW,access,update index 2 keynum 0 1 1",
        docs: "
            complexity Depends on the script that is executed.
            - sha1: string
            - numkeys: integer
            - key: key #0 optional multiple
            - arg: string optional multiple
        ",
    }

    EVALSHA_RO = 183 {
        run: eval(args, (true, true), keyspace, reply),
        name: "evalsha_ro", arity: -3,
        flags: READONLY | NOSCRIPT | STALE | SKIP_MONITOR | NO_MANDATORY_KEYS | MOVABLEKEYS | RUNS_SCRIPTS,
        keys: COUNTED, group: "scripting", since: "7.0.0",
        summary: "Execute a read-only Lua script server side",
        specs: "RO,access index 2 keynum 0 1 1",
        docs: "
            complexity Depends on the script that is executed.
            - sha1: string
            - numkeys: integer
            - key: key #0 optional multiple
            - arg: string optional multiple
        ",
    }

    SCRIPT = 184 {
        run: script(args, keyspace, reply),
        name: "script", arity: -2, flags: WRITE | NOSCRIPT, keys: CODE, group: "scripting", since: "2.6.0",
        summary: "A container for Lua scripts management commands",
        told: Some(Flags(0)),
        categories: Some(0),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "script":
            "debug" 3 {
                flags: NOSCRIPT, categories: category::SCRIPTING,
                docs: "
                    summary Set the debug mode for executed scripts.
                    since 3.2.0
                    complexity O(1)
                    - mode: oneof
                    -- yes: pure-token 'YES'
                    -- sync: pure-token 'SYNC'
                    -- no: pure-token 'NO'
                ",
            }
            "exists" -3 {
                flags: NOSCRIPT, tips: "request_policy:all_shards,response_policy:agg_logical_and", categories: category::SCRIPTING,
                docs: "
                    summary Check existence of scripts in the script cache.
                    since 2.6.0
                    complexity O(N) with N being the number of scripts to check (so checking a single script is an O(1) operation).
                    - sha1: string multiple
                ",
            }
            "flush" -2 {
                flags: NOSCRIPT, tips: "request_policy:all_nodes,response_policy:all_succeeded", categories: category::SCRIPTING,
                docs: "
                    summary Remove all the scripts from the script cache.
                    since 2.6.0
                    complexity O(N) with N being the number of scripts in cache
                    history 6.2.0 Added the `ASYNC` and `SYNC` flushing mode modifiers.
                    - async: oneof @6.2.0 optional
                    -- async: pure-token 'ASYNC'
                    -- sync: pure-token 'SYNC'
                ",
            }
            help "5.0.0" { categories: category::SCRIPTING }
            "kill" 2 {
                flags: NOSCRIPT | ALLOW_BUSY, tips: "request_policy:all_shards,response_policy:one_succeeded", categories: category::SCRIPTING,
                docs: "
                    summary Kill the script currently in execution.
                    since 2.6.0
                    complexity O(1)
                ",
            }
            "load" 3 {
                flags: NOSCRIPT | STALE, tips: "request_policy:all_nodes,response_policy:all_succeeded", categories: category::SCRIPTING,
                docs: "
                    summary Load the specified Lua script into the script cache.
                    since 2.6.0
                    complexity O(N) with N being the length in bytes of the script body.
                    - script: string
                ",
            }
        },
    }
}

const COUNTS: &[u8] = &[0];
const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";
const NOT_BUSY: &str = "NOTBUSY No scripts in execution right now.";
const NOT_READ_ONLY: &str = "ERR Can not execute a script with write flag using *_ro command.";
const COMPILING: &str = "ERR Error compiling script (new function): ";

/// What a script's commands run on.
pub struct Commands<'a, 'b, T> {
    /// The transaction.
    pub keyspace: &'a mut Keyspace<'b, T>,
    /// The rules that it has to keep to; `None`: there are none.
    pub rules: Option<User>,
}

impl<'a, 'b, T: Transaction> Commands<'a, 'b, T> {
    /// Those of the user for whom it runs.
    pub fn new(keyspace: &'a mut Keyspace<'b, T>) -> Result<Commands<'a, 'b, T>, Failure> {
        let rules = keyspace.rules()?;
        Ok(Commands { keyspace, rules })
    }
}

impl<T: Transaction> Host for Commands<'_, '_, T> {
    fn call(
        &mut self,
        opcode: Opcode,
        args: Args<'_>,
        protocol: Protocol,
        out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        super::run(opcode.spec(), args, self.keyspace, &mut Reply::new(out, protocol))?;
        Ok(Reply::new(out, protocol).check_length()?)
    }

    fn may<'c>(&self, opcode: Opcode, args: Args<'c>) -> Result<(), Denied<'c>> {
        self.rules.as_ref().map_or(Ok(()), |user| may(user, opcode, args))
    }

    fn unix_ms(&self) -> u64 {
        self.keyspace.now()
    }

    fn goes_on(&mut self) -> Result<(), Stop> {
        Ok(self.keyspace.transaction().goes_on()?)
    }
}

/// Words of a request.
type Words<'a> = Vec<&'a [u8]>;

/// `numkeys key .. arg ..`: the keys, and the rest.
pub fn keys_and_args(args: Args<'_>, count: i64) -> Result<(Words<'_>, Words<'_>), CommandError> {
    if count > args.len() as i64 {
        return Err(CommandError::Text("ERR Number of keys can't be greater than number of args"));
    }
    if count < 0 {
        return Err(CommandError::Text("ERR Number of keys can't be negative"));
    }
    let mut keys: Words<'_> = args.collect();
    let rest = keys.split_off(count as usize);
    Ok((keys, rest))
}

/// Writes how a script ended. One that was to leave nothing behind when it fails takes its transaction with it.
pub fn conclude(outcome: Result<(), Failed>, roll_back: bool, start: usize, reply: &mut Reply<'_>) -> Done {
    if let Err(Failed(text)) = outcome {
        reply.out.truncate(start);
        reply.error_bytes(&text);
    }
    if roll_back && reply.out.get(start) == Some(&b'-') {
        return Err(Abort::Rollback.into());
    }
    Ok(reply.check_length()?)
}

/// `EVAL script numkeys key .. arg ..`, and `EVALSHA` by the digest instead; `_RO`: commands that write are refused.
pub fn eval<T: Transaction>(
    mut args: Args<'_>,
    (by_digest, read_only): (bool, bool),
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (script, start) = (args.promised()?, reply.out.len());
    let digest = match by_digest {
        true => sha1::parse(script).ok_or(CommandError::Text(NO_SCRIPT))?,
        false => sha1::sha1(script),
    };
    let count = integer(args.promised()?)?;
    let (keys, args) = keys_and_args(args, count)?;
    let seed = keyspace.random().bits();
    vm::with(|vm| {
        let found = match by_digest {
            true => known(&digest, vm, keyspace)?,
            false => new(&digest, script, !read_only, vm, keyspace)?,
        };
        let (flags, function) = match found {
            Ok(found) => found,
            Err(failed) => return conclude(Err(failed), false, start, reply),
        };
        if read_only && flags.declared && !flags.no_writes {
            return Err(CommandError::Text(NOT_READ_ONLY).into());
        }
        let read_only = read_only || flags.no_writes;
        let task = Task { name: &sha1::letters(&digest), keys: &keys, args: &args, read_only, seed };
        let outcome =
            vm.script(&function, &task, &mut Commands::new(keyspace)?, reply).map_err(Failure::Stop)?;
        conclude(outcome, flags.roll_back, start, reply)
    })
}

type Found = Result<(shebang::Flags, Function), Failed>;

/// A script whose text is kept.
fn known<T: Transaction>(
    digest: &[u8; 20],
    vm: &Vm,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Found, Failure> {
    let Some(text) = keyspace.transaction().get(SCRIPTS, digest)? else {
        return Err(CommandError::Text(NO_SCRIPT).into());
    };
    Ok(compiled(digest, text, vm))
}

fn compiled(digest: &[u8; 20], text: &[u8], vm: &Vm) -> Found {
    let (flags, code) = shebang::of_script(text)?;
    Ok((flags, vm.compile(digest, code, "@user_script", COMPILING)?))
}

/// A script whose text was sent: is kept from now on, if that is asked and there is room.
fn new<T: Transaction>(
    digest: &[u8; 20],
    text: &[u8],
    keep: bool,
    vm: &Vm,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Found, Failure> {
    if text.len() > MAX_SCRIPT_BYTES {
        return Ok(Err(too_long()));
    }
    let found = compiled(digest, text, vm);
    if found.is_ok() && keep {
        let _no_room = store(digest, text, keyspace)?;
    }
    Ok(found)
}

fn too_long() -> Failed {
    Failed(format!("ERR script exceeds maximum allowed size ({MAX_SCRIPT_BYTES} bytes)").into_bytes())
}

/// Keeps a text; false if there is no room for it.
fn store<T: Transaction>(
    digest: &[u8; 20],
    text: &[u8],
    keyspace: &mut Keyspace<'_, T>,
) -> Result<bool, Failure> {
    let tx = keyspace.transaction();
    if tx.get(SCRIPTS, digest)?.is_some() {
        return Ok(true);
    }
    let (count, bytes) = tx.get(SCRIPTS, COUNTS)?.map_or((0, 0), counts);
    // A row takes more than its text.
    let bytes = bytes + text.len() as u64 + 64;
    if bytes > MAX_KEPT_BYTES {
        return Ok(false);
    }
    tx.put(SCRIPTS, digest, text)?;
    tx.put(SCRIPTS, COUNTS, &[u64::to_le_bytes(count + 1), u64::to_le_bytes(bytes)].concat())?;
    Ok(true)
}

fn counts(row: &[u8]) -> (u64, u64) {
    let mut reader = Reader::new(row);
    let mut number = || reader.u64().expect("the row holds two numbers");
    (number(), number())
}

/// `SCRIPT LOAD text | EXISTS sha1 .. | FLUSH [ASYNC | SYNC] | KILL | DEBUG | HELP`
pub fn script<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    match args.promised()?.to_ascii_lowercase().as_slice() {
        b"load" => return load(args.promised()?, keyspace, reply),
        b"exists" => {
            reply.array(args.len());
            for digest in args {
                let found = match sha1::parse(digest) {
                    Some(digest) => keyspace.transaction().get(SCRIPTS, &digest)?.is_some(),
                    None => false,
                };
                reply.integer(found.into());
            }
        }
        b"flush" => {
            check_mode(args, "ERR SCRIPT FLUSH only support SYNC|ASYNC option")?;
            remove_all(keyspace)?;
            reply.ok();
        }
        b"kill" => return Err(CommandError::Text(NOT_BUSY).into()),
        b"debug" => return Err(CommandError::Text("ERR SCRIPT DEBUG is not supported").into()),
        _ => help::full("SCRIPT", HELP, reply),
    }
    Ok(())
}

fn load<T: Transaction>(text: &[u8], keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let (digest, start) = (sha1::sha1(text), reply.out.len());
    if text.len() > MAX_SCRIPT_BYTES {
        return conclude(Err(too_long()), false, start, reply);
    }
    if let Err(failed) = vm::with(|vm| compiled(&digest, text, vm)) {
        return conclude(Err(failed), false, start, reply);
    }
    if !store(&digest, text, keyspace)? {
        let why =
            format!("ERR all scripts together may have {MAX_KEPT_BYTES} bytes; SCRIPT FLUSH removes them");
        return conclude(Err(Failed(why.into_bytes())), false, start, reply);
    }
    reply.bulk(sha1::hex(&digest).as_bytes());
    Ok(())
}

/// `[ASYNC | SYNC]`: what is removed is gone at once either way.
pub fn check_mode(mut args: Args<'_>, otherwise: &'static str) -> Result<(), CommandError> {
    match (args.next(), args.next()) {
        (None, _) => Ok(()),
        (Some(mode), None) if is(mode, "sync") || is(mode, "async") => Ok(()),
        _ => Err(CommandError::Text(otherwise)),
    }
}

fn remove_all<T: Transaction>(keyspace: &mut Keyspace<'_, T>) -> Done {
    let (tx, mut found) = (keyspace.transaction(), Vec::new());
    tx.scan(SCRIPTS, (Bound::Unbounded, Bound::Unbounded), Direction::Forward, |row, _| {
        found.push(row.to_vec());
        ControlFlow::Continue(())
    })?;
    for row in found {
        tx.delete(SCRIPTS, &row)?;
    }
    Ok(())
}

const HELP: &[&str] = &[
    "DEBUG (YES|SYNC|NO)",
    "    Set the debug mode for subsequent scripts executed.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Flush the Lua scripts cache. Very dangerous on replicas.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the scripts cache.",
    "    * SYNC: Synchronously flush the scripts cache.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
];
