//! TLS for the blocking client: rustls with ring.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::error::Error;
use crate::net::{Connect, Stream, connect_tcp};

/// Connections over TLS: give it to [`Options::connect`](crate::Options::connect).
pub struct Tls {
    config: Arc<ClientConfig>,
    /// The name that nodes' certificates are for; `None`: that of the address.
    name: Option<String>,
}

impl Tls {
    /// Nodes show a certificate of this authority (DER), for the name in their address, or for `name`. `own`: the client's certificate
    /// and key, if nodes ask for one.
    ///
    /// # Errors
    /// If a certificate or the key cannot be used.
    pub fn new(
        authority: CertificateDer<'static>,
        name: Option<String>,
        own: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> Result<Tls, Error> {
        let invalid = |error: rustls::Error| Error::Invalid(format!("TLS: {error}"));
        let mut roots = RootCertStore::empty();
        roots.add(authority).map_err(invalid)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(invalid)?.with_root_certificates(roots);
        let config = match own {
            Some((certificates, key)) => builder.with_client_auth_cert(certificates, key).map_err(invalid)?,
            None => builder.with_no_client_auth(),
        };
        Ok(Tls::with(Arc::new(config), name))
    }

    /// By a configuration of one's own.
    pub fn with(config: Arc<ClientConfig>, name: Option<String>) -> Tls {
        Tls { config, name }
    }
}

impl Connect for Tls {
    fn connect(&self, address: &str, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.name.as_deref().unwrap_or(host).to_string();
        let name = ServerName::try_from(name).map_err(io::Error::other)?;
        let session = ClientConnection::new(self.config.clone(), name).map_err(io::Error::other)?;
        let mut stream = Encrypted(StreamOwned::new(session, connect_tcp(address, timeout)?));
        stream.set_timeout(timeout)?;
        // Now, so that what is wrong with it is told before anything is sent.
        while stream.0.conn.is_handshaking() {
            let Encrypted(StreamOwned { conn, sock }) = &mut stream;
            conn.complete_io(sock)?;
        }
        Ok(Box::new(stream))
    }
}

struct Encrypted(StreamOwned<ClientConnection, TcpStream>);

impl Read for Encrypted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Encrypted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Stream for Encrypted {
    fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.sock.set_timeout(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.0.sock.is_open()
    }
}
