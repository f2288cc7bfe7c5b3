//! Structured logs on standard error.
//!
//! A line is handed to a thread of its own, and dropped if too many wait: whoever reads the other end may be slow, stopped or
//! gone, its disk may be full, and none of that is a reason for a replica to wait or to end.

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

use crate::config::{ConfigError, LogConfig, LogFormat};

/// Lines that wait to be written, at most.
const LINES: usize = 4096;

/// Writes what is left when it is dropped, but waits for it a second at most.
#[must_use]
pub struct Logging {
    _guard: WorkerGuard,
}

/// Installs the process's subscriber. If there is one already (tests, an embedding program), it stays.
pub fn install(config: &LogConfig) -> Result<Logging, ConfigError> {
    let filter = EnvFilter::try_new(&config.level)
        .map_err(|error| ConfigError(format!("log.level {:?}: {error}", config.level)))?;
    let (writer, guard) =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES).finish(std::io::stderr());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    let builder = builder.log_internal_errors(false);
    let _ = match config.format {
        LogFormat::Text => builder.with_target(false).with_ansi(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(Logging { _guard: guard })
}
