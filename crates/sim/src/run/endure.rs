//! Whoever owes service serves, on each of its workers: while faults happen, and beside those that last.
//!
//! While some worker's number serves nobody for half the bound, or at the end of the first stage, requests are sent to whoever believes to
//! lead, so that nobody can say that nobody asked.

use highwater_core::NodeId;
use highwater_seam::Nanos;

use super::failure::{FailureKind, Verdict};
use super::stages::Run;
use crate::house::House;
use crate::stage::Buggify;
use crate::units::MS;

/// What is said of a majority that does not serve.
const OWED: &str = "a connected majority with complete stores serves";

impl<H: House> Run<H> {
    /// Within this time of virtual time a majority that owes service serves; healed clusters get as much.
    pub(super) fn bound(&self) -> Nanos {
        3000 * MS + 100 * self.plan.settings.election_timeout
    }

    /// Looks now and then whether somebody owes service for too long.
    pub(super) fn watch_service(&mut self) -> Result<(), Verdict> {
        let now = self.world.now;
        if now < self.duty.next_look {
            return Ok(());
        }
        self.duty.next_look = now + self.plan.settings.election_timeout;
        let Some(since) = self.duty.owed(&self.world, &self.hand) else { return Ok(()) };
        let silent = now - since.max(self.clients.served_at()).min(now);
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
            "{OWED}: some worker has acknowledged nothing since {:.3} ms, though nothing changed since {:.3} ms",
            self.clients.served_at() as f64 / MS as f64,
            since as f64 / MS as f64
        );
        self.fail(FailureKind::Stuck(OWED), what)
    }

    /// Asks whoever believes to lead, one request for each worker.
    fn probe(&mut self) {
        let leads = |id: &NodeId| self.world.status(*id).is_some_and(|status| status.leads());
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
            match self.duty.owed(&self.world, &self.hand) {
                Some(since) if self.clients.served_at() > since.max(begin) => {
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
