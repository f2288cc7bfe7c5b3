//! Reports as files of JSON (`--json FILE`).

use std::path::Path;

use serde::Serialize;

use crate::failure::{Failure, Result};

/// Whether a report can be written there: to be asked before hours of measuring.
pub fn check_writable(path: &Path) -> Result<()> {
    let open = std::fs::OpenOptions::new().append(true).create(true).open(path);
    open.map(drop).map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))
}

/// Writes any report as pretty JSON.
pub fn write_json(path: &Path, report: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(report).map_err(Failure::negative)?;
    std::fs::write(path, text + "\n")
        .map_err(|error| Failure::negative(format!("cannot write {}: {error}", path.display())))
}
