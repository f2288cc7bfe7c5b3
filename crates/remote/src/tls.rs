//! TLS: rustls with ring. With the feature `async-tls` for the client on tokio, too.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::error::Error;
use crate::net::{Connect, Stream, connect_tcp};

/// Connections over TLS: give it to [`Options::connect`](crate::Options::connect), or, with the feature `async-tls`, to
/// [`Options::connect_async`](crate::Options).
#[derive(Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    /// The name that nodes' certificates are for; `None`: that of the address.
    name: Option<String>,
}

impl Tls {
    /// As [`new`](Tls::new), from files in PEM: the authority's certificate, and one's own certificate and its key, if nodes ask for one. A
    /// node's certificate is for the name in its address.
    ///
    /// # Errors
    /// If a file cannot be read or holds nothing of use; the error names it.
    pub fn from_files(authority: impl AsRef<Path>, own: Option<(&Path, &Path)>) -> Result<Tls, Error> {
        let bad = |file: &Path, what: &str, error: &dyn std::fmt::Display| {
            Error::Invalid(format!("TLS: no {what} can be read from {}: {error}", file.display()))
        };
        let certificate = |file: &Path| {
            CertificateDer::from_pem_file(file).map_err(|error| bad(file, "certificate", &error))
        };
        let own = match own {
            None => None,
            Some((file, key)) => {
                let chain = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
                let chain: Vec<_> = chain.map_err(|error| bad(file, "certificate", &error))?;
                let key_of = PrivateKeyDer::from_pem_file(key).map_err(|error| bad(key, "key", &error))?;
                Some((chain, key_of))
            }
        };
        Tls::new(certificate(authority.as_ref())?, None, own)
    }

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

    /// The name that the certificate of the node at this address has to be for.
    fn name_of(&self, address: &str) -> io::Result<ServerName<'static>> {
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = self.name.as_deref().unwrap_or(host).to_string();
        ServerName::try_from(name).map_err(io::Error::other)
    }
}

impl Connect for Tls {
    fn connect(&self, address: &str, timeout: Duration) -> io::Result<Box<dyn Stream>> {
        let session =
            ClientConnection::new(self.config.clone(), self.name_of(address)?).map_err(io::Error::other)?;
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

#[cfg(feature = "async-tls")]
impl crate::asynchronous::ConnectAsync for Tls {
    fn connect(&self, address: String) -> crate::asynchronous::Connecting {
        let tls = self.clone();
        Box::pin(async move {
            let name = tls.name_of(&address)?;
            let stream = crate::asynchronous::connect_tcp(&address).await?;
            let stream = tokio_rustls::TlsConnector::from(tls.config).connect(name, stream).await?;
            Ok(Box::new(stream) as Box<dyn crate::asynchronous::AsyncStream>)
        })
    }
}
