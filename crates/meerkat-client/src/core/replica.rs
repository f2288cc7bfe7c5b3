//! What is known of replicas, and which one is home.

use highwater_core::{Epoch, NodeId};
use highwater_meerkat_wire::Standing;

use super::Core;

/// A replica as this client knows it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replica {
    /// Its connection is up.
    pub up: bool,
    /// How it stood when it said so last, over this connection.
    pub standing: Option<Standing>,
}

impl Replica {
    /// It reads, validates and grants stamps.
    pub fn serves(&self) -> bool {
        self.up && self.standing.is_some_and(|standing| standing.serves)
    }

    /// The epoch in which it serves, if it does.
    pub fn serves_in(&self) -> Option<Epoch> {
        self.standing.filter(|_| self.serves()).map(|standing| standing.epoch)
    }
}

/// A bit of a set of nodes.
pub(super) fn bit(node: NodeId) -> u32 {
    1 << node.0
}

impl Core {
    /// The latest epoch in which somebody serves.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.replicas.iter().filter_map(Replica::serves_in).max()
    }

    /// Who serves in an epoch: a bit each.
    pub(super) fn serving_in(&self, epoch: Epoch) -> u32 {
        self.nodes()
            .filter(|node| self.replica(*node).serves_in() == Some(epoch))
            .fold(0, |all, node| all | bit(node))
    }

    /// Of whom a vote may come: who serves in an epoch, and who is connected and has not said how it stands.
    pub(super) fn may_vote_in(&self, epoch: Epoch) -> u32 {
        let new = |replica: &Replica| replica.up && replica.standing.is_none();
        let silent = self.nodes().filter(|node| new(self.replica(*node)));
        silent.fold(self.serving_in(epoch), |all, node| all | bit(node))
    }

    pub(super) fn replica(&self, node: NodeId) -> &Replica {
        &self.replicas[usize::from(node.0)]
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.settings.nodes).map(NodeId)
    }

    /// The home: it stays the same as long as it serves in the latest epoch.
    pub(super) fn choose_home(&mut self) -> Option<NodeId> {
        let epoch = self.epoch()?;
        let fit = self.serving_in(epoch);
        if let Some(home) = self.home.filter(|home| fit & bit(*home) != 0) {
            return Some(home);
        }
        let fit: Vec<NodeId> = self.nodes().filter(|node| fit & bit(*node) != 0).collect();
        self.home = Some(fit[self.random.below(fit.len() as u64) as usize]);
        self.asked_stamp = None;
        self.home
    }

    /// Another one than this, next time: it does not answer, or is full.
    pub(super) fn leave_home(&mut self) {
        let Some(home) = self.home.take() else { return };
        self.asked_stamp = None;
        let Some(epoch) = self.epoch() else { return };
        let others = self.serving_in(epoch) & !bit(home);
        let others: Vec<NodeId> = self.nodes().filter(|node| others & bit(*node) != 0).collect();
        if !others.is_empty() {
            self.home = Some(others[self.random.below(others.len() as u64) as usize]);
        }
    }
}
