//! What a client has told about itself.

use highwater_core::Timestamp;
use highwater_engines::Freshness;

use super::acl::{Access, Caller};
use super::reply::Protocol;

/// The part of a connection that local commands read and change.
#[derive(Debug)]
pub struct ClientState {
    /// Unique on this node.
    pub id: u64,
    /// Who it is.
    pub caller: Caller,
    /// Which RESP the client reads.
    pub protocol: Protocol,
    /// `CLIENT SETNAME`; empty: none.
    pub name: Vec<u8>,
    /// `READONLY`: what only reads may run on a snapshot.
    pub snapshots: bool,
    /// `HW.FRESHNESS`: what those reads ask of a snapshot.
    pub freshness: Option<Freshness>,
    /// What time it is, in Unix time in ms, as far as the host has told.
    pub unix_ms: u64,
    /// `HW.TOKEN`: the latest moment that an answer spoke of.
    pub seen: Timestamp,
}

impl ClientState {
    /// A client that has said nothing yet.
    pub fn new(id: u64, access: &Access) -> ClientState {
        ClientState {
            id,
            caller: Caller::new(access),
            protocol: Protocol::default(),
            name: Vec::new(),
            snapshots: false,
            freshness: None,
            unix_ms: 0,
            seen: Timestamp::ZERO,
        }
    }
}
