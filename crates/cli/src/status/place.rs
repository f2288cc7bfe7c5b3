//! Where `highwater status` asks, and what comes of one look.

use std::path::Path;
use std::time::Duration;

use highwater_node::admin::protocol::StatusReport;

use crate::admin::{AdminClient, AdminError};
use crate::failure::Result;
use crate::{admin_stream, serve};

/// How long a replica may take to accept a connection, and to answer.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What to print, and how the command ends.
pub type Look = (String, Result<()>);

/// Where to ask.
pub enum Place {
    /// At one replica's admin address, which knows the others'.
    Replica(String),
    /// A config: this node of these, by their admin addresses.
    Config { node: u8, admins: Vec<(u8, String)> },
}

impl Place {
    /// The replica of a config, and all that it names.
    pub fn of_config(file: Option<&Path>) -> Result<Place> {
        let config = serve::load(file, &[])?;
        admin_stream::speak_as(&config)?;
        let admins = config.cluster.nodes.iter().map(|node| (node.id, node.admin.clone())).collect();
        Ok(Place::Config { node: config.node, admins })
    }

    /// The admin address to ask at.
    pub fn admin(&self) -> &str {
        match self {
            Place::Replica(admin) => admin,
            Place::Config { node, admins } => {
                let own = admins.iter().find(|(id, _)| id == node);
                &own.expect("a valid config lists its own node").1
            }
        }
    }
}

/// The replica at an admin address, if it answers in time; it finds out how fresh it is before.
pub fn ask(admin: &str) -> std::result::Result<StatusReport, AdminError> {
    AdminClient::connect_to(admin, PATIENCE)?.fresh_status()
}
