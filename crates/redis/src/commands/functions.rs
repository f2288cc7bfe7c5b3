//! Functions: FUNCTION FCALL FCALL_RO.
//!
//! A library's text is a row, and so is each name of a function: that one says which library has it, and which text that is, so that a call
//! reads one row unless this thread's machine has not met the text yet.
//!
//! ```text
//! functions   0 | library             sha-1 (20 bytes) | functions: count varint, function* | text
//!             1 | function, in small letters      sha-1 (20 bytes) | flags u8 (1: no-writes, 2: roll-back) | library
//! function    name bytes | flags: count varint, bytes* | description: 0 u8, or 1 u8 and bytes
//! ```

use std::ops::{Bound, ControlFlow};

use highwater_core::codec::{Malformed, Reader, put_bytes, put_varint};
use highwater_core::{Direction, Transaction};

use super::help;
use super::scripts::{Commands, check_mode, conclude, keys_and_args};
use super::words::is;
use crate::command::entry::commands;
use crate::errors::CommandError;
use crate::glob::Pattern;
use crate::keyspace::{Done, FUNCTIONS, Failure, Keyspace};
use crate::number::parse_integer;
use crate::reply::Reply;
use crate::request::Args;
use crate::scripts::vm::{self, Registered, Task, Vm};
use crate::scripts::{Failed, MAX_KEPT_BYTES, MAX_SCRIPT_BYTES, dump, sha1, shebang};

commands! {
    data(args, keyspace, reply);

    FCALL = 185 {
        run: fcall(args, false, keyspace, reply),
        name: "fcall", arity: -3,
        flags: WRITE | NOSCRIPT | STALE | SKIP_MONITOR | MAY_REPLICATE | NO_MANDATORY_KEYS | MOVABLEKEYS | RUNS_SCRIPTS,
        keys: COUNTED, group: "scripting", since: "7.0.0",
        summary: "Invoke a function",
        told: Some(Flags(NOSCRIPT | STALE | SKIP_MONITOR | NO_MANDATORY_KEYS | MOVABLEKEYS)),
        specs: "RW,access,update index 2 keynum 0 1 1",
        docs: "
            complexity Depends on the function that is executed.
            - function: string
            - numkeys: integer
            - key: key #0 optional multiple
            - arg: string optional multiple
        ",
    }

    FCALL_RO = 186 {
        run: fcall(args, true, keyspace, reply),
        name: "fcall_ro", arity: -3,
        flags: READONLY | NOSCRIPT | STALE | SKIP_MONITOR | NO_MANDATORY_KEYS | MOVABLEKEYS | RUNS_SCRIPTS,
        keys: COUNTED, group: "scripting", since: "7.0.0",
        summary: "Invoke a read-only function",
        specs: "RO,access index 2 keynum 0 1 1",
        docs: "
            complexity Depends on the function that is executed.
            - function: string
            - numkeys: integer
            - key: key #0 optional multiple
            - arg: string optional multiple
        ",
    }

    FUNCTION = 187 {
        run: function(args, keyspace, reply),
        name: "function", arity: -2, flags: WRITE | NOSCRIPT, keys: CODE, group: "scripting", since: "7.0.0",
        summary: "A container for function commands",
        told: Some(Flags(0)),
        categories: Some(0),
        docs: "
            complexity Depends on subcommand.
        ",
        subcommands: subcommands! { "function":
            "delete" 3 {
                flags: WRITE | NOSCRIPT, tips: "request_policy:all_shards,response_policy:all_succeeded", categories: category::WRITE | category::SCRIPTING,
                docs: "
                    summary Delete a function by name
                    since 7.0.0
                    complexity O(1)
                    - library-name: string
                ",
            }
            "dump" 2 {
                flags: NOSCRIPT, categories: category::SCRIPTING,
                docs: "
                    summary Dump all functions into a serialized binary payload
                    since 7.0.0
                    complexity O(N) where N is the number of functions
                ",
            }
            "flush" -2 {
                flags: WRITE | NOSCRIPT, tips: "request_policy:all_shards,response_policy:all_succeeded", categories: category::WRITE | category::SCRIPTING,
                docs: "
                    summary Deleting all functions
                    since 7.0.0
                    complexity O(N) where N is the number of functions deleted
                    - async: oneof optional
                    -- async: pure-token 'ASYNC'
                    -- sync: pure-token 'SYNC'
                ",
            }
            help "7.0.0" { categories: category::SCRIPTING }
            "kill" 2 {
                flags: NOSCRIPT | ALLOW_BUSY, tips: "request_policy:all_shards,response_policy:one_succeeded", categories: category::SCRIPTING,
                docs: "
                    summary Kill the function currently in execution.
                    since 7.0.0
                    complexity O(1)
                ",
            }
            "list" -2 {
                flags: NOSCRIPT, tips: "nondeterministic_output_order", categories: category::SCRIPTING,
                docs: "
                    summary List information about all the functions
                    since 7.0.0
                    complexity O(N) where N is the number of functions
                    - library-name-pattern: string 'LIBRARYNAME' optional
                    - withcode: pure-token 'WITHCODE' optional
                ",
            }
            "load" -3 {
                flags: WRITE | DENYOOM | NOSCRIPT, tips: "request_policy:all_shards,response_policy:all_succeeded", categories: category::WRITE | category::SCRIPTING,
                docs: "
                    summary Create a function with the given arguments (name, code, description)
                    since 7.0.0
                    complexity O(1) (considering compilation time is redundant)
                    - replace: pure-token 'REPLACE' optional
                    - function-code: string
                ",
            }
            "restore" -3 {
                flags: WRITE | DENYOOM | NOSCRIPT, tips: "request_policy:all_shards,response_policy:all_succeeded", categories: category::WRITE | category::SCRIPTING,
                docs: "
                    summary Restore all the functions on the given payload
                    since 7.0.0
                    complexity O(N) where N is the number of functions on the payload
                    - serialized-value: string
                    - policy: oneof optional
                    -- flush: pure-token 'FLUSH'
                    -- append: pure-token 'APPEND'
                    -- replace: pure-token 'REPLACE'
                ",
            }
            "stats" 2 {
                flags: NOSCRIPT | ALLOW_BUSY, tips: "nondeterministic_output,request_policy:all_shards,response_policy:special", categories: category::SCRIPTING,
                docs: "
                    summary Return information about the function currently running (name, description, duration)
                    since 7.0.0
                    complexity O(1)
                ",
            }
        },
    }
}

const NO_WRITES: u8 = 1;
const ROLL_BACK: u8 = 2;
const COMPILING: &str = "ERR Error compiling function: ";

fn library_key(name: &[u8]) -> Vec<u8> {
    [&[0], name].concat()
}

fn function_key(name: &[u8]) -> Vec<u8> {
    [&[1], name.to_ascii_lowercase().as_slice()].concat()
}

/// What a library says of one of its functions.
struct Listed {
    name: Vec<u8>,
    flags: Vec<Vec<u8>>,
    description: Option<Vec<u8>>,
}

/// A library's row.
struct Library {
    name: Vec<u8>,
    functions: Vec<Listed>,
    text: Vec<u8>,
}

impl Library {
    fn decode(name: &[u8], row: &[u8]) -> Library {
        let read = || -> Result<Library, Malformed> {
            let mut reader = Reader::new(&row[20..]);
            let mut functions = Vec::new();
            for _ in 0..reader.varint()? {
                let name = reader.bytes()?.to_vec();
                let flags =
                    (0..reader.varint()?)
                        .map(|_| Ok(reader.bytes()?.to_vec()))
                        .collect::<Result<_, Malformed>>()?;
                let description = if reader.u8()? == 1 { Some(reader.bytes()?.to_vec()) } else { None };
                functions.push(Listed { name, flags, description });
            }
            let text = reader.bytes()?.to_vec();
            Ok(Library { name: name.to_vec(), functions, text })
        };
        read().expect("a library's row is as encode wrote it")
    }

    fn encode(digest: &[u8; 20], functions: &[Registered], text: &[u8]) -> Vec<u8> {
        let mut out = digest.to_vec();
        put_varint(&mut out, functions.len() as u64);
        for function in functions {
            put_bytes(&mut out, &function.name);
            put_varint(&mut out, function.flag_names.len() as u64);
            function.flag_names.iter().for_each(|flag| put_bytes(&mut out, flag));
            match &function.description {
                None => out.push(0),
                Some(description) => {
                    out.push(1);
                    put_bytes(&mut out, description);
                }
            }
        }
        put_bytes(&mut out, text);
        out
    }
}

/// `FCALL function numkeys key .. arg ..`; `_RO`: commands that write are refused.
pub fn fcall<T: Transaction>(
    mut args: Args<'_>,
    read_only: bool,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (name, start) = (args.promised()?, reply.out.len());
    let found = keyspace.transaction().get(FUNCTIONS, &function_key(name))?;
    let Some((digest, [flags, library @ ..])) = found.and_then(|row| row.split_first_chunk::<20>()) else {
        return Err(CommandError::Text("ERR Function not found").into());
    };
    let (digest, flags, library) = (*digest, *flags, library_key(library));
    let count =
        parse_integer(args.promised()?).ok_or(CommandError::Text("ERR Bad number of keys provided"))?;
    let (keys, args) = keys_and_args(args, count)?;
    if read_only && flags & NO_WRITES == 0 {
        return Err(
            CommandError::Text("ERR Can not execute a script with write flag using *_ro command.").into()
        );
    }
    let seed = keyspace.random().bits();
    vm::with(|vm| {
        let text = match vm.remembers(&digest) {
            true => Vec::new(),
            false => keyspace
                .transaction()
                .get(FUNCTIONS, &library)?
                .map(|row| Library::decode(b"", row).text)
                .unwrap_or_default(),
        };
        let compiled = compiled(&digest, &text, vm);
        let function = match compiled {
            Ok(function) => function,
            Err(failed) => return conclude(Err(failed), false, start, reply),
        };
        let task =
            Task { name, keys: &keys, args: &args, read_only: read_only || flags & NO_WRITES != 0, seed };
        let outcome =
            vm.function(&function, &task, &mut Commands::new(keyspace)?, reply).map_err(Failure::Stop)?;
        conclude(outcome, flags & ROLL_BACK != 0, start, reply)
    })
}

fn compiled(digest: &[u8; 20], text: &[u8], vm: &Vm) -> Result<mlua::Function, Failed> {
    let code = if vm.remembers(digest) { text } else { shebang::of_library(text)?.1 };
    vm.compile(digest, code, "@user_function", COMPILING)
}

/// `FUNCTION LOAD [REPLACE] text | DELETE library | FLUSH | LIST .. | DUMP | RESTORE .. | STATS | KILL | HELP`
pub fn function<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let start = reply.out.len();
    let word = args.promised()?;
    match word.to_ascii_lowercase().as_slice() {
        b"load" => {
            let loaded = load_words(args, keyspace)?;
            match loaded {
                Ok(name) => reply.bulk(&name),
                Err(failed) => return conclude(Err(failed), false, start, reply),
            }
        }
        b"delete" => {
            let name = args.promised()?;
            let library = find(name, keyspace)?.ok_or(CommandError::Text("ERR Library not found"))?;
            remove(&library, keyspace)?;
            reply.ok();
        }
        b"flush" => {
            if args.len() > 1 {
                return Err(wrong_words(word).into());
            }
            check_mode(args, "ERR FUNCTION FLUSH only supports SYNC|ASYNC option")?;
            remove_all(keyspace)?;
            reply.ok();
        }
        b"list" => list(args, keyspace, reply)?,
        b"dump" => {
            let libraries = all(keyspace)?;
            reply.bulk(&dump::dump(libraries.iter().map(|library| library.text.as_slice())));
        }
        b"restore" if args.len() > 2 => return Err(wrong_words(word).into()),
        b"restore" => match restore(args, keyspace)? {
            Ok(()) => reply.ok(),
            Err(failed) => return conclude(Err(failed), false, start, reply),
        },
        b"stats" => stats(keyspace, reply)?,
        b"kill" => return Err(CommandError::Text("NOTBUSY No scripts in execution right now.").into()),
        _ => help::full("FUNCTION", HELP, reply),
    }
    Ok(())
}

/// The subcommand as it was typed, with more words than it takes.
fn wrong_words(given: &[u8]) -> CommandError {
    let given = String::from_utf8_lossy(given);
    CommandError::Script(format!(
        "ERR unknown subcommand or wrong number of arguments for '{given}'. Try FUNCTION HELP."
    ))
}

fn load_words<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Result<Vec<u8>, Failed>, Failure> {
    let mut text = args.promised()?;
    let mut replace = false;
    while args.len() > 0 {
        if !is(text, "replace") {
            return Ok(Err(Failed::quoting("ERR Unknown option given: ", text, "")));
        }
        replace = true;
        text = args.promised()?;
    }
    load(text, replace, keyspace)
}

/// Loads a library; its name. All or nothing is written.
fn load<T: Transaction>(
    text: &[u8],
    replace: bool,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Result<Vec<u8>, Failed>, Failure> {
    if text.len() > MAX_SCRIPT_BYTES {
        return Ok(Err(Failed(
            format!("ERR library exceeds maximum allowed size ({MAX_SCRIPT_BYTES} bytes)").into_bytes(),
        )));
    }
    let name = match shebang::of_library(text) {
        Ok((name, _)) => name,
        Err(failed) => return Ok(Err(failed)),
    };
    let name = &name[..];
    let old = find(name, keyspace)?;
    if old.is_some() && !replace {
        return Ok(Err(Failed::quoting("ERR Library '", name, "' already exists")));
    }
    let digest = sha1::sha1(text);
    let registered = vm::with(|vm| match compiled(&digest, text, vm) {
        Ok(function) => vm.library(&function, &mut Commands { keyspace, rules: None }).map_err(Failure::Stop),
        Err(failed) => Ok(Err(failed)),
    })?;
    let functions = match registered {
        Ok(functions) if functions.is_empty() => return Ok(Err(Failed::text("ERR No functions registered"))),
        Ok(functions) => functions,
        Err(failed) => return Ok(Err(failed)),
    };
    for function in &functions {
        let row = keyspace.transaction().get(FUNCTIONS, &function_key(&function.name))?;
        if row.is_some_and(|row| row[21..] != *name) {
            return Ok(Err(Failed::quoting("ERR Function ", &function.name, " already exists")));
        }
    }
    let row = Library::encode(&digest, &functions, text);
    let kept: usize = all(keyspace)?
        .iter()
        .filter(|library| library.name != name)
        .map(|library| library.text.len() + 64)
        .sum();
    if (kept + row.len()) as u64 > MAX_KEPT_BYTES {
        return Ok(Err(Failed(
            format!("ERR all libraries together may have {MAX_KEPT_BYTES} bytes").into_bytes(),
        )));
    }
    if let Some(old) = old {
        remove(&old, keyspace)?;
    }
    let tx = keyspace.transaction();
    tx.put(FUNCTIONS, &library_key(name), &row)?;
    for function in &functions {
        let no_writes = u8::from(function.flags.no_writes) * NO_WRITES;
        let flags = no_writes | (u8::from(function.flags.roll_back) * ROLL_BACK);
        tx.put(FUNCTIONS, &function_key(&function.name), &[&digest, &[flags][..], name].concat())?;
    }
    Ok(Ok(name.to_vec()))
}

fn find<T: Transaction>(name: &[u8], keyspace: &mut Keyspace<'_, T>) -> Result<Option<Library>, Failure> {
    if !shebang::is_name(name) {
        return Ok(None);
    }
    Ok(keyspace.transaction().get(FUNCTIONS, &library_key(name))?.map(|row| Library::decode(name, row)))
}

/// Every library, by name.
fn all<T: Transaction>(keyspace: &mut Keyspace<'_, T>) -> Result<Vec<Library>, Failure> {
    let mut found = Vec::new();
    let range = (Bound::Included(&[0][..]), Bound::Excluded(&[1][..]));
    keyspace.transaction().scan(FUNCTIONS, range, Direction::Forward, |key, row| {
        found.push(Library::decode(&key[1..], row));
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

fn remove<T: Transaction>(library: &Library, keyspace: &mut Keyspace<'_, T>) -> Done {
    let tx = keyspace.transaction();
    tx.delete(FUNCTIONS, &library_key(&library.name))?;
    for function in &library.functions {
        tx.delete(FUNCTIONS, &function_key(&function.name))?;
    }
    Ok(())
}

fn remove_all<T: Transaction>(keyspace: &mut Keyspace<'_, T>) -> Done {
    all(keyspace)?.iter().try_for_each(|library| remove(library, keyspace))
}

/// `LIST [LIBRARYNAME pattern] [WITHCODE]`
fn list<T: Transaction>(mut args: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let (mut pattern, mut with_code) = (None, false);
    while let Some(word) = args.next() {
        if is(word, "withcode") && !with_code {
            with_code = true;
        } else if is(word, "libraryname") && pattern.is_none() {
            pattern = Some(args.next().ok_or(CommandError::Text("ERR library name argument was not given"))?);
        } else {
            let word = String::from_utf8_lossy(word).into_owned();
            return Err(CommandError::Script(format!("ERR Unknown argument {word}")).into());
        }
    }
    let mut libraries = all(keyspace)?;
    // As Redis, in letters of any size.
    let lower = pattern.map(<[u8]>::to_ascii_lowercase);
    let pattern = lower.as_deref().map(Pattern::of_names).transpose()?;
    let fits =
        |name: &[u8]| pattern.as_ref().is_none_or(|pattern| pattern.matches(&name.to_ascii_lowercase()));
    libraries.retain(|library| fits(&library.name));
    pattern.as_ref().map_or(Ok(()), Pattern::check)?;
    reply.array(libraries.len());
    for library in &libraries {
        reply.map(if with_code { 4 } else { 3 });
        for word in [&b"library_name"[..], &library.name, b"engine", b"LUA", b"functions"] {
            reply.bulk(word);
        }
        reply.array(library.functions.len());
        for function in &library.functions {
            reply.map(3);
            reply.bulk(b"name");
            reply.bulk(&function.name);
            reply.bulk(b"description");
            match &function.description {
                None => reply.null(),
                Some(description) => reply.bulk(description),
            }
            reply.bulk(b"flags");
            reply.set(function.flags.len());
            function.flags.iter().for_each(|flag| reply.line(b'+', flag));
        }
        if with_code {
            reply.bulk(b"library_code");
            reply.bulk(&library.text);
        }
    }
    Ok(reply.check_length()?)
}

fn stats<T: Transaction>(keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let libraries = all(keyspace)?;
    let functions: usize = libraries.iter().map(|library| library.functions.len()).sum();
    reply.map(2);
    reply.bulk(b"running_script");
    reply.null();
    reply.bulk(b"engines");
    reply.map(1);
    reply.bulk(b"LUA");
    reply.map(2);
    for (name, count) in [("libraries_count", libraries.len()), ("functions_count", functions)] {
        reply.bulk(name.as_bytes());
        reply.integer(count as i64);
    }
    Ok(())
}

/// `RESTORE payload [FLUSH | APPEND | REPLACE]`. What fails has changed nothing: what it has written by then is put back.
fn restore<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
) -> Result<Result<(), Failed>, Failure> {
    let payload = args.promised()?;
    let policy = args.next().unwrap_or(b"append");
    const WRONG: &str = "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.";
    if !["flush", "append", "replace"].into_iter().any(|known| is(policy, known)) {
        return Err(CommandError::Text(WRONG).into());
    }
    let texts = match dump::restore(payload) {
        Ok(texts) => texts,
        Err(failed) => return Ok(Err(failed)),
    };
    let before = all(keyspace)?;
    if is(policy, "flush") {
        remove_all(keyspace)?;
    }
    for text in texts {
        let name = shebang::of_library(&text).map(|(name, _)| name).unwrap_or_default();
        let collides = !is(policy, "replace") && find(&name, keyspace)?.is_some();
        let loaded = match collides {
            true => Err(Failed::quoting("ERR Library ", &name, " already exists")),
            false => load(&text, is(policy, "replace"), keyspace)?,
        };
        let Err(failed) = loaded else { continue };
        remove_all(keyspace)?;
        for library in before {
            let again = load(&library.text, false, keyspace)?;
            debug_assert!(again.is_ok(), "it was there before");
        }
        return Ok(Err(failed));
    }
    Ok(Ok(()))
}

const HELP: &[&str] = &[
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Library description",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    Kill the current running function.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries.",
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
    "    * ASYNC: Asynchronously flush the libraries.",
    "    * SYNC: Synchronously flush the libraries.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of failure",
    "      in case of functions name collision with another library).",
];
