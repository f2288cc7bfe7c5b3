//! A node's certificate and key, and whom it believes: from files, which may be replaced while it runs.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;

use super::{authorities, certificates, private_key};
use crate::config::{ClientAuth, TlsConfig};

/// See the module.
pub struct Keys {
    files: Files,
    current: RwLock<Arc<ServerConfig>>,
}

#[derive(Clone)]
struct Files {
    ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
    client_auth: ClientAuth,
}

impl Keys {
    /// Reads the files of a configuration.
    ///
    /// # Errors
    /// In words, naming the file.
    pub fn load(config: &TlsConfig) -> Result<Keys, String> {
        let files = Files {
            ca: config.ca.clone(),
            certificate: config.certificate.clone(),
            key: config.key.clone(),
            client_auth: config.client_auth,
        };
        let current = RwLock::new(files.read()?);
        Ok(Keys { files, current })
    }

    /// Reads the files again, for the connections that come. If they are no good, all stays as it was.
    ///
    /// # Errors
    /// In words, naming the file.
    pub fn reload(&self) -> Result<(), String> {
        let fresh = self.files.read()?;
        *self.current.write().expect("nobody panics while holding the keys") = fresh;
        Ok(())
    }

    /// What a connection begins with now.
    pub fn current(&self) -> Arc<ServerConfig> {
        self.current.read().expect("nobody panics while holding the keys").clone()
    }
}

impl Files {
    fn read(&self) -> Result<Arc<ServerConfig>, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match self.client_auth {
            ClientAuth::Off => builder.with_no_client_auth(),
            ClientAuth::Optional | ClientAuth::Required => {
                let roots = Arc::new(authorities(&self.ca)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match self.client_auth {
                    ClientAuth::Optional => verifier.allow_unauthenticated(),
                    _ => verifier,
                };
                let verifier = verifier.build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| format!("{}: {error}", self.ca.display()))?,
                )
            }
        };
        let config = builder.with_single_cert(certificates(&self.certificate)?, private_key(&self.key)?);
        let mut config = config.map_err(|error| format!("{}: {error}", self.certificate.display()))?;
        // Tickets are kept in the client; what sessions this side would remember is nothing.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Arc::new(config))
    }
}
