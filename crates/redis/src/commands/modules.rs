//! HW.MODULE, and calls of modules' procedures. What a module is: [`crate::modules`].

use highwater_core::{Abort, Transaction};

use super::{help, words};
use crate::command::entry::commands;
use crate::command::{Awaited, Wait};
use crate::errors::CommandError;
use crate::keyspace::{Done, Keyspace};
use crate::modules::catalogue::{self, Head};
use crate::modules::{self, MAX_KEPT_BYTES, compiler, is_name};
use crate::reply::Reply;
use crate::request::Args;
use crate::scripts::Failed;

commands! {
    data(args, keyspace, reply);

    HW_MODULE = 205 {
        run: module(args, keyspace, reply),
        name: "hw.module", arity: -2, flags: WRITE | DENYOOM | ADMIN | NOSCRIPT, keys: CODE,
        group: "scripting", since: "0.2.0",
        summary: "Load, unload, list and describe WebAssembly modules",
        wait: Some(wait_for_load),
        subcommands: subcommands! { "hw.module":
            "load" -4 {
                docs: "
                    summary Load a WebAssembly module in the whole cluster
                    since 0.2.0
                    complexity O(N) where N is the module's length
                    - name: string
                    - bytes: string
                    - replace: pure-token 'REPLACE' optional
                ",
            }
            "unload" 3 {
                docs: "
                    summary Unload a module; who runs it goes on
                    since 0.2.0
                    complexity O(1)
                    - name: string
                ",
            }
            "list" 2 {
                docs: "
                    summary List the modules
                    since 0.2.0
                    complexity O(N) where N is the number of modules
                ",
            }
            "info" 3 {
                docs: "
                    summary Describe a module and its procedures
                    since 0.2.0
                    complexity O(1)
                    - name: string
                ",
            }
            "compile" 2 {}
            our_help "0.2.0" {}
        },
    }

    HW_INVOKE = 206 {
        run: invoke(args, false, keyspace, reply),
        name: "hw.invoke", arity: -2, flags: WRITE | NOSCRIPT | RUNS_MODULES, keys: PROCEDURE,
        group: "scripting", since: "0.2.0",
        summary: "Call a procedure of a module: what HW.CALL of one becomes",
        wait: Some(wait_for_call),
        docs: "
            complexity Depends on the procedure
            - procedure: string
            - arg: string optional multiple
        ",
    }

    HW_CALL_RO = 207 {
        run: invoke(args, true, keyspace, reply),
        name: "hw.call_ro", arity: -2, flags: READONLY | NOSCRIPT | RUNS_MODULES, keys: PROCEDURE,
        group: "scripting", since: "0.2.0",
        summary: "Call a procedure of a module that only reads",
        wait: Some(wait_for_call),
        docs: "
            complexity Depends on the procedure
            - procedure: string
            - arg: string optional multiple
        ",
    }
}

/// `HW.INVOKE module.procedure arg..`, which `HW.CALL` of a module's procedure becomes; `HW.CALL_RO`: what writes is refused.
pub fn invoke<T: Transaction>(
    mut args: Args<'_>,
    read_only: bool,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let (full, start) = (args.promised()?, reply.out.len());
    let Some(name) = split(full) else { return Err(CommandError::unknown_procedure(full).into()) };
    let digest = catalogue::digest_of(keyspace.transaction(), name.0, name.1)?;
    let digest = digest.ok_or_else(|| CommandError::unknown_procedure(full))?;
    let Err(Failed(why)) = modules::call(name, digest, args, read_only, keyspace, reply)? else {
        return Ok(reply.check_length()?);
    };
    // Of all that the transaction did nothing stays.
    reply.out.truncate(start);
    reply.error_bytes(&why);
    Err(Abort::Rollback.into())
}

/// The module and its procedure.
fn split(full: &[u8]) -> Option<(&[u8], &[u8])> {
    let dot = full.iter().position(|byte| *byte == b'.')?;
    Some((&full[..dot], &full[dot + 1..]))
}

/// The line in which a load waits while this thread has modules compiled elsewhere.
fn wait_for_load(mut args: Args<'_>) -> Option<Wait> {
    compiler::compiler()?;
    if !words::is(args.next()?, "load") {
        return None;
    }
    let name = args.next().filter(|name| is_name(name))?;
    Some(wait_in(modules::line_of_loads(name)))
}

/// The line in which a call waits: none if its module is compiled.
fn wait_for_call(mut args: Args<'_>) -> Option<Wait> {
    compiler::compiler()?;
    let (name, _) = split(args.next()?)?;
    if !is_name(name) || modules::is_warm(name) {
        return None;
    }
    Some(wait_in(modules::line_of_calls(name)))
}

fn wait_in(line: Vec<u8>) -> Wait {
    Wait { keys: vec![line], timeout_ms: None, what: Awaited::Module }
}

/// `HW.MODULE LOAD name bytes [REPLACE] | UNLOAD name | LIST | INFO name | COMPILE`
pub fn module<T: Transaction>(
    mut args: Args<'_>,
    keyspace: &mut Keyspace<'_, T>,
    reply: &mut Reply<'_>,
) -> Done {
    let subcommand = args.promised()?;
    match () {
        () if words::is(subcommand, "help") => {
            let usages = ["LOAD <name> <bytes> [REPLACE]", "UNLOAD <name>", "LIST", "INFO <name>", "COMPILE"];
            help::help("HW.MODULE", &usages, reply);
            Ok(())
        }
        () if !cfg!(feature = "wasm") => Err(CommandError::NoWasm.into()),
        () if words::is(subcommand, "load") => load(args, keyspace, reply),
        () if words::is(subcommand, "unload") => {
            let name = args.promised()?;
            let old = Head::find(keyspace.transaction(), name)?;
            if let Some(old) = &old {
                catalogue::unload(keyspace.transaction(), name, old)?;
            }
            reply.integer(old.is_some().into());
            Ok(())
        }
        () if words::is(subcommand, "compile") => {
            reply.integer(modules::prepare(keyspace.transaction())? as i64);
            Ok(())
        }
        () if words::is(subcommand, "info") => {
            let name = args.promised()?;
            let head = Head::find(keyspace.transaction(), name)?;
            describe(name, &head.ok_or_else(|| CommandError::no_module(name))?, reply);
            Ok(())
        }
        () => list(keyspace, reply),
    }
}

fn load<T: Transaction>(mut args: Args<'_>, keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let (name, bytes) = (args.promised()?, args.promised()?);
    let replace = match (args.next(), args.next()) {
        (None, _) => false,
        (Some(word), None) if words::is(word, "replace") => true,
        _ => return Err(CommandError::Syntax.into()),
    };
    if !is_name(name) {
        return Err(CommandError::ModuleName.into());
    }
    let old = Head::find(keyspace.transaction(), name)?;
    if old.is_some() && !replace {
        return Err(CommandError::ModuleExists.into());
    }
    let module = modules::check(bytes, name)?;
    if let Some(taken) = taken(name, &module.procedures) {
        return Err(CommandError::BadModule(format!("{taken} is a procedure that this node hosts")).into());
    }
    let now = keyspace.now();
    match catalogue::load(keyspace.transaction(), name, &module, old.as_ref(), now)? {
        Some(version) => reply.integer(version as i64),
        None => {
            let why = format!("all modules together may have {MAX_KEPT_BYTES} bytes");
            return Err(CommandError::BadModule(why).into());
        }
    }
    Ok(())
}

/// A procedure of which nobody could call the module's, because the node hosts one of the same name.
fn taken(module: &[u8], procedures: &[String]) -> Option<String> {
    let module = String::from_utf8_lossy(module).to_ascii_lowercase();
    let full = procedures.iter().map(|name| format!("{module}.{}", name.to_ascii_lowercase()));
    full.into_iter().find(|name| modules::is_hosted(name))
}

fn list<T: Transaction>(keyspace: &mut Keyspace<'_, T>, reply: &mut Reply<'_>) -> Done {
    let mut found = Vec::new();
    Head::all(keyspace.transaction(), |name, head| found.push((name.to_vec(), head)))?;
    reply.array(found.len());
    found.iter().for_each(|(name, head)| describe(name, head, reply));
    Ok(())
}

fn describe(name: &[u8], head: &Head, reply: &mut Reply<'_>) {
    let digest: String = head.digest.iter().map(|byte| format!("{byte:02x}")).collect();
    reply.map(6);
    reply.bulk(b"name");
    reply.bulk(name);
    reply.bulk(b"version");
    reply.integer(head.version as i64);
    reply.bulk(b"sha256");
    reply.bulk(digest.as_bytes());
    reply.bulk(b"bytes");
    reply.integer(head.bytes as i64);
    reply.bulk(b"loaded_ms");
    reply.integer(head.loaded_ms as i64);
    reply.bulk(b"procedures");
    reply.array(head.procedures.len());
    head.procedures.iter().for_each(|name| reply.bulk(name.as_bytes()));
}

impl From<CommandError> for Failed {
    fn from(error: CommandError) -> Failed {
        Failed(error.to_string().into_bytes())
    }
}
