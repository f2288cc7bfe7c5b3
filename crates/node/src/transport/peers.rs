//! One thread's connections of one channel, to all other nodes.

use highwater_core::{Incarnation, NodeId};
use highwater_seam::Frame;

use super::link::{Closed, Link, LinkLimits};
use super::{Arrival, Channel, Established};
use crate::poll::{Event, Poller};

/// One link per node, by id, as far as they are up.
pub struct Peers {
    links: Vec<Option<Link>>,
    limits: LinkLimits,
    /// Keys in the poller: `key_base + node`.
    key_base: u64,
}

/// A connection that is no more.
#[derive(Debug)]
pub struct Lost {
    /// The other side.
    pub peer: NodeId,
    /// What it was for.
    pub channel: Channel,
    pub generation: u64,
    pub why: Closed,
}

impl Peers {
    /// No link yet.
    pub fn new(limits: LinkLimits, key_base: u64) -> Peers {
        Peers { links: Vec::new(), limits, key_base }
    }

    /// Takes a connection over. True if it replaces one, whose loss nobody was told of. If it cannot be watched, it is
    /// lost, and so is the one that it was to replace.
    pub fn adopt(&mut self, connection: Established, poller: &Poller) -> Result<bool, Lost> {
        let Established { peer, channel, generation, .. } = connection;
        let node = peer.0 as usize;
        if self.links.len() <= node {
            self.links.resize_with(node + 1, || None);
        }
        let old = self.links[node].take();
        match Link::new(connection, poller, self.key_base + node as u64, self.limits) {
            Ok(link) => {
                self.links[node] = Some(link);
                Ok(old.is_some())
            }
            Err(error) => Err(Lost { peer, channel, generation, why: Closed::Broken(error) }),
        }
    }

    /// Whether the connection to this life of a node is up.
    pub fn is_up(&self, node: NodeId, incarnation: Incarnation) -> bool {
        let link = self.links.get(usize::from(node.0)).and_then(Option::as_ref);
        link.is_some_and(|link| link.incarnation == incarnation)
    }

    /// Nodes that there is a connection to.
    pub fn up(&self) -> Vec<NodeId> {
        let up = self.links.iter().enumerate().filter(|(_, link)| link.is_some());
        up.map(|(node, _)| NodeId(node as u8)).collect()
    }

    /// Queues frames and writes what the sockets take. Frames to a peer that is down are dropped: it will be
    /// resynchronised when it is up.
    pub fn send(
        &mut self,
        frames: impl Iterator<Item = (NodeId, Channel, Frame)>,
        poller: &Poller,
    ) -> Vec<Lost> {
        let mut lost = Vec::new();
        for (node, to, frame) in frames {
            let Some(Some(link)) = self.links.get_mut(usize::from(node.0)) else { continue };
            if let Err(why) = link.send(to, frame) {
                lost.extend(self.close(node.0 as usize, why));
            }
        }
        for node in 0..self.links.len() {
            let Some(link) = &mut self.links[node] else { continue };
            if link.wants_flush()
                && let Err(why) = link.flush(poller)
            {
                lost.extend(self.close(node, why));
            }
        }
        lost
    }

    /// Something happened on a link; hands its frames to `deliver`, which gives one back if its receiver has no room: then
    /// that link is [stuck](Link::is_stuck).
    pub fn event(
        &mut self,
        node: usize,
        event: Event,
        poller: &Poller,
        mut deliver: impl FnMut(Arrival) -> Result<(), Arrival>,
    ) -> Result<(), Lost> {
        let Some(Some(link)) = self.links.get_mut(node) else { return Ok(()) };
        let taken = (|| {
            if event.writable {
                link.flush(poller)?;
            }
            match link.is_stuck() {
                // Nobody asked whether there is anything to read: it is broken, and would be told again and again.
                true if event.broken => Err(Closed::Ended),
                false if event.readable || link.has_unread() => link.readable(poller, &mut deliver),
                _ => Ok(()),
            }
        })();
        taken.map_err(|why| self.close(node, why).expect("it was open"))
    }

    /// Tries the links that are stuck again; what is lost meanwhile.
    pub fn retry(
        &mut self,
        poller: &Poller,
        mut deliver: impl FnMut(Arrival) -> Result<(), Arrival>,
    ) -> Vec<Lost> {
        let mut lost = Vec::new();
        for node in 0..self.links.len() {
            if let Some(link) = &mut self.links[node]
                && let Err(why) = link.retry(poller, &mut deliver)
            {
                lost.extend(self.close(node, why));
            }
        }
        lost
    }

    /// Bytes that wait for sockets, and bytes of receive buffers.
    pub fn held_bytes(&self) -> (usize, usize) {
        let held = self.links.iter().flatten().map(Link::held_bytes);
        held.fold((0, 0), |sum, link| (sum.0 + link.0, sum.1 + link.1))
    }

    /// Nodes whose connections are [stuck](Link::is_stuck).
    pub fn stuck(&self) -> impl Iterator<Item = NodeId> {
        self.links.iter().flatten().filter(|link| link.is_stuck()).map(|link| link.peer)
    }

    /// Bytes that wait for this node's socket.
    pub fn queued(&self, node: NodeId) -> usize {
        let link = self.links.get(usize::from(node.0)).and_then(Option::as_ref);
        link.map_or(0, |link| link.held_bytes().0)
    }

    /// See [`Link::rest`]; whether any link had something since the last call.
    pub fn rest(&mut self) -> bool {
        // All of them, whatever the first one says.
        self.links.iter_mut().flatten().filter_map(|link| link.rest().then_some(())).count() > 0
    }

    /// Hangs up, if the connection is up.
    pub fn hang_up(&mut self, node: NodeId, why: Closed) -> Option<Lost> {
        self.close(usize::from(node.0), why)
    }

    /// Hangs up, if the connection is up, so that what has not arrived never does: see [`Link::cut`].
    pub fn cut(&mut self, node: NodeId) -> Option<Lost> {
        let link = self.links.get_mut(usize::from(node.0))?.take()?;
        let (peer, channel, generation) = (link.peer, link.channel, link.generation);
        link.cut();
        Some(Lost { peer, channel, generation, why: Closed::Ended })
    }

    /// Gives this one up, if it is still the node's.
    pub fn give_up(&mut self, node: NodeId, generation: u64) -> Option<Lost> {
        self.link(node, generation)?;
        self.hang_up(node, Closed::GivenUp)
    }

    /// See [`Link::look`]; about this one, if it is still the node's.
    pub fn look(&mut self, node: NodeId, generation: u64, bytes: u64) -> Option<Lost> {
        let why = self.link(node, generation)?.look(bytes).err()?;
        self.hang_up(node, why)
    }

    fn link(&mut self, node: NodeId, generation: u64) -> Option<&mut Link> {
        let link = self.links.get_mut(usize::from(node.0)).and_then(Option::as_mut);
        link.filter(|link| link.generation == generation)
    }

    fn close(&mut self, node: usize, why: Closed) -> Option<Lost> {
        let link = self.links.get_mut(node)?.take()?;
        Some(Lost { peer: link.peer, channel: link.channel, generation: link.generation, why })
    }
}
