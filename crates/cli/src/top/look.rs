//! What two looks at a cluster tell.

use std::collections::BTreeMap;
use std::time::Instant;

use highwater_core::threads::share_out;
use highwater_node::admin::protocol::StatusReport;

use crate::admin::{AdminClient, failure_at};
use crate::failure::Result;
use crate::status::place::{PATIENCE, Place};

/// A node, as it was at the last look and what it did since the one before.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its id.
    pub id: u8,
    /// Where it was asked.
    pub admin: String,
    /// What it says; nothing if it is silent.
    pub status: Option<StatusReport>,
    /// Why it says nothing.
    pub silent: String,
    /// What it did since the look before.
    pub pace: Option<Pace>,
    /// Transactions per second at the last looks, the latest last.
    pub past: Vec<u64>,
}

/// What a node did between two looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Transactions released per second.
    pub released: f64,
    /// Transactions applied per second.
    pub applied: f64,
    /// Conflicts per second.
    pub conflicts: f64,
    /// Half of the clients' requests took so many microseconds at most; `None`: there were none.
    pub p50_us: Option<u64>,
    /// And all but a hundredth.
    pub p99_us: Option<u64>,
    /// CPUs that its process took.
    pub cpus: f64,
}

/// Looks that are remembered, for the little chart.
const PAST: usize = 120;

/// Looks at the nodes of a place.
pub struct Looks {
    place: Place,
    before: BTreeMap<u8, (Instant, StatusReport)>,
    past: BTreeMap<u8, Vec<u64>>,
}

impl Looks {
    /// None yet.
    pub fn new(place: Place) -> Looks {
        Looks { place, before: BTreeMap::new(), past: BTreeMap::new() }
    }

    /// Asks all nodes, all at once.
    pub fn look(&mut self) -> Result<Vec<Node>> {
        let admins = self.admins()?;
        let answers = share_out("asker", admins.iter().collect(), admins.len(), |(_, admin)| ask(admin));
        let nodes = admins.into_iter().zip(answers);
        Ok(nodes.map(|((id, admin), answer)| self.note(id, admin, answer)).collect())
    }

    fn admins(&self) -> Result<Vec<(u8, String)>> {
        match &self.place {
            Place::Config { admins, .. } => Ok(admins.clone()),
            Place::Replica(admin) => {
                let failure = |error| failure_at(admin, error);
                let mut client = AdminClient::connect_to(admin, PATIENCE).map_err(failure)?;
                let status = client.status().map_err(failure)?;
                let mut admins: Vec<_> =
                    status.nodes.iter().map(|node| (node.id, node.admin.clone())).collect();
                // Under the address that led to it, which may be another than its config says.
                admins
                    .iter_mut()
                    .filter(|(id, _)| *id == status.node)
                    .for_each(|own| own.1.clone_from(admin));
                Ok(admins)
            }
        }
    }

    fn note(&mut self, id: u8, admin: String, answer: std::result::Result<StatusReport, String>) -> Node {
        let now = Instant::now();
        let past = self.past.entry(id).or_default();
        let answer = answer.and_then(|status| match status.node == id {
            true => Ok(status),
            false => Err(format!("{admin} is node {}'s here: ask on node {id}'s machine", status.node)),
        });
        match answer {
            Ok(status) => {
                let before = self.before.insert(id, (now, status.clone()));
                let pace = before.and_then(|(then, before)| {
                    Pace::between(&before, &status, now.duration_since(then).as_secs_f64())
                });
                past.push(pace.map_or(0, |pace| pace.released as u64));
                past.drain(..past.len().saturating_sub(PAST));
                Node { id, admin, status: Some(status), silent: String::new(), pace, past: past.clone() }
            }
            Err(silent) => {
                self.before.remove(&id);
                past.push(0);
                Node { id, admin, status: None, silent, pace: None, past: past.clone() }
            }
        }
    }
}

fn ask(admin: &str) -> std::result::Result<StatusReport, String> {
    let status = AdminClient::connect_to(admin, PATIENCE).and_then(|mut client| client.status());
    status.map_err(|error| error.to_string())
}

/// Nobody could be asked: the same nodes, silent.
pub fn all_silent(nodes: Vec<Node>, why: &str) -> Vec<Node> {
    nodes.into_iter().map(|node| Node { status: None, pace: None, silent: why.into(), ..node }).collect()
}

impl Pace {
    /// Of one life of a process; `None` if it is another one, or no time has passed.
    pub fn between(before: &StatusReport, after: &StatusReport, seconds: f64) -> Option<Pace> {
        if seconds <= 0.0 || after.uptime_seconds < before.uptime_seconds {
            return None;
        }
        let rate = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
        let latency = after.work.latency.since(&before.work.latency);
        Some(Pace {
            released: rate(before.work.committed, after.work.committed),
            applied: rate(before.applied, after.applied),
            conflicts: rate(before.work.conflicts, after.work.conflicts),
            p50_us: latency.quantile(0.5),
            p99_us: latency.quantile(0.99),
            cpus: rate(before.cpu_ns, after.cpu_ns) / 1e9,
        })
    }
}
