//! Between RESP and Lua, both ways, as Redis 7 has it.

use mlua::{Lua, LuaString, Table, Value};

use super::Failed;
use super::vm::Run;
use crate::double::parse_double;
use crate::number::parse_integer;
use crate::reply::{Protocol, Reply};

/// The cost of a value that is read or written beside its bytes, in instructions.
const VALUE_INSTRUCTIONS: u64 = 8;
/// The cost of a table that is written beside its values: it may be one of several things.
const TABLE_INSTRUCTIONS: usize = 100;

/// How deeply an answer may nest: Redis allows some thousands, clients less.
pub const MAX_DEPTH: usize = 1000;

/// A reply of one of our own commands as a script sees it. An error is a table, not raised.
pub fn from_reply(lua: &Lua, run: &Run, reply: &[u8]) -> mlua::Result<Value> {
    let mut rest = reply;
    read(lua, run, &mut rest)
}

fn line<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let end = rest.windows(2).position(|two| two == b"\r\n").expect("our replies are whole");
    let (line, behind) = rest.split_at(end);
    *rest = &behind[2..];
    line
}

fn number(digits: &[u8]) -> i64 {
    parse_integer(digits).expect("our replies' numbers are integers")
}

fn read(lua: &Lua, run: &Run, rest: &mut &[u8]) -> mlua::Result<Value> {
    run.budget.charge(lua, VALUE_INSTRUCTIONS)?;
    let head = line(rest);
    let (kind, head) = head.split_first().expect("a reply has a kind");
    let single = |field: &str, value: Value| -> mlua::Result<Value> {
        let table = lua.create_table_with_capacity(0, 1)?;
        table.raw_set(field, value)?;
        Ok(Value::Table(table))
    };
    let string = |bytes: &[u8]| Ok::<_, mlua::Error>(Value::String(lua.create_string(bytes)?));
    match kind {
        b':' => Ok(Value::Number(number(head) as f64)),
        b'+' => single("ok", string(head)?),
        b'-' => {
            let error = single("err", string(head)?)?;
            error.as_table().expect("it was just made").raw_set("ignore_error_stats_update", true)?;
            Ok(error)
        }
        b'$' | b'*' if head == b"-1" => Ok(Value::Boolean(false)),
        b'$' => string(body(number(head), rest)),
        b'=' => {
            let body = body(number(head), rest);
            let table = lua.create_table_with_capacity(0, 2)?;
            table.raw_set("format", string(&body[..3])?)?;
            table.raw_set("string", string(&body[4..])?)?;
            single("verbatim_string", Value::Table(table))
        }
        b'*' => {
            let count = number(head) as usize;
            let table = lua.create_table_with_capacity(count, 0)?;
            for at in 1..=count {
                table.raw_set(at, read(lua, run, rest)?)?;
            }
            Ok(Value::Table(table))
        }
        b'~' => {
            let table = lua.create_table()?;
            for _ in 0..number(head) {
                table.raw_set(read(lua, run, rest)?, true)?;
            }
            single("set", Value::Table(table))
        }
        b'%' => {
            let table = lua.create_table()?;
            for _ in 0..number(head) {
                let key = read(lua, run, rest)?;
                table.raw_set(key, read(lua, run, rest)?)?;
            }
            single("map", Value::Table(table))
        }
        b',' => single("double", Value::Number(parse_double(head).unwrap_or(f64::NAN))),
        b'(' => single("big_number", string(head)?),
        b'#' => Ok(Value::Boolean(head == b"t")),
        _ => Ok(Value::Nil),
    }
}

fn body<'a>(len: i64, rest: &mut &'a [u8]) -> &'a [u8] {
    let (body, behind) = rest.split_at(len as usize);
    *rest = &behind[2..];
    body
}

/// Writes what a script returned. Nothing is written if that cannot be told.
pub fn answer(run: &Run, value: &Value, reply: &mut Reply<'_>) -> Result<(), Failed> {
    let start = reply.out.len();
    let written = write(run, value, reply, 0);
    if written.is_err() {
        reply.out.truncate(start);
    }
    written
}

fn write(run: &Run, value: &Value, reply: &mut Reply<'_>, depth: usize) -> Result<(), Failed> {
    if depth > MAX_DEPTH || run.is_deep() {
        return Err(Failed::text("ERR reached lua stack limit"));
    }
    // A table that is in itself many times is written as often.
    charge(run, VALUE_INSTRUCTIONS as usize)?;
    if reply.out.len() > reply.most {
        // Whoever runs the command sees that it is too much, and ends the transaction.
        return Ok(());
    }
    match value {
        Value::String(text) => reply.bulk(&text.as_bytes()),
        Value::Integer(number) => reply.integer(*number),
        Value::Number(number) => reply.integer(truncated(*number)),
        Value::Boolean(truth) => match (run.protocol.get(), reply.protocol) {
            (Protocol::Resp3, Protocol::Resp3) => reply.raw(if *truth { b"#t\r\n" } else { b"#f\r\n" }),
            (Protocol::Resp3, _) => reply.integer((*truth).into()),
            _ if *truth => reply.integer(1),
            _ => reply.null(),
        },
        Value::Table(table) => return write_table(run, table, reply, depth),
        _ => reply.null(),
    }
    Ok(())
}

/// Charges for a part of an answer. Whoever runs the script tells why it is over.
fn charge(run: &Run, instructions: usize) -> Result<(), Failed> {
    run.budget.charge_bytes(instructions * 64).map_err(|_| Failed::text("ERR the run is over"))
}

/// How many there are: each is charged, as a step to the next may walk along a chain of thousands.
fn counted<T>(run: &Run, mut items: impl Iterator<Item = T>) -> Result<usize, Failed> {
    items.try_fold(0, |count, _| charge(run, 1).map(|()| count + 1))
}

/// As C converts it: what does not fit is the smallest integer.
fn truncated(number: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&number) { number as i64 } else { i64::MIN }
}

fn write_table(run: &Run, table: &Table, reply: &mut Reply<'_>, depth: usize) -> Result<(), Failed> {
    charge(run, TABLE_INSTRUCTIONS)?;
    let get = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
    if let Value::String(text) = get("err") {
        reply.error_bytes(&text.as_bytes());
        return Ok(());
    }
    if let Value::String(text) = get("ok") {
        reply.line(b'+', &text.as_bytes());
        return Ok(());
    }
    match get("double") {
        Value::Number(number) => {
            reply.double(number);
            return Ok(());
        }
        Value::Integer(number) => {
            reply.double(number as f64);
            return Ok(());
        }
        _ => {}
    }
    if let Value::Table(map) = get("map") {
        // Twice through: values that are held take places, of which there are some thousands.
        reply.map(counted(run, map.pairs::<Value, Value>())?);
        for (key, value) in map.pairs::<Value, Value>().filter_map(Result::ok) {
            write(run, &key, reply, depth + 1)?;
            write(run, &value, reply, depth + 1)?;
        }
        return Ok(());
    }
    if let Value::Table(set) = get("set") {
        reply.set(counted(run, set.pairs::<Value, Value>())?);
        let mut members = set.pairs::<Value, Value>().filter_map(Result::ok);
        return members.try_for_each(|(member, _)| write(run, &member, reply, depth + 1));
    }
    if let Value::String(digits) = get("big_number") {
        match reply.protocol {
            Protocol::Resp3 => reply.line(b'(', &digits.as_bytes()),
            Protocol::Resp2 => reply.bulk(&digits.as_bytes()),
        }
        return Ok(());
    }
    if let Value::Table(verbatim) = get("verbatim_string") {
        let field = |name: &str| verbatim.raw_get::<Option<LuaString>>(name).ok().flatten();
        if let (Some(format), Some(text)) = (field("format"), field("string")) {
            reply.verbatim_as(&format.as_bytes(), &text.as_bytes());
            return Ok(());
        }
    }
    let item = |at: usize| table.raw_get::<Value>(at).unwrap_or(Value::Nil);
    let count = counted(run, (1..).take_while(|at| !item(*at).is_nil()))?;
    reply.array(count);
    (1..=count).try_for_each(|at| write(run, &item(at), reply, depth + 1))
}
