//! Values of Lua written as JSON.

use mlua::{LightUserData, Lua, Table, Value};

use super::{Invalid, Settings, TABLE_INSTRUCTIONS, VALUE_INSTRUCTIONS};
use crate::raise::{text, type_name};
use crate::run::Run;

pub(super) struct Encoder<'a> {
    pub lua: &'a Lua,
    pub run: &'a Run,
    pub settings: Settings,
}

impl Encoder<'_> {
    pub fn value(&self, value: &Value, depth: u32, out: &mut Vec<u8>) -> mlua::Result<()> {
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
