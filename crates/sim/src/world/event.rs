//! What happens in a world, once it is due.

use highwater_core::{Incarnation, NodeId};
use highwater_seam::Nanos;

use crate::network::{Channel, Link, Payload};

/// What happens.
#[derive(Debug)]
pub(super) enum Event {
    Turn {
        node: NodeId,
        life: u64,
        who: Channel,
    },
    /// The next frame of a connection arrives at `to`.
    Arrive {
        link: Link,
        generation: u64,
        to: NodeId,
    },
    /// A frame of a connection arrives outside its order.
    Datagram {
        link: Link,
        generation: u64,
        to: NodeId,
        payload: Payload,
    },
    /// A control message of a connection that broke arrives over the next one.
    Late {
        link: Link,
        lives: [Incarnation; 2],
        to: NodeId,
        payload: Payload,
    },
    /// A frame reaches the worker that it is for, which is not the one whose connection it came over.
    PassedOn {
        link: Link,
        lives: [Incarnation; 2],
        to: NodeId,
        payload: Payload,
    },
    Connect {
        link: Link,
    },
    /// `end` hears that the connection is lost; or both ends.
    Lost {
        link: Link,
        generation: u64,
        end: Option<NodeId>,
    },
    /// A disk has brought down what was written up to here.
    Synced {
        node: NodeId,
        life: u64,
        upto: usize,
    },
    /// A machine goes on with its checkpoint.
    Checkpoint {
        node: NodeId,
        life: u64,
        number: u64,
    },
    /// A node's disk is older than it should be: its process ends, what is on the disk is set aside, and it begins another life.
    SetAside {
        node: NodeId,
        life: u64,
    },
    /// A process ends that has only just begun.
    EndsEarly {
        node: NodeId,
        life: u64,
    },
    /// Somebody starts a node whose start before ended early.
    StartAgain {
        node: NodeId,
    },
    Resume {
        node: NodeId,
        life: u64,
    },
    Flap {
        a: NodeId,
        b: NodeId,
        every: Nanos,
        until: Nanos,
    },
}
