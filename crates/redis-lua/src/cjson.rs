//! The table `cjson`: JSON to Lua and back, as lua-cjson 2.1 does it for Redis.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{LightUserData, Lua, MultiValue, Table, Value};

use crate::raise::{bad_argument, text, type_name};
use crate::run::Run;

/// What `encode_max_depth` and `decode_max_depth` can be set to: as deep as our stack allows.
const MOST_DEPTH: u32 = 1000;

/// The cost of a value that is read or written beside its bytes, in instructions.
const VALUE_INSTRUCTIONS: u64 = 24;

/// The cost of a table beside its values.
const TABLE_INSTRUCTIONS: u64 = 100;

/// What scripts set, for the rest of their run.
#[derive(Clone, Copy, Debug)]
struct Settings {
    sparse_convert: bool,
    sparse_ratio: u32,
    sparse_safe: u32,
    encode_depth: u32,
    decode_depth: u32,
    precision: usize,
    keep_buffer: bool,
    /// What becomes of numbers that JSON has not.
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

struct Encoder<'a> {
    lua: &'a Lua,
    run: &'a Run,
    settings: Settings,
}

impl Encoder<'_> {
    fn value(&self, value: &Value, depth: u32, out: &mut Vec<u8>) -> mlua::Result<()> {
        self.run.budget.charge(self.lua, VALUE_INSTRUCTIONS)?;
        match value {
            Value::String(text) => self.quote(&text.as_bytes(), out)?,
            Value::Integer(number) => self.number(*number as f64, out)?,
            Value::Number(number) => self.number(*number, out)?,
            Value::Boolean(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
            Value::Nil => out.extend_from_slice(b"null"),
            Value::LightUserData(LightUserData(place)) if place.is_null() => out.extend_from_slice(b"null"),
            Value::Table(table) => return self.table(table, depth + 1, out),
            other => return Err(self.refuse(other, "type not supported")),
        }
        if out.len() > crate::budget::limits().memory_bytes {
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
        Ok(())
    }

    fn refuse(&self, value: &Value, why: &str) -> mlua::Error {
        text(self.lua, format_args!("Cannot serialise {}: {why}", type_name(value)))
    }

    fn number(&self, number: f64, out: &mut Vec<u8>) -> mlua::Result<()> {
        if number.is_finite() {
            out.extend_from_slice(general(number, self.settings.precision).as_bytes());
            return Ok(());
        }
        match self.settings.encode_invalid {
            Invalid::Refused => {
                return Err(self.refuse(&Value::Number(number), "must not be NaN or Inf"));
            }
            Invalid::Null => out.extend_from_slice(b"null"),
            Invalid::Written if number.is_nan() => out.extend_from_slice(b"nan"),
            Invalid::Written => out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" }),
        }
        Ok(())
    }

    fn table(&self, table: &Table, depth: u32, out: &mut Vec<u8>) -> mlua::Result<()> {
        if depth > self.settings.encode_depth || self.run.is_deep() {
            return Err(text(self.lua, format_args!("Cannot serialise, excessive nesting ({depth})")));
        }
        self.run.budget.charge(self.lua, TABLE_INSTRUCTIONS)?;
        match self.array_len(table)? {
            Some(len) => {
                out.push(b'[');
                for at in 1..=len {
                    if at > 1 {
                        out.push(b',');
                    }
                    self.value(&table.raw_get::<Value>(at)?, depth, out)?;
                }
                out.push(b']');
            }
            None => {
                out.push(b'{');
                let mut first = true;
                self.run.budget.pairs(self.lua, table, |key, value| {
                    if !std::mem::take(&mut first) {
                        out.push(b',');
                    }
                    match &key {
                        Value::String(key) => self.quote(&key.as_bytes(), out)?,
                        Value::Integer(key) => {
                            out.push(b'"');
                            self.number(*key as f64, out)?;
                            out.push(b'"');
                        }
                        Value::Number(key) => {
                            out.push(b'"');
                            self.number(*key, out)?;
                            out.push(b'"');
                        }
                        other => return Err(self.refuse(other, "table key must be a number or string")),
                    }
                    out.push(b':');
                    self.value(&value, depth, out)
                })?;
                out.push(b'}');
            }
        }
        Ok(())
    }

    fn quote(&self, text: &[u8], out: &mut Vec<u8>) -> mlua::Result<()> {
        self.run.budget.charge_each_byte(text.len())?;
        quote(text, out);
        Ok(())
    }

    /// How long the array is that a table is, if it is one.
    fn array_len(&self, table: &Table) -> mlua::Result<Option<u64>> {
        let (mut items, mut most) = (0u64, 0u64);
        for pair in table.pairs::<Value, Value>() {
            let (key, _) = pair?;
            self.run.budget.charge(self.lua, 1)?;
            let key = match key {
                Value::Integer(key) => key as f64,
                Value::Number(key) => key,
                _ => return Ok(None),
            };
            if key < 1.0 || key.fract() != 0.0 || key > 9e15 {
                return Ok(None);
            }
            items += 1;
            most = most.max(key as u64);
        }
        if items == 0 {
            return Ok(None);
        }
        let Settings { sparse_ratio: ratio, sparse_safe: safe, sparse_convert, .. } = self.settings;
        if ratio > 0 && most > items.saturating_mul(ratio.into()) && most > safe.into() {
            if !sparse_convert {
                return Err(self.refuse(&Value::Table(table.clone()), "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok(Some(most))
    }
}

fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'/' => out.extend_from_slice(b"\\/"),
            8 => out.extend_from_slice(b"\\b"),
            9 => out.extend_from_slice(b"\\t"),
            10 => out.extend_from_slice(b"\\n"),
            12 => out.extend_from_slice(b"\\f"),
            13 => out.extend_from_slice(b"\\r"),
            0..32 | 127 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            other => out.push(*other),
        }
    }
    out.push(b'"');
}

/// `printf` with `%.14g`, or fewer digits.
pub fn general(number: f64, digits: usize) -> String {
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_string();
    }
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("it was written so");
    let exponent: i32 = exponent.parse().expect("it was written so");
    let trimmed = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        } else {
            text.to_string()
        }
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.unsigned_abs());
    }
    trimmed(&format!("{number:.*}", (digits as i32 - 1 - exponent).max(0) as usize))
}

struct Decoder<'a> {
    lua: &'a Lua,
    run: &'a Run,
    settings: Settings,
    json: &'a [u8],
    at: usize,
}

/// What stands at a place, in lua-cjson's words.
enum Found {
    Other(&'static str),
    Token(&'static str),
}

impl Decoder<'_> {
    fn document(&mut self) -> mlua::Result<Value> {
        if self.json.len() >= 2 && (self.json[0] == 0 || self.json[1] == 0) {
            return Err(text(self.lua, "JSON parser does not support UTF-16 or UTF-32"));
        }
        // As in C, where a zero ends a text.
        if let Some(end) = self.json.iter().position(|byte| *byte == 0) {
            self.json = &self.json[..end];
        }
        let value = self.value(0)?;
        self.space();
        if self.at < self.json.len() {
            return Err(self.expected("the end"));
        }
        Ok(value)
    }

    fn space(&mut self) {
        while matches!(self.json.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn expected(&mut self, what: &str) -> mlua::Error {
        let at = self.at + 1;
        match self.found() {
            Found::Token(token) => {
                text(self.lua, format_args!("Expected {what} but found {token} at character {at}"))
            }
            Found::Other(why) => {
                text(self.lua, format_args!("Expected {what} but found {why} at character {at}"))
            }
        }
    }

    fn found(&self) -> Found {
        match self.json.get(self.at) {
            None => Found::Token("T_END"),
            Some(b'{') => Found::Token("T_OBJ_BEGIN"),
            Some(b'}') => Found::Token("T_OBJ_END"),
            Some(b'[') => Found::Token("T_ARR_BEGIN"),
            Some(b']') => Found::Token("T_ARR_END"),
            Some(b',') => Found::Token("T_COMMA"),
            Some(b':') => Found::Token("T_COLON"),
            Some(b'"') => Found::Token("T_STRING"),
            Some(b'-' | b'0'..=b'9') => Found::Token("T_NUMBER"),
            Some(_)
                if self.json[self.at..].starts_with(b"true")
                    || self.json[self.at..].starts_with(b"false") =>
            {
                Found::Token("T_BOOLEAN")
            }
            Some(_) if self.json[self.at..].starts_with(b"null") => Found::Token("T_NULL"),
            Some(_) => Found::Other("invalid token"),
        }
    }

    fn value(&mut self, depth: u32) -> mlua::Result<Value> {
        self.space();
        self.run.budget.charge(self.lua, VALUE_INSTRUCTIONS)?;
        let rest = &self.json[self.at..];
        match rest.first() {
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => {
                let text = self.string()?;
                Ok(Value::String(self.lua.create_string(text)?))
            }
            Some(_) if rest.starts_with(b"true") => self.word(4, Value::Boolean(true)),
            Some(_) if rest.starts_with(b"false") => self.word(5, Value::Boolean(false)),
            Some(_) if rest.starts_with(b"null") => {
                self.word(4, Value::LightUserData(LightUserData(std::ptr::null_mut())))
            }
            Some(b'-' | b'+' | b'0'..=b'9' | b'i' | b'I' | b'n' | b'N') => self.number(),
            _ => Err(self.expected("value")),
        }
    }

    fn word(&mut self, len: usize, value: Value) -> mlua::Result<Value> {
        self.at += len;
        Ok(value)
    }

    fn number(&mut self) -> mlua::Result<Value> {
        let rest = &self.json[self.at..];
        let unsigned = rest.strip_prefix(b"-").or(rest.strip_prefix(b"+")).unwrap_or(rest);
        let sign = rest.len() - unsigned.len();
        let named =
            |word: &[u8]| unsigned.len() >= word.len() && unsigned[..word.len()].eq_ignore_ascii_case(word);
        let hexadecimal = named(b"0x");
        let zeros = unsigned.len() > 1 && unsigned[0] == b'0' && unsigned[1].is_ascii_digit();
        let (len, value) = if named(b"infinity") {
            (8, f64::INFINITY)
        } else if named(b"inf") {
            (3, f64::INFINITY)
        } else if named(b"nan") {
            (3, f64::NAN)
        } else if hexadecimal {
            let digits = unsigned[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
            let value = unsigned[2..2 + digits].iter().fold(0.0, |value, digit| {
                value * 16.0 + f64::from(char::from(*digit).to_digit(16).expect("it is one"))
            });
            (2 + digits, value)
        } else {
            let len = decimal_len(unsigned);
            let value = std::str::from_utf8(&unsigned[..len]).ok().and_then(|digits| digits.parse().ok());
            (len, value.unwrap_or(f64::NAN))
        };
        let odd = !value.is_finite() || hexadecimal || zeros || rest[0] == b'+';
        if len == 0 || rest[0] == b'+' || odd && !self.settings.decode_invalid {
            let at = self.at + 1;
            return Err(text(
                self.lua,
                format_args!("Expected value but found invalid token at character {at}"),
            ));
        }
        self.at += sign + len;
        Ok(Value::Number(if rest[0] == b'-' { -value } else { value }))
    }

    fn string(&mut self) -> mlua::Result<Vec<u8>> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let start = self.at;
            let invalid = |decoder: &Self, at: usize, why: &str| {
                text(decoder.lua, format_args!("Expected value but found {why} at character {}", at + 1))
            };
            match self.json.get(self.at) {
                None => return Err(invalid(self, self.at, "unexpected end of string")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 2;
                    out.push(match self.json.get(start + 1) {
                        Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
                        Some(b'b') => 8,
                        Some(b'f') => 12,
                        Some(b'n') => 10,
                        Some(b'r') => 13,
                        Some(b't') => 9,
                        Some(b'u') => {
                            let letter = self
                                .unicode(start)
                                .ok_or_else(|| invalid(self, start, "invalid unicode escape code"))?;
                            let mut bytes = [0; 4];
                            out.extend_from_slice(letter.encode_utf8(&mut bytes).as_bytes());
                            continue;
                        }
                        _ => return Err(invalid(self, start, "invalid escape code")),
                    });
                }
                Some(byte) => {
                    out.push(*byte);
                    self.at += 1;
                }
            }
        }
    }

    /// The letter of `\uXXXX`, or of two of them.
    fn unicode(&mut self, start: usize) -> Option<char> {
        let four = |at: usize| -> Option<u32> {
            let digits = self.json.get(at..at + 4)?;
            digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
        };
        let high = four(start + 2)?;
        self.at = start + 6;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high);
        }
        if self.json.get(start + 6..start + 8)? != b"\\u" {
            return None;
        }
        let low = four(start + 8).filter(|low| (0xdc00..0xe000).contains(low))?;
        self.at = start + 12;
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn descend(&self, depth: u32) -> mlua::Result<()> {
        if depth <= self.settings.decode_depth && !self.run.is_deep() {
            return self.run.budget.charge(self.lua, 1);
        }
        Err(text(
            self.lua,
            format_args!("Found too many nested data structures ({depth}) at character {}", self.at + 1),
        ))
    }

    fn array(&mut self, depth: u32) -> mlua::Result<Value> {
        self.descend(depth)?;
        let table = self.lua.create_table()?;
        self.at += 1;
        self.space();
        if self.json.get(self.at) == Some(&b']') {
            self.at += 1;
            return Ok(Value::Table(table));
        }
        for at in 1.. {
            table.raw_set(at, self.value(depth)?)?;
            self.space();
            match self.json.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.expected("comma or array end")),
            }
        }
        self.at += 1;
        Ok(Value::Table(table))
    }

    fn object(&mut self, depth: u32) -> mlua::Result<Value> {
        self.descend(depth)?;
        let table = self.lua.create_table()?;
        self.at += 1;
        self.space();
        if self.json.get(self.at) == Some(&b'}') {
            self.at += 1;
            return Ok(Value::Table(table));
        }
        loop {
            self.space();
            if self.json.get(self.at) != Some(&b'"') {
                return Err(self.expected("object key string"));
            }
            let key = self.string()?;
            self.space();
            if self.json.get(self.at) != Some(&b':') {
                return Err(self.expected("colon"));
            }
            self.at += 1;
            let value = self.value(depth)?;
            table.raw_set(self.lua.create_string(key)?, value)?;
            self.space();
            match self.json.get(self.at) {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                _ => return Err(self.expected("comma or object end")),
            }
        }
        self.at += 1;
        Ok(Value::Table(table))
    }
}

/// How many bytes of a text are a decimal number.
fn decimal_len(text: &[u8]) -> usize {
    let digits =
        |from: usize| text[from.min(text.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut len = whole;
    if text.get(len) == Some(&b'.') {
        len += 1 + digits(len + 1);
    }
    if whole == 0 && len <= 1 {
        return 0;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits(len + 1 + sign);
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_does() {
        for (number, text) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (1e14, "1e+14"),
            (123456789012345.0, "1.2345678901234e+14"),
            (12345678901234.0, "12345678901234"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (-2.5, "-2.5"),
            (1e300, "1e+300"),
            (1.0 / 3.0, "0.33333333333333"),
            (99999999999999.9, "1e+14"),
        ] {
            assert_eq!(general(number, 14), text);
        }
        assert_eq!(general(2.34567, 3), "2.35");
    }
}
