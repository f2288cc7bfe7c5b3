//! Connections between replicas.
//!
//! Worker *i* of one node talks to worker *i* of every other node over one TCP connection of its own, and controller to
//! controller over another. A frame names the [`Channel`] that it is for: one for another worker comes over the sender's
//! connection, and the thread that receives it passes it on ([`relay`](crate::relay)). All of a node's connections arrive at its one peer port:
//!
//! 1. The node with the **higher id dials**; the other accepts. Control threads do both, for all channels
//!    ([`outgoing`], [`incoming`]), because only they are off the path of transactions.
//! 2. The dialer says [`Hello`](handshake::Hello): cluster, node, incarnation, engine, streams, versions, tables,
//!    channel. The acceptor answers [`Welcome`](handshake::Welcome), or refuses with a reason that both sides log.
//!    Where TLS is spoken ([`PeerLock`](crate::tls::PeerLock)), all of it is inside: each side has shown a certificate by then, and the
//!    acceptor looks whether the dialer's is for the node that it says it is. The dialer knew whom it called.
//! 3. The socket is handed to the thread that owns the channel, which then sends and receives [`frame`]s over its
//!    [`link::Link`].
//! 4. A lost connection is reported to the control thread, and the dialer dials again: at once, then after 1 ms, 2 ms,
//!    and so on up to 500 ms. When a *control* connection is lost, the accepting side knocks at the peer's port too:
//!    a machine that answers "nothing listens here" tells within a millisecond that the process is dead.
//!
//! 5. The two sides compare what they hold ([`accounts`]), for a connection may be alive at one end only.
//!
//! Frames in flight are lost with a connection. The engines resynchronise after `peer_up`; so a send queue that grows
//! over its limit (the peer is stopped, or slow) is dropped with its connection instead of piling up.

pub mod accounts;
mod channel;
pub mod complaints;
pub mod directory;
pub mod frame;
pub mod gauge;
pub mod handshake;
pub mod incoming;
pub mod link;
pub mod outgoing;
pub mod peers;
pub mod socket;
pub mod traffic;

use std::sync::Arc;

use highwater_core::{Incarnation, Levels, NodeId};
use highwater_seam::Frame;

pub use self::channel::Channel;
use crate::tls::Wire;

/// A connection after its handshake, on its way to the thread that owns the channel.
#[derive(Debug)]
pub struct Established {
    /// The other side.
    pub peer: NodeId,
    /// The other side's life.
    pub incarnation: Incarnation,
    /// What the other side's build speaks.
    pub levels: Levels,
    /// What it is for.
    pub channel: Channel,
    /// Distinguishes this connection from earlier ones of the same channel.
    pub generation: u64,
    /// The same on both sides: drawn by who dialed, larger than those of earlier connections of the channel. 0: the peer keeps no
    /// [`accounts`].
    pub number: u32,
    /// What goes through this end.
    pub gauge: Arc<gauge::Gauge>,
    /// Non-blocking.
    pub stream: Wire,
}

/// A frame as it came over a connection.
#[derive(Debug)]
pub struct Arrival {
    /// The node that sent it.
    pub from: NodeId,
    /// That node's life.
    pub incarnation: Incarnation,
    /// Whom it is for: the thread that has the connection, or another worker.
    pub to: Channel,
    /// What it says.
    pub frame: Frame,
}
