//! A node's certificates and keys, and whom it believes: from files, which may be replaced while it runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use highwater_core::NodeId;
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;

use super::names::node_name;
use super::peers::PeerConfigs;
use super::pem::{authorities, own_certificates, private_key, warn_of_dates};
use crate::config::{ClientAuth, Config, PeerTls};

/// See the module.
pub struct Keys {
    /// Of the doors for clients and operators, if one of them speaks TLS.
    door: Option<(Files, ClientAuth)>,
    /// Of the peer port, if it does, with the name of this node.
    peer: Option<(Files, String)>,
    current: RwLock<Current>,
}

/// What connections begin with.
struct Current {
    door: Option<Arc<ServerConfig>>,
    peer: Option<PeerConfigs>,
}

/// Where they are.
pub(super) struct Files {
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

const UNPOISONED: &str = "nobody panics while holding the keys";

impl Keys {
    /// Reads the files of a configuration.
    ///
    /// # Errors
    /// In words, naming the file.
    pub fn load(config: &Config) -> Result<Keys, String> {
        let tls = &config.tls;
        let door = (tls.resp || tls.admin).then(|| {
            let files =
                Files { ca: tls.ca.clone(), certificate: tls.certificate.clone(), key: tls.key.clone() };
            (files, tls.client_auth)
        });
        let peer = (tls.peer != PeerTls::Off).then(|| {
            let own = |own: &Path, common: &Path| {
                if own.as_os_str().is_empty() { common.into() } else { own.into() }
            };
            let files = Files {
                ca: own(&tls.peer_ca, &tls.ca),
                certificate: own(&tls.peer_certificate, &tls.certificate),
                key: own(&tls.peer_key, &tls.key),
            };
            (files, node_name(&config.cluster.id, NodeId(config.node)))
        });
        let current = RwLock::new(read(door.as_ref(), peer.as_ref())?);
        Ok(Keys { door, peer, current })
    }

    /// Reads the files again, for the connections that come. If one of them is no good, all stays as it was.
    ///
    /// # Errors
    /// In words, naming the file.
    pub fn reload(&self) -> Result<(), String> {
        let fresh = read(self.door.as_ref(), self.peer.as_ref())?;
        *self.current.write().expect(UNPOISONED) = fresh;
        self.warn_of_dates();
        Ok(())
    }

    /// Logs which of the node's certificates have run out, or will soon.
    pub fn warn_of_dates(&self) {
        let files = self.door.iter().map(|(files, _)| files).chain(self.peer.iter().map(|(files, _)| files));
        let mut certificates: Vec<&Path> = files.map(|files| files.certificate.as_path()).collect();
        certificates.dedup();
        certificates.into_iter().for_each(warn_of_dates);
    }

    /// What a client's or an operator's connection begins with now.
    pub fn current(&self) -> Option<Arc<ServerConfig>> {
        self.current.read().expect(UNPOISONED).door.clone()
    }

    /// What connections between nodes begin with now.
    pub fn peers(&self) -> Option<PeerConfigs> {
        self.current.read().expect(UNPOISONED).peer.clone()
    }
}

fn read(door: Option<&(Files, ClientAuth)>, peer: Option<&(Files, String)>) -> Result<Current, String> {
    Ok(Current {
        door: door.map(|(files, client_auth)| files.read(*client_auth)).transpose()?,
        peer: peer.map(|(files, name)| PeerConfigs::read(files, name)).transpose()?,
    })
}

impl Files {
    fn read(&self, client_auth: ClientAuth) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match client_auth {
            ClientAuth::Off => builder.with_no_client_auth(),
            ClientAuth::Optional | ClientAuth::Required => {
                let roots = Arc::new(authorities(&self.ca)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match client_auth {
                    ClientAuth::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let verifier = verifier.build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| format!("{}: {error}", self.ca.display()))?,
                )
            }
        };
        let config = builder.with_single_cert(own_certificates(&self.certificate)?, private_key(&self.key)?);
        let mut config = config.map_err(|error| format!("{}: {error}", self.certificate.display()))?;
        // Tickets are kept in the client; what sessions this side would remember is nothing.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Arc::new(config))
    }
}
