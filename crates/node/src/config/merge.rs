//! Layers of configuration, merged key by key.

use std::ffi::OsString;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use super::error::ConfigError;

/// What is put over the defaults.
pub(super) struct Layers<'a> {
    /// The file's name, for messages.
    pub name: &'a Path,
    /// The file's text.
    pub file: Option<&'a str>,
    /// Key paths and values from flags.
    pub overrides: &'a [(String, String)],
}

/// In front of every environment variable.
const PREFIX: &str = "HIGHWATER_";

impl Layers<'_> {
    /// What comes of them over `defaults`, not validated.
    pub fn merge<C: DeserializeOwned>(
        &self,
        defaults: &str,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<C, ConfigError> {
        let mut merged: Table = defaults.parse().expect("the defaults are TOML");
        let known = key_paths(&merged);
        if let Some(text) = self.file {
            let table: Table = text.parse().map_err(|error| self.in_file(text, &error))?;
            overlay(&mut merged, table);
            // Types and unknown keys are found here, where the message can name the file.
            let checked: Result<C, _> = Value::Table(merged.clone()).try_into();
            checked.map_err(|error: toml::de::Error| {
                ConfigError(format!("{}: {}", self.name.display(), one_line(&error.to_string())))
            })?;
        }
        for (variable, text) in variables {
            let Some(variable) = variable.to_str() else { continue };
            let Some(path) = variable.strip_prefix(PREFIX).and_then(|name| path_of(name, &known)) else {
                // Not an error: Kubernetes sets HIGHWATER_PORT and the like when a service has this name.
                continue;
            };
            let text = text.into_string().map_err(|text| {
                ConfigError(format!("{variable} is no UTF-8: {}; write its value in UTF-8", text.display()))
            })?;
            set(&mut merged, path, &text).map_err(|error| ConfigError(format!("{variable}: {error}")))?;
        }
        for (path, text) in self.overrides {
            if !known.contains(path) {
                return Err(ConfigError(format!(
                    "unknown key {path:?}; `highwater config default` lists all keys"
                )));
            }
            set(&mut merged, path, text).map_err(|error| ConfigError(format!("{path}: {error}")))?;
        }
        Value::Table(merged)
            .try_into()
            .map_err(|error: toml::de::Error| ConfigError(one_line(&error.to_string())))
    }

    fn in_file(&self, text: &str, error: &toml::de::Error) -> ConfigError {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        ConfigError(format!("{}:{line}: {}", self.name.display(), one_line(error.message())))
    }
}

/// Puts `over` on top of `base`, table by table; other values, lists too, are replaced whole.
fn overlay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => overlay(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Every key as a dotted path. Tables inside lists have no path of their own.
pub(super) fn key_paths(table: &Table) -> Vec<String> {
    let mut paths = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => paths.extend(key_paths(inner).iter().map(|path| format!("{key}.{path}"))),
            _ => paths.push(key.clone()),
        }
    }
    paths
}

/// The path whose variable is `HIGHWATER_` and `name`.
fn path_of<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    known.iter().map(String::as_str).find(|path| path.replace('.', "_").to_uppercase() == name)
}

/// Strings that may be lists instead: from text a list is one.
const OR_LISTS: [&str; 1] = ["threads.pin"];

/// Sets one key from text: where a string is wanted, the text as it is, quotation marks and blanks included; else a TOML value.
fn set(table: &mut Table, path: &str, text: &str) -> Result<(), String> {
    let (parents, key) = path.rsplit_once('.').map_or((None, path), |(parents, key)| (Some(parents), key));
    let mut table = table;
    for parent in parents.into_iter().flat_map(|parents| parents.split('.')) {
        table = table.get_mut(parent).and_then(Value::as_table_mut).expect("the path is known");
    }
    let old = table.get(key).expect("the path is known");
    let parsed = || format!("value = {text}").parse::<Table>().ok()?.remove("value");
    let list = || parsed().filter(|value| OR_LISTS.contains(&path) && value.is_array());
    let new = match old {
        // A cluster may well be named 42, and a password have quotation marks around it.
        Value::String(_) => list().unwrap_or_else(|| Value::String(text.to_string())),
        old => parsed().ok_or_else(|| format!("{text:?} is no {}", old.type_str()))?,
    };
    table.insert(key.to_string(), new);
    Ok(())
}

fn one_line(message: &str) -> String {
    message.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
