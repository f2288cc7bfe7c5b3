//! `highwater reload`: certificates are read again.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use highwater_node::admin::protocol::AdminRequest;

use crate::admin::{AdminClient, failure_at};
use crate::failure::Result;
use crate::status::host_and_port;
use crate::status::place::Place;

/// How long the replica may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// `highwater reload`.
#[derive(Clone, Debug, Args)]
pub struct ReloadArgs {
    /// Ask the replica of this config.
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// Ask the replica at this admin address; names are resolved.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub admin: Option<String>,
}

/// Runs it.
pub fn run(args: &ReloadArgs) -> Result<()> {
    let place = match &args.admin {
        Some(admin) => Place::Replica(admin.clone()),
        None => Place::of_config(args.config.as_deref())?,
    };
    let address = place.admin();
    let asked = AdminClient::connect_to(address, PATIENCE)
        .and_then(|mut admin| admin.request(&AdminRequest::ReloadCertificates));
    asked.map_err(|error| failure_at(address, error))?;
    println!("certificates are read again; connections that come use them");
    Ok(())
}
