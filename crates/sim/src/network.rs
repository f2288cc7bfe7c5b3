//! Connections between replicas: ordered, lossy only by breaking, as TCP is.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_core::NodeId;
use highwater_engines::{Frame, Nanos};

use crate::random::Random;

/// What a connection joins: the controllers of two nodes, or their workers of one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Channel {
    /// Controllers.
    Control,
    /// Workers of this number.
    Worker(u16),
}

/// What travels.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Between controllers.
    Control(Bytes),
    /// Between workers.
    Frame(Frame),
}

/// One connection's identity: both ends, the lower node first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The lower node.
    pub low: NodeId,
    /// The higher node.
    pub high: NodeId,
    /// What it joins.
    pub channel: Channel,
}

impl Link {
    /// The connection between two nodes on a channel.
    pub fn new(a: NodeId, b: NodeId, channel: Channel) -> Link {
        Link { low: a.min(b), high: a.max(b), channel }
    }
}

/// The state of one connection.
#[derive(Clone, Debug, Default)]
struct Connection {
    /// Counts the times it was made; frames of an earlier time are lost.
    generation: u64,
    up: bool,
    /// Arrival of the last frame in each direction (from low, from high): order is kept.
    last: [Nanos; 2],
}

/// All connections, and which directions between nodes are cut.
#[derive(Debug, Default)]
pub struct Network {
    connections: BTreeMap<Link, Connection>,
    /// `(from, to)`: frames in this direction stand still.
    cut: std::collections::BTreeSet<(NodeId, NodeId)>,
    /// On these channels nothing moves, between no nodes.
    held: std::collections::BTreeSet<Channel>,
    /// Delay of a frame: at least, and up to this much more.
    pub delay: (Nanos, Nanos),
}

impl Network {
    /// No connections yet; frames take at least `least` ns and up to `spread` more.
    pub fn with_delay(least: Nanos, spread: Nanos) -> Network {
        Network { delay: (least, spread), ..Network::default() }
    }

    /// Whether frames flow from one node to another.
    pub fn flows(&self, from: NodeId, to: NodeId, channel: Channel) -> bool {
        !self.cut.contains(&(from, to)) && !self.held.contains(&channel)
    }

    /// Lets everything on a channel stand still.
    pub fn hold(&mut self, channel: Channel) {
        self.held.insert(channel);
    }

    /// Cuts one direction.
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cut.insert((from, to));
    }

    /// Mends everything.
    pub fn heal(&mut self) {
        self.cut.clear();
        self.held.clear();
    }

    /// Makes a connection; says its generation, or nothing if it is up already.
    pub fn connect(&mut self, link: Link, now: Nanos) -> Option<u64> {
        let connection = self.connections.entry(link).or_default();
        if connection.up {
            return None;
        }
        connection.up = true;
        connection.generation += 1;
        connection.last = [now; 2];
        Some(connection.generation)
    }

    /// Breaks a connection; whether it was up.
    pub fn disconnect(&mut self, link: Link) -> bool {
        self.connections.get_mut(&link).is_some_and(|connection| std::mem::take(&mut connection.up))
    }

    /// Whether a connection is up, in which generation.
    pub fn generation(&self, link: Link) -> Option<u64> {
        self.connections.get(&link).filter(|connection| connection.up).map(|connection| connection.generation)
    }

    /// When a frame sent now arrives.
    pub fn arrival(&mut self, now: Nanos, from: NodeId, link: Link, random: &mut Random) -> Nanos {
        let (least, spread) = self.delay;
        let tail = if random.one_in(100) { random.below(20 * spread + 1) } else { 0 };
        let at = now + least + random.below(spread + 1) + tail;
        let connection = self.connections.entry(link).or_default();
        let last = &mut connection.last[usize::from(from == link.high)];
        *last = at.max(*last + 1);
        *last
    }
}
