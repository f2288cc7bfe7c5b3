//! The load that a replica puts on itself: as in the papers, generators run inside the leader's workers.
//!
//! Each worker has a [`Driver`]: it draws requests from a workload's generator, submits them to the worker's engine
//! within a budget of depth (closed loop) or of rate (open loop), and counts what is released. A [`Loader`] does the
//! same for the population of the database. Nothing is shared between workers: the admin port collects their
//! [`WorkerStats`] by letter, and [`report`] adds them up.
//!
//! Latency runs from submission to release; with a fixed rate, from the time at which the request *should* have been
//! submitted, so that a stall is not forgiven to the requests that it held up. A load given to a replica that does not
//! lead starts its schedule when the replica does.

pub mod driver;
pub mod loader;
pub mod ranges;
pub mod report;
pub mod stats;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use highwater_workloads::Workload;

pub use driver::Driver;
pub use loader::Loader;
pub use stats::WorkerStats;

/// A load, for all workers of a replica.
pub struct RunSpec {
    /// What to ask for.
    pub workload: Arc<dyn Workload>,
    /// Unreleased transactions per worker, at most.
    pub in_flight: usize,
    /// Transactions per second of each worker; as fast as possible if absent.
    pub rate_per_worker: Option<f64>,
    /// Seed of the request streams.
    pub seed: u64,
    /// Every n-th request is an audit row. 0: none.
    pub audit_every: u32,
    /// Worker i's audit rows carry `audit_base + i`.
    pub audit_base: u32,
}

/// When a driver wants to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appetite {
    /// At once: only the budget of this turn is used up.
    Now,
    /// Not before this time.
    At(highwater_seam::Nanos),
    /// When something is released or changes.
    None,
}
