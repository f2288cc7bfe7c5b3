//! Why two nodes cannot work together, in words.

use std::fmt;

use highwater_core::{Durability, Level, Levels, NodeId};

use super::identity::Fingerprint;

/// Why two nodes cannot work together. Its text travels to the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// A number that must be the same everywhere.
    Differs {
        what: &'static str,
        /// The dialer's.
        theirs: u64,
        /// The acceptor's.
        ours: u64,
    },
    /// Another durability: what one of them acknowledges the other would not.
    Durability {
        /// The dialer's; `None` if it is none that this build knows.
        theirs: Option<Durability>,
        /// The acceptor's.
        ours: Durability,
    },
    /// Another build: what it calls table or procedure *n* is something else here.
    OtherBuild {
        /// `tables` or `procedures`.
        what: &'static str,
        /// The dialer's.
        theirs: Fingerprint,
        /// The acceptor's.
        ours: Fingerprint,
    },
    /// One of the two cannot read what the other writes, or could still write what the other does not speak.
    Levels {
        /// Who uses a level.
        uses: NodeId,
        level: Level,
        /// Who does not speak it.
        other: NodeId,
        /// What that one speaks.
        levels: Levels,
    },
    /// Another cluster's name.
    OtherCluster {
        /// The acceptor's cluster.
        ours: String,
    },
    /// Another engine.
    OtherEngine {
        /// The acceptor's engine.
        ours: &'static str,
    },
    /// The dialer claims an id that it cannot have: higher ids dial lower ones.
    BadCaller {
        /// The claimed id.
        from: NodeId,
        /// The acceptor's id.
        ours: NodeId,
    },
    /// Another process in the name of that node is alive.
    Taken {
        /// The claimed id.
        node: NodeId,
    },
    /// The dialer was removed from the cluster.
    Removed { node: NodeId },
    /// The called node speaks with nobody who does not speak TLS.
    NotEncrypted,
    /// The dialer's certificate is not that of the node that it says it is.
    NotItsCertificate {
        /// The claimed id.
        node: NodeId,
        /// What the certificate should be for.
        name: String,
    },
    /// There is no such worker.
    NoSuchChannel {
        /// The worker asked for.
        index: u16,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mismatch::Differs { what, theirs, ours } => {
                write!(f, "{what}: caller has {theirs}, called has {ours}")
            }
            Mismatch::Durability { theirs, ours } => {
                let theirs = theirs.map_or("another one".into(), |theirs| format!("\"{theirs}\""));
                write!(
                    f,
                    "cluster.durability: caller has {theirs}, called has \"{ours}\"; set it alike in the config of every node"
                )
            }
            Mismatch::OtherBuild { what, theirs, ours } => {
                write!(f, "{what}: caller has {theirs}, called has {ours}; the two are different builds")
            }
            Mismatch::Levels { uses, level, other, levels } if *level > levels.newest => write!(
                f,
                "level: {uses} uses {level} by now, and the build of {other} reads up to {}: start {other} with a newer build",
                levels.newest
            ),
            Mismatch::Levels { uses, level, other, levels } => write!(
                f,
                "level: {uses} still uses {level}, and the build of {other} speaks from {} on: start {other} with a build that \
                 speaks both, until the cluster has raised its level",
                levels.oldest
            ),
            Mismatch::OtherCluster { ours } => write!(f, "cluster: the called node belongs to {ours:?}"),
            Mismatch::OtherEngine { ours } => write!(f, "engine: the called node runs {ours}"),
            Mismatch::BadCaller { from, ours } => {
                write!(f, "node id: the caller says it is {from}, to {ours}")
            }
            Mismatch::Taken { node } => write!(
                f,
                "node id: another process that says it is {node} is connected and alive; give each node an id of its own"
            ),
            Mismatch::Removed { node } => {
                write!(f, "node id: {node} was removed from this cluster, and its id is not used again")
            }
            Mismatch::NotEncrypted => f.write_str(
                "tls.peer: the called node wants TLS, and the caller speaks none; set tls.peer alike on every node",
            ),
            Mismatch::NotItsCertificate { node, name } => {
                write!(f, "certificate: the caller says it is {node}, and its certificate is not for {name}")
            }
            Mismatch::NoSuchChannel { index } => write!(f, "channel: there is no worker {index}"),
        }
    }
}
