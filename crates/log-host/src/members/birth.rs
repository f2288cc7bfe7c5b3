//! The first meeting: a node without a membership greets the others until it knows of one, or they declare one together.

use std::collections::BTreeSet;

use highwater_consensus::{Members, Voter};
use highwater_core::{Epoch, NodeId};
use highwater_seam::Nanos;

use crate::control::ControlMessage;
use crate::desk::Desk;

/// Whom this node has met.
#[derive(Default)]
pub struct Birth {
    /// Peers that said hello without knowing of a membership.
    unborn: BTreeSet<Voter>,
    hello_at: Nanos,
    /// Who said that the cluster lives, while this node knows of no membership.
    living_cluster: Option<NodeId>,
    /// This node's disk holds data of a cluster, though it does not say who votes in it, or held some in an earlier life.
    has_a_past: bool,
    /// Nothing is left of it.
    forgot: bool,
}

/// How often a node without a membership greets.
const HELLO_EVERY: Nanos = 100_000_000;

impl Birth {
    /// The birth of a node that has met nobody. `forgot`: an earlier life of it was part of a cluster, and nothing is left of that. It greets as one that
    /// knows of the cluster, so that none is born with it or without it.
    pub fn with_a_past(forgot: bool) -> Birth {
        Birth { has_a_past: forgot, forgot, ..Birth::default() }
    }

    /// A peer is gone.
    pub fn peer_down(&mut self, peer: NodeId) {
        self.unborn.retain(|voter| voter.node != peer);
    }

    /// A peer says hello; `members`: what this node knows. Whether somebody is met who knows as little as this node.
    pub fn hear(&mut self, from: Voter, born: bool, members: Option<&Members>, desk: &mut Desk) -> bool {
        if !born && members.is_none() {
            self.unborn.retain(|known| known.node != from.node);
            self.unborn.insert(from);
            return true;
        }
        if born {
            self.unborn.clear();
            self.living_cluster = Some(from.node);
            return false;
        }
        // The sender lost its memory: our hello tells it that the cluster exists, the leader's heartbeat the rest. Or this very
        // life of it votes, and does not know: there may be no leader until it does.
        desk.send(from.node, ControlMessage::Hello { born: true });
        match members.map(|members| (members, members.voter(from.node))) {
            Some((members, Some(life))) if life == from => {
                desk.send(from.node, ControlMessage::Genesis(members.clone()));
            }
            // It may know no other address than this node's.
            Some((members, None)) => desk.send(from.node, ControlMessage::Membership(members.clone())),
            _ => {}
        }
        false
    }

    /// The membership that this node has to declare: all nodes have met, and it is the first one.
    pub fn first_members(&self, desk: &Desk) -> Option<Members> {
        let founders = &desk.shared.options.founders;
        let founds = |node: NodeId| founders.iter().any(|(founder, _)| *founder == node);
        let first = founders.iter().map(|(node, _)| *node).min() == Some(desk.me.node);
        let mine = first && !self.has_a_past && self.missing(desk).is_empty();
        let met = self.unborn.iter().copied().filter(|voter| founds(voter.node));
        mine.then(|| Members::new(Epoch(0), met.chain([desk.me]).collect()).with_contacts(founders.clone()))
    }

    /// Founders that were not met.
    fn missing(&self, desk: &Desk) -> Vec<NodeId> {
        let met = |node: NodeId| node == desk.me.node || self.unborn.iter().any(|voter| voter.node == node);
        desk.shared.options.founders.iter().map(|(node, _)| *node).filter(|node| !met(*node)).collect()
    }

    /// This node's disk holds data: no cluster is born with it.
    pub fn remember_a_past(&mut self) {
        self.has_a_past = true;
    }

    /// Whether it does.
    pub fn has_a_past(&self) -> bool {
        self.has_a_past
    }

    /// A membership is known.
    pub fn end(&mut self) {
        self.living_cluster = None;
    }

    /// Greets everybody, now and then; whether it did.
    pub fn greet(&mut self, now: Nanos, desk: &mut Desk) -> bool {
        let due = now >= self.hello_at;
        if due {
            self.hello_at = now + HELLO_EVERY;
            for peer in desk.peers() {
                desk.send(peer.node, ControlMessage::Hello { born: self.has_a_past });
            }
        }
        due
    }

    /// When to greet again.
    pub fn next_at(&self) -> Nanos {
        self.hello_at
    }

    /// What a node without a membership waits for, in words.
    pub fn what_is_missing(&self, desk: &Desk) -> String {
        if let Some(peer) = self.living_cluster {
            let node = peer.0;
            return format!(
                "waiting for the leader of the living cluster that node {node} knows of; if node {node} says that it has lost what it had, its word \
                 is what helps"
            );
        }
        if self.forgot {
            return "waiting for a node of its cluster that still has the data: this node has lost what it had, and founds no other one. If no \
                    node has them, restore a backup, or move the folders of all away; if this cluster was never born (no node of it ever \
                    served), this node's folder is enough: move it away, and start the node again"
                .into();
        }
        let missing: Vec<String> = self.missing(desk).iter().map(|node| format!("node {}", node.0)).collect();
        format!(
            "waiting for {}: a new cluster forms once all its nodes are up; a living one is joined as soon as one of its nodes is reached",
            if missing.is_empty() { "word of the first meeting".into() } else { missing.join(" and ") }
        )
    }
}
