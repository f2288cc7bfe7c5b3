//! Structured logs on standard error.
//!
//! A line is handed to a thread of its own, and dropped if too many wait: whoever reads the other end may be slow, stopped or
//! gone, its disk may be full, and none of that is a reason for a replica to wait or to end.

mod writer;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use crate::config::{ConfigError, LogConfig, LogFormat};
use crate::error::NodeError;

/// Lines that wait to be written, at most.
const LINES: usize = 4096;

/// Writes what is left when it is dropped, but waits for it a second at most.
#[must_use]
pub struct Logging {
    _rest: writer::Rest,
}

/// Installs the process's subscriber. If there is one already (tests, an embedding program), it stays.
///
/// # Errors
/// The level is none; the system has no room for a thread.
pub fn install(config: &LogConfig) -> Result<Logging, NodeError> {
    let filter: Targets = config
        .level
        .parse()
        .map_err(|error| ConfigError(format!("log.level {:?}: {error}", config.level)))?;
    let started = writer::start(std::io::stderr(), LINES);
    let (writer, rest) = started.map_err(|error| NodeError::System { what: "start a thread", error })?;
    let lines = fmt::layer().with_writer(writer).log_internal_errors(false);
    let _ = match config.format {
        LogFormat::Text => registry().with(lines.with_target(false).with_ansi(false)).with(filter).try_init(),
        LogFormat::Json => registry().with(lines.json()).with(filter).try_init(),
    };
    Ok(Logging { _rest: rest })
}
