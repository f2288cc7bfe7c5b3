//! What connections join, and what travels over them.

use bytes::Bytes;
use highwater_core::NodeId;
use highwater_seam::Frame;

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
    Frame {
        /// The number of the worker that it is for.
        worker: u16,
        /// What it says.
        frame: Frame,
    },
}

impl Payload {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Payload::Control(message) => message.len(),
            Payload::Frame { frame, .. } => frame.head.len() + frame.body.len(),
        }
    }

    /// Which thread of the receiving node it is for.
    pub(crate) fn receiver(&self) -> Channel {
        match self {
            Payload::Control(_) => Channel::Control,
            Payload::Frame { worker, .. } => Channel::Worker(*worker),
        }
    }

    /// Whether nothing travels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One connection's identity: both ends, the lower node first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    pub low: NodeId,
    pub high: NodeId,
    /// What it joins.
    pub channel: Channel,
}

impl Link {
    /// The connection between two nodes on a channel.
    pub fn new(a: NodeId, b: NodeId, channel: Channel) -> Link {
        Link { low: a.min(b), high: a.max(b), channel }
    }

    /// Both ends.
    pub fn ends(&self) -> [NodeId; 2] {
        [self.low, self.high]
    }

    /// The end that is not `end`.
    pub fn other(&self, end: NodeId) -> NodeId {
        if end == self.low { self.high } else { self.low }
    }

    /// 0 for the lower end, 1 for the higher.
    pub(crate) fn side(&self, end: NodeId) -> usize {
        usize::from(end == self.high)
    }
}
