//! TLS between nodes: both sides show a certificate, and both look at the other's.

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

use super::Keys;
use super::keys::Files;
use super::names::is_for;
use super::pem::{authorities, own_certificates, private_key};
use crate::config::PeerTls;

/// How nodes begin connections to each other.
#[derive(Clone)]
pub struct PeerConfigs {
    /// For who is called.
    pub accepts: Arc<ServerConfig>,
    pub calls: Arc<ClientConfig>,
}

impl PeerConfigs {
    /// Reads the files; `name` is what this node's certificate has to be for.
    ///
    /// # Errors
    /// In words, naming the file.
    pub(super) fn read(files: &Files, name: &str) -> Result<PeerConfigs, String> {
        let chain = own_certificates(&files.certificate)?;
        let bad = |error: &dyn std::fmt::Display| format!("{}: {error}", files.certificate.display());
        if !is_for(Some(&chain), name) {
            let why = "the others would refuse this node, because the certificate is not for";
            return Err(bad(&format!("{why} {name} (`highwater cert node` makes one that is)")));
        }
        let provider = Arc::new(provider());
        let roots = Arc::new(authorities(&files.ca)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone()).build();
        let verifier = verifier.map_err(|error| format!("{}: {error}", files.ca.display()))?;
        let accepts = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), private_key(&files.key)?);
        let mut accepts = accepts.map_err(|error| bad(&error))?;
        // Every connection looks at certificates as they are now: none goes on where an earlier one ended.
        accepts.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        accepts.send_tls13_tickets = 0;
        let calls = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, private_key(&files.key)?);
        let mut calls = calls.map_err(|error| bad(&error))?;
        calls.resumption = Resumption::disabled();
        Ok(PeerConfigs { accepts: Arc::new(accepts), calls: Arc::new(calls) })
    }
}

/// What nodes encrypt by: who calls says what it likes best, and a shorter key is cheaper.
fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            TLS13_AES_128_GCM_SHA256,
            TLS13_AES_256_GCM_SHA384,
            TLS13_CHACHA20_POLY1305_SHA256,
        ],
        ..rustls::crypto::ring::default_provider()
    }
}

/// The lock of a node's peer port: whether TLS is spoken there, and with which keys.
#[derive(Clone, Default)]
pub struct PeerLock {
    keys: Option<Arc<Keys>>,
    required: bool,
}

impl PeerLock {
    /// By the configuration.
    pub fn new(mode: PeerTls, keys: Option<&Arc<Keys>>) -> PeerLock {
        PeerLock { keys: keys.filter(|_| mode != PeerTls::Off).cloned(), required: mode == PeerTls::Required }
    }

    /// What a connection begins with now; `None`: TLS is not spoken.
    pub fn configs(&self) -> Option<PeerConfigs> {
        self.keys.as_ref().and_then(|keys| keys.peers())
    }

    /// Whether nobody is spoken to without TLS.
    pub fn is_required(&self) -> bool {
        self.required
    }
}
