//! JSON read as values of Lua.

use mlua::{LightUserData, Lua, Value};

use super::{Settings, VALUE_INSTRUCTIONS};
use crate::raise::text;
use crate::run::Run;

pub(super) struct Decoder<'a> {
    pub lua: &'a Lua,
    pub run: &'a Run,
    pub settings: Settings,
    pub json: &'a [u8],
    pub at: usize,
}

/// The kind of token at a place, in lua-cjson's words.
enum Found {
    Other(&'static str),
    Token(&'static str),
}

impl Decoder<'_> {
    pub fn document(&mut self) -> mlua::Result<Value> {
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
