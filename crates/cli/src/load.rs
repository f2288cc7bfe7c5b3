//! Loads inside the replicas' workers: what to run, starting it everywhere at once, and what came of it.

use highwater_node::admin::protocol::{AdminRequest, LoadReport, WorkloadSpec};

use crate::admin::AdminClient;
use crate::audit::{Acknowledged, Generators};
use crate::failure::Result;
use crate::fleet::Fleet;

/// A load, as every replica of a fleet is told.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    /// What to run.
    pub workload: WorkloadSpec,
    /// Workers per replica.
    pub workers: u16,
    /// Unreleased transactions per worker, at most.
    pub in_flight: u32,
    /// Transactions per second over all workers of a replica; as fast as possible if absent.
    pub rate: Option<f64>,
    /// Seed of the request streams.
    pub seed: u64,
    /// Every n-th request writes an audit row; 0 for none.
    pub audit_every: u32,
}

impl LoadSpec {
    /// The same, for replicas that all run it at once if nobody leads: together they keep to the rate.
    pub fn shared_by(mut self, fleet: &Fleet) -> LoadSpec {
        if fleet.engine().abilities().leaderless {
            self.rate = self.rate.map(|rate| rate / fleet.len() as f64);
        }
        self
    }

    /// Starts the load on one replica. One that does not lead begins by itself when it does: so nobody has to notice
    /// a failover for the load to go on.
    pub fn start_on(&self, fleet: &Fleet, node: usize, generators: &mut Generators) -> Result<()> {
        let audit_base = generators.take(self.workers);
        let request = AdminRequest::Run {
            workload: self.workload.clone(),
            in_flight: self.in_flight,
            rate: self.rate,
            seed: self.seed.wrapping_add(u64::from(audit_base)),
            audit_every: self.audit_every,
            audit_base,
        };
        let mut admin = fleet.admin(node)?;
        admin.request(&request).map_err(|error| admin.failure(error))
    }

    /// Before a kill: starts it once more on all replicas but the leader, so that counts and schedule (with a fixed rate) begin at
    /// zero, whatever they did before. Where nobody leads the others run it already, and are not interrupted.
    pub fn prepare_kill(&self, fleet: &Fleet, leader: usize, generators: &mut Generators) -> Result<()> {
        match fleet.engine().abilities().leaderless {
            true => Ok(()),
            false => self.start_on_others(fleet, leader, generators),
        }
    }

    /// Starts it on all replicas but the leader, where it waits.
    fn start_on_others(&self, fleet: &Fleet, leader: usize, generators: &mut Generators) -> Result<()> {
        let mut others = (0..fleet.len()).filter(|node| *node != leader);
        others.try_for_each(|node| self.start_on(fleet, node, generators))
    }

    /// Starts it on all replicas; on the leader last, so that the others are ready before anything can happen to it.
    pub fn start_everywhere(&self, fleet: &Fleet, leader: usize, generators: &mut Generators) -> Result<()> {
        self.start_on_others(fleet, leader, generators)?;
        self.start_on(fleet, leader, generators)
    }
}

/// Adds what every living replica acknowledged so far.
pub fn collect_acknowledged(fleet: &Fleet, acknowledged: &mut Acknowledged) {
    for node in 0..fleet.len() {
        if let Ok(report) = fleet.admin(node).and_then(|mut admin| stats(&mut admin)) {
            acknowledged.add(&report);
        }
    }
}

/// Stops the load on all replicas and adds all that they acknowledged.
pub fn stop_everywhere(fleet: &Fleet, acknowledged: &mut Acknowledged) -> Result<()> {
    for node in 0..fleet.len() {
        let mut admin = fleet.admin(node)?;
        acknowledged.add(&stats(&mut admin)?);
        acknowledged.add(&admin.stop().map_err(|error| admin.failure(error))?);
    }
    Ok(())
}

/// Counts of the replica's running (or last) load.
pub fn stats(admin: &mut AdminClient) -> Result<LoadReport> {
    admin.load_stats().map_err(|error| admin.failure(error))
}
