//! Connections between controllers: a message is a frame with a head and no body.

use bytes::Bytes;
use highwater_core::NodeId;
use highwater_engines::Frame;

use super::KEY_LINK;
use crate::poll::{Event, Poller};
use crate::transport::Established;
use crate::transport::link::LinkLimits;
pub use crate::transport::peers::Lost;
use crate::transport::peers::Peers;

/// One link per node, as far as they are up.
pub struct Links(Peers);

impl Links {
    /// No link yet.
    pub fn new(nodes: usize, limits: LinkLimits) -> Links {
        Links(Peers::new(nodes, limits, KEY_LINK))
    }

    /// See [`Peers::adopt`].
    pub fn adopt(&mut self, connection: Established, poller: &Poller) -> Result<bool, Lost> {
        self.0.adopt(connection, poller)
    }

    /// See [`Peers::send`].
    pub fn send(&mut self, messages: impl Iterator<Item = (NodeId, Bytes)>, poller: &Poller) -> Vec<Lost> {
        self.0.send(messages.map(|(to, head)| (to, Frame { head, body: Bytes::new() })), poller)
    }

    /// See [`Peers::event`].
    pub fn event(
        &mut self,
        node: usize,
        event: Event,
        poller: &Poller,
        mut deliver: impl FnMut(NodeId, Bytes),
    ) -> Result<(), Lost> {
        self.0.event(node, event, poller, |from, frame| deliver(from, frame.head))
    }

    /// See [`Peers::held_bytes`].
    pub fn held_bytes(&self) -> (usize, usize) {
        self.0.held_bytes()
    }

    /// See [`Peers::rest`].
    pub fn rest(&mut self) -> bool {
        self.0.rest()
    }
}
