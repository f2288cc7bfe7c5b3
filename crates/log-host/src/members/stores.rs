//! Whose store is complete: the leader removes nobody without whom too few would be.

use std::collections::BTreeMap;

use highwater_consensus::Voter;
use highwater_core::NodeId;
use highwater_seam::Nanos;

use crate::control::ControlMessage;
use crate::desk::Desk;

/// A node says it again after so many heartbeats: the last message may be lost.
const REPEAT: u64 = 25;

/// What the nodes said.
#[derive(Debug, Default)]
pub struct Stores {
    complete: BTreeMap<NodeId, Voter>,
    /// What this node said last, and when.
    said: (bool, Nanos),
}

impl Stores {
    /// Whether that node said so, in this life.
    pub fn is_complete(&self, voter: Voter) -> bool {
        self.complete.get(&voter.node) == Some(&voter)
    }

    /// A node says whether its store is complete.
    pub fn hear(&mut self, from: Voter, complete: bool) {
        if complete {
            self.complete.insert(from.node, from);
        } else {
            self.complete.remove(&from.node);
        }
    }

    /// Another process of the node may be there.
    pub fn peer_up(&mut self, peer: NodeId, desk: &mut Desk) {
        self.complete.remove(&peer);
        desk.send(peer, ControlMessage::Store { complete: self.said.0 });
    }

    /// Tells the others, if it has changed or was told a while ago.
    pub fn turn(&mut self, now: Nanos, complete: bool, desk: &mut Desk) {
        let repeat = now.saturating_sub(self.said.1) >= REPEAT * desk.shared.options.heartbeat;
        if complete != self.said.0 || repeat {
            self.said = (complete, now);
            for peer in desk.peers() {
                desk.send(peer.node, ControlMessage::Store { complete });
            }
        }
    }
}
