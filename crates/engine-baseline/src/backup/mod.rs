//! Plain primary-backup, as small as an engine can be: an example of what stands behind the seam, and its test.
//!
//! Node 0 is the primary, for ever. Its workers execute on its store; what each commits goes out in numbered entries, worker
//! to worker, and a reply leaves once every backup has acknowledged all that its worker committed before. Backups install
//! entries as they come: install-if-newer makes the order among workers irrelevant.
//!
//! Nobody takes over, and nobody comes back: when the primary is gone there is no service, and a node that lost its memory ends
//! it, too. That is what the other engines are for.
//!
//! | file | what |
//! |---|---|
//! | `mod` | what it can do, the controller |
//! | `shared` | what its threads share |
//! | `worker` | execution, entries, acknowledgements |

mod shared;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use highwater_core::{Clock, Epoch, Incarnation, Levels, NodeId};
use highwater_kit::code::{Builds, Code};
use highwater_seam::engine::{Abilities, Engine, whole};
use highwater_seam::memory::{Account, MemoryStatus};
use highwater_seam::options::Options;
use highwater_seam::{
    ControlOutbox, Controller, Counters, Figure, Member, Nanos, Next, Replica, Service, Status, Worker,
};
use highwater_store::Store;

use shared::{ABILITIES, PRIMARY, Shared};
use worker::BackupWorker;

/// Entries that a worker of the primary has sent, or a backup's has installed.
const ENTRIES: &str = "entries";

/// Primary-backup without takeover.
pub struct Backup;

impl Builds for Backup {
    fn build(options: Options, code: &dyn Code, clock: Arc<Clock>) -> Replica {
        let store = Store::new(code.schema());
        let registry = code.leaders();
        let (procedures, versions) = (registry.names(), registry.versions());
        let signatures = registry.signatures();
        let counters: Vec<Arc<Counters>> = (0..options.workers).map(|_| Arc::default()).collect();
        let shared = Arc::new(Shared {
            account: Account::new(&options, counters.len()),
            entries: counters.iter().map(|_| AtomicU64::new(0)).collect(),
            log_bytes: counters.iter().map(|_| AtomicU64::new(0)).collect(),
            serving: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            options,
            clock,
        });
        let worker = |(at, counters): (usize, &Arc<Counters>)| -> Box<dyn Worker> {
            Box::new(BackupWorker::new(at, shared.clone(), &store, registry.clone(), counters.clone()))
        };
        let workers = counters.iter().enumerate().map(worker).collect();
        let nodes = vec![None; shared.options.nodes as usize];
        Replica {
            controller: Box::new(BackupController { shared, store, nodes }),
            workers,
            counters,
            procedures,
            versions,
            signatures,
        }
    }
}

impl Engine for Backup {
    const ABILITIES: Abilities = ABILITIES;
    #[cfg(feature = "planted")]
    const BUGS: &'static [&'static [&'static highwater_core::planted::Bug]] =
        &[highwater_kit::planted::ALL, highwater_seam::planted::ALL, highwater_store::planted::ALL];

    fn converged(statuses: &[Option<Status>]) -> Result<u64, String> {
        let (all, primary) = whole(statuses, Self::serving(statuses))?;
        match all.iter().find(|status| status.figure(ENTRIES) != primary.figure(ENTRIES)) {
            Some(behind) => Err(format!("replica {} has not installed all entries", behind.node.0)),
            None => Ok(primary.figure(ENTRIES).iter().sum()),
        }
    }

    fn lag(own: &Status, serving: &Status) -> Option<u64> {
        let both = serving.figure(ENTRIES).iter().zip(own.figure(ENTRIES));
        Some(both.map(|(sent, installed)| sent.saturating_sub(*installed)).sum())
    }
}

struct BackupController {
    shared: Arc<Shared>,
    store: Arc<Store>,
    /// The first life of each other node that was met.
    nodes: Vec<Option<Incarnation>>,
}

impl BackupController {
    fn service(&self) -> Service {
        let met_primary = self.nodes[PRIMARY.0 as usize].is_some();
        match self.shared.is_primary() {
            true if self.shared.serving.load(Ordering::Relaxed) => {
                match self.shared.broken.load(Ordering::Relaxed) {
                    false => Service::Serving,
                    true => Service::Stalled,
                }
            }
            false if met_primary => Service::Standby,
            _ => Service::Starting,
        }
    }

    fn trouble(&self) -> Option<String> {
        if self.shared.broken.load(Ordering::Relaxed) {
            return Some(
                "a node lost its memory, and plain primary-backup cannot go on: start all nodes afresh"
                    .into(),
            );
        }
        let missing = self.nodes.iter().position(Option::is_none);
        let starting = self.service() == Service::Starting;
        missing.filter(|_| starting).map(|node| format!("waits for node {node}"))
    }
}

impl Controller for BackupController {
    fn peer_up(&mut self, _now: Nanos, peer: NodeId, incarnation: Incarnation, _levels: Levels) {
        let known = *self.nodes[peer.0 as usize].get_or_insert(incarnation);
        if known != incarnation {
            self.shared.broken.store(true, Ordering::Relaxed);
        }
    }

    fn peer_down(&mut self, _now: Nanos, _peer: NodeId, _refused: bool) {}

    fn deliver(&mut self, _now: Nanos, _from: NodeId, _message: Bytes) {}

    fn turn(&mut self, _now: Nanos, out: &mut ControlOutbox) -> Next {
        let (me, life) = (self.shared.options.node, self.shared.options.incarnation);
        self.nodes[me.0 as usize] = Some(life);
        let all = self.nodes.iter().all(Option::is_some);
        if self.shared.is_primary() && all && !self.shared.serving.swap(true, Ordering::Relaxed) {
            out.events.push("leading: every node is there".into());
        }
        Next::Idle
    }

    fn status(&self, _now: Nanos) -> Status {
        let (shared, service) = (&self.shared, self.service());
        let Options { node, incarnation, .. } = shared.options;
        let listed = self.nodes.iter().zip(0..).filter_map(|(life, node)| Some((NodeId(node), (*life)?)));
        let entries = shared.entries.iter().map(|count| count.load(Ordering::Relaxed));
        Status {
            node,
            incarnation,
            service,
            role: if shared.is_primary() { "primary" } else { "backup" }.into(),
            epoch: Epoch(1),
            ask: Some(PRIMARY),
            heard_ago: None,
            figures: vec![Figure::each(ENTRIES, entries)],
            members: listed
                .map(|(node, incarnation)| Member {
                    node,
                    incarnation,
                    voter: true,
                    levels: None,
                    connected: None,
                    lag: None,
                    heard_ago: None,
                })
                .collect(),
            copying_bytes: None,
            copying_from: None,
            forgets: false,
            freshness: None,
            levels: shared.options.levels,
            level: None,
            held_back_by: Vec::new(),
            trouble: self.trouble(),
        }
    }

    fn memory(&self) -> MemoryStatus {
        let shares = self.shared.options.shares().expect("the host validated the options");
        MemoryStatus { shares, used: self.store.used(), logs: self.shared.logs(), most: shares.store }
    }

    fn store(&self) -> Arc<Store> {
        self.store.clone()
    }
}
