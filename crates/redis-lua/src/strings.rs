//! `string.find`, `match`, `gmatch`, `gsub` and `rep`, by [`patterns`](crate::patterns).

use std::rc::Rc;

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use crate::patterns::{Capture, Ended, Matcher};
use crate::raise::{Raise, bad_argument, text};
use crate::run::Run;

const UNFINISHED: &str = "unfinished capture";
/// The cost of a search beside its steps, in instructions: it asks for memory, and its results become values.
const SEARCH_INSTRUCTIONS: u64 = 16;

/// Adds them for the prelude.
pub fn add(lua: &Lua, run: &Rc<Run>, natives: &Table) -> mlua::Result<()> {
    for (name, finds) in [("find", true), ("match", false)] {
        let run = run.clone();
        natives.raw_set(
            name,
            lua.create_function(move |lua, args: MultiValue| find(lua, &run, &args, finds))?,
        )?;
    }
    let of = run.clone();
    natives.raw_set(
        "next_match",
        lua.create_function(move |lua, args: MultiValue| next_match(lua, &of, &args))?,
    )?;
    let of = run.clone();
    natives
        .raw_set("match_at", lua.create_function(move |lua, args: MultiValue| match_at(lua, &of, &args))?)?;
    let of = run.clone();
    natives.raw_set(
        "substitute",
        lua.create_function(move |lua, args: MultiValue| substitute(lua, &of, &args))?,
    )?;
    natives.raw_set(
        "check_pattern",
        lua.create_function(|lua, args: MultiValue| {
            let name = args
                .get(2)
                .and_then(Value::as_string)
                .map_or_else(String::new, |name| name.to_string_lossy());
            string(lua, &args, 1, &name)?;
            string(lua, &args, 0, &name)
        })?,
    )?;
    natives.raw_set(
        "check_count",
        lua.create_function(|lua, (count, otherwise): (Value, f64)| match count {
            Value::Nil => Ok(otherwise),
            count => lua
                .coerce_number(count.clone())?
                .map(f64::trunc)
                .ok_or_else(|| bad_argument(lua, 4, "gsub", "number", Some(&count))),
        })?,
    )?;
    let of = run.clone();
    natives.raw_set(
        "rep",
        lua.create_function(move |lua, args: MultiValue| {
            let text = string(lua, &args, 0, "rep")?;
            let count = number(lua, &args, 1, "rep")?;
            let bytes = text.as_bytes();
            let count = if count > 0.0 && !bytes.is_empty() { count as usize } else { 0 };
            // What is too long is not tried: its bytes are nowhere counted until Lua has them.
            let most = crate::budget::limits().memory_bytes;
            if bytes.len().saturating_mul(count) > most {
                return Err(mlua::Error::MemoryError("not enough memory".into()));
            }
            of.budget.charge_bytes(bytes.len() * count)?;
            lua.create_string(bytes.repeat(count))
        })?,
    )
}

fn string(lua: &Lua, args: &MultiValue, at: usize, function: &str) -> mlua::Result<LuaString> {
    match args.get(at) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(number @ (Value::Integer(_) | Value::Number(_))) => {
            Ok(lua.coerce_string(number.clone())?.expect("numbers are texts, too"))
        }
        other => Err(bad_argument(lua, at + 1, function, "string", other)),
    }
}

fn number(lua: &Lua, args: &MultiValue, at: usize, function: &str) -> mlua::Result<f64> {
    let value = args.get(at);
    let number = value.cloned().map(|value| lua.coerce_number(value)).transpose()?.flatten();
    number.map(f64::trunc).ok_or_else(|| bad_argument(lua, at + 1, function, "number", value))
}

/// Runs a search within the run's budget.
fn searched<R>(
    lua: &Lua,
    run: &Run,
    of: &[u8],
    pattern: &[u8],
    search: impl FnOnce(&mut Matcher<'_>) -> Result<R, Ended>,
) -> mlua::Result<R> {
    let steps = run.budget.left();
    let mut matcher = Matcher::new(of, pattern, steps);
    let found = search(&mut matcher);
    run.budget.charge(lua, SEARCH_INSTRUCTIONS.saturating_add(steps - matcher.steps()))?;
    match found {
        Ok(found) => Ok(found),
        Err(Ended::Bad(why)) => Err(text(lua, why)),
        Err(Ended::Spent) => {
            run.budget.charge(lua, steps.saturating_add(1))?;
            Err(Raise::Over.into())
        }
    }
}

fn value(lua: &Lua, of: &[u8], capture: Capture) -> mlua::Result<Value> {
    Ok(match capture {
        Capture::Bytes(start, len) => Value::String(lua.create_string(&of[start..start + len])?),
        Capture::Position(at) => Value::Number((at + 1) as f64),
        Capture::Open(_) => return Err(text(lua, UNFINISHED)),
    })
}

/// `find(s, pattern, init, plain)` and `match(s, pattern, init)`
fn find(lua: &Lua, run: &Run, args: &MultiValue, finds: bool) -> mlua::Result<MultiValue> {
    let name = if finds { "find" } else { "match" };
    let (of, pattern) = (string(lua, args, 0, name)?, string(lua, args, 1, name)?);
    let (of, pattern) = (of.as_bytes(), pattern.as_bytes());
    let init = if args.get(2).is_none_or(Value::is_nil) { 1.0 } else { number(lua, args, 2, name)? };
    let from = if init < 0.0 { of.len() as f64 + init } else { init - 1.0 };
    let from = from.clamp(0.0, of.len() as f64) as usize;
    let plain =
        finds && args.get(3).is_some_and(|plain| !matches!(plain, Value::Nil | Value::Boolean(false)));
    if finds && (plain || !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte))) {
        run.budget.charge_each_byte(of.len() - from)?;
        let found = find_bytes(&of[from..], &pattern).map(|at| from + at);
        return Ok(match found {
            Some(at) => {
                [(at + 1) as f64, (at + pattern.len()) as f64].map(Value::Number).into_iter().collect()
            }
            None => [Value::Nil].into_iter().collect(),
        });
    }
    let (anchored, pattern) = pattern.strip_prefix(b"^").map_or((false, &*pattern), |rest| (true, rest));
    let found = searched(lua, run, &of, pattern, |matcher| {
        let found =
            if anchored { matcher.match_at(from)?.map(|end| (from, end)) } else { matcher.search(from)? };
        let Some((first, last)) = found else { return Ok(None) };
        let captures =
            if finds && matcher.captures() == 0 { Vec::new() } else { matcher.captured(first, last) };
        Ok(Some((first, last, captures)))
    })?;
    let Some((first, last, captures)) = found else { return Ok([Value::Nil].into_iter().collect()) };
    let mut values = MultiValue::new();
    if finds {
        values.push_back(Value::Number((first + 1) as f64));
        values.push_back(Value::Number(last as f64));
    }
    for capture in captures {
        values.push_back(value(lua, &of, capture)?);
    }
    Ok(values)
}

/// In time that grows with both lengths, not with their product.
fn find_bytes(of: &[u8], wanted: &[u8]) -> Option<usize> {
    // The table of Knuth, Morris and Pratt.
    if wanted.is_empty() {
        return Some(0);
    }
    if wanted.len() > of.len() {
        return None;
    }
    let mut falls = vec![0u32; wanted.len()];
    let mut matched = 0;
    for at in 1..wanted.len() {
        while matched > 0 && wanted[at] != wanted[matched] {
            matched = falls[matched - 1] as usize;
        }
        matched += usize::from(wanted[at] == wanted[matched]);
        falls[at] = matched as u32;
    }
    matched = 0;
    for (at, byte) in of.iter().enumerate() {
        while matched > 0 && *byte != wanted[matched] {
            matched = falls[matched - 1] as usize;
        }
        matched += usize::from(*byte == wanted[matched]);
        if matched == wanted.len() {
            return Some(at + 1 - wanted.len());
        }
    }
    None
}

/// `gmatch`'s next: from where the one after it goes on, and its captures. Nothing, if there is none.
fn next_match(lua: &Lua, run: &Run, args: &MultiValue) -> mlua::Result<MultiValue> {
    let (of, pattern) = (string(lua, args, 0, "gmatch")?, string(lua, args, 1, "gmatch")?);
    let (of, pattern) = (of.as_bytes(), pattern.as_bytes());
    let from = number(lua, args, 2, "gmatch")? as usize;
    if from > of.len() {
        return Ok([Value::Nil, Value::Nil].into_iter().collect());
    }
    let found = searched(lua, run, &of, &pattern, |matcher| {
        let Some((first, last)) = matcher.search(from)? else { return Ok(None) };
        Ok(Some((first, last, matcher.captured(first, last))))
    })?;
    let Some((first, last, captures)) = found else {
        return Ok([Value::Nil, Value::Nil].into_iter().collect());
    };
    let next = if last == first { last + 1 } else { last };
    let mut values: MultiValue = [Value::Number(next as f64)].into_iter().collect();
    for capture in captures {
        values.push_back(value(lua, &of, capture)?);
    }
    Ok(values)
}

/// The next match of a `gsub` from a position on: its first and last position, and its captures.
fn match_at(lua: &Lua, run: &Run, args: &MultiValue) -> mlua::Result<MultiValue> {
    let (of, pattern) = (string(lua, args, 0, "gsub")?, string(lua, args, 1, "gsub")?);
    let (of, pattern) = (of.as_bytes(), pattern.as_bytes());
    let from = number(lua, args, 2, "gsub")? as usize - 1;
    let (anchored, pattern) = pattern.strip_prefix(b"^").map_or((false, &*pattern), |rest| (true, rest));
    let found = searched(lua, run, &of, pattern, |matcher| {
        let found =
            if anchored { matcher.match_at(from)?.map(|end| (from, end)) } else { matcher.search(from)? };
        let Some((first, last)) = found else { return Ok(None) };
        Ok(Some((first, last, matcher.captured(first, last))))
    })?;
    let Some((first, last, captures)) = found else { return Ok(MultiValue::new()) };
    let mut values: MultiValue = [(first + 1) as f64, last as f64].map(Value::Number).into_iter().collect();
    for capture in captures {
        values.push_back(value(lua, &of, capture)?);
    }
    Ok(values)
}

/// `gsub(s, pattern, replacement, count)` of a replacement that is a string or a table.
fn substitute(lua: &Lua, run: &Run, args: &MultiValue) -> mlua::Result<(LuaString, f64)> {
    let (of, pattern) = (string(lua, args, 0, "gsub")?, string(lua, args, 1, "gsub")?);
    let (of, pattern) = (of.as_bytes(), pattern.as_bytes());
    let with = match args.get(2) {
        Some(Value::Table(table)) => With::Table(table.clone()),
        Some(Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
            With::Text(string(lua, args, 2, "gsub")?.as_bytes().to_vec())
        }
        _ => return Err(text(lua, "bad argument #3 to 'gsub' (string/function/table expected)")),
    };
    let most = if args.get(3).is_none_or(Value::is_nil) {
        (of.len() + 1) as f64
    } else {
        number(lua, args, 3, "gsub")?
    };
    let (anchored, pattern) = pattern.strip_prefix(b"^").map_or((false, &*pattern), |rest| (true, rest));
    let (mut out, mut at, mut count) = (Bounded::default(), 0, 0.0);
    while count < most {
        let found = searched(lua, run, &of, pattern, |matcher| {
            let Some(end) = matcher.match_at(at)? else { return Ok(None) };
            Ok(Some((end, matcher.captured(at, end), matcher.captures())))
        })?;
        let mut end = at;
        if let Some((last, captures, captured)) = found {
            count += 1.0;
            end = last;
            run.budget.charge_each_byte(with.len() + (end - at) / 8)?;
            with.append(lua, &of, (at, end), &captures, captured, &mut out)?;
        }
        if end > at {
            at = end;
        } else if at < of.len() {
            out.push(&of[at..=at])?;
            at += 1;
        } else {
            break;
        }
        if anchored {
            break;
        }
    }
    out.push(of.get(at..).unwrap_or_default())?;
    run.budget.charge_bytes(out.0.len())?;
    Ok((lua.create_string(out.0)?, count))
}

/// Bytes that become a string, no more than a run's memory has room for: a short template of `%0` makes many of few.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Bounded {
    fn push(&mut self, bytes: &[u8]) -> mlua::Result<()> {
        if self.0.len() + bytes.len() > crate::budget::limits().memory_bytes {
            return Err(mlua::Error::MemoryError("not enough memory".into()));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

enum With {
    Text(Vec<u8>),
    Table(Table),
}

impl With {
    /// Bytes that are read for each match.
    fn len(&self) -> usize {
        match self {
            With::Text(template) => template.len(),
            With::Table(_) => 0,
        }
    }

    fn append(
        &self,
        lua: &Lua,
        of: &[u8],
        (first, last): (usize, usize),
        captures: &[Capture],
        captured: usize,
        out: &mut Bounded,
    ) -> mlua::Result<()> {
        match self {
            With::Text(template) => {
                let mut bytes = template.iter();
                while let Some(byte) = bytes.next() {
                    if *byte != b'%' {
                        out.push(&[*byte])?;
                        continue;
                    }
                    match bytes.next() {
                        Some(b'0') => out.push(&of[first..last])?,
                        Some(digit) if digit.is_ascii_digit() => {
                            let at = usize::from(digit - b'1');
                            if at >= captured.max(1) {
                                return Err(text(lua, "invalid capture index"));
                            }
                            push(lua, of, captures[at], out)?;
                        }
                        Some(other) => out.push(&[*other])?,
                        // Lua copies the zero behind its strings.
                        None => out.push(&[0])?,
                    }
                }
            }
            With::Table(table) => match table.get::<Value>(value(lua, of, captures[0])?)? {
                Value::Nil | Value::Boolean(false) => out.push(&of[first..last])?,
                with @ (Value::String(_) | Value::Integer(_) | Value::Number(_)) => {
                    out.push(&lua.coerce_string(with)?.expect("it is one, or a number").as_bytes())?;
                }
                other => {
                    let kind = super::raise::type_name(&other);
                    return Err(text(lua, format_args!("invalid replacement value (a {kind})")));
                }
            },
        }
        Ok(())
    }
}

fn push(lua: &Lua, of: &[u8], capture: Capture, out: &mut Bounded) -> mlua::Result<()> {
    match capture {
        Capture::Bytes(start, len) => out.push(&of[start..start + len]),
        Capture::Position(at) => out.push((at + 1).to_string().as_bytes()),
        Capture::Open(_) => Err(text(lua, UNFINISHED)),
    }
}
