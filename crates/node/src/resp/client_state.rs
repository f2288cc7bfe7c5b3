//! What a client has told about itself.

use super::reply::Protocol;

/// The part of a connection that local commands read and change.
#[derive(Debug)]
pub struct ClientState {
    /// Unique on this node.
    pub id: u64,
    /// Which RESP the client reads.
    pub protocol: Protocol,
    /// `CLIENT SETNAME`; empty: none.
    pub name: Vec<u8>,
    /// `READONLY`: what only reads may run on a snapshot.
    pub snapshots: bool,
}

impl ClientState {
    /// A client that has said nothing yet.
    pub fn new(id: u64) -> ClientState {
        ClientState { id, protocol: Protocol::default(), name: Vec::new(), snapshots: false }
    }
}
