//! The table `struct`: values as C lays them out, as Redis's version of Lua's `struct` 0.2 has it.

use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::raise::{bad_argument, text};
use crate::run::Run;

/// Longest integer, in bytes.
const MAX_INTEGER_BYTES: usize = 32;
/// What `!` without a number aligns to.
const MAX_ALIGN: usize = 8;
/// Values that one call gives: Lua's stack holds no more.
const MOST_VALUES: usize = 7000;

pub fn table(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Table> {
    let packs = lua.create_table()?;
    let of = run.clone();
    packs.raw_set(
        "pack",
        lua.create_function(move |lua, args: MultiValue| {
            let format = string(lua, &args, 0, "pack")?;
            of.budget.charge_bytes(format.as_bytes().len() * 64)?;
            of.budget.charge_numbers(&args)?;
            let packed = pack(lua, &args, &format)?;
            of.budget.charge_each_byte(packed.len())?;
            lua.create_string(packed)
        })?,
    )?;
    let of = run.clone();
    packs.raw_set(
        "unpack",
        lua.create_function(move |lua, args: MultiValue| {
            let format = string(lua, &args, 0, "unpack")?;
            of.budget.charge_bytes(format.as_bytes().len() * 64)?;
            // What it reads of the data, it reads once.
            let data = args.get(1).and_then(Value::as_string).map_or(0, |data| data.as_bytes().len());
            of.budget.charge_bytes(data)?;
            unpack(lua, &args, &format)
        })?,
    )?;
    let of = run.clone();
    packs.raw_set(
        "size",
        lua.create_function(move |lua, args: MultiValue| {
            let format = string(lua, &args, 0, "size")?;
            of.budget.charge_bytes(format.as_bytes().len() * 64)?;
            size(lua, &format)
        })?,
    )?;
    Ok(packs)
}

/// One value's layout.
#[derive(Clone, Copy, Debug)]
struct Item {
    kind: u8,
    /// Bytes; 0 of strings: as many as there are.
    size: usize,
    /// Bytes in front of it.
    padding: usize,
    little: bool,
}

/// Reads a format, item by item.
struct Format<'a> {
    lua: &'a Lua,
    /// Whose format it is.
    name: &'static str,
    rest: &'a [u8],
    little: bool,
    align: usize,
}

impl<'a> Format<'a> {
    fn new(lua: &'a Lua, name: &'static str, rest: &'a [u8]) -> Format<'a> {
        Format { lua, name, rest, little: true, align: 1 }
    }

    fn number(&mut self, otherwise: usize) -> mlua::Result<usize> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(otherwise);
        }
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = std::str::from_utf8(number).expect("these are digits").parse::<i32>();
        number.map(|number| number as usize).map_err(|_| text(self.lua, "integral size overflow"))
    }

    /// The next one, at `at`.
    fn next(&mut self, at: usize) -> mlua::Result<Option<Item>> {
        loop {
            let Some((kind, rest)) = self.rest.split_first() else { return Ok(None) };
            self.rest = rest;
            let size = match kind {
                b'b' | b'B' | b'x' => 1,
                b'h' | b'H' => 2,
                b'f' => 4,
                b'l' | b'L' | b'T' | b'd' => 8,
                b's' => 0,
                b'c' => self.number(1)?,
                b'i' | b'I' => {
                    let size = self.number(4)?;
                    if size > MAX_INTEGER_BYTES {
                        let why =
                            format_args!("integral size {size} is larger than limit of {MAX_INTEGER_BYTES}");
                        return Err(text(self.lua, why));
                    }
                    size
                }
                b' ' => continue,
                b'<' | b'>' => {
                    self.little = *kind == b'<';
                    continue;
                }
                b'!' => {
                    self.align = self.number(MAX_ALIGN)?;
                    if !self.align.is_power_of_two() {
                        return Err(text(
                            self.lua,
                            format_args!("alignment {} is not a power of 2", self.align),
                        ));
                    }
                    continue;
                }
                other => {
                    return Err(text(
                        self.lua,
                        format_args!(
                            "bad argument #1 to '{}' (invalid format option '{}')",
                            self.name,
                            char::from(*other)
                        ),
                    ));
                }
            };
            let step = if *kind == b'c' { 0 } else { size.min(self.align) };
            let padding = if step > 1 { (step - (at & (step - 1))) & (step - 1) } else { 0 };
            return Ok(Some(Item { kind: *kind, size, padding, little: self.little }));
        }
    }
}

fn string(lua: &Lua, args: &MultiValue, at: usize, name: &str) -> mlua::Result<LuaString> {
    let text = args.get(at).cloned().map(|value| lua.coerce_string(value)).transpose()?.flatten();
    text.ok_or_else(|| bad_argument(lua, at + 1, name, "string", args.get(at)))
}

fn pack(lua: &Lua, args: &MultiValue, format: &LuaString) -> mlua::Result<Vec<u8>> {
    let format = format.as_bytes();
    let (mut items, mut out, mut arg) = (Format::new(lua, "pack", &format), Vec::new(), 1);
    let most = crate::budget::limits().memory_bytes;
    let number = |arg: usize| -> mlua::Result<f64> {
        let number = args.get(arg).cloned().map(|value| lua.coerce_number(value)).transpose()?.flatten();
        number
            .ok_or_else(|| bad_argument(lua, arg + 1, "pack", "number", args.get(arg).or(Some(&Value::Nil))))
    };
    while let Some(Item { kind, size, padding, little }) = items.next(out.len())? {
        out.resize(out.len() + padding, 0);
        match kind {
            b'x' => out.push(0),
            b'c' | b's' => {
                let given = string(lua, args, arg, "pack")?;
                let given = given.as_bytes();
                let size = if size == 0 { given.len() } else { size };
                let Some(bytes) = given.get(..size) else {
                    return Err(text(
                        lua,
                        format_args!("bad argument #{} to 'pack' (string too short)", arg + 2),
                    ));
                };
                out.extend_from_slice(bytes);
                if kind == b's' {
                    out.push(0);
                }
                arg += 1;
            }
            b'f' => {
                put(&(number(arg)? as f32).to_le_bytes(), little, &mut out);
                arg += 1;
            }
            b'd' => {
                put(&number(arg)?.to_le_bytes(), little, &mut out);
                arg += 1;
            }
            _ => {
                let number = number(arg)?;
                let bits = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let mut bytes = [0; MAX_INTEGER_BYTES];
                bytes[..8].copy_from_slice(&bits.to_le_bytes());
                put(&bytes[..size], little, &mut out);
                arg += 1;
            }
        }
        if out.len() > most {
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
    }
    Ok(out)
}

fn put(bytes: &[u8], little: bool, out: &mut Vec<u8>) {
    if little { out.extend_from_slice(bytes) } else { out.extend(bytes.iter().rev()) }
}

/// `unpack(format, data, position)`: the values, and the position behind them.
fn unpack(lua: &Lua, args: &MultiValue, format: &LuaString) -> mlua::Result<MultiValue> {
    let data = string(lua, args, 1, "unpack")?;
    let (format, data) = (format.as_bytes(), data.as_bytes());
    let start = match args.get(2) {
        None | Some(Value::Nil) => 1.0,
        Some(value) => lua
            .coerce_number(value.clone())?
            .ok_or_else(|| bad_argument(lua, 3, "unpack", "number", Some(value)))?,
    };
    if start < 1.0 {
        return Err(text(lua, "bad argument #3 to 'unpack' (offset must be 1 or greater)"));
    }
    let mut at = start as usize - 1;
    let (mut items, mut values) = (Format::new(lua, "unpack", &format), MultiValue::new());
    let short = || text(lua, "bad argument #2 to 'unpack' (data string too short)");
    while let Some(Item { kind, size, padding, little }) = items.next(at)? {
        at = at.saturating_add(padding);
        if at > data.len() || size > data.len() - at {
            return Err(short());
        }
        if values.len() >= MOST_VALUES {
            return Err(text(lua, "too many results to unpack"));
        }
        let bytes = &data[at..at + size];
        at += size;
        match kind {
            b'x' => {}
            b'c' if size == 0 => {
                let len = match values.pop_back() {
                    Some(Value::Number(len)) if len >= 0.0 => len as usize,
                    _ => return Err(text(lua, "format 'c0' needs a previous size")),
                };
                let bytes = data.get(at..at.saturating_add(len)).ok_or_else(short)?;
                values.push_back(Value::String(lua.create_string(bytes)?));
                at += len;
            }
            b'c' => values.push_back(Value::String(lua.create_string(bytes)?)),
            b's' => {
                let Some(len) = data[at..].iter().position(|byte| *byte == 0) else {
                    return Err(text(lua, "unfinished string in data"));
                };
                values.push_back(Value::String(lua.create_string(&data[at..at + len])?));
                at += len + 1;
            }
            _ => values.push_back(Value::Number(number(kind, bytes, little))),
        }
    }
    values.push_back(Value::Number((at + 1) as f64));
    Ok(values)
}

fn number(kind: u8, bytes: &[u8], little: bool) -> f64 {
    let mut turned = bytes.to_vec();
    if !little {
        turned.reverse();
    }
    let mut low = [0; 8];
    let len = turned.len().min(8);
    low[..len].copy_from_slice(&turned[..len]);
    let bits = u64::from_le_bytes(low);
    match kind {
        b'f' => f64::from(f32::from_bits(bits as u32)),
        b'd' => f64::from_bits(bits),
        b'b' | b'h' | b'l' | b'i' if len > 0 => {
            let unused = 64 - 8 * len as u32;
            ((bits << unused) as i64 >> unused) as f64
        }
        _ => bits as f64,
    }
}

fn size(lua: &Lua, format: &LuaString) -> mlua::Result<f64> {
    let format = format.as_bytes();
    let (mut items, mut at) = (Format::new(lua, "size", &format), 0usize);
    while let Some(Item { kind, size, padding, .. }) = items.next(at)? {
        if kind == b's' || kind == b'c' && size == 0 {
            let kind = if kind == b's' { "s" } else { "c0" };
            return Err(text(
                lua,
                format_args!("bad argument #1 to 'size' (option '{kind}' has no fixed size)"),
            ));
        }
        at += padding + size;
    }
    Ok(at as f64)
}
