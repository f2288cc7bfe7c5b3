//! The table `cmsgpack`: MessagePack, as lua-cmsgpack 0.4 has it.

use std::rc::Rc;

use mlua::{Lua, MultiValue, Table, Value};

use crate::raise::{bad_argument, text};
use crate::run::Run;

/// Tables that are nested deeper are packed as nil.
const MOST_PACKED_DEPTH: u32 = 16;
/// Deeper data is refused.
const MOST_UNPACKED_DEPTH: u32 = 500;
/// The cost of a value that is read or written beside its bytes, in instructions.
const VALUE_INSTRUCTIONS: u64 = 24;
/// Values that one call gives: Lua's stack holds no more.
const MOST_VALUES: usize = 7000;

const MISSING: &str = "Missing bytes in input.";
const BAD: &str = "Bad data format in input.";

pub fn table(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Table> {
    let cmsgpack = lua.create_table()?;
    let of = run.clone();
    cmsgpack.raw_set(
        "pack",
        lua.create_function(move |lua, args: MultiValue| {
            if args.is_empty() {
                return Err(text(lua, "bad argument #0 to 'pack' (MessagePack pack needs input.)"));
            }
            let mut out = Vec::new();
            for value in &args {
                pack(lua, &of, value, 0, &mut out)?;
            }
            of.budget.charge_bytes(out.len())?;
            lua.create_string(out)
        })?,
    )?;
    let of = run.clone();
    cmsgpack.raw_set(
        "unpack",
        lua.create_function(move |lua, args: MultiValue| unpack(lua, &of, &args, "unpack"))?,
    )?;
    let of = run.clone();
    cmsgpack.raw_set(
        "unpack_one",
        lua.create_function(move |lua, args: MultiValue| unpack(lua, &of, &args, "unpack_one"))?,
    )?;
    let of = run.clone();
    cmsgpack.raw_set(
        "unpack_limit",
        lua.create_function(move |lua, args: MultiValue| unpack(lua, &of, &args, "unpack_limit"))?,
    )?;
    for (name, value) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        cmsgpack.raw_set(name, value)?;
    }
    Ok(cmsgpack)
}

fn pack(lua: &Lua, run: &Run, value: &Value, depth: u32, out: &mut Vec<u8>) -> mlua::Result<()> {
    run.budget.charge(lua, VALUE_INSTRUCTIONS)?;
    match value {
        Value::String(text) => {
            let text = text.as_bytes();
            run.budget.charge_bytes(text.len())?;
            match text.len() {
                len @ 0..32 => out.push(0xa0 | len as u8),
                len @ 32..0x100 => out.extend_from_slice(&[0xd9, len as u8]),
                len @ 0x100..0x1_0000 => sized(0xda, &(len as u16).to_be_bytes(), out),
                len => sized(0xdb, &(len as u32).to_be_bytes(), out),
            }
            out.extend_from_slice(&text);
        }
        Value::Boolean(truth) => out.push(0xc2 | u8::from(*truth)),
        Value::Integer(number) => pack_number(*number as f64, out),
        Value::Number(number) => pack_number(*number, out),
        Value::Table(table) if depth < MOST_PACKED_DEPTH => {
            return pack_table(lua, run, table, depth + 1, out);
        }
        _ => out.push(0xc0),
    }
    if out.len() > crate::budget::limits().memory_bytes {
        return Err(mlua::Error::MemoryError("not enough memory".into()));
    }
    Ok(())
}

fn sized(tag: u8, len: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    out.extend_from_slice(len);
}

fn pack_number(number: f64, out: &mut Vec<u8>) {
    const END: f64 = 9_223_372_036_854_775_808.0;
    let whole = number.floor() == number && (-END..END).contains(&number);
    if !whole {
        let short = number as f32;
        return if f64::from(short) == number {
            sized(0xca, &short.to_be_bytes(), out)
        } else {
            sized(0xcb, &number.to_be_bytes(), out)
        };
    }
    match number as i64 {
        number @ 0..0x80 => out.push(number as u8),
        number @ 0x80..0x100 => out.extend_from_slice(&[0xcc, number as u8]),
        number @ 0x100..0x1_0000 => sized(0xcd, &(number as u16).to_be_bytes(), out),
        number @ 0x1_0000..0x1_0000_0000 => sized(0xce, &(number as u32).to_be_bytes(), out),
        number @ 0x1_0000_0000.. => sized(0xcf, &number.to_be_bytes(), out),
        number @ -32..0 => out.push(number as i8 as u8),
        number @ -0x80..-32 => sized(0xd0, &[number as i8 as u8], out),
        number @ -0x8000..-0x80 => sized(0xd1, &(number as i16).to_be_bytes(), out),
        number @ -0x8000_0000..-0x8000 => sized(0xd2, &(number as i32).to_be_bytes(), out),
        number => sized(0xd3, &number.to_be_bytes(), out),
    }
}

fn pack_table(lua: &Lua, run: &Run, table: &Table, depth: u32, out: &mut Vec<u8>) -> mlua::Result<()> {
    let (mut pairs, mut most, mut array) = (0u64, 0u64, true);
    run.budget.pairs(lua, table, |key, _| {
        let key = match key {
            Value::Integer(key) => key as f64,
            Value::Number(key) => key,
            _ => 0.0,
        };
        pairs += 1;
        array &= key >= 1.0 && key.fract() == 0.0;
        most = most.max(key as u64);
        Ok(())
    })?;
    if array && most == pairs {
        match most {
            0..16 => out.push(0x90 | most as u8),
            16..0x1_0000 => sized(0xdc, &(most as u16).to_be_bytes(), out),
            _ => sized(0xdd, &(most as u32).to_be_bytes(), out),
        }
        return (1..=most).try_for_each(|at| pack(lua, run, &table.raw_get::<Value>(at)?, depth, out));
    }
    match pairs {
        0..16 => out.push(0x80 | pairs as u8),
        16..0x1_0000 => sized(0xde, &(pairs as u16).to_be_bytes(), out),
        _ => sized(0xdf, &(pairs as u32).to_be_bytes(), out),
    }
    run.budget.pairs(lua, table, |key, value| {
        pack(lua, run, &key, depth, out)?;
        pack(lua, run, &value, depth, out)
    })
}

/// `unpack(s)`: all values; `unpack_one(s, offset)` and `unpack_limit(s, limit, offset)`: where to go on, -1 at the end, and some.
fn unpack(lua: &Lua, run: &Run, args: &MultiValue, name: &str) -> mlua::Result<MultiValue> {
    let packed = args.front().cloned().map(|value| lua.coerce_string(value)).transpose()?.flatten();
    let Some(packed) = packed else { return Err(bad_argument(lua, 1, name, "string", args.front())) };
    let packed = packed.as_bytes();
    let integer = |at: usize, otherwise: Option<i64>| -> mlua::Result<i64> {
        match (args.get(at), otherwise) {
            (None | Some(Value::Nil), Some(otherwise)) => Ok(otherwise),
            (value, _) => {
                let number = value.cloned().map(|value| lua.coerce_number(value)).transpose()?.flatten();
                Ok(number.ok_or_else(|| bad_argument(lua, at + 1, name, "number", value))? as i64)
            }
        }
    };
    let (limit, offset) = match name {
        "unpack" => (0, 0),
        "unpack_one" => (1, integer(1, Some(0))?),
        _ => (integer(1, None)?, integer(2, Some(0))?),
    };
    if offset < 0 || limit < 0 {
        return Err(text(
            lua,
            format_args!("Invalid request to unpack with offset of {offset} and limit of {}.", packed.len()),
        ));
    }
    if offset as usize > packed.len() {
        return Err(text(
            lua,
            format_args!("Start offset {offset} greater than input length {}.", packed.len()),
        ));
    }
    let all = limit == 0 && offset == 0;
    let most = if limit == 0 { usize::MAX } else { limit as usize };
    run.budget.charge_bytes(packed.len() - offset as usize)?;
    let mut unpacker = Unpacker { lua, run, rest: &packed[offset as usize..] };
    let mut values = MultiValue::new();
    while !unpacker.rest.is_empty() && values.len() < most {
        if values.len() >= MOST_VALUES {
            return Err(text(lua, "too many values to unpack"));
        }
        values.push_back(unpacker.value(0)?);
    }
    if !all {
        let next = if unpacker.rest.is_empty() { -1.0 } else { (packed.len() - unpacker.rest.len()) as f64 };
        values.push_front(Value::Number(next));
    }
    Ok(values)
}

struct Unpacker<'a> {
    lua: &'a Lua,
    run: &'a Run,
    rest: &'a [u8],
}

impl Unpacker<'_> {
    fn bytes(&mut self, len: usize) -> mlua::Result<&[u8]> {
        let Some((bytes, rest)) = self.rest.split_at_checked(len) else {
            return Err(text(self.lua, MISSING));
        };
        self.rest = rest;
        Ok(bytes)
    }

    fn unsigned(&mut self, len: usize) -> mlua::Result<u64> {
        Ok(self.bytes(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn value(&mut self, depth: u32) -> mlua::Result<Value> {
        if depth > MOST_UNPACKED_DEPTH || self.run.is_deep() {
            return Err(text(self.lua, "Too many nested data structures in input."));
        }
        self.run.budget.charge(self.lua, VALUE_INSTRUCTIONS)?;
        let tag = self.unsigned(1)? as u8;
        let number = |number: f64| Ok(Value::Number(number));
        match tag {
            0..0x80 => number(f64::from(tag)),
            0xe0.. => number(f64::from(tag as i8)),
            0xc0 => Ok(Value::Nil),
            0xc2 | 0xc3 => Ok(Value::Boolean(tag == 0xc3)),
            0xca => number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => number(f64::from_bits(self.unsigned(8)?)),
            // As Redis has it, whose unsigned integers of 64 bits are signed ones.
            0xcc..=0xcf => number(self.unsigned(1 << (tag - 0xcc))? as i64 as f64),
            0xd0 => number(f64::from(self.unsigned(1)? as i8)),
            0xd1 => number(f64::from(self.unsigned(2)? as i16)),
            0xd2 => number(f64::from(self.unsigned(4)? as i32)),
            0xd3 => number(self.unsigned(8)? as i64 as f64),
            0xa0..0xc0 => self.string(usize::from(tag & 31)),
            0xd9..=0xdb => {
                let len = self.unsigned(1 << (tag - 0xd9))? as usize;
                self.string(len)
            }
            0x90..0xa0 => self.array(u64::from(tag & 15), depth),
            0xdc | 0xdd => {
                let len = self.unsigned(2 << (tag - 0xdc))?;
                self.array(len, depth)
            }
            0x80..0x90 => self.map(u64::from(tag & 15), depth),
            0xde | 0xdf => {
                let len = self.unsigned(2 << (tag - 0xde))?;
                self.map(len, depth)
            }
            _ => Err(text(self.lua, BAD)),
        }
    }

    fn string(&mut self, len: usize) -> mlua::Result<Value> {
        let lua = self.lua;
        Ok(Value::String(lua.create_string(self.bytes(len)?)?))
    }

    fn array(&mut self, len: u64, depth: u32) -> mlua::Result<Value> {
        self.run.budget.charge(self.lua, 1)?;
        let table = self.lua.create_table()?;
        for at in 1..=len {
            table.raw_set(at, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, len: u64, depth: u32) -> mlua::Result<Value> {
        self.run.budget.charge(self.lua, 1)?;
        let table = self.lua.create_table()?;
        for _ in 0..len {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            if key.is_nil() || matches!(key, Value::Number(key) if key.is_nan()) {
                return Err(text(self.lua, BAD));
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
