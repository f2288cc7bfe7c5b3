//! HW.MODULE, and calls of modules' procedures. What a module is: [`crate::modules`].

use highwater_core::{Abort, Transaction};

use super::blocking::{Awaited, Wait};
use super::{help, words};
use crate::command::Data;
use crate::errors::CommandError;
use crate::keyspace::{Done, Keyspace};
use crate::modules::catalogue::{self, Head};
use crate::modules::{self, MAX_KEPT_BYTES, compiler, is_name};
use crate::reply::Reply;
use crate::request::Args;
use crate::scripts::Failed;

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

/// The thing that a call of a module, or a load, waits for if this thread has modules compiled elsewhere: `None` if it need not be asked to wait.
#[inline]
pub fn wait_of(command: Data, args: Args<'_>) -> Option<Wait> {
    match command {
        Data::Module | Data::Invoke | Data::InvokeRo => wait_for_compiler(command, args),
        _ => None,
    }
}

fn wait_for_compiler(command: Data, mut args: Args<'_>) -> Option<Wait> {
    compiler::compiler()?;
    let first = args.next()?;
    let line = match command {
        Data::Module if words::is(first, "load") => {
            modules::line_of_loads(args.next().filter(|name| is_name(name))?)
        }
        Data::Module => return None,
        _ => {
            let (name, _) = split(first)?;
            if !is_name(name) || modules::is_warm(name) {
                return None;
            }
            modules::line_of_calls(name)
        }
    };
    Some(Wait { keys: vec![line], timeout_ms: None, what: Awaited::Module })
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
