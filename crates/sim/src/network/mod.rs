//! Connections between replicas: ordered, lossy only by breaking, as TCP is; and what may be wrong with them.
//!
//! What the transport promises to the engines, no more and no less (see `highwater_engines`, "the host's duties", and
//! `docs/internals/stream.md`):
//! - frames of one connection arrive in order and once; a broken connection loses what was under way, a suffix in each
//!   direction ([`Faults::truncate`]), and each end hears of it in its own time;
//! - frames for a worker of another number share the connection of their sender's; the node that receives them hands them
//!   over a little later, in order for each pair of workers, and loses them if that worker's own connection is not up;
//! - control messages may be lost and arrive late, behind newer ones of the next connection ([`Faults::late`]);
//! - streams bear lost, repeated and reordered frames even within a connection ([`Faults::datagrams`]); state copies do
//!   not, and keep theirs.

mod connection;
mod link;
mod partition;

use std::collections::{BTreeMap, BTreeSet};

use highwater_core::NodeId;
use highwater_seam::Nanos;

pub use connection::Wire;
pub(crate) use connection::{Connection, InFlight};
use highwater_core::Random;
pub use link::{Channel, Link, Payload};

/// Frames of streams that get lost, repeated and reordered within a connection. Rates in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// Never arrive.
    pub lost: u64,
    /// Arrive twice.
    pub repeated: u64,
    /// One in fifty arrives when its own delay says so, in front of earlier or behind later ones.
    pub reordered: bool,
}

/// What goes wrong with connections beyond delay; nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// A broken connection delivers some of what was under way, in each direction, before its ends hear of it, each in
    /// its own time. (Otherwise it delivers nothing, and both hear at once.)
    pub truncate: bool,
    /// Of the control messages that a broken connection lost, half arrive late: within this time, over the next one.
    pub late: Option<Nanos>,
    /// How long a frame may be under way before its connection breaks, as TCP's user timeout. (Otherwise for ever.)
    pub patience: Option<Nanos>,
    /// Frames of streams travel as datagrams.
    pub datagrams: Option<Datagrams>,
}

/// How soon what stands still, or is broken, is usually tried again.
const RETRY: Nanos = 2_000_000;

/// All connections, and the state of the paths between nodes.
#[derive(Debug, Default)]
pub struct Network {
    connections: BTreeMap<Link, Connection>,
    /// `(from, to)`: frames in this direction stand still.
    cut: BTreeSet<(NodeId, NodeId)>,
    /// On these channels nothing moves, between no nodes.
    held: BTreeSet<Channel>,
    /// Frames in this direction stand still until then.
    clogged: BTreeMap<(NodeId, NodeId), Nanos>,
    /// Frames in this direction take so many times as long.
    slow: BTreeMap<(NodeId, NodeId), u64>,
    /// Delay of a frame: at least, and up to this much more.
    pub delay: (Nanos, Nanos),
    /// One frame in so many (never if 0) is delayed by up to this much more: a long tail.
    pub tail: (u64, Nanos),
    /// How soon what stands still, or is broken, is tried again.
    pub retry: Nanos,
    /// What connections carry; without it any frame takes no longer than an empty one.
    pub wire: Option<Wire>,
    /// What else goes wrong.
    pub faults: Faults,
}

impl Network {
    /// No connections yet; frames take at least `least` ns and up to `spread` more, one in a hundred up to twenty times
    /// as much more.
    pub fn with_delay(least: Nanos, spread: Nanos) -> Network {
        Network { delay: (least, spread), tail: (100, 20 * spread), retry: RETRY, ..Network::default() }
    }

    /// Whether frames flow from one node to another.
    pub fn flows(&self, from: NodeId, to: NodeId, channel: Channel) -> bool {
        (self.cut.is_empty() || !self.cut.contains(&(from, to)))
            && (self.held.is_empty() || !self.held.contains(&channel))
    }

    /// Lets everything on a channel stand still.
    pub fn hold(&mut self, channel: Channel) {
        self.held.insert(channel);
    }

    /// Cuts one direction: frames stand still, their connection does not notice (unless it loses its patience).
    pub fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cut.insert((from, to));
    }

    /// Frames in one direction stand still until then; what was sent meanwhile arrives in a burst.
    pub fn clog(&mut self, from: NodeId, to: NodeId, until: Nanos) {
        self.clogged.insert((from, to), until);
    }

    /// Frames in one direction take `times` as long.
    pub fn slow_down(&mut self, from: NodeId, to: NodeId, times: u64) {
        self.slow.insert((from, to), times);
    }

    /// Until when a direction is clogged, if it is.
    pub(crate) fn clogged_until(&self, from: NodeId, to: NodeId, now: Nanos) -> Option<Nanos> {
        if self.clogged.is_empty() {
            return None;
        }
        self.clogged.get(&(from, to)).copied().filter(|until| *until > now)
    }

    /// Mends everything: cuts, held channels, clogged and slow directions.
    pub fn heal(&mut self) {
        self.cut.clear();
        self.held.clear();
        self.clogged.clear();
        self.slow.clear();
    }

    /// The connection, if it was ever made.
    pub(crate) fn get(&mut self, link: Link) -> Option<&mut Connection> {
        self.connections.get_mut(&link)
    }

    /// The connection, made or not.
    pub(crate) fn entry(&mut self, link: Link) -> &mut Connection {
        self.connections.entry(link).or_default()
    }

    /// A process has ended: what it believed of its connections is gone with it.
    pub(crate) fn forget(&mut self, id: NodeId) {
        let own = self.connections.iter_mut().filter(|(link, _)| link.ends().contains(&id));
        own.for_each(|(link, connection)| connection.believed[link.side(id)] = false);
    }

    /// How long a frame takes that is sent now.
    pub(crate) fn draw_delay(&self, from: NodeId, to: NodeId, random: &mut Random) -> Nanos {
        let (least, spread) = self.delay;
        let (one_in, longest) = self.tail;
        let tail = if one_in > 0 && random.one_in(one_in) { random.below(longest + 1) } else { 0 };
        let times = if self.slow.is_empty() { 1 } else { *self.slow.get(&(from, to)).unwrap_or(&1) };
        times * (least + random.below(spread + 1) + tail)
    }
}
