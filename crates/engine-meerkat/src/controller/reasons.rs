//! Whether a change of epoch is wanted, and who takes part from then on.

use std::sync::atomic::Ordering;

use highwater_core::{Durability, Epoch, Incarnation, NodeId};
use highwater_kit::validation::own::bit;
use highwater_seam::Nanos;

use super::{MeerkatController, Peer};
use crate::change::{Change, Life, Members};
use crate::control::{Beat, Standing};

/// For so many timeouts a voter that is not heard stays one where disks may be behind.
const MOST_SILENCE: u64 = 6;

/// A learner that lagged, or was not heard, is let go: others keep outcomes for it. It is taken in again after so many timeouts, doubled each time
/// until it has voted, up to this many times: each is a change of epoch, which stops all that is under way.
const MOST_DOUBLED: u32 = 10;
/// Twice as long by so many times if it was heard all along: it hears no outcomes, and will not by tomorrow.
const LAGS: u32 = 3;

/// See [`MOST_DOUBLED`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Barred {
    life: Incarnation,
    times: u32,
    until: Nanos,
}

#[cfg(test)]
impl Barred {
    pub(super) fn times(&self) -> u32 {
        self.times
    }
}

impl MeerkatController {
    /// Whether a life of a node is over. Who is only silent stays: to lose its vote would leave fewer that may fail.
    fn is_over(&self, (node, life): (NodeId, Incarnation)) -> bool {
        if node == self.me {
            return life != self.life;
        }
        // Who has a disk comes back with the same life.
        let has_disk = self.shared.options.durability.has_disk();
        self.peers[node.0 as usize].is_some_and(|peer| match peer.life == life {
            true => peer.refused && !has_disk,
            false => peer.named != Some(life),
        })
    }

    /// Notes down whom this change lets go, before it takes effect, and who votes again.
    pub(super) fn bar(&mut self, now: Nanos, change: &Change) {
        let before = self.members.as_ref().map(|members| members.learners.clone()).unwrap_or_default();
        for (node, life) in before.into_iter().filter(|who| !change.members.has(*who)) {
            let (own, heard, timeout) = (node == self.me, self.hears(now, node), self.timeout());
            let barred = &mut self.barred[node.0 as usize];
            if barred.life != life {
                *barred = Barred { life, ..Barred::default() };
            }
            barred.times = (barred.times + if heard || own { LAGS } else { 1 }).min(MOST_DOUBLED);
            barred.until = now + (timeout << barred.times);
        }
        for (node, _) in &change.members.voters {
            self.barred[node.0 as usize] = Barred::default();
        }
    }

    /// A node that votes from this change on was seen by whoever led it to hold the state in the epoch before. This node may have heard it last while it was
    /// outside, or in another life, over a connection that stands still: that says nothing any more. Of changes that it has missed it does not know whom they
    /// took in.
    pub(super) fn credit(&mut self, now: Nanos, change: &Change) {
        for (node, life) in change.members.all().filter(|(node, _)| *node != self.me) {
            let hears = self.hears(now, node);
            if let Some(peer) = &mut self.peers[node.0 as usize]
                && peer.life != life
                && !hears
            {
                peer.named = Some(life);
            }
        }
        let missed = change.epoch != self.epoch.next();
        let before = self.members.as_ref().filter(|_| !missed);
        let anew = |who: &&Life| before.is_none_or(|members| !members.has_voter(**who));
        for (node, life) in change.members.voters.iter().filter(anew) {
            let Some(peer) = &mut self.peers[node.0 as usize] else { continue };
            let named = peer.named == Some(*life);
            if *node != self.me && (named || peer.life == *life && peer.beat.epoch < change.epoch) {
                let epoch = peer.beat.epoch.max(Epoch(change.epoch.0 - 1));
                // One that has not been heard says nothing of its memory.
                let unheard = named || peer.beat == Beat::default();
                let room = if unheard { u64::MAX } else { peer.beat.room };
                peer.beat = Beat { epoch, standing: Standing::Ready, room, ..peer.beat };
            }
        }
    }

    fn is_barred(&self, now: Nanos, (node, life): (NodeId, Incarnation)) -> bool {
        let barred = self.barred[node.0 as usize];
        barred.life == life && now < barred.until
    }

    /// Those for whom too many outcomes are kept: a bit each.
    fn laggards(&self) -> u32 {
        let cells = self.shared.cells.iter().map(|cell| cell.laggard.load(Ordering::Relaxed));
        cells.filter(|node| *node > 0).fold(0, |all, node| all | 1 << (node - 1))
    }

    /// Whether a node is gone that others have to have heard before anything is closed: where disks may have to be cut there
    /// ([`forgot`](super::forgot)), what is not closed may be lost. It would have to copy the state in any case, if it crashed.
    fn holds_up_the_cut(&self, now: Nanos, node: NodeId) -> bool {
        // Who was never heard may be about to start, as this node was.
        let never = Peer { heard: self.woke.unwrap_or(now), ..Peer::default() };
        let peer = self.peers[node.0 as usize].unwrap_or(never);
        let silent = peer.refused || now.saturating_sub(peer.heard) > MOST_SILENCE * self.timeout();
        self.shared.options.durability == Durability::Async && silent && !self.hears(now, node)
    }

    /// Who takes part in the next epoch, if these promised it.
    pub(super) fn members_to_be(&self, now: Nanos, promised: &[NodeId]) -> Members {
        let Some(members) = &self.members else { return Members::default() };
        let laggards = self.laggards();
        // Also who is so far behind that it will be.
        let outside = |node: NodeId| {
            // Whoever was never heard is silent, and no more.
            if node != self.me && self.peers[node.0 as usize].is_none() {
                return false;
            }
            let beat = self.beat_of(node);
            beat.standing == Standing::Outside || !self.leads_on_from(beat.epoch)
        };
        let over = |who: &(NodeId, Incarnation)| !promised.contains(&who.0) && self.is_over(*who);
        let stays = |who: &(NodeId, Incarnation)| !outside(who.0) && !over(who);
        let lags = |who: &(NodeId, Incarnation)| {
            who.0 != self.me && (laggards & bit(who.0) != 0 || self.holds_up_the_cut(now, who.0))
        };
        let mut voters: Vec<_> = members.voters.iter().copied().filter(stays).collect();
        // Outcomes are kept for learners, too: one that does not hear them would have every coordinator refuse everything.
        let learns = |who: &&(NodeId, Incarnation)| {
            let here = self.life_of(who.0) == Some(who.1) && self.hears(now, who.0);
            here && !outside(who.0) && (who.0 == self.me || laggards & bit(who.0) == 0)
        };
        let ready = |who: &(NodeId, Incarnation)| {
            let beat = self.beat_of(who.0);
            beat.standing == Standing::Ready && beat.epoch == self.epoch
        };
        let learners = members.learners.iter().filter(learns).copied();
        let (ready, mut learners): (Vec<_>, Vec<_>) = learners.partition(|who| ready(who));
        voters.extend(ready);
        // Outcomes are kept for a voter as long as others would be too few for anything to be decided.
        let prompt = voters.iter().filter(|who| !lags(who)).count();
        if prompt >= self.shared.quorums.majority as usize {
            voters.retain(|who| !lags(who));
        }
        for node in self.nodes() {
            let Some(life) = self.life_of(node) else { continue };
            let standing = self.beat_of(node).standing;
            let wants = matches!(standing, Standing::Outside | Standing::Unborn) && self.hears(now, node);
            let taken = voters.iter().chain(&learners).any(|(known, _)| *known == node);
            if wants && !taken && !self.is_barred(now, (node, life)) {
                learners.push((node, life));
            }
        }
        let named = |node: NodeId| voters.iter().chain(&learners).any(|(known, _)| *known == node);
        let mut silent: Vec<_> = members.all().filter(|who| !named(who.0) && !over(who)).collect();
        [&mut voters, &mut learners, &mut silent].into_iter().for_each(|of| of.sort_unstable());
        Members { voters, learners, silent }
    }

    /// Why a change is wanted, if one is.
    fn reason(&self, now: Nanos) -> Option<&'static str> {
        let members = self.members.as_ref()?;
        let to_be = self.members_to_be(now, &[self.me]);
        if to_be != *members && !to_be.voters.is_empty() {
            return Some("who takes part changes");
        }
        // One that came back without what it had copied: it begins to learn with an epoch.
        let anew = |who: &(NodeId, Incarnation)| {
            let beat = self.beat_of(who.0);
            let outside = beat.standing == Standing::Outside && beat.epoch == self.epoch;
            outside && self.life_of(who.0) == Some(who.1) && self.hears(now, who.0)
        };
        if members.learners.iter().any(anew) && !to_be.voters.is_empty() {
            return Some("a learner begins anew");
        }
        let stuck = self.shared.cells.iter().any(|cell| cell.stuck.load(Ordering::Relaxed));
        stuck.then_some("a transaction cannot be settled otherwise")
    }

    /// Whether this node should do something about the epoch.
    pub(super) fn watch(&mut self, now: Nanos) {
        self.drive(now);
        if self.attempt.is_some() || !self.is_cleared() {
            return;
        }
        if self.epoch == Epoch(0) {
            return self.watch_birth(now);
        }
        if !self.has_say() {
            return;
        }
        // The first of those who are heard goes first, and voters before others.
        let voters = self.members.iter().flat_map(|members| &members.voters);
        let before = |node: NodeId| node < self.me || !self.is_voter();
        let rank = voters.filter(|(node, _)| before(*node) && self.hears(now, *node)).count() as u64;
        let rank = if self.is_voter() { rank } else { rank + u64::from(self.me.0) + 1 };
        let paused = self.paused.is_some();
        let reason = match paused {
            true if self.keeping.came_back => Some("it came back with its disk"),
            true => Some("an attempt came to nothing"),
            false => self.reason(now),
        };
        let Some(why) = reason else {
            self.wanted = None;
            return;
        };
        let wanted = *self.wanted.get_or_insert(now);
        let (wait, since) = if paused && !(self.keeping.came_back && self.failed == 0) {
            // Whoever leads it may be slow, and its wire.
            ((self.timeout() * (3 + rank)) << self.tries(), self.stirred)
        } else {
            (self.heartbeat() * (1 + 4 * rank), wanted.max(self.stirred))
        };
        if now >= since + wait && self.heard_with_say(now) >= self.shared.quorums.majority {
            let jitter = self.random.below(self.heartbeat().max(1));
            self.wanted = Some(now + jitter);
            self.begin_attempt(now, why);
        }
    }

    fn heard_with_say(&self, now: Nanos) -> u32 {
        let all = self.members.iter().flat_map(|members| members.all());
        all.filter(|(node, life)| self.life_of(*node) == Some(*life) && self.hears(now, *node)).count() as u32
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
