//! The table `redis`: commands, replies, and what else Redis offers its scripts.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use highwater_core::codec::{Reader, put_bytes, put_varint};
use mlua::{Lua, MultiValue, Table, Value};

use highwater_redis_lua::raise::{self, Raise, table as error};

use super::shebang::{BAD_NAME, Flags, is_name};
use super::vm::{Registered, Run};
use super::{bridge, sha1, values};
use crate::acl::Denied;
use crate::command::{Command, Opcode, flags};
use crate::commands::op;
use crate::double::format_double;
use crate::errors::CommandError;
use crate::number::Digits;
use crate::reply::{Protocol, Reply};
use crate::request::Args;

/// What a call costs beside its bytes, in instructions.
const CALL_INSTRUCTIONS: u64 = 100;
/// An integer below it has the same digits as a double.
const SHORT: u64 = 1_000_000_000_000_000;
/// Lines that a run may log.
const MAX_LOGGED: u32 = 100;
/// Most characters of one, and the bytes that those may be.
const MAX_LINE_CHARS: usize = 1000;
const MAX_LINE_BYTES: usize = 4 * MAX_LINE_CHARS;

const NOTHING_GIVEN: &str = "ERR Please specify at least one argument for this redis lib call";
const BAD_WORDS: &str = "ERR Lua redis lib command arguments must be strings or integers";
const UNKNOWN: &str = "ERR Unknown Redis command called from script";
const WRONG_NUMBER: &str = "ERR Wrong number of args calling Redis command from script";
const NOT_ALLOWED: &str = "ERR This Redis command is not allowed from script";
const DENIED_COMMAND: &str = "ERR The user executing the script can't run this command or subcommand";
const DENIED_KEY: &str = "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments";
const NO_SUCH_COMMAND: &str = "ERR Invalid command passed to redis.acl_check_cmd()";
const READ_ONLY: &str = "ERR Write commands are not allowed from read-only scripts.";

/// Buffers that calls use one after another.
#[derive(Default)]
struct Buffers {
    words: Vec<u8>,
    reply: Vec<u8>,
}

/// The table that scripts see.
pub fn table(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let buffers = Rc::new(RefCell::new(Buffers::default()));
    for (name, raises) in [("call", true), ("pcall", false)] {
        let (run, buffers) = (run.clone(), buffers.clone());
        redis.raw_set(
            name,
            lua.create_function(move |lua, words: MultiValue| match call(lua, &run, &buffers, &words) {
                Err(raised) if !raises => match raise::raised(&raised) {
                    Some(Raise::Table(_)) => raise::seen(lua, Value::Error(Box::new(raised))),
                    _ => Err(raised),
                },
                outcome => outcome,
            })?,
        )?;
    }
    let asked = run.clone();
    redis.raw_set(
        "setresp",
        lua.create_function(move |lua, args: MultiValue| {
            let [version] = &args.iter().collect::<Vec<_>>()[..] else {
                return Err(error("ERR redis.setresp() requires one argument."));
            };
            asked.protocol.set(match lua.coerce_number((*version).clone())? {
                Some(2.0) => Protocol::Resp2,
                Some(3.0) => Protocol::Resp3,
                _ => return Err(error("ERR RESP version must be 2 or 3.")),
            });
            Ok(())
        })?,
    )?;
    for (name, field) in [("error_reply", "err"), ("status_reply", "ok")] {
        redis.raw_set(
            name,
            lua.create_function(move |lua, args: MultiValue| single_field(lua, field, &args))?,
        )?;
    }
    let hashed = run.clone();
    redis.raw_set(
        "sha1hex",
        lua.create_function(move |lua, args: MultiValue| {
            if args.len() != 1 {
                return Err(error("ERR wrong number of arguments"));
            }
            let text = lua.coerce_string(args[0].clone())?;
            let text = text.as_ref().map(|text| text.as_bytes());
            let bytes = text.as_deref().unwrap_or_default();
            hashed.budget.charge_bytes(bytes.len() * 16)?;
            Ok(sha1::sha1_hex(bytes))
        })?,
    )?;
    redis.raw_set(
        "set_repl",
        lua.create_function(|lua, args: MultiValue| {
            let [flags] = &args.iter().collect::<Vec<_>>()[..] else {
                return Err(error("ERR redis.set_repl() requires two arguments."));
            };
            match lua.coerce_number((*flags).clone())?.unwrap_or(0.0) as i64 {
                0..=3 => Ok(()),
                _ => Err(error(
                    "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
                )),
            }
        })?,
    )?;
    redis.raw_set("replicate_commands", lua.create_function(|_, _: MultiValue| Ok(true))?)?;
    redis.raw_set("breakpoint", lua.create_function(|_, _: MultiValue| Ok(false))?)?;
    redis.raw_set("debug", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    let checked = run.clone();
    redis.raw_set(
        "acl_check_cmd",
        lua.create_function(move |_, words: MultiValue| {
            checked.budget.charge_arguments(&words)?;
            if words.is_empty() {
                return Err(error(NOTHING_GIVEN));
            }
            let mut encoded = Vec::new();
            let opcode = encode(&words, &mut encoded)?.ok_or_else(|| error(NO_SUCH_COMMAND))?;
            let args = Args::decode(&mut Reader::new(&encoded)).expect("encode wrote them");
            let (spec, first) = (opcode.spec(), args.into_iter().next());
            // A command with subcommands is one of them, or none.
            if !spec.subcommands.is_empty() && first.is_some_and(|word| spec.subcommand(word).is_none()) {
                return Err(error(NO_SUCH_COMMAND));
            }
            Ok(bridge::with(|host| host.may(opcode, args).is_ok()).unwrap_or(true))
        })?,
    )?;
    for (name, value) in
        [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)]
    {
        redis.raw_set(name, value)?;
    }
    redis.raw_set("REDIS_VERSION", crate::commands::info::REDIS_VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", 0x0007_000f)?;
    logging(lua, run, &redis)?;
    Ok(redis)
}

/// The table that a library's text sees while it is loaded.
pub fn loading(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    redis.raw_set("REDIS_VERSION", crate::commands::info::REDIS_VERSION)?;
    redis.raw_set("REDIS_VERSION_NUM", 0x0007_000f)?;
    let run_of = run.clone();
    redis.raw_set(
        "register_function",
        lua.create_function(move |lua, args: MultiValue| register(lua, &run_of, args))?,
    )?;
    logging(lua, run, &redis)?;
    Ok(redis)
}

/// `redis.log`: into the node's own log, where it is bounded.
fn logging(lua: &Lua, run: &Rc<Run>, redis: &Table) -> mlua::Result<()> {
    for (level, name) in ["LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING"].into_iter().enumerate() {
        redis.raw_set(name, level)?;
    }
    let run = run.clone();
    redis.raw_set(
        "log",
        lua.create_function(move |lua, args: MultiValue| {
            if args.len() < 2 {
                return Err(error("ERR redis.log() requires two arguments or more."));
            }
            let level = match &args[0] {
                Value::Integer(level) => *level,
                Value::Number(level) => *level as i64,
                _ => return Err(error("ERR First argument must be a number (log level).")),
            };
            if !(0..4).contains(&level) {
                return Err(error("ERR Invalid debug level."));
            }
            if run.logged.replace(run.logged.get() + 1) < MAX_LOGGED {
                let line = line(lua, &args);
                match level {
                    0 | 1 => tracing::debug!(script = %line),
                    2 => tracing::info!(script = %line),
                    _ => tracing::warn!(script = %line),
                }
            }
            Ok(())
        })?,
    )
}

/// The words behind the first as one line, as far as it is logged: what is longer is not looked at.
fn line(lua: &Lua, args: &MultiValue) -> String {
    let mut line = Vec::new();
    for word in args.iter().skip(1).filter_map(|word| lua.coerce_string(word.clone()).ok().flatten()) {
        if !line.is_empty() {
            line.push(b' ');
        }
        let word = word.as_bytes();
        line.extend_from_slice(&word[..word.len().min(MAX_LINE_BYTES)]);
        if line.len() >= MAX_LINE_BYTES {
            break;
        }
    }
    String::from_utf8_lossy(&line).chars().take(MAX_LINE_CHARS).collect()
}

/// `error_reply` and `status_reply`: a table with one field. One that cannot be is an error reply, and raises nothing.
fn single_field(lua: &Lua, field: &str, args: &MultiValue) -> mlua::Result<Table> {
    let reply = lua.create_table_with_capacity(0, 1)?;
    let [Value::String(text)] = &args.iter().cloned().collect::<Vec<_>>()[..] else {
        reply.raw_set("err", "ERR wrong number or type of arguments")?;
        return Ok(reply);
    };
    let text = text.as_bytes();
    let text = match field {
        "err" => error_text(&text),
        _ => text.to_vec(),
    };
    reply.raw_set(field, lua.create_string(text)?)?;
    Ok(reply)
}

/// The first word of an error is its code: one that has a single word gets one.
fn error_text(text: &[u8]) -> Vec<u8> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let text = text.strip_suffix(b"\r\n").unwrap_or(text);
    if text.contains(&b' ') { text.to_vec() } else { [b"ERR ", text].concat() }
}

/// Runs a command; an error of its is raised as a table.
fn call(lua: &Lua, run: &Run, buffers: &RefCell<Buffers>, words: &MultiValue) -> mlua::Result<Value> {
    run.budget.charge(lua, CALL_INSTRUCTIONS)?;
    run.budget.charge_arguments(words)?;
    if words.is_empty() {
        return Err(error(NOTHING_GIVEN));
    }
    // Nothing below calls a script's code.
    let Buffers { words: encoded, reply } = &mut *buffers.borrow_mut();
    encoded.clear();
    reply.clear();
    let opcode = encode(words, encoded)?;
    let mut reader = Reader::new(encoded);
    let args = Args::decode(&mut reader).expect("encode wrote them");
    let opcode = opcode.ok_or_else(|| error(UNKNOWN))?;
    check(run, opcode, args)?;
    let protocol = run.protocol.get();
    match opcode.spec().command {
        Command::Data => {
            let called = bridge::with(|host| {
                catch_unwind(AssertUnwindSafe(|| host.call(opcode, args, protocol, reply)))
            });
            match called
                .ok_or_else(|| error("ERR redis.call can only be called inside a script invocation"))?
            {
                Ok(Ok(())) => {}
                Ok(Err(stop)) => {
                    run.stop(stop);
                    return Err(Raise::Over.into());
                }
                Err(payload) => {
                    run.panicked(payload);
                    return Err(Raise::Over.into());
                }
            }
        }
        Command::Local => answer(opcode, args, &mut Reply::new(reply, protocol))?,
        Command::Control(_) => return Err(error(NOT_ALLOWED)),
    }
    run.budget.charge(lua, (encoded.len() + reply.len()) as u64 / 16)?;
    if let [b'-', text @ .., b'\r', b'\n'] = &reply[..] {
        return Err(error(text));
    }
    let value = values::from_reply(lua, run, reply);
    if reply.capacity() > 1 << 20 {
        *reply = Vec::new();
    }
    value
}

/// The command, and its words as a request has them.
fn encode(words: &MultiValue, out: &mut Vec<u8>) -> mlua::Result<Option<Opcode>> {
    let mut opcode = None;
    put_varint(out, words.len() as u64 - 1);
    for (at, word) in words.iter().enumerate() {
        let (digits, number);
        let text;
        let bytes: &[u8] = match word {
            Value::String(string) => {
                text = string.as_bytes();
                &text
            }
            Value::Integer(integer) if integer.unsigned_abs() < SHORT => {
                digits = Digits::new(*integer);
                digits.as_bytes()
            }
            Value::Integer(integer) => {
                number = format_double(*integer as f64);
                number.as_bytes()
            }
            Value::Number(double) => {
                number = format_double(*double);
                number.as_bytes()
            }
            _ => return Err(error(BAD_WORDS)),
        };
        if at == 0 { opcode = Opcode::find(bytes) } else { put_bytes(out, bytes) }
    }
    Ok(opcode)
}

fn check(run: &Run, opcode: Opcode, args: Args<'_>) -> mlua::Result<()> {
    let spec = opcode.spec();
    match spec.check(args) {
        Ok(()) => {}
        Err(CommandError::WrongArity(_)) => return Err(error(WRONG_NUMBER)),
        Err(_) => return Err(error(UNKNOWN)),
    }
    let allowed = match spec.command {
        Command::Data => spec.is_ordinary() && !spec.has(flags::NOSCRIPT),
        Command::Local => spec.has(flags::IN_SCRIPTS),
        Command::Control(_) => false,
    };
    if !allowed {
        return Err(error(NOT_ALLOWED));
    }
    match bridge::with(|host| host.may(opcode, args)) {
        None | Some(Ok(())) => {}
        Some(Err(Denied::Command(_))) => return Err(error(DENIED_COMMAND)),
        Some(Err(Denied::Key(_) | Denied::Table(_))) => return Err(error(DENIED_KEY)),
    }
    if run.read_only.get() && spec.command == Command::Data && !spec.reads() {
        return Err(error(READ_ONLY));
    }
    Ok(())
}

/// The few commands that touch no data and mean something in a script.
fn answer(opcode: Opcode, mut args: Args<'_>, reply: &mut Reply<'_>) -> mlua::Result<()> {
    match (opcode, args.next()) {
        (op::PING, None) => reply.simple("PONG"),
        (op::PING | op::ECHO, Some(word)) => reply.bulk(word),
        (op::TIME, _) => {
            let unix_ms = bridge::with(|host| host.unix_ms()).unwrap_or_default();
            crate::commands::admin::write_time(unix_ms, reply);
        }
        (op::SELECT, Some(b"0")) => reply.ok(),
        (op::SELECT, _) => return Err(error(CommandError::NoSuchDatabase.to_string())),
        _ => return Err(error(NOT_ALLOWED)),
    }
    Ok(())
}

/// `redis.register_function(name, callback)`, or with a table of named arguments.
fn register(lua: &Lua, run: &Run, mut args: MultiValue) -> mlua::Result<()> {
    if run.registered.borrow().is_none() {
        return Err(error("ERR redis.register_function can only be called on FUNCTION LOAD command"));
    }
    let function = match (args.pop_front(), args.pop_front(), args.pop_front()) {
        (Some(named), None, None) => named_arguments(lua, named)?,
        (Some(name), Some(callback), None) => {
            let name = lua
                .coerce_string(name)?
                .ok_or_else(|| error("ERR first argument to redis.register_function must be a string"))?;
            let Value::Function(callback) = callback else {
                return Err(error("ERR second argument to redis.register_function must be a function"));
            };
            Registered {
                name: name.as_bytes().to_vec(),
                callback,
                flags: Flags::default(),
                flag_names: Vec::new(),
                description: None,
            }
        }
        _ => return Err(error("ERR wrong number of arguments to redis.register_function")),
    };
    if !is_name(&function.name) {
        return Err(error(BAD_NAME));
    }
    let mut registered = run.registered.borrow_mut();
    let registered = registered.as_mut().expect("it was there above");
    if registered.iter().any(|known| known.name.eq_ignore_ascii_case(&function.name)) {
        return Err(error("ERR Function already exists in the library"));
    }
    if registered.len() >= super::MAX_FUNCTIONS {
        return Err(error(format!("ERR a library has at most {} functions", super::MAX_FUNCTIONS)));
    }
    registered.push(function);
    Ok(())
}

fn named_arguments(lua: &Lua, named: Value) -> mlua::Result<Registered> {
    let Value::Table(named) = named else {
        return Err(error(
            "ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).",
        ));
    };
    let (mut name, mut callback, mut description) = (None, None, None);
    let (mut flags, mut flag_names) = (Flags::default(), Vec::new());
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair?;
        // A name that is unknown ends it, so there are no more than these.
        let Value::String(key) = key else {
            return Err(error("ERR unknown argument given to redis.register_function"));
        };
        let text = |value: Value, otherwise: &'static str| -> mlua::Result<Vec<u8>> {
            let text = lua.coerce_string(value)?.ok_or_else(|| error(otherwise))?;
            Ok(text.as_bytes().to_vec())
        };
        match &*key.as_bytes() {
            b"function_name" => {
                name = Some(text(
                    value,
                    "ERR function_name argument given to redis.register_function must be a string",
                )?);
            }
            b"description" => {
                description = Some(text(
                    value,
                    "ERR description argument given to redis.register_function must be a string",
                )?);
            }
            b"callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => {
                    return Err(error(
                        "ERR callback argument given to redis.register_function must be a function",
                    ));
                }
            },
            b"flags" => {
                let Value::Table(list) = value else {
                    return Err(error(
                        "ERR flags argument to redis.register_function must be a table representing function flags",
                    ));
                };
                for flag in list.sequence_values::<Value>() {
                    let flag = lua
                        .coerce_string(flag?)?
                        .ok_or_else(|| error("ERR unknown flag given"))?
                        .as_bytes()
                        .to_vec();
                    if !flags.add(&flag) {
                        return Err(error("ERR unknown flag given"));
                    }
                    if !flag_names.contains(&flag) {
                        flag_names.push(flag);
                    }
                }
            }
            _ => return Err(error("ERR unknown argument given to redis.register_function")),
        }
    }
    let name = name.ok_or_else(|| error("ERR redis.register_function must get a function name argument"))?;
    let callback =
        callback.ok_or_else(|| error("ERR redis.register_function must get a callback argument"))?;
    Ok(Registered { name, callback, flags, flag_names, description })
}
