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
//! | `policy` | a worker's part of Rolis: joins its parts, and hands each what else it may touch |
//! | `lead` | leading; joins `execute` (attempts), `seal` (entries), `pending` (replies that wait for the mark), `confirming` (reads that need not); `feed`: where transactions go; `speculation`: what may have to be rolled back when an epoch ends |
//! | `follow` | `apply`: look at decided entries, install what is safe |
//! | `reads` | followers serve reads: `snapshots`, `horizon`; `bounded` ones wait until the replica can prove that it is fresh enough, `proven` says so in reports |
//! | `marks`, `watermark` | what positions mean, for the host, too; what is safe |
//! | `strawman` | all workers into one stream: the same policy with another `feed`, the `funnel`; workers without a stream |
//! | `disk` | `remains`: a disk read without a replica |
//! | `context`, `settings` | what all parts of a worker may use; what an operator may set |
//! | `hooks`, `planted` | where a simulator steps in, and what planted bugs change; which bugs those are |
//! | `facts`, `rules` | what a replica tells an observer of all nodes, and what all replicas must keep together |
//!
//! The rest of a replica's life is that of any replicated log, and [`highwater_log_host`] has it: first meeting, elections, takeovers, changes of members, hand-overs,
//! health, copies, checkpoints.
//!
//! # Invariants
//!
//! 1. *Released implies preserved.* A reply leaves at `ts <= mark`; the final mark of an epoch is at least every mark that
//!    its leader had; everything at or below the final mark is applied by everyone. (A read that saw nothing above the mark leaves at
//!    the mark, once a majority has confirmed that this node led when it ran: `confirming`.)
//! 2. *One granularity.* Release, replay and preservation compare the same timestamp of the same transaction with the
//!    same mark. (The paper compares entries by their last timestamp.)
//! 3. *Nothing above a final mark is ever applied.* Not by followers (`apply`), and the deposed leader rolls back what
//!    it executed above it, from before-images that it keeps until the mark passes them.
//! 4. *A follower's store after applying to R is the leader's at R*: timestamps order all conflicting transactions
//!    (read-write ones included: the timestamp is taken between locking and validation), and install-if-newer commutes.
//!
//! # Where we leave the paper
//!
//! - The timestamp is taken before validation, not after; roll-backs wait for the mark, too, and reads for
//!   it or for a majority's word.
//! - Entries seal themselves by the state of the pipeline, not at a fixed size.
//! - A silent stream is closed by other streams' claims, not by heartbeat transactions.
//! - Followers install directly on records, not through OCC transactions.
//! - Logs are trimmed; replicas that lost their memory, or fell behind what is kept, copy the state while load runs.

#![cfg(not(loom))]

mod abilities;
mod context;
mod disk;
mod facts;
mod follow;
mod hooks;
mod lead;
pub mod marks;
#[cfg(feature = "planted")]
pub mod planted;
mod policy;
mod reads;
mod rules;
pub mod settings;
mod strawman;
#[cfg(test)]
mod tests;
pub mod watermark;

pub use disk::remains;
pub use reads::{horizon, snapshots};

use std::sync::Arc;

use bytes::Bytes;
use highwater_consensus::Change;
use highwater_core::hooks::Site;
use highwater_core::log::EntryHeader;
#[cfg(feature = "planted")]
use highwater_core::planted::Bug;
use highwater_core::{Clock, Registry, StreamId};
use highwater_store::{Occ, SnapshotTx, Store};

use context::Context;
use highwater_kit::code::{Builds, Code};
use highwater_log_host::control::ControlMessage;
use highwater_log_host::controller::LogController;
use highwater_log_host::shared::Shared;
use highwater_log_host::status;
use highwater_log_host::wire::Head;
use highwater_log_host::worker::LogWorker;
use highwater_seam::engine::{Abilities, Engine};
use highwater_seam::memory::Account;
use highwater_seam::observer::Rules;
use highwater_seam::options::Options;
use highwater_seam::settings::Setting;
use highwater_seam::{Counters, Replica, Status, Worker};
use lead::feed::{Feed, Own};
use marks::{Figures, Marks};
use policy::RolisPolicy;
use rules::RolisRules;
use strawman::feed::IntoFunnel;
use strawman::funnel::{Entrance, Funnel, FunnelWorker};

/// One stream per worker.
pub struct Rolis;

impl Builds for Rolis {
    fn build(options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica {
        let streams = options.workers;
        build_with(options, streams, code, clock)
    }
}

impl Engine for Rolis {
    const ABILITIES: Abilities = abilities::ABILITIES;
    const SETTINGS: &'static [Setting] = settings::ALL;
    const SITES: &'static [Site] = hooks::SITES;
    #[cfg(feature = "planted")]
    const BUGS: &'static [&'static [&'static Bug]] = &[
        planted::ALL,
        highwater_log_host::planted::ALL,
        highwater_kit::planted::ALL,
        highwater_seam::planted::ALL,
        highwater_consensus::planted::ALL,
        highwater_store::planted::ALL,
    ];

    fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
        status::converged(statuses, Self::serving(statuses))
    }

    fn lag(own: &Status, serving: &Status) -> Option<u64> {
        Some(status::lag(own, serving))
    }

    fn rules() -> Box<dyn Rules> {
        Box::new(RolisRules::default())
    }

    fn words(to_controller: bool, head: &[u8]) -> String {
        let known = if to_controller {
            ControlMessage::read(head).map(|message| format!("{message:?}")).ok()
        } else {
            Head::decode(head).map(|head| format!("{head:?}")).ok()
        };
        known.unwrap_or_else(|| "garbage".into())
    }

    fn wrote(record: &Bytes) -> bool {
        match Change::decode(record) {
            Ok(Change::Appended(entry)) => EntryHeader::open(&entry, true).is_ok(),
            change => change.is_ok(),
        }
    }
}

/// As many workers, one stream.
pub struct Strawman;

impl Builds for Strawman {
    fn build(options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica {
        build_with(options, 1, code, clock)
    }
}

impl Engine for Strawman {
    /// Of its workers only the first knows a store, and all commit under one lock: while one that holds it stands still, so do all.
    /// It is there to be compared in memory, and nobody has looked at what its shared stream owes to a disk. Every bound on the age of
    /// what is read it keeps without doing anything for it: only its leader reads, in transactions.
    const ABILITIES: Abilities =
        Abilities { snapshots: false, interruptible: false, durable: false, ..Rolis::ABILITIES };
    const SETTINGS: &'static [Setting] = Rolis::SETTINGS;
    const SITES: &'static [Site] = Rolis::SITES;
    #[cfg(feature = "planted")]
    const BUGS: &'static [&'static [&'static Bug]] = Rolis::BUGS;

    fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
        Rolis::converged(statuses)
    }

    fn lag(own: &Status, serving: &Status) -> Option<u64> {
        Rolis::lag(own, serving)
    }

    fn rules() -> Box<dyn Rules> {
        Rolis::rules()
    }

    fn words(to_controller: bool, head: &[u8]) -> String {
        Rolis::words(to_controller, head)
    }
}

fn build_with(options: Options, streams: u16, code: &dyn Code, clock: Arc<Clock>) -> Replica {
    let schema = code.schema();
    let store = Store::new(schema.clone());
    let (registry, readers) = (code.leaders(), code.readers());
    let (procedures, versions) = (registry.names(), registry.versions());
    let signatures = registry.signatures();
    let counters: Vec<Arc<Counters>> = (0..options.workers).map(|_| Arc::default()).collect();
    let account = Account::new(&options, counters.len());
    let shares_stream = streams < counters.len() as u16;
    let funnel = Arc::new(Funnel::new(options.max_entry_bytes, counters.len()));
    let figures: Figures = match shares_stream {
        true => Box::new({
            let funnel = funnel.clone();
            move || funnel.figures().to_vec()
        }),
        false => Box::new(Vec::new),
    };
    let (shared, marks) = parts(Options { workers: streams, ..options }, clock, account, figures);
    let make = |(at, counters): (usize, &Arc<Counters>)| -> Box<dyn Worker> {
        if at >= streams as usize {
            return Box::new(FunnelWorker::new(
                at,
                (shared.clone(), marks.clone()),
                funnel.clone(),
                registry.clone(),
                counters.clone(),
            ));
        }
        let id = StreamId(at as u16);
        let code = (registry.clone(), readers.clone());
        let (parts, store) = ((shared.clone(), marks.clone()), store.clone());
        match shares_stream {
            true => {
                let feed = IntoFunnel::new(Entrance::new(funnel.clone(), at));
                Box::new(worker(id, parts, store, counters.clone(), code, feed))
            }
            false => Box::new(worker(id, parts, store, counters.clone(), code, Own)),
        }
    };
    let workers = counters.iter().enumerate().map(make).collect();
    let controller = LogController::new(shared, schema, store);
    Replica { controller: Box::new(controller), workers, counters, procedures, versions, signatures }
}

/// The worker of a stream.
fn worker<F: Feed>(
    id: StreamId,
    parts: (Arc<Shared>, Arc<Marks>),
    store: Arc<Store>,
    counters: Arc<Counters>,
    code: (Registry<Occ>, Registry<SnapshotTx>),
    feed: F,
) -> LogWorker<RolisPolicy<F>> {
    let policy = |context: &Context| RolisPolicy::new(context, &store, code, feed);
    LogWorker::new(id, parts, store.clone(), counters, policy)
}

/// The state that the parts of a fresh replica share, with a stream for each worker, and the meaning of positions there.
pub fn parts(
    options: Options,
    clock: Arc<Clock>,
    account: Account,
    figures: Figures,
) -> (Arc<Shared>, Arc<Marks>) {
    let marks = Arc::new(Marks::new(&options, clock.clone(), figures));
    (Arc::new(Shared::new(options, clock, account, marks.clone())), marks)
}
