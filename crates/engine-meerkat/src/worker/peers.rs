//! The same-numbered workers of other nodes: how far this one has heard them, and what it has told them.

use highwater_core::{Incarnation, NodeId, Timestamp};

/// The same-numbered worker of another node.
struct Peer {
    incarnation: Incarnation,
    connected: bool,
    /// Its outcomes up to this number have taken effect here.
    heard: u64,
    /// The same, on this node's disk where that is promised: what it is told.
    safe: u64,
    /// The last that it was told: [`Peer::safe`], and what is closed.
    told: (u64, Timestamp),
    /// Everything at or below that it coordinates is over everywhere.
    closed: Timestamp,
    /// It was heard in this epoch: what it was sent before may have come before it had begun, and is lost.
    met: bool,
}

/// For each node; none for those that were never connected.
pub(super) struct Peers(Vec<Option<Peer>>);

impl Peers {
    /// Nobody is connected.
    pub fn new(nodes: u8) -> Peers {
        Peers((0..nodes).map(|_| None).collect())
    }

    fn get(&self, node: NodeId) -> Option<&Peer> {
        self.0[node.0 as usize].as_ref()
    }

    fn get_mut(&mut self, node: NodeId) -> Option<&mut Peer> {
        self.0[node.0 as usize].as_mut()
    }

    /// A connection to a life of a node is up.
    pub fn up(&mut self, node: NodeId, incarnation: Incarnation) {
        let known = self.0[node.0 as usize].take();
        // What its earlier life coordinated in this epoch stays over: words about it that come late must not make records.
        let closed = known.as_ref().map_or(Timestamp::ZERO, |known| known.closed);
        let known = known.filter(|known| known.incarnation == incarnation).unwrap_or(Peer {
            incarnation,
            connected: true,
            heard: 0,
            safe: 0,
            told: (0, Timestamp::ZERO),
            closed,
            met: false,
        });
        self.0[node.0 as usize] = Some(Peer { connected: true, told: (0, Timestamp::ZERO), ..known });
    }

    pub fn down(&mut self, node: NodeId) {
        if let Some(Some(peer)) = self.0.get_mut(node.0 as usize) {
            peer.connected = false;
        }
    }

    pub fn is_connected(&self, node: NodeId) -> bool {
        self.get(node).is_some_and(|peer| peer.connected)
    }

    /// Whether this life of a node is connected.
    pub fn has(&self, node: NodeId, life: Incarnation) -> bool {
        self.get(node).is_some_and(|peer| peer.connected && peer.incarnation == life)
    }

    /// Which life of a node is, or was, connected last.
    pub fn life(&self, node: NodeId) -> Option<Incarnation> {
        self.get(node).map(|peer| peer.incarnation)
    }

    // ---- what is heard ----

    /// Everything at or below this that a node coordinates is over everywhere.
    pub fn closed(&self, node: NodeId) -> Timestamp {
        self.get(node).map_or(Timestamp::ZERO, |peer| peer.closed)
    }

    /// Whether it was connected, and a transaction of its is over everywhere.
    pub fn has_closed(&self, node: NodeId, ts: Timestamp) -> bool {
        self.get(node).is_some_and(|peer| ts <= peer.closed)
    }

    /// Whether it is connected, and has not closed all that is at or below.
    pub fn is_behind(&self, node: NodeId, ts: Timestamp) -> bool {
        self.get(node).is_some_and(|peer| peer.connected && peer.closed < ts)
    }

    /// It says how far it has closed. Whether that is the first word of it in this epoch: then it is told everything again.
    pub fn closes(&mut self, node: NodeId, closed: Timestamp) -> bool {
        let Some(peer) = self.get_mut(node) else { return false };
        peer.closed = peer.closed.max(closed);
        let new = !std::mem::replace(&mut peer.met, true);
        if new {
            peer.told = (u64::MAX, Timestamp::ZERO);
        }
        new
    }

    /// Whether an outcome of a node's is the next one: they take effect in the order of their numbers, and what is missing is told again.
    pub fn expects(&mut self, node: NodeId, number: u64) -> bool {
        let Some(peer) = self.get_mut(node) else { return false };
        if number <= peer.heard {
            // What was said of it was lost.
            peer.told.0 = u64::MAX;
        }
        number == peer.heard + 1
    }

    /// That outcome has taken effect.
    pub fn heard(&mut self, node: NodeId, number: u64) {
        if let Some(peer) = self.get_mut(node) {
            peer.heard = number;
        }
    }

    /// And is on disk, where that is promised.
    pub fn is_safe(&mut self, node: NodeId, number: u64) {
        if let Some(peer) = self.get_mut(node) {
            peer.safe = peer.safe.max(number);
        }
    }

    // ---- what is told ----

    /// Up to where outcomes of a node's have taken effect here, for good.
    pub fn safe(&self, node: NodeId) -> u64 {
        self.get(node).map_or(0, |peer| peer.safe)
    }

    /// Whether that, and what is closed here, is what a node was told last.
    pub fn knows(&self, node: NodeId, safe: u64, closed: Timestamp) -> bool {
        self.get(node).expect("it is connected").told == (safe, closed)
    }

    pub fn told(&mut self, node: NodeId, safe: u64, closed: Timestamp) {
        self.get_mut(node).expect("it is connected").told = (safe, closed);
    }

    /// The last words to a node may be lost.
    pub fn tell_anew(&mut self, node: NodeId) {
        if let Some(peer) = self.get_mut(node) {
            peer.told.0 = u64::MAX;
        }
    }

    // ---- epochs ----

    /// Another epoch begins: nothing of it was heard, or told.
    pub fn begin(&mut self) {
        self.forget();
        for peer in self.0.iter_mut().flatten() {
            (peer.told, peer.met) = ((0, Timestamp::ZERO), false);
        }
    }

    /// Words of the epoch before count no more.
    pub fn forget(&mut self) {
        for peer in self.0.iter_mut().flatten() {
            (peer.heard, peer.safe, peer.closed) = (0, 0, Timestamp::ZERO);
        }
    }
}
