//! The token of the admin port.

use std::path::Path;

use super::{AdminConfig, ConfigError, Secret};

/// A shorter one can be guessed.
const SHORTEST: usize = 16;
/// A longer one is something else.
const LONGEST: usize = 512;

/// The token that is set, if one is.
pub(super) fn token(config: &AdminConfig) -> Result<Option<Secret>, ConfigError> {
    let (text, file) = (&config.token.0, &config.token_file);
    match (text.is_empty(), file.as_os_str().is_empty()) {
        (true, true) => Ok(None),
        (false, _) => checked(text, "admin.token").map(Some),
        (true, false) => read_token(file).map(Some),
    }
}

/// The token in a file: its first line.
///
/// # Errors
/// It cannot be read, or holds none.
pub fn read_token(file: &Path) -> Result<Secret, ConfigError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| ConfigError(format!("cannot read the token in {}: {error}", file.display())))?;
    checked(text.lines().next().unwrap_or_default().trim(), &format!("the token in {}", file.display()))
}

fn checked(text: &str, what: &str) -> Result<Secret, ConfigError> {
    if (SHORTEST..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Secret(text.into()));
    }
    Err(ConfigError(format!(
        "{what} must have {SHORTEST} to {LONGEST} letters, digits and signs without spaces, e.g. the output of \
         `openssl rand -hex 32`"
    )))
}
