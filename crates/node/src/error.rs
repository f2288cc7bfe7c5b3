//! Why a node cannot run, in one line.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::config::ConfigError;

/// Ends [`run`](crate::run).
#[derive(Debug)]
pub enum NodeError {
    /// The configuration is wrong.
    Config(ConfigError),
    /// An address of this node cannot be listened on.
    Listen {
        /// What for: `peer`, `resp` or `admin`.
        what: &'static str,
        address: String,
        /// Why not.
        error: io::Error,
    },
    /// The operating system refused something that every node needs.
    System {
        /// What was to be done.
        what: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// This node's files cannot be used.
    Storage {
        /// Its folder.
        path: PathBuf,
        /// Why not, and what to do.
        why: String,
    },
    /// This node's disk is older than what it told others: it was restored from a copy, and the node has to begin another life.
    StaleDisk,
    /// A thread could not go on: the disk failed, say. The replica stopped.
    Failed {
        thread: String,
        /// Why not.
        error: io::Error,
    },
    /// A thread panicked: an invariant is broken, and the replica stopped rather than corrupt data. The log says more.
    Panicked { thread: String },
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::Config(error) => write!(f, "{error}"),
            NodeError::Listen { what, address, error } if error.kind() == io::ErrorKind::AddrInUse => {
                write!(f, "cannot listen on {what} address {address}: another process uses the port")
            }
            NodeError::Listen { what, address, error } => {
                write!(f, "cannot listen on {what} address {address}: {error}")
            }
            NodeError::System { what, error } => write!(f, "cannot {what}: {error}"),
            NodeError::Storage { path, why } => write!(f, "{}: {why}", path.display()),
            NodeError::StaleDisk => f.write_str(
                "the disk is older than what this node told others; opened again, the node begins another life, and copies their state",
            ),
            NodeError::Failed { thread, error } => {
                write!(f, "the replica stopped, its {thread} thread cannot go on: {error}")
            }
            NodeError::Panicked { thread } => write!(f, "thread {thread} panicked; the replica stopped"),
        }
    }
}

impl std::error::Error for NodeError {}

impl From<ConfigError> for NodeError {
    fn from(error: ConfigError) -> Self {
        NodeError::Config(error)
    }
}
