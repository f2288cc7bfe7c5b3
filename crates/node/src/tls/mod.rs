//! TLS between a socket and whoever reads lines or commands from it.
//!
//! [`Wire`] is a socket with or without TLS, and reads and writes as a socket does: what would block says so. [`Keys`] are the files
//! of a node, read again when an operator asks for it; connections that are open keep what they began with. Between nodes both sides show
//! certificates ([`peers`]), and each has to be for the one that it says it is ([`names`]).
//!
//! Bounds: what is decrypted and not taken is one read's worth, and is taken at once; what is encrypted and not sent is 64 KiB
//! ([`MAX_UNSENT_BYTES`]). A handshake that takes longer than [`HANDSHAKE_PATIENCE`] is given up by whoever sweeps.

mod dates;
mod keys;
pub mod names;
pub mod peers;
mod pem;
mod session;
#[cfg(test)]
mod tests;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;

use highwater_seam::Nanos;
use pem::{authorities, own_certificates, private_key};
use rustls::ClientConfig;

pub use keys::Keys;
pub use peers::PeerLock;
pub use wire::Wire;

/// What is encrypted and waits for the socket, at most.
pub const MAX_UNSENT_BYTES: usize = 64 << 10;
/// The same of a connection between nodes; and what is read of its socket at one time.
pub const PEER_BUFFER_BYTES: usize = 256 << 10;
/// For how long a connection may be without a key.
pub const HANDSHAKE_PATIENCE: Nanos = 10_000_000_000;

/// What a client of the admin port trusts, and who it says it is.
#[derive(Clone, Debug, Default)]
pub struct ClientFiles {
    /// The authorities that it believes.
    pub ca: PathBuf,
    /// Its own certificate and key, if it has one.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// How a client speaks TLS with these files.
///
/// # Errors
/// In words, naming the file.
pub fn client_config(files: &ClientFiles) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(authorities(&files.ca)?);
    let config = match &files.own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(own_certificates(certificate)?, private_key(key)?)
            .map_err(|error| format!("{}: {error}", certificate.display()))?,
    };
    Ok(Arc::new(config))
}
