//! The functions that modules import: docs/internals/wasm.md lists them.
//!
//! Lengths and places are offsets into the instance's memory. What gives bytes writes as many as there is room for and tells how many there
//! are; `rest` gives all of the last ones again. A place that is not in the memory ends the procedure, and so does everything that the data refuses.

use std::ops::ControlFlow;

use highwater_core::Direction;
use highwater_core::codec::{Reader, put_bytes, put_varint};
use wasmtime::{Caller, Engine, Linker, Result, Trap};

use super::ABI;
use super::state::State;
use crate::command::{Command, Opcode, flags};
use crate::errors::{CommandError, ProcedureError};
use crate::keyspace::Failure;
use crate::reply::{Protocol, Reply};
use crate::request::Args;
use crate::scripts::bridge::{self, Host};

/// Fuel of each function's call, beside what its bytes cost: those of keys, too, before they are looked for.
const CALL_FUEL: u64 = 200;
/// Fuel of a row that a scan visits, and of a command.
const ROW_FUEL: u64 = 50;
const COMMAND_FUEL: u64 = 1_000;
/// So many bytes that are copied are worth one instruction.
const BYTES_PER_FUEL: u64 = 8;

/// A result that says "there is none".
const NONE: i32 = -1;
/// What [`scan`] tells beside a length: that was all, there is more, not even one row has room.
const ALL: i64 = 0;
const MORE: i64 = 1 << 32;
const NO_ROOM: i64 = 2 << 32;

type At<'a, 'b> = &'a mut Caller<'b, State>;

/// The instance's memory, and what is known of the call.
fn view<'a>(caller: At<'a, '_>) -> Result<(&'a mut [u8], &'a mut State)> {
    let Some(memory) = caller.data().memory else {
        return Err(caller.data_mut().misuse("it has no memory yet"));
    };
    Ok(memory.data_and_store_mut(caller))
}

/// Bytes that the procedure points to.
fn part<'a>(memory: &'a [u8], state: &mut State, at: i32, len: i32) -> Result<&'a [u8]> {
    let (at, len) = (at as u32 as usize, len as u32 as usize);
    let found = memory.get(at..).and_then(|from| from.get(..len));
    found.ok_or_else(|| state.misuse("it points outside of its memory"))
}

/// Copies what was found, as far as there is room; how much there is.
fn hand_over(memory: &mut [u8], state: &mut State, to: i32, room: i32) -> Result<i32> {
    let len = state.rest.len().min(room as u32 as usize);
    part(memory, state, to, len as i32)?;
    let to = to as u32 as usize;
    memory[to..to + len].copy_from_slice(&state.rest[..len]);
    Ok(state.rest.len() as i32)
}

fn charge(caller: At<'_, '_>, fuel: u64) -> Result<()> {
    let left = caller.get_fuel()?;
    caller.set_fuel(left.checked_sub(fuel).ok_or(Trap::OutOfFuel)?)
}

fn charge_bytes(caller: At<'_, '_>, bytes: usize) -> Result<()> {
    charge(caller, CALL_FUEL + bytes as u64 / BYTES_PER_FUEL)
}

/// Asks the transaction.
fn ask<R>(state: &mut State, ask: impl FnOnce(&mut dyn Host, &mut State) -> Result<R, Failure>) -> Result<R> {
    state.check_patience()?;
    match bridge::with(|host| ask(host, state)) {
        Some(done) => state.settle(done),
        None => Err(state.misuse("it runs outside of a transaction")),
    }
}

/// All of them.
pub fn linker(engine: &Engine) -> Linker<State> {
    let mut linker = Linker::new(engine);
    let defined = define_data(&mut linker).and_then(|()| define_rest(&mut linker));
    defined.expect("every function is defined once");
    linker
}

fn define_data(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(ABI, "table", |mut caller: Caller<'_, State>, name: i32, len: i32| -> Result<i32> {
        charge_bytes(&mut caller, len as u32 as usize)?;
        let (memory, state) = view(&mut caller)?;
        let name = part(memory, state, name, len)?;
        let Some(table) = ask(state, |host, _| Ok(host.table(name)?))? else { return Ok(NONE) };
        state.open_table(table)
    })?;
    linker.func_wrap(
        ABI,
        "get",
        |mut caller: Caller<'_, State>, table: i32, key: i32, len: i32, to: i32, room: i32| -> Result<i32> {
            charge_bytes(&mut caller, len as u32 as usize)?;
            let (memory, state) = view(&mut caller)?;
            let table = state.table(table)?;
            let key = part(memory, state, key, len)?;
            let found = ask(state, |host, state| {
                state.rest.clear();
                host.get(&table, key, &mut |value| state.rest.extend_from_slice(value))
            })?;
            let len = if found { hand_over(memory, state, to, room)? } else { NONE };
            charge(&mut caller, len.max(0) as u64 / BYTES_PER_FUEL)?;
            Ok(len)
        },
    )?;
    linker.func_wrap(
        ABI,
        "put",
        |mut caller: Caller<'_, State>,
         table: i32,
         key: i32,
         len: i32,
         value: i32,
         value_len: i32|
         -> Result<()> {
            charge_bytes(&mut caller, len as u32 as usize + value_len as u32 as usize)?;
            let (memory, state) = view(&mut caller)?;
            state.may_write()?;
            let table = state.table(table)?;
            let (key, value) = (part(memory, state, key, len)?, part(memory, state, value, value_len)?);
            ask(state, |host, _| host.put(&table, key, value))
        },
    )?;
    linker.func_wrap(
        ABI,
        "delete",
        |mut caller: Caller<'_, State>, table: i32, key: i32, len: i32| -> Result<i32> {
            charge_bytes(&mut caller, len as u32 as usize)?;
            let (memory, state) = view(&mut caller)?;
            state.may_write()?;
            let table = state.table(table)?;
            let key = part(memory, state, key, len)?;
            Ok(ask(state, |host, _| host.delete(&table, key))?.into())
        },
    )?;
    linker.func_wrap(ABI, "scan", scan)?;
    linker.func_wrap(
        ABI,
        "key_get",
        |mut caller: Caller<'_, State>, key: i32, len: i32, to: i32, room: i32| -> Result<i32> {
            charge_bytes(&mut caller, len as u32 as usize)?;
            let (memory, state) = view(&mut caller)?;
            let key = part(memory, state, key, len)?;
            let found = ask(state, |host, state| {
                state.rest.clear();
                host.string(key, &mut |value| state.rest.extend_from_slice(value))
            })?;
            let len = if found { hand_over(memory, state, to, room)? } else { NONE };
            charge(&mut caller, len.max(0) as u64 / BYTES_PER_FUEL)?;
            Ok(len)
        },
    )?;
    linker.func_wrap(
        ABI,
        "key_set",
        |mut caller: Caller<'_, State>, key: i32, len: i32, value: i32, value_len: i32| -> Result<()> {
            charge_bytes(&mut caller, len as u32 as usize + value_len as u32 as usize)?;
            let (memory, state) = view(&mut caller)?;
            state.may_write()?;
            let (key, value) = (part(memory, state, key, len)?, part(memory, state, value, value_len)?);
            ask(state, |host, _| host.set_string(key, value))
        },
    )?;
    linker.func_wrap(
        ABI,
        "key_delete",
        |mut caller: Caller<'_, State>, key: i32, len: i32| -> Result<i32> {
            charge_bytes(&mut caller, len as u32 as usize)?;
            let (memory, state) = view(&mut caller)?;
            state.may_write()?;
            let key = part(memory, state, key, len)?;
            Ok(ask(state, |host, _| host.delete_key(key))?.into())
        },
    )?;
    linker.func_wrap(ABI, "command", command)?;
    Ok(())
}

/// `scan(table, from, from_len, to, to_len, backward, limit, rows, room) -> length | ALL, MORE or NO_ROOM`: rows between two cuts, each as
/// `key length u32 | value length u32 | key | value`. A `to_len` of -1: up to the end.
#[allow(clippy::too_many_arguments, reason = "a function of the ABI has no structures")]
fn scan(
    mut caller: Caller<'_, State>,
    table: i32,
    from: i32,
    from_len: i32,
    to: i32,
    to_len: i32,
    backward: i32,
    limit: i32,
    rows: i32,
    room: i32,
) -> Result<i64> {
    charge_bytes(&mut caller, from_len as u32 as usize + to_len.max(0) as usize)?;
    let (memory, state) = view(&mut caller)?;
    let table = state.table(table)?;
    let from = part(memory, state, from, from_len)?;
    let to = if to_len == NONE { None } else { Some(part(memory, state, to, to_len)?) };
    let direction = if backward == 0 { Direction::Forward } else { Direction::Backward };
    let (limit, room) = (limit as u32, room as u32 as usize);
    let (mut count, mut told) = (0u32, ALL);
    ask(state, |host, state| {
        state.rest.clear();
        if limit == 0 {
            return Ok(());
        }
        host.scan(&table, (from, to), direction, &mut |key, value| {
            let bytes = 8 + key.len() + value.len();
            if state.rest.len() + bytes > room {
                told = if count == 0 { NO_ROOM | bytes as i64 } else { MORE };
                return ControlFlow::Break(());
            }
            state.rest.extend_from_slice(&(key.len() as u32).to_le_bytes());
            state.rest.extend_from_slice(&(value.len() as u32).to_le_bytes());
            state.rest.extend_from_slice(key);
            state.rest.extend_from_slice(value);
            count += 1;
            if count < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
    })?;
    let len = hand_over(memory, state, rows, room as i32)?;
    charge(&mut caller, len as u64 / BYTES_PER_FUEL + u64::from(count) * ROW_FUEL)?;
    Ok(told | i64::from(len))
}

/// `command(words, len, to, room) -> length`: runs a command on data, as a script's `redis.call` does; its reply is RESP2. The words:
/// `count u32 | (length u32 | bytes)*`.
fn command(mut caller: Caller<'_, State>, words: i32, len: i32, to: i32, room: i32) -> Result<i32> {
    charge(&mut caller, COMMAND_FUEL + len as u32 as u64 / BYTES_PER_FUEL)?;
    let (memory, state) = view(&mut caller)?;
    let words = part(memory, state, words, len)?;
    let Some((opcode, encoded)) = encode(words) else {
        return Err(state.misuse("its words are no command"));
    };
    state.rest.clear();
    match runnable(opcode, &encoded) {
        Ok(opcode) => {
            if !opcode.spec().reads() {
                state.may_write()?;
            }
            let args = Args::decode(&mut Reader::new(&encoded)).expect("encode wrote them");
            ask(state, |host, state| {
                host.call(opcode, args, Protocol::Resp2, &mut state.rest).map_err(Failure::Stop)
            })?;
        }
        Err(error) => Reply::new(&mut state.rest, Protocol::Resp2).error(error),
    }
    let len = hand_over(memory, state, to, room)?;
    charge_bytes(&mut caller, len as usize)?;
    Ok(len)
}

/// The name's row, and the other words as a request has them.
fn encode(words: &[u8]) -> Option<(Option<Opcode>, Vec<u8>)> {
    let mut reader = Reader::new(words);
    let count = reader.u32().ok()?;
    let mut word = || {
        let len = reader.u32().ok()?;
        reader.take(len as usize).ok()
    };
    let opcode = Opcode::find(word()?);
    let mut encoded = Vec::new();
    put_varint(&mut encoded, u64::from(count.checked_sub(1)?));
    for _ in 1..count {
        put_bytes(&mut encoded, word()?);
    }
    Some((opcode, encoded))
}

/// A command that a procedure may run: what a script may, of those on data.
fn runnable(opcode: Option<Opcode>, encoded: &[u8]) -> Result<Opcode, CommandError> {
    let opcode = opcode.ok_or(CommandError::Text("ERR Unknown command called from a procedure"))?;
    let spec = opcode.spec();
    spec.check(Args::decode(&mut Reader::new(encoded)).expect("encode wrote them"))?;
    match spec.command {
        Command::Data if spec.is_ordinary() && !spec.has(flags::NOSCRIPT) => Ok(opcode),
        _ => Err(CommandError::Text("ERR This command is not allowed from a procedure")),
    }
}

fn define_rest(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(ABI, "arguments", |mut caller: Caller<'_, State>| -> Result<i32> {
        charge(&mut caller, CALL_FUEL)?;
        Ok(caller.data().args.len() as i32)
    })?;
    linker.func_wrap(
        ABI,
        "argument",
        |mut caller: Caller<'_, State>, at: i32, to: i32, room: i32| -> Result<i32> {
            let (memory, state) = view(&mut caller)?;
            let Some(arg) = state.args.get(at as u32 as usize) else {
                charge(&mut caller, CALL_FUEL)?;
                return Ok(NONE);
            };
            state.rest.clear();
            state.rest.extend_from_slice(arg);
            let len = hand_over(memory, state, to, room)?;
            charge_bytes(&mut caller, len as usize)?;
            Ok(len)
        },
    )?;
    linker.func_wrap(ABI, "rest", |mut caller: Caller<'_, State>, to: i32, room: i32| -> Result<i32> {
        let (memory, state) = view(&mut caller)?;
        let len = hand_over(memory, state, to, room)?;
        charge_bytes(&mut caller, len as usize)?;
        Ok(len)
    })?;
    linker.func_wrap(ABI, "now", |mut caller: Caller<'_, State>| -> Result<i64> {
        charge(&mut caller, CALL_FUEL)?;
        Ok(ask(caller.data_mut(), |host, _| Ok(host.unix_ms()))? as i64)
    })?;
    linker.func_wrap(ABI, "random", |mut caller: Caller<'_, State>| -> Result<i64> {
        charge(&mut caller, CALL_FUEL)?;
        Ok(ask(caller.data_mut(), |host, _| Ok(host.random()))? as i64)
    })?;
    linker.func_wrap(ABI, "fail", |mut caller: Caller<'_, State>, text: i32, len: i32| -> Result<()> {
        let (memory, state) = view(&mut caller)?;
        let text = String::from_utf8_lossy(part(memory, state, text, len.clamp(0, 1024))?).into_owned();
        Err(state.fail(ProcedureError::RolledBack(text)))
    })?;
    define_replies(linker)
}

fn define_replies(linker: &mut Linker<State>) -> Result<()> {
    linker.func_wrap(ABI, "reply_null", |mut caller: Caller<'_, State>| -> Result<()> {
        charge(&mut caller, CALL_FUEL)?;
        caller.data_mut().value(0)?.null();
        Ok(())
    })?;
    linker.func_wrap(ABI, "reply_integer", |mut caller: Caller<'_, State>, value: i64| -> Result<()> {
        charge(&mut caller, CALL_FUEL)?;
        caller.data_mut().value(0)?.integer(value);
        Ok(())
    })?;
    linker.func_wrap(ABI, "reply_double", |mut caller: Caller<'_, State>, value: f64| -> Result<()> {
        charge(&mut caller, CALL_FUEL)?;
        caller.data_mut().value(0)?.double(value);
        Ok(())
    })?;
    linker.func_wrap(
        ABI,
        "reply_bytes",
        |mut caller: Caller<'_, State>, at: i32, len: i32| -> Result<()> {
            charge_bytes(&mut caller, len as u32 as usize)?;
            let (memory, state) = view(&mut caller)?;
            let bytes = part(memory, state, at, len)?;
            state.value(0)?.bulk(bytes);
            Ok(())
        },
    )?;
    linker.func_wrap(
        ABI,
        "reply_text",
        |mut caller: Caller<'_, State>, at: i32, len: i32| -> Result<()> {
            charge_bytes(&mut caller, len as u32 as usize)?;
            let (memory, state) = view(&mut caller)?;
            let text = part(memory, state, at, len)?;
            state.value(0)?.line(b'+', text);
            Ok(())
        },
    )?;
    linker.func_wrap(ABI, "reply_array", |mut caller: Caller<'_, State>, len: i32| -> Result<()> {
        charge(&mut caller, CALL_FUEL)?;
        let len = len as u32;
        caller.data_mut().value(len.into())?.array(len as usize);
        Ok(())
    })?;
    linker.func_wrap(ABI, "reply_map", |mut caller: Caller<'_, State>, len: i32| -> Result<()> {
        charge(&mut caller, CALL_FUEL)?;
        let len = len as u32;
        caller.data_mut().value(2 * u64::from(len))?.map(len as usize);
        Ok(())
    })?;
    Ok(())
}
