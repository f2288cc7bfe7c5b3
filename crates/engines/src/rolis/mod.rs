//! Rolis (EuroSys '22): execute speculatively on the leader, replicate through one Paxos stream per core, release and
//! replay below a watermark.
//!
//! # The story
//!
//! The leader's worker *i* runs a transaction on the local store as if there were no replication. The write set goes into
//! the open entry of stream *i*; the reply waits. Entries are decided by majorities, stream by stream, without any order
//! among streams. The **watermark** ([`watermark`]) tells up to which timestamp nothing can be missing in any stream: the
//! leader releases replies at or below it, followers install transactions at or below it.
//!
//! | where | what |
//! |---|---|
//! | [`worker`] | a worker: joins the next four, dispatches |
//! | [`lead`] | execute, release |
//! | [`seal`] | hand entries out |
//! | [`apply`] | look at decided entries, install what is safe |
//! | [`copy`] | send and receive state |
//! | [`pending`] | replies that wait for the mark |
//! | [`snapshots`], [`horizon`], [`reads`] | followers serve reads |
//! | [`controller`] | birth, change of membership; joins the rest |
//! | [`takeover`] | from a won election to an open epoch |
//! | [`rejoin`] | getting a store again |
//! | [`funnel`] | the strawman: all workers into one stream |
//! | [`ledger`] | what the nodes' stores may use |
//! | [`shared`], [`mailbox`] | mailboxes and atomics between them |
//! | [`wire`], [`control`] | what goes over the network |
//!
//! # Invariants
//!
//! 1. *Released implies preserved.* A reply leaves at `ts <= mark`; the final mark of an epoch is at least every mark that
//!    its leader had; everything at or below the final mark is applied by everyone.
//! 2. *One granularity.* Release, replay and preservation compare the same timestamp of the same transaction with the
//!    same mark. (The paper compares entries by their last timestamp.)
//! 3. *Nothing above a final mark is ever applied.* Not by followers ([`apply`]), and the deposed leader rolls back what
//!    it executed above it, from before-images that it keeps until the mark passes them.
//! 4. *A follower's store after applying to R is the leader's at R*: timestamps order all conflicting transactions
//!    (read-write ones included: the timestamp is taken between locking and validation), and install-if-newer commutes.
//!
//! # Where we leave the paper
//!
//! - The timestamp is taken before validation, not after; read-only transactions and roll-backs wait for the mark, too.
//! - Entries seal themselves by the state of the pipeline, not at a fixed size.
//! - A silent stream is closed by other streams' claims, not by heartbeat transactions.
//! - Followers install directly on records, not through OCC transactions.
//! - Logs are trimmed; replicas that lost their memory, or fell behind what is kept, copy the state while load runs.

mod abilities;
pub mod apply;
mod checked;
pub mod control;
pub mod controller;
pub mod copy;
pub mod funnel;
pub mod health;
pub mod horizon;
pub mod lead;
pub mod ledger;
pub mod mailbox;
pub mod pending;
pub mod pulse;
pub mod reads;
pub mod rejoin;
pub mod seal;
pub mod shared;
#[cfg(test)]
mod skipped;
pub mod snapshots;
pub mod status;
pub mod takeover;
pub mod watermark;
pub mod wire;
pub mod worker;

use std::sync::Arc;

use highwater_core::{Clock, Library, Registry, Schema, StreamId};
use highwater_store::{Occ, SnapshotTx, Store};

use crate::engine::{Abilities, Engine};
use crate::memory::Account;
use crate::options::Options;
use crate::seam::{Controller, Counters, Replica, Status, Worker};
use controller::RolisController;
use funnel::{Funnel, FunnelWorker};
use shared::Shared;
use worker::RolisWorker;

/// One stream per worker.
pub struct Rolis;

impl Engine for Rolis {
    const NAME: &'static str = "rolis";
    const CODE: u8 = 0;
    const ABOUT: &'static str =
        "speculate, replicate through one stream per worker, release below the watermark";
    const ABILITIES: Abilities = abilities::ABILITIES;

    fn build<L: Library>(options: Options, library: &L, clock: Arc<Clock>) -> Replica {
        let streams = options.workers;
        build_with(options, streams, library, clock)
    }

    fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
        status::converged(statuses, Self::serving(statuses))
    }

    fn lag(own: &Status, serving: &Status) -> Option<u64> {
        Some(status::lag(own, serving))
    }
}

/// As many workers, one stream.
pub struct Strawman;

impl Engine for Strawman {
    const NAME: &'static str = "strawman";
    const CODE: u8 = 2;
    const ABOUT: &'static str = "the same with one stream for all workers";
    /// Of its workers only the first knows a store, and all commit under one lock: while one that holds it stands still, so do all.
    const ABILITIES: Abilities = Abilities { snapshots: false, interruptible: false, ..Rolis::ABILITIES };

    fn build<L: Library>(options: Options, library: &L, clock: Arc<Clock>) -> Replica {
        build_with(options, 1, library, clock)
    }

    fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
        Rolis::converged(statuses)
    }

    fn lag(own: &Status, serving: &Status) -> Option<u64> {
        Rolis::lag(own, serving)
    }
}

fn build_with<L: Library>(options: Options, streams: u16, library: &L, clock: Arc<Clock>) -> Replica {
    let schema = Schema::new(library.tables());
    let store = Store::new(schema.clone());
    let mut registry: Registry<Occ> = Registry::new();
    library.register(&mut registry);
    let mut readers: Registry<SnapshotTx> = Registry::new();
    library.register(&mut readers);
    let (procedures, versions) = (registry.names(), registry.versions());
    let counters: Vec<Arc<Counters>> = (0..options.workers).map(|_| Arc::default()).collect();
    let account = Account::new(&options, counters.len());
    let shared = Arc::new(Shared::new(Options { workers: streams, ..options }, clock, account));
    let (funnel, shares_stream) =
        (Arc::new(Funnel::new(options.max_entry_bytes)), streams < counters.len() as u16);
    let worker = |(at, counters): (usize, &Arc<Counters>)| -> Box<dyn Worker> {
        if at >= streams as usize {
            return Box::new(FunnelWorker::new(
                at,
                shared.clone(),
                funnel.clone(),
                registry.clone(),
                counters.clone(),
            ));
        }
        let id = StreamId(at as u16);
        let code = (registry.clone(), readers.clone());
        let worker = RolisWorker::new(id, shared.clone(), store.clone(), code, counters.clone());
        Box::new(if shares_stream { worker.with_funnel(funnel.clone()) } else { worker })
    };
    let workers = counters.iter().enumerate().map(worker).collect();
    let controller: Box<dyn Controller> = Box::new(RolisController::new(shared, schema, store));
    Replica { controller, workers, counters, procedures, versions }
}
