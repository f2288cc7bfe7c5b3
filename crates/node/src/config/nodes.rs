//! The nodes of a configuration.

use serde::{Deserialize, Serialize};

/// One node's addresses, `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Its number, for ever.
    pub id: u8,
    /// Where other nodes connect.
    pub peer: String,
    /// Where Redis clients connect.
    pub resp: String,
    /// Where the command line connects.
    pub admin: String,
}
