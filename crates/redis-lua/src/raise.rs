//! Errors that our functions raise in scripts.
//!
//! mlua hands them to Lua as objects of its own. Whatever catches errors for a script turns them into what Redis's functions raise: strings,
//! and tables with `err`.

use std::fmt;

use mlua::{Lua, Value};

/// An error on its way through Lua.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Raise {
    /// A table with this `err`: what `redis.call` and its like raise.
    Table(Vec<u8>),
    /// A string.
    Text(Vec<u8>),
    /// The run is over; nothing catches this.
    Over,
}

impl fmt::Display for Raise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raise::Table(text) | Raise::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
            Raise::Over => f.write_str("the run is over"),
        }
    }
}

impl std::error::Error for Raise {}

impl From<Raise> for mlua::Error {
    fn from(raise: Raise) -> mlua::Error {
        mlua::Error::external(raise)
    }
}

/// An error of the table kind.
pub fn table(text: impl Into<Vec<u8>>) -> mlua::Error {
    Raise::Table(text.into()).into()
}

/// An error as Lua's own functions raise it: where it happened stands in front.
#[cold]
pub fn text(lua: &Lua, message: impl fmt::Display) -> mlua::Error {
    // Level 0 is the function that fails. It may have been called through the prelude.
    let place = (1..8).find_map(|level| {
        let place = lua.inspect_stack(level, |caller| {
            let source = caller.source();
            let name = source.source.map(|name| name.into_owned()).unwrap_or_default();
            let short = source.short_src.map(|name| name.into_owned()).unwrap_or_default();
            let line = caller.current_line().map(|line| format!("{short}:{line}: "));
            if is_ours(&name) { None } else { Some(line.unwrap_or_default()) }
        });
        place.unwrap_or_else(|| Some(String::new()))
    });
    Raise::Text(format!("{}{message}", place.unwrap_or_default()).into_bytes()).into()
}

/// Whether a function of this source is no script's: one of the prelude's, or a call that another took the place of.
pub fn is_ours(source: &str) -> bool {
    source == "=prelude" || source == "=(tail call)"
}

/// Lua's error of an argument that does not fit.
#[cold]
pub fn bad_argument(
    lua: &Lua,
    at: usize,
    function: &str,
    expected: &str,
    got: Option<&Value>,
) -> mlua::Error {
    let got = got.map_or("no value", type_name);
    text(lua, format_args!("bad argument #{at} to '{function}' ({expected} expected, got {got})"))
}

/// What Lua calls a value's type.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

/// What was raised, if it was ours.
pub fn raised(error: &mlua::Error) -> Option<&Raise> {
    match error {
        mlua::Error::CallbackError { cause, .. } => raised(cause),
        other => other.downcast_ref(),
    }
}

/// What a script sees of an error that it caught.
pub fn seen(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(error) = error else { return Ok(error) };
    match raised(&error) {
        Some(Raise::Over) => Err(Raise::Over.into()),
        Some(Raise::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        Some(Raise::Table(text)) => {
            let table = lua.create_table_with_capacity(0, 2)?;
            table.raw_set("err", lua.create_string(text)?)?;
            table.raw_set("ignore_error_stats_update", true)?;
            Ok(Value::Table(table))
        }
        None => Ok(Value::String(lua.create_string(innermost(&error))?)),
    }
}

/// Without the traces that mlua puts around.
fn innermost(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => innermost(cause),
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        other => other.to_string(),
    }
}
