//! `highwater serve` and `highwater config`: thin shells around the node.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use highwater_core::level::REHEARSED;
use highwater_core::{Level, Levels};
use highwater_node::storage::owner;
use highwater_node::{Config, NodeError};

use crate::admin::use_token;
use crate::failure::{EXIT_CODES, Failure, Result};
use crate::flags::key_value;

/// `highwater serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// The TOML config; the defaults if absent.
    #[arg(long, short, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Which node of the config this is; overrides the config.
    #[arg(long, value_name = "N")]
    pub node_id: Option<u8>,
    /// Override one config key; repeatable.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Play a build whose newest level is this: to rehearse an upgrade, with data that nobody needs.
    #[arg(long, value_name = "N", hide = true, value_parser = clap::value_parser!(u8).range(1..=i64::from(REHEARSED.0)))]
    pub rehearse_level: Option<u8>,
}

/// `highwater config`.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Say whether a config is good, and if not, what to change.
    #[command(after_help = EXIT_CODES)]
    Check {
        /// The TOML config.
        file: PathBuf,
    },
    /// Print the default config, every key documented.
    #[command(after_help = EXIT_CODES)]
    Default,
}

/// Runs one replica until it is told to end.
pub fn serve(args: &ServeArgs) -> Result<()> {
    let mut overrides = args.set.clone();
    if let Some(node) = args.node_id {
        overrides.push(("node".into(), node.to_string()));
    }
    let mut config = load(args.config.as_deref(), &overrides)?;
    if let Some(newest) = args.rehearse_level {
        config.levels = Levels::up_to(Level(newest));
    }
    highwater_node::run(config).map_err(|error| match error {
        NodeError::Panicked { .. } | NodeError::Failed { .. } => Failure::negative(error),
        _ => Failure::cannot_start(error),
    })
}

/// Runs `highwater config`.
pub fn config(action: &ConfigAction) -> Result<()> {
    match action {
        ConfigAction::Default => print!("{}", Config::default_toml()),
        ConfigAction::Check { file } => {
            let config = load(Some(file), &[])?;
            config.check_doors().map_err(Failure::cannot_start)?;
            owner::check(&config).map_err(Failure::cannot_start)?;
            let nodes = config.cluster.nodes.len();
            let (engine, workers) = (&config.cluster.engine, config.cluster.workers);
            println!(
                "{} is good: node {} of {nodes}, engine {engine}, {workers} worker(s)",
                file.display(),
                config.node
            );
        }
    }
    Ok(())
}

/// The configuration: a file (or the defaults), the environment, flags.
pub fn load(file: Option<&Path>, overrides: &[(String, String)]) -> Result<Config> {
    let config = Config::load(file, std::env::vars_os(), overrides).map_err(Failure::cannot_start)?;
    if let Some(token) = config.admin_token().map_err(Failure::cannot_start)? {
        use_token(&token.0);
    }
    Ok(config)
}
