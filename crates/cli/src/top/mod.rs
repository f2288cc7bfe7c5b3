//! `highwater top`: every node of a cluster, a line each, anew every second: its part, what it does, how long that takes.
//!
//! Builds with the feature `tui` draw it ([`live`]): colours, a chart, the details of a node. Others print the table again and again.
//!
//! Nodes say sums since their process started; what is shown is the difference of two looks.

#[cfg(feature = "tui")]
mod live;
#[cfg(not(feature = "tui"))]
#[path = "again.rs"]
mod live;
mod look;
mod view;

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;

use crate::failure::{Failure, Result};
use crate::status::host_and_port;
use crate::status::place::Place;
use look::Looks;

/// From one look to the next.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// `highwater top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// The nodes of this config.
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// The nodes that the replica at this admin address knows; names are resolved.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub admin: Option<String>,
    /// Print one table of a second, and end: no terminal is needed.
    #[arg(long)]
    pub once: bool,
}

/// Runs `highwater top`.
pub fn run(args: &TopArgs) -> Result<()> {
    let place = match &args.admin {
        Some(admin) => Place::Replica(admin.clone()),
        None => Place::of_config(args.config.as_deref())?,
    };
    let mut looks = Looks::new(place);
    let first = looks.look()?;
    if args.once {
        thread::sleep(LOOK_EVERY);
        let nodes = looks.look()?;
        print!("{}", view::text(&nodes));
        return match nodes.iter().any(|node| node.status.is_some()) {
            true => Ok(()),
            false => Err(Failure::unavailable("no node answers")),
        };
    }
    live::show(&mut looks, first)
}
