//! `highwater hand-over`: the lead moves to another node, because an operator wants it to.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::admin::{AdminClient, failure_at};
use crate::failure::{Failure, Result};
use crate::status::host_and_port;
use crate::status::place::Place;

/// How long a replica may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(2);

/// `highwater hand-over`.
#[derive(Debug, Args)]
pub struct HandOverArgs {
    /// Ask the replica of this config, or the leader that it names.
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// Ask the replica at this admin address, or the leader that it names.
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub admin: Option<String>,
    /// Which node shall lead [default: the one that is furthest of those that can].
    #[arg(long, value_name = "N")]
    pub to: Option<u8>,
}

/// Runs `highwater hand-over`.
pub fn run(args: &HandOverArgs) -> Result<()> {
    let place = match &args.admin {
        Some(admin) => Place::Replica(admin.clone()),
        None => Place::of_config(args.config.as_deref())?,
    };
    let (leader, mut admin) = leading(place.admin())?;
    if args.to == Some(leader) {
        println!("node {leader} leads already");
        return Ok(());
    }
    let (to, paused_ms) = admin.hand_over(args.to).map_err(|error| admin.failure(error))?;
    println!("node {to} leads, node {leader} follows; requests waited for {paused_ms:.1} ms");
    Ok(())
}

/// The leader, as the replica at an admin address knows it, and a connection to it.
fn leading(address: &str) -> Result<(u8, AdminClient)> {
    let connect = |address: &str| {
        let connected = AdminClient::connect_to(address, PATIENCE).and_then(|mut admin| {
            let status = admin.status()?;
            Ok((admin, status))
        });
        connected.map_err(|error| failure_at(address, error))
    };
    let (admin, status) = connect(address)?;
    let Some(leader) = status.leader else {
        return Err(Failure::unavailable(format!("node {} knows of no leader", status.node)));
    };
    if leader == status.node {
        return Ok((leader, admin));
    }
    let Some(there) = status.admins.get(usize::from(leader)) else {
        return Err(Failure::negative(format!("node {} does not know where node {leader} is", status.node)));
    };
    let (admin, found) = connect(there)?;
    if found.node != leader {
        let why = format!(
            "{there} is node {}'s here: ask on the machine of node {leader}, which leads",
            found.node
        );
        return Err(Failure::negative(why));
    }
    Ok((leader, admin))
}
