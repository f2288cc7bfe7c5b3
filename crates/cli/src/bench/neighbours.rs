//! Processes beside an engine that is measured alone, so that it has the same company as a leader.
//!
//! A leader shares its machine with followers: in a benchmark on one machine they take turns on its cores and hold lines of the
//! cache. An engine alone that has all of that to itself is faster for a reason that has nothing to do with the protocol. So it
//! gets two neighbours: engines alone themselves, with the same data, which run the same workload just often enough to use as much
//! CPU time as a follower did. What they do differs (they execute, and nothing comes over a socket); what they take of the
//! machine is the same, and the report says how much.

use std::time::Instant;

use highwater_engines::EngineKind;
use highwater_node::admin::protocol::WorkloadSpec;
use serde::Serialize;

use super::args::RunArgs;
use super::report::RunReport;
use crate::audit::Generators;
use crate::failure::{Failure, Result};
use crate::fleet::{Fleet, FleetSpec};
use crate::load::LoadSpec;
use crate::numbers::ratio;
use crate::progress::Progress;

/// As many as a leader of three replicas has followers.
const NEIGHBOURS: usize = 2;
/// A rate is corrected to within these factors at a time: what a busy machine did to one round says little.
const CORRECTION: (f64, f64) = (0.5, 2.0);

/// How much company an engine is to have.
#[derive(Clone, Copy, Debug)]
pub struct Company {
    /// The part of a core that each neighbour is to take.
    wanted: f64,
    /// Transactions per second of each neighbour.
    rate: f64,
}

/// What the neighbours of a run were.
#[derive(Clone, Debug, Serialize)]
pub struct NeighbourReport {
    /// The part of a core that each was meant to take: what a follower took.
    pub wanted_share: f64,
    /// The part of a core that each took.
    pub shares: Vec<f64>,
    /// Transactions per second of each.
    pub rate: f64,
}

impl Company {
    /// Company like that of a leader's followers. An engine alone, run slowly, costs about as much for each transaction as a leader.
    pub fn like_followers_of(rolis: &RunReport) -> Company {
        let followers = &rolis.cpu_seconds.followers;
        let cpu = followers.iter().sum::<f64>() / followers.len().max(1) as f64;
        let wanted = cpu / rolis.seconds.max(0.001);
        Company { wanted, rate: (wanted * rolis.transactions_per_leader_cpu_second).max(1.0) }
    }

    /// After a round: the rate that would have met what is wanted.
    pub fn learn(&mut self, round: Option<&NeighbourReport>) {
        let Some(round) = round else { return };
        let took = round.shares.iter().sum::<f64>() / round.shares.len().max(1) as f64;
        if let Some(correction) = ratio(self.wanted, took) {
            self.rate = round.rate * correction.clamp(CORRECTION.0, CORRECTION.1);
        }
    }
}

/// Neighbours at work.
pub struct Neighbours {
    fleets: Vec<Fleet>,
    company: Company,
    /// When they were looked at, and the CPU time that each had used then.
    since: (Instant, Vec<u64>),
}

impl Neighbours {
    /// Starts, loads and sets to work; returns when all are at it.
    pub fn start(
        company: Company,
        args: &RunArgs,
        workload: &WorkloadSpec,
        progress: &mut Progress,
    ) -> Result<Neighbours> {
        progress.step("neighbours: loading");
        EngineKind::Silo.built().map_err(Failure::cannot_start)?;
        let spec = FleetSpec::of(EngineKind::Silo, 1, args.workers, &args.set, args.keep);
        let mut fleets = Vec::new();
        for _ in 0..NEIGHBOURS {
            let fleet = Fleet::start(&spec)?;
            let leader = fleet.wait_for_leader()?;
            let mut admin = fleet.admin(leader)?;
            admin.load(workload, |_, _| {}).map_err(|error| admin.failure(error))?;
            fleets.push(fleet);
        }
        for (seed, fleet) in (args.seed + 1..).zip(&fleets) {
            let load = LoadSpec {
                workload: workload.clone(),
                workers: args.workers,
                in_flight: args.depth(),
                rate: Some(company.rate),
                seed,
                audit_every: 0,
            };
            load.start_on(fleet, 0, &mut Generators::default())?;
        }
        Ok(Neighbours { since: (Instant::now(), cpu_ns(&fleets)?), fleets, company })
    }

    /// What is measured begins.
    pub fn begin(&mut self) -> Result<()> {
        self.since = (Instant::now(), cpu_ns(&self.fleets)?);
        Ok(())
    }

    /// What they took since then.
    pub fn report(&self) -> Result<NeighbourReport> {
        let (began, before) = &self.since;
        let seconds = began.elapsed().as_secs_f64().max(0.001);
        let now = cpu_ns(&self.fleets)?;
        let shares = now.iter().zip(before).map(|(now, before)| (now - before) as f64 / 1e9 / seconds);
        let Company { wanted, rate } = self.company;
        Ok(NeighbourReport { wanted_share: wanted, shares: shares.collect(), rate })
    }
}

fn cpu_ns(fleets: &[Fleet]) -> Result<Vec<u64>> {
    let each = fleets.iter().map(|fleet| Ok(fleet.all_statuses()?[0].cpu_ns));
    each.collect()
}
