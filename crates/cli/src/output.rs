//! Standard output. Whoever reads it may stop (`highwater .. | head -1`), which is no failure, and nothing to say.

use std::io::{self, Write};

use crate::failure::{Failure, Result};
use crate::interrupt;

/// Writes what a command found.
///
/// # Errors
/// If it cannot be written. If nobody reads on the process ends without a word.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(unwritten)
}

/// For `map_err`: something could not be written to standard output.
pub fn unwritten(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        interrupt::unread();
    }
    Failure::negative(format!("cannot write to standard output: {error}"))
}

/// How this process was called, for reports.
pub fn command_line() -> String {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
