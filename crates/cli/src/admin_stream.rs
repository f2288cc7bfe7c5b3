//! The socket of an admin connection, with TLS or without.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::Args;
use highwater_node::Config;
use highwater_node::tls::{ClientFiles, client_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::failure::{Failure, Result};

/// How this process speaks to admin ports: said once, on the command line or by the config that it reads.
static KEYS: OnceLock<Arc<ClientConfig>> = OnceLock::new();

/// Where admin ports speak TLS.
#[derive(Clone, Debug, Args)]
pub struct TlsArgs {
    /// Speak TLS to admin ports, and believe these authorities (PEM); a config with tls.admin says so, too.
    #[arg(long, value_name = "FILE", global = true, hide_short_help = true)]
    pub tls_ca: Option<PathBuf>,
    /// Show this certificate to admin ports (PEM).
    #[arg(long, value_name = "FILE", global = true, requires = "tls_key", hide_short_help = true)]
    pub tls_cert: Option<PathBuf>,
    /// The key of that certificate (PEM).
    #[arg(long, value_name = "FILE", global = true, requires = "tls_cert", hide_short_help = true)]
    pub tls_key: Option<PathBuf>,
}

impl TlsArgs {
    /// Has this process speak as they say.
    pub fn apply(&self) -> Result<()> {
        let own = self.tls_cert.clone().zip(self.tls_key.clone());
        match &self.tls_ca {
            Some(ca) => speak(&ClientFiles { ca: ca.clone(), own }),
            None if own.is_some() => Err(Failure::usage("--tls-cert is of use with --tls-ca only")),
            None => Ok(()),
        }
    }
}

/// Has this process speak as the nodes of a config do, unless the command line said otherwise.
pub fn speak_as(config: &Config) -> Result<()> {
    let tls = &config.tls;
    if !tls.admin || KEYS.get().is_some() {
        return Ok(());
    }
    if tls.ca.as_os_str().is_empty() {
        return Err(Failure::cannot_start(
            "the admin ports of this config speak TLS, but tls.ca does not say whom to believe; name the authorities there or by --tls-ca",
        ));
    }
    let own = Some((tls.certificate.clone(), tls.key.clone()));
    speak(&ClientFiles { ca: tls.ca.clone(), own })
}

fn speak(files: &ClientFiles) -> Result<()> {
    let keys = client_config(files).map_err(Failure::cannot_start)?;
    // Who was first decides.
    let _ = KEYS.set(keys);
    Ok(())
}

/// See the module.
#[derive(Debug)]
pub enum AdminStream {
    /// As it is.
    Plain(TcpStream),
    /// Encrypted.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl AdminStream {
    /// To a port of this host.
    pub fn new(stream: TcpStream, host: &str) -> io::Result<AdminStream> {
        let Some(keys) = KEYS.get() else { return Ok(AdminStream::Plain(stream)) };
        let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(keys.clone(), name).map_err(io::Error::other)?;
        Ok(AdminStream::Tls(Box::new(StreamOwned::new(connection, stream))))
    }

    /// How long a read may take.
    pub fn set_read_timeout(&self, patience: Option<Duration>) -> io::Result<()> {
        match self {
            AdminStream::Plain(stream) => stream.set_read_timeout(patience),
            AdminStream::Tls(stream) => stream.sock.set_read_timeout(patience),
        }
    }
}

impl Read for AdminStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            AdminStream::Plain(stream) => stream.read(buffer),
            AdminStream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for AdminStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            AdminStream::Plain(stream) => stream.write(bytes),
            AdminStream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            AdminStream::Plain(stream) => stream.flush(),
            AdminStream::Tls(stream) => stream.flush(),
        }
    }
}
