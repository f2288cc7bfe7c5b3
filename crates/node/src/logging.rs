//! Structured logs on standard error.
//!
//! A line is handed to a thread of its own, and dropped if too many wait: whoever reads the other end may be slow, stopped or
//! gone, its disk may be full, and none of that is a reason for a replica to wait or to end.

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

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
    let filter: Targets = config
        .level
        .parse()
        .map_err(|error| ConfigError(format!("log.level {:?}: {error}", config.level)))?;
    let (writer, guard) =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(LINES).finish(std::io::stderr());
    let lines = fmt::layer().with_writer(writer).log_internal_errors(false);
    let _ = match config.format {
        LogFormat::Text => registry().with(lines.with_target(false).with_ansi(false)).with(filter).try_init(),
        LogFormat::Json => registry().with(lines.json()).with(filter).try_init(),
    };
    Ok(Logging { _guard: guard })
}
