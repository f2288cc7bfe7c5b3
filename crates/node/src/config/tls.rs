//! Which doors speak TLS, and with whose certificates.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Which doors speak TLS, and with whose certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The door of Redis's clients.
    pub resp: bool,
    /// The door of operators.
    pub admin: bool,
    /// The door of the other nodes.
    pub peer: PeerTls,
    /// The authorities whose clients are believed.
    pub ca: PathBuf,
    /// This node's certificate, and those between it and its authority.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Whether clients show certificates, too.
    pub client_auth: ClientAuth,
    /// The authorities of nodes; empty: `ca`.
    pub peer_ca: PathBuf,
    /// This node's certificate among nodes; empty: `certificate`.
    pub peer_certificate: PathBuf,
    /// Its key; empty: `key`.
    pub peer_key: PathBuf,
}

/// Whether nodes speak TLS to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerTls {
    /// They do not.
    Off,
    /// With those that do: while a cluster changes from one to the other.
    Optional,
    /// With certificates on both sides, or not at all.
    Required,
}

/// Whether clients show certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// They are not asked.
    Off,
    /// Those that show one have to show a good one.
    Optional,
    /// Nobody without one is let in.
    Required,
}

/// What is refused unless somebody says that it is meant so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecurityConfig {
    /// Doors without locks may be reached from other machines.
    pub open: bool,
}

impl TlsConfig {
    /// Whether any door speaks it.
    pub fn is_used(&self) -> bool {
        self.resp || self.admin || self.peer != PeerTls::Off
    }
}
