//! What clients that coordinate say to workers. Their connections are theirs: here is only what arrives.

use bytes::Bytes;
use highwater_core::{Library, NodeId};
use highwater_seam::ClientId;

use super::{TURN, World};
use crate::network::Channel;
use crate::stage::Input;

impl<L: Library> World<L> {
    /// Which process runs on a node, if one does: a connection ends with it.
    pub fn process(&self, id: NodeId) -> Option<u64> {
        self.nodes.get(usize::from(id.0)).filter(|node| node.replica.is_some()).map(|node| node.life)
    }

    /// A client's connection to a worker is up.
    pub fn client_up(&mut self, to: NodeId, worker: u16, client: ClientId) {
        self.take_in(to, worker, Input::ClientUp(client));
    }

    /// A client's message has come to a worker.
    pub fn client_says(&mut self, to: NodeId, worker: u16, client: ClientId, message: Bytes) {
        self.take_in(to, worker, Input::Client(client, message));
    }

    /// A worker hears that a client's connection is lost.
    pub fn client_down(&mut self, to: NodeId, worker: u16, client: ClientId) {
        self.take_in(to, worker, Input::ClientDown(client));
    }

    fn take_in(&mut self, to: NodeId, worker: u16, input: Input) {
        let node = &mut self.nodes[usize::from(to.0)];
        assert!(node.replica.is_some(), "{to} runs");
        let slot = &mut node.slots[usize::from(worker)];
        slot.bytes += input.len();
        slot.inbox.push(input);
        let at = self.now + self.random.below(TURN);
        self.schedule(to, Channel::Worker(worker), at);
    }
}
