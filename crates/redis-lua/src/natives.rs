//! Functions of ours that scripts and the prelude call.

use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value, ffi};

use crate::budget::EVERY;
use crate::compile::load;
use crate::raise::{self, Raise, bad_argument, text};
use crate::run::Run;
use crate::watch;
use crate::{MAX_SCRIPT_BYTES, bits, cjson, msgpack, packs, strings};

/// Most of the stack that a script may have taken when it resumes a coroutine. Each may take the 200 nested calls of C that Lua allows,
/// about as much again.
const MAX_STACK_BYTES: usize = 400 << 10;

/// A byte that is parsed costs as much as so many that are looked at.
const PARSING_COSTS: usize = 32;

const TOO_LONG: &str = "the text is too long";

/// The cost of resuming a coroutine, in instructions.
const RESUME_INSTRUCTIONS: u64 = 20;

/// The cost of making one: as many instructions as it may execute before the first look at them.
const COROUTINE_INSTRUCTIONS: u64 = EVERY as u64;

/// What an error costs that is caught, in instructions.
const CAUGHT_INSTRUCTIONS: u64 = 100;

/// All of them that need no transaction, by name, for the prelude.
pub fn all(lua: &Lua, run: &Rc<Run>, environment: &Table) -> mlua::Result<Table> {
    let natives = lua.create_table()?;
    errors(lua, run, &natives)?;
    basics(lua, run, environment, &natives)?;
    strings::add(lua, run, &natives)?;
    natives.raw_set("cjson", cjson::table(lua, run)?)?;
    natives.raw_set("cmsgpack", msgpack::table(lua, run)?)?;
    natives.raw_set("struct", packs::table(lua, run)?)?;
    natives.raw_set("bit", bits::table(lua, run)?)?;
    Ok(natives)
}

fn errors(lua: &Lua, run: &Rc<Run>, natives: &Table) -> mlua::Result<()> {
    let over = run.clone();
    let seen = move |lua: &Lua, error: Value| -> mlua::Result<Value> {
        // What is raised by us takes longer than an instruction.
        over.budget.charge(lua, CAUGHT_INSTRUCTIONS)?;
        if over.is_over() { Err(Raise::Over.into()) } else { raise::seen(lua, error) }
    };
    let caught = seen.clone();
    natives.raw_set("seen", lua.create_function(move |lua, error: Value| seen(lua, error))?)?;
    natives.raw_set(
        "caught",
        lua.create_function(move |lua, error: Value| {
            let error = caught(lua, error)?;
            // Redis's pcall gives a script the text of a table with an `err`.
            let text = error.as_table().and_then(|table| table.raw_get::<Value>("err").ok());
            Ok(text
                .filter(|text| matches!(text, Value::String(_) | Value::Integer(_) | Value::Number(_)))
                .unwrap_or(error))
        })?,
    )?;
    let over = run.clone();
    natives.raw_set(
        "describe",
        lua.create_function(move |lua, error: Value| {
            if over.is_over() {
                return Ok(Value::Nil);
            }
            describe(lua, raise::seen(lua, error)?)
        })?,
    )?;
    let run = run.clone();
    natives.raw_set(
        "enter",
        lua.create_function(move |lua, ()| {
            if run.stack_used() > MAX_STACK_BYTES {
                return Err(text(lua, "C stack overflow"));
            }
            run.coroutines.set(true);
            // The count of a coroutine's instructions is its own, so that what it executes between two looks is seen here only.
            run.budget.charge(lua, RESUME_INSTRUCTIONS)
        })?,
    )?;
    // SAFETY: they are functions of C, made for these arguments, and the prelude alone can call them.
    unsafe {
        natives.raw_set("switch", lua.create_c_function(switch)?)?;
    }
    Ok(())
}

/// Of an error that nobody catches: its text, and where it was raised.
fn describe(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let described = lua.create_table_with_capacity(0, 2)?;
    let text = match &error {
        Value::Table(table) => match table.raw_get::<Value>("err")? {
            Value::String(text) => text.as_bytes().to_vec(),
            _ => b"ERR a table without an err was raised".to_vec(),
        },
        Value::String(text) => [b"ERR ", &*text.as_bytes()].concat(),
        other => format!("ERR {}", other.to_string()?).into_bytes(),
    };
    described.raw_set("err", lua.create_string(text)?)?;
    // Level 0 is the function that calls this; functions of C and of ours that raise it are not where it happened.
    let mut place = None;
    for level in 1..16 {
        let found = lua.inspect_stack(level, |function| {
            let source = function.source();
            let name = source.source.map(|name| name.into_owned()).unwrap_or_default();
            let line = function.current_line().map_or(-1, |line| line as i64);
            (source.what == "C" || raise::is_ours(&name), format!("{name}:{line}"))
        });
        match found {
            None => break,
            Some((true, _)) => {}
            Some((false, found)) => {
                place = Some(found);
                break;
            }
        }
    }
    if let Some(place) = place {
        described.raw_set("place", place)?;
    }
    Ok(Value::Table(described))
}

fn basics(lua: &Lua, run: &Rc<Run>, environment: &Table, natives: &Table) -> mlua::Result<()> {
    natives.raw_set(
        "copy",
        lua.create_function(|lua, table: Table| {
            let copy = lua.create_table()?;
            for pair in table.pairs::<Value, Value>() {
                let (key, value) = pair?;
                copy.raw_set(key, value)?;
            }
            Ok(copy)
        })?,
    )?;
    natives.raw_set("about_globals", lua.create_function(|_, table: Table| Ok(table))?)?;
    natives.raw_set(
        "fail",
        lua.create_function(|lua, why: String| -> mlua::Result<()> { Err(text(lua, why)) })?,
    )?;
    natives.raw_set("rawset", lua.create_function(rawset)?)?;
    natives.raw_set("setmetatable", lua.create_function(setmetatable)?)?;
    natives.raw_set("collectgarbage", lua.create_function(|_, _: MultiValue| Ok(0))?)?;
    natives.raw_set("gcinfo", lua.create_function(|_, _: MultiValue| Ok((0, 0)))?)?;
    let of = run.clone();
    let check = move |lua: &Lua, function: Value| match &function {
        Value::Function(function) if function.info().what != "C" => {
            of.budget.charge(lua, COROUTINE_INSTRUCTIONS)
        }
        _ => Err(text(lua, "bad argument #1 to 'create' (Lua function expected)")),
    };
    natives.raw_set("check_coroutine", lua.create_function(check)?)?;

    let (at, of) = (environment.clone(), run.clone());
    natives.raw_set(
        "loadstring",
        lua.create_function(move |lua, (code, name): (Value, Value)| {
            let Value::String(code) = code else {
                return Err(bad_argument(lua, 1, "loadstring", "string", Some(&code)));
            };
            let name = name.as_string().map_or_else(|| code.to_string_lossy(), |name| name.to_string_lossy());
            loaded(lua, &of, &at, &code.as_bytes(), &name)
        })?,
    )?;
    let (at, of) = (environment.clone(), run.clone());
    natives.raw_set(
        "load",
        lua.create_function(move |lua, (reader, name): (Value, Value)| {
            let Value::Function(reader) = reader else {
                return Err(bad_argument(lua, 1, "load", "function", Some(&reader)));
            };
            let mut code = Vec::new();
            loop {
                match reader.call::<Value>(())? {
                    Value::Nil => break,
                    Value::String(piece) if piece.as_bytes().is_empty() => break,
                    Value::String(piece) if code.len() + piece.as_bytes().len() <= MAX_SCRIPT_BYTES => {
                        code.extend_from_slice(&piece.as_bytes());
                    }
                    Value::String(_) => return Ok((None, Some(TOO_LONG.to_string()))),
                    _ => return Err(text(lua, "reader function must return a string")),
                }
            }
            let name = name.as_string().map_or("=(load)".to_string(), |name| name.to_string_lossy());
            loaded(lua, &of, &at, &code, &name)
        })?,
    )?;

    let spent = run.clone();
    natives.raw_set(
        "clock",
        lua.create_function(move |_, ()| {
            // So many seconds as a script of as many instructions might take: no clock is asked.
            Ok(spent.budget.executed() as f64 / 1e8)
        })?,
    )?;
    let chance = run.clone();
    natives
        .raw_set("random", lua.create_function(move |lua, args: MultiValue| random(lua, &chance, args))?)?;
    let chance = run.clone();
    natives.raw_set(
        "randomseed",
        lua.create_function(move |lua, seed: Value| {
            let seed = lua
                .coerce_number(seed.clone())?
                .ok_or_else(|| bad_argument(lua, 1, "randomseed", "number", Some(&seed)))?;
            chance.chance.set((seed as i64 as u32 as u64) << 16 | 0x330e);
            Ok(())
        })?,
    )
}

/// As `loadstring` and `load` answer: a function, or nothing and why.
fn loaded(
    lua: &Lua,
    run: &Run,
    environment: &Table,
    code: &[u8],
    name: &str,
) -> mlua::Result<(Option<Function>, Option<String>)> {
    if code.len() > MAX_SCRIPT_BYTES {
        return Ok((None, Some(TOO_LONG.to_string())));
    }
    run.budget.charge_each_byte(code.len() * PARSING_COSTS + name.len())?;
    let loaded = load(lua, environment, code, name);
    run.budget.charge(lua, 0)?;
    Ok(match loaded {
        Ok(function) => (Some(function), None),
        Err(mlua::Error::SyntaxError { message, .. }) => (None, Some(message)),
        Err(error) => (None, Some(raise::raised(&error).map_or_else(|| error.to_string(), Raise::to_string))),
    })
}

/// Says that the coroutine which is the first argument executes from now on, or the state that this told before; tells which one did.
unsafe extern "C-unwind" fn switch(state: *mut ffi::lua_State) -> i32 {
    // SAFETY: the prelude hands over what it was asked to resume, or what this told; both are looked at only if they are of that kind.
    unsafe {
        let coroutine = ffi::lua_tothread(state, 1);
        // Scripts have one light userdata, `cjson.null`, and that is null.
        let told = ffi::lua_type(state, 1) == ffi::LUA_TLIGHTUSERDATA;
        let told = if told { ffi::lua_touserdata(state, 1).cast() } else { std::ptr::null_mut() };
        let next = if coroutine.is_null() { told } else { coroutine };
        let before = if next.is_null() { std::ptr::null_mut() } else { watch::switch(next) };
        ffi::lua_pushlightuserdata(state, before.cast());
        1
    }
}

fn is_protected(table: &Table) -> bool {
    table
        .metatable()
        .is_some_and(|meta| meta.raw_get::<Value>("__metatable").is_ok_and(|guard| !guard.is_nil()))
}

fn readonly() -> mlua::Error {
    Raise::Text(b"Attempt to modify a readonly table".to_vec()).into()
}

fn rawset(lua: &Lua, (table, key, value): (Value, Value, Value)) -> mlua::Result<Value> {
    let Value::Table(target) = &table else {
        return Err(bad_argument(lua, 1, "rawset", "table", Some(&table)));
    };
    if is_protected(target) {
        return Err(readonly());
    }
    target.raw_set(key, value)?;
    Ok(table)
}

fn setmetatable(lua: &Lua, (table, meta): (Value, Value)) -> mlua::Result<Value> {
    let Value::Table(target) = &table else {
        return Err(bad_argument(lua, 1, "setmetatable", "table", Some(&table)));
    };
    let meta = match meta {
        Value::Nil => None,
        Value::Table(meta) => Some(meta),
        _ => return Err(text(lua, "bad argument #2 to 'setmetatable' (nil or table expected)")),
    };
    if is_protected(target) {
        // Scripts may protect tables of theirs, too, but for ours `__metatable` is no text.
        return Err(match target.metatable().map(|meta| meta.raw_get::<Value>("__newindex")) {
            Some(Ok(Value::Function(guard))) if guard.info().source.as_deref() == Some("=prelude") => {
                readonly()
            }
            _ => text(lua, "cannot change a protected metatable"),
        });
    }
    target.set_metatable(meta)?;
    Ok(table)
}

/// The generator of Redis's scripts: what follows a seed is the same.
fn random(lua: &Lua, run: &Run, args: MultiValue) -> mlua::Result<f64> {
    let next = run.chance.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
    run.chance.set(next);
    let unit = ((next >> 17) as i32 % i32::MAX) as f64 / f64::from(i32::MAX);
    let bound = |at: usize| -> mlua::Result<f64> {
        let value = args.get(at).cloned().unwrap_or(Value::Nil);
        let number = lua.coerce_number(value)?;
        number.map(f64::trunc).ok_or_else(|| bad_argument(lua, at + 1, "random", "number", args.get(at)))
    };
    let within = |low: f64, high: f64, at: usize| {
        if low > high {
            return Err(text(lua, format_args!("bad argument #{at} to 'random' (interval is empty)")));
        }
        Ok((unit * (high - low + 1.0)).floor() + low)
    };
    match args.len() {
        0 => Ok(unit),
        1 => within(1.0, bound(0)?, 1),
        2 => within(bound(0)?, bound(1)?, 2),
        _ => Err(text(lua, "wrong number of arguments")),
    }
}
