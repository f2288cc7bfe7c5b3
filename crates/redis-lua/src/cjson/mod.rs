//! The table `cjson`: JSON to Lua and back, as lua-cjson 2.1 does it for Redis.

mod decode;
mod encode;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{LightUserData, Lua, MultiValue, Table, Value};

use crate::raise::{bad_argument, text};
use crate::run::Run;

use decode::Decoder;
use encode::Encoder;

/// The most that `encode_max_depth` and `decode_max_depth` can be set to: as deep as our stack allows.
const MOST_DEPTH: u32 = 1000;

/// The cost of a value that is read or written beside its bytes, in instructions.
const VALUE_INSTRUCTIONS: u64 = 24;

/// The cost of a table beside its values.
const TABLE_INSTRUCTIONS: u64 = 100;

/// Settings by scripts, for the rest of their run.
#[derive(Clone, Copy, Debug)]
struct Settings {
    sparse_convert: bool,
    sparse_ratio: u32,
    sparse_safe: u32,
    encode_depth: u32,
    decode_depth: u32,
    precision: usize,
    keep_buffer: bool,
    /// The treatment of numbers that JSON has not.
    encode_invalid: Invalid,
    decode_invalid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalid {
    Refused,
    Written,
    Null,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: MOST_DEPTH,
            decode_depth: MOST_DEPTH,
            precision: 14,
            keep_buffer: true,
            encode_invalid: Invalid::Refused,
            decode_invalid: true,
        }
    }
}

/// The settings of a run: those of another are forgotten.
#[derive(Debug, Default)]
struct Shared {
    settings: Cell<Settings>,
    of: Cell<u64>,
}

impl Shared {
    fn get(&self, run: &Run) -> Settings {
        if self.of.replace(run.number.get()) != run.number.get() {
            self.settings.set(Settings::default());
        }
        self.settings.get()
    }
}

pub fn table(lua: &Lua, run: &Rc<Run>) -> mlua::Result<Table> {
    let cjson = lua.create_table()?;
    let shared = Rc::new(Shared::default());
    let (of, set) = (run.clone(), shared.clone());
    cjson.raw_set(
        "encode",
        lua.create_function(move |lua, args: MultiValue| {
            let Some(value) = args.front().filter(|_| args.len() == 1) else {
                return Err(text(lua, "bad argument #1 to 'encode' (expected 1 argument)"));
            };
            let encoder = Encoder { lua, run: &of, settings: set.get(&of) };
            let mut out = Vec::new();
            encoder.value(value, 0, &mut out)?;
            of.budget.charge_bytes(out.len())?;
            lua.create_string(out)
        })?,
    )?;
    let (of, set) = (run.clone(), shared.clone());
    cjson.raw_set(
        "decode",
        lua.create_function(move |lua, args: MultiValue| {
            let Some(value) = args.front().filter(|_| args.len() == 1) else {
                return Err(text(lua, "bad argument #1 to 'decode' (expected 1 argument)"));
            };
            let json = lua
                .coerce_string(value.clone())?
                .ok_or_else(|| bad_argument(lua, 1, "decode", "string", Some(value)))?;
            let json = json.as_bytes();
            of.budget.charge_each_byte(json.len())?;
            Decoder { lua, run: &of, settings: set.get(&of), json: &json, at: 0 }.document()
        })?,
    )?;
    settings(lua, run, &shared, &cjson)?;
    let of = run.clone();
    cjson.raw_set("new", lua.create_function(move |lua, _: MultiValue| table(lua, &of))?)?;
    cjson.raw_set("null", Value::LightUserData(LightUserData(std::ptr::null_mut())))?;
    cjson.raw_set("_NAME", "cjson")?;
    cjson.raw_set("_VERSION", "2.1.0")?;
    Ok(cjson)
}

/// The functions that set something, and answer how it is set.
fn settings(lua: &Lua, run: &Rc<Run>, shared: &Rc<Shared>, cjson: &Table) -> mlua::Result<()> {
    let add = |name: &'static str,
               most: usize,
               apply: fn(&Lua, &MultiValue, &mut Settings) -> mlua::Result<MultiValue>| {
        let (run, shared) = (run.clone(), shared.clone());
        cjson.raw_set(
            name,
            lua.create_function(move |lua, args: MultiValue| {
                if args.len() > most {
                    return Err(text(
                        lua,
                        format_args!("bad argument #{} to '{name}' (found too many arguments)", most + 1),
                    ));
                }
                let mut settings = shared.get(&run);
                let told = apply(lua, &args, &mut settings)?;
                shared.settings.set(settings);
                Ok(told)
            })?,
        )
    };
    add("encode_sparse_array", 3, |lua, args, settings| {
        settings.sparse_convert = truth(args, 0, settings.sparse_convert);
        settings.sparse_ratio =
            integer(lua, args, 1, "encode_sparse_array", (0, i32::MAX as u32), settings.sparse_ratio)?;
        settings.sparse_safe =
            integer(lua, args, 2, "encode_sparse_array", (0, i32::MAX as u32), settings.sparse_safe)?;
        let told = [
            Value::Boolean(settings.sparse_convert),
            number(settings.sparse_ratio),
            number(settings.sparse_safe),
        ];
        Ok(told.into_iter().collect())
    })?;
    add("encode_max_depth", 1, |lua, args, settings| {
        settings.encode_depth =
            integer(lua, args, 0, "encode_max_depth", (1, i32::MAX as u32), settings.encode_depth)?
                .min(MOST_DEPTH);
        Ok([number(settings.encode_depth)].into_iter().collect())
    })?;
    add("decode_max_depth", 1, |lua, args, settings| {
        settings.decode_depth =
            integer(lua, args, 0, "decode_max_depth", (1, i32::MAX as u32), settings.decode_depth)?
                .min(MOST_DEPTH);
        Ok([number(settings.decode_depth)].into_iter().collect())
    })?;
    add("encode_number_precision", 1, |lua, args, settings| {
        settings.precision =
            integer(lua, args, 0, "encode_number_precision", (1, 14), settings.precision as u32)? as usize;
        Ok([number(settings.precision as u32)].into_iter().collect())
    })?;
    add("encode_keep_buffer", 1, |_, args, settings| {
        settings.keep_buffer = truth(args, 0, settings.keep_buffer);
        Ok([Value::Boolean(settings.keep_buffer)].into_iter().collect())
    })?;
    add("encode_invalid_numbers", 1, |lua, args, settings| {
        match args.front() {
            None | Some(Value::Nil) => {}
            Some(Value::Boolean(written)) => {
                settings.encode_invalid = if *written { Invalid::Written } else { Invalid::Refused }
            }
            Some(Value::String(word)) if *word == "null" => settings.encode_invalid = Invalid::Null,
            Some(Value::String(word)) if *word == "on" => settings.encode_invalid = Invalid::Written,
            Some(Value::String(word)) if *word == "off" => settings.encode_invalid = Invalid::Refused,
            Some(_) => return Err(text(lua, "bad argument #1 to 'encode_invalid_numbers' (invalid option)")),
        }
        Ok([match settings.encode_invalid {
            Invalid::Refused => Value::Boolean(false),
            Invalid::Written => Value::Boolean(true),
            Invalid::Null => Value::String(lua.create_string("null")?),
        }]
        .into_iter()
        .collect())
    })?;
    add("decode_invalid_numbers", 1, |_, args, settings| {
        settings.decode_invalid = truth(args, 0, settings.decode_invalid);
        Ok([Value::Boolean(settings.decode_invalid)].into_iter().collect())
    })
}

fn number(of: u32) -> Value {
    Value::Number(f64::from(of))
}

fn truth(args: &MultiValue, at: usize, otherwise: bool) -> bool {
    match args.get(at) {
        None | Some(Value::Nil) => otherwise,
        Some(Value::Boolean(truth)) => *truth,
        Some(_) => true,
    }
}

fn integer(
    lua: &Lua,
    args: &MultiValue,
    at: usize,
    name: &str,
    (least, most): (u32, u32),
    otherwise: u32,
) -> mlua::Result<u32> {
    let Some(value) = args.get(at).filter(|value| !value.is_nil()) else { return Ok(otherwise) };
    let number = lua
        .coerce_number(value.clone())?
        .ok_or_else(|| bad_argument(lua, at + 1, name, "number", Some(value)))?;
    if number < f64::from(least) || number > f64::from(most) {
        return Err(text(
            lua,
            format_args!(
                "bad argument #{} to '{name}' (expected integer between {least} and {most})",
                at + 1
            ),
        ));
    }
    Ok(number as u32)
}
