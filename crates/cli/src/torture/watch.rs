//! Watches the replicas: who leads, if anybody does, and whether the cluster is whole.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use highwater_node::admin::protocol::StatusReport;

use crate::admin::AdminClient;
use crate::answers;

/// How often each replica is asked.
const LOOK_EVERY: Duration = Duration::from_millis(40);
/// How long a replica may take to answer; one that is stopped or cut off never does.
const PATIENCE: Duration = Duration::from_millis(400);
/// What is older says nothing about now.
pub const FRESH: Duration = Duration::from_millis(800);

/// Threads that ask the replicas, one each; they end when this is dropped.
#[derive(Debug)]
pub struct Watch {
    seen: Arc<Mutex<Seen>>,
    over: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Seen {
    /// When each was asked, and what it answered.
    replicas: Vec<Option<(Instant, StatusReport)>>,
    /// Nobody leads: what changes is the epoch.
    leaderless: bool,
    /// Who led the latest epoch that anybody was seen to lead; without a leader, who was first seen to serve in it.
    leader: Option<(u64, u8)>,
    failovers: u64,
    /// Of all lives of all replicas, but for each life's last moment.
    snapshot_reads: u64,
    /// The most that any replica was seen to have resident.
    resident_bytes: u64,
}

impl Seen {
    /// A replica answered.
    fn note(&mut self, node: usize, asked: Instant, status: StatusReport) {
        if status.leads() && self.leader.is_none_or(|(epoch, _)| epoch < status.epoch) {
            let another = |(_, leader)| self.leaderless || leader != status.node;
            self.failovers += u64::from(self.leader.is_some_and(another));
            self.leader = Some((status.epoch, status.node));
        }
        let same_life = |(_, before): &&(Instant, StatusReport)| before.incarnation == status.incarnation;
        let counted =
            self.replicas[node].as_ref().filter(same_life).map_or(0, |(_, before)| before.snapshot_reads);
        self.snapshot_reads += status.snapshot_reads.saturating_sub(counted);
        self.resident_bytes = self.resident_bytes.max(status.resident_bytes);
        self.replicas[node] = Some((asked, status));
    }
}

impl Watch {
    /// Begins to watch the replicas at these admin addresses.
    pub fn start(admins: Vec<SocketAddr>, leaderless: bool) -> Watch {
        let replicas = admins.iter().map(|_| None).collect();
        let seen = Arc::new(Mutex::new(Seen {
            replicas,
            leaderless,
            leader: None,
            failovers: 0,
            snapshot_reads: 0,
            resident_bytes: 0,
        }));
        let over = Arc::new(AtomicBool::new(false));
        let threads = admins
            .into_iter()
            .enumerate()
            .map(|(node, admin)| {
                let (seen, over) = (seen.clone(), over.clone());
                thread::spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        ask(node, admin, &seen, &over);
                        thread::sleep(LOOK_EVERY);
                    }
                })
            })
            .collect();
        Watch { seen, over, threads }
    }

    /// The state of every replica that was asked since then, and answered.
    pub fn statuses_since(&self, then: Instant) -> Vec<Option<StatusReport>> {
        let fresh = |seen: &Option<(Instant, StatusReport)>| {
            seen.as_ref().filter(|(asked, _)| *asked >= then).map(|(_, status)| status.clone())
        };
        lock(&self.seen).replicas.iter().map(fresh).collect()
    }

    /// Who leads, as far as the replicas that answer know: of several the one with the highest epoch. Nobody, if that is how the
    /// engine is.
    pub fn leader(&self) -> Option<usize> {
        if lock(&self.seen).leaderless {
            return None;
        }
        let lately = Instant::now().checked_sub(FRESH).unwrap_or_else(Instant::now);
        answers::serving(&self.statuses_since(lately))
    }

    /// The latest epoch that was seen, and who leads in it.
    pub fn reign(&self) -> Option<String> {
        let seen = lock(&self.seen);
        seen.leader.map(|(epoch, leader)| match seen.leaderless {
            true => format!("epoch {epoch}"),
            false => format!("replica {leader} leads epoch {epoch}"),
        })
    }

    /// How often the lead went from one replica to another; without a leader, how often the epoch changed.
    pub fn failovers(&self) -> u64 {
        lock(&self.seen).failovers
    }

    /// How many reads followers answered from their snapshots, at least: what a replica did right before it died is not
    /// known.
    pub fn snapshot_reads(&self) -> u64 {
        lock(&self.seen).snapshot_reads
    }
}

impl Watch {
    /// The most memory that any replica was seen to have resident.
    pub fn resident_bytes(&self) -> u64 {
        lock(&self.seen).resident_bytes
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A watcher that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// One conversation, until the replica does not answer any more.
fn ask(node: usize, admin: SocketAddr, seen: &Mutex<Seen>, over: &AtomicBool) {
    let Ok(mut admin) = AdminClient::connect_within(admin, PATIENCE, PATIENCE) else { return };
    loop {
        let asked = Instant::now();
        let Ok(status) = admin.status() else { return };
        lock(seen).note(node, asked, status);
        if over.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
