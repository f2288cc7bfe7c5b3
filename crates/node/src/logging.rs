//! Structured logs on standard error.

use tracing_subscriber::EnvFilter;

use crate::config::{ConfigError, LogConfig, LogFormat};

/// Installs the process's subscriber. If there is one already (tests, an embedding program), it stays.
pub fn install(config: &LogConfig) -> Result<(), ConfigError> {
    let filter = EnvFilter::try_new(&config.level)
        .map_err(|error| ConfigError(format!("log.level {:?}: {error}", config.level)))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = match config.format {
        LogFormat::Text => builder.with_target(false).with_ansi(false).try_init(),
        LogFormat::Json => builder.json().try_init(),
    };
    Ok(())
}
