//! How a client behaves.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::net::Connect;

/// How a client behaves.
#[derive(Clone)]
pub struct Options {
    /// Addresses of nodes, `host:port`, where Redis clients connect: some are enough, the others are learnt.
    pub nodes: Vec<String>,
    /// Who one is, and the password, if the nodes ask for it.
    pub login: Option<(String, String)>,
    /// For how long a request is tried, failover included.
    pub patience: Duration,
    /// For how long a connection may take to be made, or a node to answer: a node that is cut off is given up after that.
    pub timeout: Duration,
    /// Connections at one time; who wants another one waits.
    pub connections: usize,
    /// Whether the client keeps the [token](crate::Client::token) of what it saw answered: another word with each request.
    pub tokens: bool,
    /// How connections are made, if not over plain TCP: see module `tls`, with the feature of that name.
    pub connect: Option<Arc<dyn Connect>>,
    /// How asynchronous connections are made, if not over plain TCP.
    #[cfg(feature = "async")]
    pub connect_async: Option<Arc<dyn crate::asynchronous::ConnectAsync>>,
}

impl Options {
    /// Sane defaults.
    pub fn new(nodes: impl IntoIterator<Item = impl Into<String>>) -> Options {
        Options {
            nodes: nodes.into_iter().map(Into::into).collect(),
            login: None,
            patience: Duration::from_secs(10),
            timeout: Duration::from_secs(2),
            connections: 16,
            tokens: false,
            connect: None,
            #[cfg(feature = "async")]
            connect_async: None,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        let invalid = |why: &str| Err(Error::Invalid(why.into()));
        if self.nodes.is_empty() {
            return invalid("no nodes are named: name at least one, as host:port");
        }
        let ports =
            |node: &&String| node.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err());
        if let Some(bad) = self.nodes.iter().find(ports) {
            return invalid(&format!("{bad:?} is no address of a node: it must be host:port"));
        }
        if self.connections == 0 || self.patience.is_zero() || self.timeout.is_zero() {
            return invalid("connections, patience and timeout must not be 0");
        }
        Ok(())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let login = self.login.as_ref().map(|(user, _)| user);
        f.debug_struct("Options")
            .field("nodes", &self.nodes)
            .field("login", &login)
            .field("patience", &self.patience)
            .field("timeout", &self.timeout)
            .field("connections", &self.connections)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}
