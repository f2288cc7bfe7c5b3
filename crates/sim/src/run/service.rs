//! Whether a majority that could serve does, whatever befalls the others.
//!
//! A set of replicas *owes service* since a moment if from then on, all the time:
//! - they are more than half of all, each votes with a complete store by every account that counts ([`sound`]);
//! - each has been told of the cluster's birth;
//! - each is up, not paused, and every thread of it gets its turns at its usual pace;
//! - frames flow between each two of them, in both directions and on every connection;
//! - whatever goes on beside does not change: no fault begins or ends, nothing passes (a pause, flapping connections, a
//!   burst), and frames do not take many times as long.
//!
//! The others may be dead, stuck, slow, or cut off from some and heard by others; one of them may lead. Within
//! [`bound`](Run::bound) some transaction must be acknowledged. That bound is the one that a healed cluster gets in the
//! second stage, for the same reasons: an election that fails (candidates at the same time, an interrupted worker, a
//! frame of the long tail) is followed by another one within two election timeouts at the machine's own rate, a takeover
//! that cannot end is given up after ten, and each of some tens of attempts succeeds with a chance of far more than a
//! half. What is outside cannot take part in more elections than one per timeout either.
//!
//! While nobody is served for half the bound, or at the end of the first stage, requests are sent to whoever believes to
//! lead, so that nobody can say that nobody asked.

use highwater_core::NodeId;
use highwater_engines::Nanos;

use super::{FailureKind, MS, Run, Verdict};
use crate::faults::{Hand, sound};
use crate::library::SimLibrary;
use crate::network::Channel;
use crate::stage::Buggify;
use crate::world::World;

/// What is said of a majority that does not serve.
pub(super) const OWED: &str = "a connected majority with complete stores serves";

/// Since when a majority owes service.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// What the hand had done then.
    changes: u64,
    since: Nanos,
    /// Who was sound and well at every look since: a bit each.
    fit: u8,
    next_look: Nanos,
}

impl Service {
    /// Since when somebody owes service, if anybody does.
    fn owed(&mut self, world: &World<SimLibrary>, hand: &Hand) -> Option<Nanos> {
        // Who was never told that the cluster is born must not believe so: only those who know can serve.
        let knows = |id: &NodeId| world.status(*id).is_some_and(|status| !status.members.is_empty());
        let fit =
            sound(world).filter(|id| world.is_well(*id)).filter(knows).fold(0, |fit, id| fit | 1 << id.0);
        let same = hand.changes == self.changes && !hand.is_restless();
        if !same || majority(world, self.fit & fit).is_none() {
            (self.changes, self.since, self.fit) = (hand.changes, world.now, fit);
        }
        self.fit &= fit;
        let owed = !hand.is_restless() && majority(world, self.fit).is_some();
        owed.then_some(self.since)
    }
}

/// More than half of all replicas, from among `fit`, that hear each other.
fn majority(world: &World<SimLibrary>, fit: u8) -> Option<u8> {
    let ids: Vec<NodeId> = world.ids().collect();
    let hears = |a: NodeId, b: NodeId| a == b || world.hear_each_other(a, b);
    let has = |set: u8, id: NodeId| set >> id.0 & 1 == 1;
    (1..1u16 << ids.len()).map(|set| set as u8).find(|set| {
        let inside = || ids.iter().copied().filter(|id| has(*set, *id));
        set & !fit == 0
            && set.count_ones() as usize > ids.len() / 2
            && inside().all(|a| inside().all(|b| hears(a, b)))
    })
}

impl World<SimLibrary> {
    fn hear_each_other(&self, a: NodeId, b: NodeId) -> bool {
        self.channels()
            .all(|channel: Channel| self.network.flows(a, b, channel) && self.network.flows(b, a, channel))
    }
}

impl Run {
    /// Within this time of virtual time a majority that owes service serves; healed clusters get as much.
    pub(super) fn bound(&self) -> Nanos {
        3000 * MS + 100 * self.plan.settings.election_timeout
    }

    /// Looks now and then whether somebody owes service for too long.
    pub(super) fn watch_service(&mut self) -> Result<(), Verdict> {
        let now = self.world.now;
        if now < self.service.next_look {
            return Ok(());
        }
        self.service.next_look = now + self.plan.settings.election_timeout;
        let Some(since) = self.service.owed(&self.world, &self.hand) else { return Ok(()) };
        let silent = now - since.max(self.clients.served_at).min(now);
        if silent > self.bound() {
            return self.owe(since);
        }
        if silent > self.bound() / 2 {
            self.probe();
        }
        Ok(())
    }

    fn owe(&self, since: Nanos) -> Result<(), Verdict> {
        let what = format!(
            "{OWED}: nothing acknowledged since {:.3} ms, though nothing changed since {:.3} ms",
            self.clients.served_at as f64 / MS as f64,
            since as f64 / MS as f64
        );
        self.fail(FailureKind::Stuck(OWED), what)
    }

    /// Asks whoever believes to lead, one request for each worker.
    fn probe(&mut self) {
        let leads = |id: &NodeId| self.world.status(*id).is_some_and(|status| status.serves());
        let leaders: Vec<NodeId> = self.world.ids().filter(leads).collect();
        for leader in leaders {
            let probes = self.clients.probes();
            self.clients.request(self.world.now, leader, &probes);
        }
    }

    /// The end of the first stage, if faults were to last: chance rests, the faults stay. A majority that they leave must
    /// serve.
    pub(super) fn endure(&mut self) -> Result<(), Verdict> {
        self.clients.stop();
        self.hand.stop();
        if !self.hand.has_lasting() {
            return Ok(());
        }
        self.world.buggify(Buggify::default());
        self.world.network.faults.datagrams = None;
        let (begin, timeout) = (self.world.now, self.plan.settings.election_timeout);
        let mut waits_until = begin + 4 * timeout;
        while self.world.now < self.end {
            if self.hand.is_restless() {
                waits_until = self.world.now + 4 * timeout;
            }
            match self.service.owed(&self.world, &self.hand) {
                Some(since) if self.clients.served_at > since.max(begin) => {
                    self.world.mark("majorities that served beside faults that last");
                    break;
                }
                Some(since) if self.world.now > since.max(begin) + self.bound() => return self.owe(since),
                None if self.world.now > waits_until => break,
                _ => {}
            }
            self.probe();
            self.advance(self.world.now + timeout / 4)?;
        }
        Ok(())
    }
}
