//! Whether a change of epoch is wanted, and who takes part from then on.

use std::sync::atomic::Ordering;

use highwater_core::{Epoch, Incarnation, NodeId};

use super::MeerkatController;
use crate::meerkat::change::Members;
use crate::meerkat::control::Standing;
use crate::meerkat::own::bit;
use crate::seam::Nanos;

impl MeerkatController {
    /// Whether a life of a node is over. Who is only silent stays: to lose its vote would leave fewer that may fail.
    fn is_over(&self, (node, life): (NodeId, Incarnation)) -> bool {
        if node == self.me {
            return life != self.life;
        }
        self.peers[node.0 as usize].is_some_and(|peer| peer.life != life || peer.refused)
    }

    /// Voters for whom too many outcomes are kept: a bit each.
    fn laggards(&self) -> u32 {
        let cells = self.shared.cells.iter().map(|cell| cell.laggard.load(Ordering::Relaxed));
        cells.filter(|node| *node > 0).fold(0, |all, node| all | 1 << (node - 1))
    }

    /// Who takes part in the next epoch, if these promised it.
    pub(super) fn members_to_be(&self, now: Nanos, promised: &[NodeId]) -> Members {
        let Some(members) = &self.members else { return Members::default() };
        let laggards = self.laggards();
        // Also who is so far behind that it will be.
        let outside = |node: NodeId| {
            let beat = self.beat_of(node);
            beat.standing == Standing::Outside || !self.leads_on_from(beat.epoch)
        };
        let stays = |who: &(NodeId, Incarnation)| {
            let lags = laggards & bit(who.0) != 0 && who.0 != self.me;
            promised.contains(&who.0) && !lags || !(self.is_over(*who) || lags || outside(who.0))
        };
        let mut voters: Vec<_> = members.voters.iter().copied().filter(stays).collect();
        let learns = |who: &&(NodeId, Incarnation)| {
            self.life_of(who.0) == Some(who.1) && self.hears(now, who.0) && !outside(who.0)
        };
        let ready = |who: &(NodeId, Incarnation)| {
            let beat = self.beat_of(who.0);
            beat.standing == Standing::Ready && beat.epoch == self.epoch
        };
        let learners = members.learners.iter().filter(learns).copied();
        let (ready, mut learners): (Vec<_>, Vec<_>) = learners.partition(|who| ready(who));
        voters.extend(ready);
        for node in self.others() {
            let Some(life) = self.life_of(node) else { continue };
            let standing = self.beat_of(node).standing;
            let wants = matches!(standing, Standing::Outside | Standing::Unborn) && self.hears(now, node);
            let taken = voters.iter().chain(&learners).any(|(known, _)| *known == node);
            if wants && !taken {
                learners.push((node, life));
            }
        }
        if (voters.len() as u32) < self.shared.quorums.majority {
            // Too few for anything to be decided: nobody leaves.
            let back = members.voters.iter().copied();
            voters.extend(back.filter(|(node, life)| self.life_of(*node) == Some(*life) && !outside(*node)));
            voters.sort_unstable();
            voters.dedup();
            learners.retain(|who| !voters.contains(who));
        }
        voters.sort_unstable();
        learners.sort_unstable();
        Members { voters, learners }
    }

    /// Why a change is wanted, if one is.
    fn reason(&self, now: Nanos) -> Option<&'static str> {
        let members = self.members.as_ref()?;
        let to_be = self.members_to_be(now, &[self.me]);
        if to_be != *members && (to_be.voters.len() as u32) >= self.shared.quorums.majority {
            return Some("who takes part changes");
        }
        let stuck = self.shared.cells.iter().any(|cell| cell.stuck.load(Ordering::Relaxed));
        stuck.then_some("a transaction cannot be settled otherwise")
    }

    /// Whether this node should do something about the epoch.
    pub(super) fn watch(&mut self, now: Nanos) {
        self.drive(now);
        if self.attempt.is_some() {
            return;
        }
        if self.epoch == Epoch(0) {
            return self.watch_birth(now);
        }
        if !self.is_voter() {
            return;
        }
        // The first of those who are heard goes first.
        let voters = self.members.iter().flat_map(|members| &members.voters);
        let rank = voters.filter(|(node, _)| *node < self.me && self.hears(now, *node)).count() as u64;
        let paused = self.paused.is_some();
        let reason = if paused { Some("an attempt came to nothing") } else { self.reason(now) };
        let Some(why) = reason else {
            self.wanted = None;
            return;
        };
        let wanted = *self.wanted.get_or_insert(now);
        let (wait, since) = if paused {
            // Whoever leads it may be slow, and its wire.
            ((self.timeout() * (3 + rank)) << self.failed.min(4), self.stirred)
        } else {
            (self.heartbeat() * (1 + 4 * rank), wanted.max(self.stirred))
        };
        if now >= since + wait && self.heard_voters(now) >= self.shared.quorums.majority {
            let jitter = self.random.below(self.heartbeat().max(1));
            self.wanted = Some(now + jitter);
            self.begin_attempt(now, why);
        }
    }

    fn heard_voters(&self, now: Nanos) -> u32 {
        let voters = self.members.iter().flat_map(|members| &members.voters);
        voters.filter(|(node, _)| self.hears(now, *node)).count() as u32
    }

    /// The first node bears the cluster, once all are there and none knows of one; if somebody may know, any of those goes on.
    fn watch_birth(&mut self, now: Nanos) {
        let known = self.nodes().all(|node| self.hears(now, node));
        let unborn = |node: &NodeId| {
            let beat = self.beat_of(*node);
            beat.epoch == Epoch(0) && matches!(beat.standing, Standing::Unborn | Standing::Bearing)
        };
        let all_unborn = known && self.nodes().all(|node| unborn(&node));
        let first = self.me == NodeId(0);
        let bears = self.accepted.is_some() && self.heard(now).count_ones() >= self.shared.quorums.majority;
        let wait =
            if bears && !first { self.timeout() * (3 + u64::from(self.me.0)) } else { self.heartbeat() };
        let due = now >= self.stirred + wait;
        if due && (all_unborn && (first || self.standing == Standing::Bearing) || bears) {
            self.begin_attempt(now, "the cluster is born");
        }
    }
}
