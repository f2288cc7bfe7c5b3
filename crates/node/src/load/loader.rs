//! One worker's share of populating the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use highwater_core::{Outcome, ProcedureId};
use highwater_redis::host::token::{Owner, pack};
use highwater_seam::{Nanos, Refusal, Request, Worker};
use highwater_workloads::Workload;
use highwater_workloads::workload::Requests;

use super::Appetite;

/// Unreleased requests, at most: they are large (up to 256 KiB of rows each).
const DEPTH: usize = 64;
/// Requests per turn, at most.
const BUDGET: usize = 4;
/// How long to bear a lost majority.
const PATIENCE: Nanos = 10_000_000_000;

/// Submits the requests that load one part of a workload's data.
pub struct Loader {
    requests: Requests,
    procedures: Vec<&'static str>,
    life: u64,
    /// Requests under way, kept for another attempt after a conflict.
    slots: Vec<Option<(ProcedureId, Vec<u8>)>>,
    free: Vec<usize>,
    /// To be submitted (again) before new ones.
    waiting: Vec<(ProcedureId, Vec<u8>)>,
    exhausted: bool,
    done: Arc<AtomicU64>,
    no_quorum_since: Option<Nanos>,
    failure: Option<String>,
}

impl Loader {
    /// Part `part` of `parts`; `done` counts released requests over all parts.
    pub fn new(
        workload: &Arc<dyn Workload>,
        part: usize,
        parts: usize,
        procedures: &[&'static str],
        life: u64,
        done: Arc<AtomicU64>,
    ) -> Loader {
        Loader {
            requests: workload.load(part, parts),
            procedures: procedures.to_vec(),
            life,
            slots: vec![None; DEPTH],
            free: (0..DEPTH).collect(),
            waiting: Vec::new(),
            exhausted: false,
            done,
            no_quorum_since: None,
            failure: None,
        }
    }

    /// Submits what budget and engine allow.
    pub fn submit(&mut self, now: Nanos, engine: &mut dyn Worker) -> Appetite {
        for _ in 0..BUDGET {
            if self.failure.is_some() || self.free.is_empty() {
                return Appetite::None;
            }
            let Some((procedure, args)) = self.waiting.pop().or_else(|| self.draw()) else {
                return Appetite::None;
            };
            let slot = *self.free.last().expect("a slot is free");
            let token = pack(Owner::Loader, slot, self.life);
            match engine.submit(now, Request::new(token, procedure, &args)) {
                Ok(_) => {
                    self.free.pop();
                    self.slots[slot] = Some((procedure, args));
                    self.no_quorum_since = None;
                }
                Err(refusal) => {
                    self.waiting.push((procedure, args));
                    return self.refused(now, refusal);
                }
            }
        }
        Appetite::Now
    }

    /// Takes a reply.
    pub fn released(&mut self, slot: usize, life: u64, outcome: Outcome, reply: &[u8]) {
        if life != self.life {
            return;
        }
        let Some((procedure, args)) = self.slots[slot].take() else { return };
        self.free.push(slot);
        match outcome {
            Outcome::Committed => {
                self.done.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Conflict => self.waiting.push((procedure, args)),
            Outcome::Unknown => self.fail("leadership was lost while loading; load again at the new leader"),
            Outcome::OutOfMemory => self.fail("the cluster has no memory left for more data"),
            Outcome::DiskFull => self.fail("the cluster's disks are full"),
            Outcome::RolledBack | Outcome::TooLarge | Outcome::BadRequest | Outcome::Denied => {
                let name = self.procedures[procedure.0 as usize];
                self.fail(&format!("{name} refused to load: {}", String::from_utf8_lossy(reply)));
            }
        }
    }

    /// The verdict, once nothing is left to do or to wait for.
    pub fn finished(&self) -> Option<Result<(), String>> {
        if let Some(failure) = &self.failure {
            return Some(Err(failure.clone()));
        }
        let done = self.exhausted && self.waiting.is_empty() && self.free.len() == DEPTH;
        done.then_some(Ok(()))
    }

    fn draw(&mut self) -> Option<(ProcedureId, Vec<u8>)> {
        let Some((name, args)) = self.requests.next() else {
            self.exhausted = true;
            return None;
        };
        let Some(at) = self.procedures.iter().position(|known| *known == name) else {
            self.fail(&format!("procedure {name} is not registered here"));
            return None;
        };
        Some((ProcedureId(at as u16), args))
    }

    fn refused(&mut self, now: Nanos, refusal: Refusal) -> Appetite {
        match refusal {
            Refusal::Busy => {}
            Refusal::NotServing { ask: Some(leader) } => {
                self.fail(&format!("this replica does not lead; load at {leader}"));
            }
            Refusal::NotServing { ask: None } => {
                self.fail("this replica does not lead; nobody does at the moment")
            }
            Refusal::NoQuorum if now - *self.no_quorum_since.get_or_insert(now) > PATIENCE => {
                self.fail("no majority of the replicas answers");
            }
            Refusal::NoQuorum => {}
            Refusal::Unsupported => unreachable!("a loader asks for no session and no freshness"),
        }
        Appetite::At(now + 1_000_000)
    }

    fn fail(&mut self, why: &str) {
        self.failure.get_or_insert_with(|| why.to_string());
    }
}
