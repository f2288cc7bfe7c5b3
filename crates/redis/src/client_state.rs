//! What a client has told about itself.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use highwater_core::Timestamp;
use highwater_seam::Freshness;

use super::acl::{Access, Caller};
use super::clients::{Card, Clients, Place};
use super::reply::Protocol;
use super::subscriptions::Subscriptions;

/// The part of a connection that local commands read and change.
pub struct ClientState {
    /// Unique on this node.
    pub id: u64,
    /// Its place among the clients of the node.
    place: Place,
    pub caller: Caller,
    /// `CLIENT SETNAME`; empty: none.
    pub name: Vec<u8>,
    /// Which RESP the client reads.
    pub protocol: Protocol,
    /// `READONLY`: what only reads may run on a snapshot.
    pub snapshots: bool,
    /// `HW.FRESHNESS`: what those reads ask of a snapshot.
    pub freshness: Option<Freshness>,
    /// What time it is, in Unix time in ms, as far as the host has told.
    pub unix_ms: u64,
    /// `HW.TOKEN`: the latest moment that an answer spoke of.
    pub seen: Timestamp,
    /// `SUBSCRIBE`
    pub subscriptions: Subscriptions,
    /// `CLIENT REPLY`
    pub replies: Replies,
    /// It killed itself: it ends when it has been answered.
    pub ends: bool,
}

/// Which replies a client wants: `CLIENT REPLY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// Not the next one.
    Skip,
}

impl ClientState {
    /// A client that comes at this moment, in Unix time in ms, and has said nothing yet. All that is known of it is known from here on, as no
    /// command of it may ever be taken: during a pause, say.
    pub fn new(id: u64, clients: &Arc<Clients>, access: &Access, unix_ms: u64) -> ClientState {
        let client = ClientState {
            id,
            place: clients.enter(id),
            caller: Caller::new(access),
            name: Vec::new(),
            protocol: Protocol::default(),
            snapshots: false,
            freshness: None,
            unix_ms,
            seen: Timestamp::ZERO,
            subscriptions: Subscriptions::default(),
            replies: Replies::On,
            ends: false,
        };
        client.card().since_ms.store(unix_ms, Relaxed);
        client.card().active_ms.store(unix_ms, Relaxed);
        client.tell_words();
        client
    }

    /// As if it had just connected.
    pub fn reset(&mut self, access: &Access) {
        (self.protocol, self.replies) = (Protocol::default(), Replies::On);
        (self.snapshots, self.freshness) = (false, None);
        self.caller = Caller::new(access);
        self.subscriptions = Subscriptions::default();
        self.tell_subscriptions();
        self.name.clear();
        self.tell_words();
        self.card().reads_snapshots.store(false, Relaxed);
        self.card().protocol.store(2, Relaxed);
    }

    /// What others may know of it.
    pub fn card(&self) -> &Card {
        &self.place.card
    }

    /// The same, to be kept.
    pub fn shared_card(&self) -> Arc<Card> {
        self.place.card.clone()
    }

    /// It reads nothing but messages: it speaks RESP2, in which they cannot be told from replies, and has subscribed to something.
    pub fn listens_only(&self) -> bool {
        self.protocol == Protocol::Resp2 && self.subscriptions.is_any()
    }

    /// Others may know to how much it has subscribed.
    pub fn tell_subscriptions(&self) {
        let (channels, patterns) = self.subscriptions.counts();
        self.card().channels.store(channels as u64, Relaxed);
        self.card().patterns.store(patterns as u64, Relaxed);
    }

    /// Others may know its name and its user.
    pub fn tell_words(&self) {
        let mut words = self.card().words();
        words.name.clone_from(&self.name);
        words.user = self.caller.user().name().to_vec();
    }
}
