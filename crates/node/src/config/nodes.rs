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
    /// What Redis clients are told, where that is not `resp`: behind a translation of addresses, say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announce: Option<String>,
}

impl NodeConfig {
    /// Where Redis clients find the node, as they are told. A door on all addresses is found where the other nodes find it.
    pub fn told(&self) -> String {
        if let Some(announce) = &self.announce {
            return announce.clone();
        }
        let (host, port) = self.resp.rsplit_once(':').unwrap_or((&self.resp, "0"));
        let everywhere = matches!(host, "0.0.0.0" | "[::]");
        match self.peer.rsplit_once(':').filter(|_| everywhere) {
            Some((machine, _)) => format!("{machine}:{port}"),
            None => self.resp.clone(),
        }
    }
}
