//! `highwater status`: a replica's state for people, or as JSON. One that cannot serve is exit code 4. With `--cluster`, a
//! line for each node, and exit code 4 if the cluster cannot serve.

mod cluster;
pub mod place;
mod replica;

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;

use crate::failure::Result;
use place::Place;
pub use replica::{levels, votes};

/// Between two looks of `--watch`.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// `highwater status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Ask the replica of this config.
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// Ask the replica at this admin address; names are resolved.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub admin: Option<String>,
    /// Show all nodes of the cluster, one line each; exit code 4 if the cluster cannot serve.
    #[arg(long)]
    pub cluster: bool,
    /// Print the report as one line of JSON.
    #[arg(long)]
    pub json: bool,
    /// Ask again every second until interrupted.
    #[arg(long)]
    pub watch: bool,
}

/// Runs `highwater status`.
pub fn run(args: &StatusArgs) -> Result<()> {
    let place = match &args.admin {
        Some(admin) => Place::Replica(admin.clone()),
        None => Place::of_config(args.config.as_deref())?,
    };
    loop {
        let look = if args.cluster {
            cluster::look(&place, args.json)
        } else {
            replica::look(place.admin(), args.json)
        };
        if !args.watch {
            let (text, verdict) = look?;
            print!("{text}");
            return verdict;
        }
        // A replica that ends is no reason to stop watching for it.
        let text = look.map_or_else(|failure| format!("{failure}\n"), |(text, _)| text);
        if !args.json {
            print!("\x1b[2J\x1b[H");
        }
        print!("{text}");
        thread::sleep(LOOK_EVERY);
    }
}

/// `host:port`; whether there is such a host is found out when it is asked.
pub fn host_and_port(text: &str) -> std::result::Result<String, String> {
    let well_formed = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !host.contains(|c: char| c.is_whitespace() || c == '/')
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    if well_formed { Ok(text.to_string()) } else { Err("write host:port, e.g. localhost:7300".into()) }
}
