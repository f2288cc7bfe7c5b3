//! What each admin request does.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use highwater_core::NodeId;
use highwater_seam::{Controller, MemberAnswer, Nanos};
use highwater_workloads::{Workload, audit};

use super::inspect;
use super::loads::{Errand, Loads};
use super::newcomers::Newcomers;
use crate::admin::protocol::{
    AdminRequest, AdminResponse, MemberRequest, MemberState, StatusReport, WorkloadSpec,
};
use crate::admin::work::{JournalReport, PeerReport, WorkReport};
use crate::clock::process_cpu;
use crate::config::NodeConfig;
use crate::library;
use crate::load::RunSpec;
use crate::shared::{LoadCommand, Shared};

/// What requests work on.
pub struct Context<'a> {
    pub now: Nanos,
    /// The node.
    pub shared: &'a Arc<Shared>,
    /// The replica's controller.
    pub controller: &'a mut dyn Controller,
    /// Loads under way.
    pub loads: &'a mut Loads,
    /// Nodes that this one cannot work with, and why.
    pub refusals: Vec<String>,
    /// The addresses at which other nodes say that they are found.
    pub newcomers: &'a mut Newcomers,
}

impl Context<'_> {
    /// Serves a request of a connection; `None` if the answer comes later.
    pub fn serve(self, connection: u64, request: AdminRequest) -> Option<AdminResponse> {
        self.try_serve(connection, request).unwrap_or_else(|message| Some(AdminResponse::Error { message }))
    }

    fn try_serve(mut self, connection: u64, request: AdminRequest) -> Result<Option<AdminResponse>, String> {
        match request {
            AdminRequest::Status => {
                return Ok(Some(AdminResponse::Status(Box::new(self.status()))));
            }
            AdminRequest::ReloadCertificates => {
                self.shared.reload_keys()?;
                return Ok(Some(AdminResponse::Done));
            }
            AdminRequest::Load { workload } => {
                let (workload, done) = (self.build(&workload)?, Arc::new(AtomicU64::new(0)));
                let errand = Errand::Populate { done: done.clone(), said: self.now };
                self.loads.send(connection, errand, self.shared, LoadCommand::Populate { workload, done });
            }
            AdminRequest::Run { workload, in_flight, rate, seed, audit_every, audit_base } => {
                let spec = RunSpec {
                    workload: self.build(&workload)?,
                    in_flight: in_flight as usize,
                    rate_per_worker: rate.map(|rate| rate / self.shared.workers.len() as f64),
                    seed,
                    audit_every,
                    audit_base,
                };
                check_run(&spec)?;
                inspect::prepare_run(self.shared, self.controller.store(), connection, spec);
            }
            AdminRequest::LoadStats => {
                self.loads.send(connection, Errand::Report, self.shared, LoadCommand::Report);
            }
            AdminRequest::ResetStats => {
                self.loads.send(connection, Errand::Reset, self.shared, LoadCommand::Reset);
            }
            AdminRequest::Stop => self.loads.send(connection, Errand::Stop, self.shared, LoadCommand::Stop),
            AdminRequest::Check { workload } => {
                inspect::check(self.shared, self.controller.store(), connection, self.build(&workload)?);
            }
            AdminRequest::Digest => inspect::digest(self.shared, self.controller.store(), connection),
            AdminRequest::AuditMissing { generator, acknowledged } => {
                self.hosts(audit::PROCEDURE)?;
                inspect::audit(self.shared, self.controller.store(), connection, generator, acknowledged);
            }
            AdminRequest::Member { change } => return Ok(Some(self.change_members(&change))),
            AdminRequest::Shutdown => {
                tracing::info!("asked to end over the admin port");
                self.shared.leave();
                return Ok(Some(AdminResponse::Done));
            }
            AdminRequest::HandOver { .. } | AdminRequest::Freshness => {
                unreachable!("the control thread has the controller for that")
            }
            AdminRequest::Slow | AdminRequest::Events | AdminRequest::HotKeys { .. } => {
                unreachable!("the admin port's thread knows that")
            }
        }
        Ok(None)
    }

    fn build(&self, spec: &WorkloadSpec) -> Result<Arc<dyn Workload>, String> {
        let workload = library::workload(&spec.name, &spec.options)?;
        workload.kinds().iter().try_for_each(|kind| self.hosts(kind))?;
        Ok(workload)
    }

    /// Whether the node was started with a procedure of the workloads.
    fn hosts(&self, procedure: &str) -> Result<(), String> {
        if self.shared.procedures.contains(&procedure) {
            return Ok(());
        }
        Err("this node hosts no benchmarks; start all nodes with server.benchmarks = \"on\"".into())
    }

    fn change_members(&mut self, change: &MemberRequest) -> AdminResponse {
        let roster = &self.shared.roster;
        let answer = self.controller.change_members(self.now, change.of_engine());
        let member = |state, why: String, leader: Option<u8>| {
            let admin = leader.and_then(|node| roster.node(NodeId(node))).map(|node| node.admin);
            AdminResponse::Member { state, why, leader, admin }
        };
        match answer {
            MemberAnswer::Done => member(MemberState::Done, String::new(), None),
            MemberAnswer::Waits(what) => match self.newcomers.refuse(change, self.now, self.controller) {
                Some(why) => member(MemberState::Refused, why, None),
                None => member(MemberState::Waits, what, None),
            },
            MemberAnswer::Refused(why) => member(MemberState::Refused, why, None),
            MemberAnswer::Ask(leader) => {
                member(MemberState::Elsewhere, String::new(), leader.map(|node| node.0))
            }
        }
    }

    fn status(&self) -> StatusReport {
        let mut status = self.controller.status(self.now);
        let shared = self.shared;
        // The engine knows that its streams stand still, and not why.
        let stands = shared.journal().filter(|journal| journal.is_full() || journal.is_lost());
        status.trouble = stands.and_then(|journal| journal.troubles.words()).or(status.trouble);
        StatusReport {
            engine: shared.engine.name().into(),
            cpu_ns: process_cpu(),
            resident_bytes: inspect::resident_bytes(),
            store_bytes: inspect::store_bytes(&self.controller.store()),
            memory: inspect::memory(shared, &*self.controller),
            disk: shared.journal().map(|journal| inspect::disk(journal)),
            journal: shared.journal().map(|journal| JournalReport::of(journal, shared)),
            work: WorkReport::of(shared),
            peers: PeerReport::all(shared),
            elections: shared.elections(),
            uptime_seconds: (self.now - shared.started) as f64 / 1e9,
            executed: shared.total(|counters| &counters.executed),
            applied: shared.total(|counters| &counters.applied),
            snapshot_reads: shared.total(|counters| &counters.snapshot_reads),
            log_bytes: shared.total(|counters| &counters.log_bytes),
            clients: shared.clients(),
            sockets: shared.sockets().into(),
            admins: admins(&shared.roster.nodes()),
            nodes: shared.roster.nodes(),
            removed: shared.roster.removed().into_iter().map(|node| node.0).collect(),
            refusals: self.refusals.clone(),
            ..StatusReport::of(status)
        }
    }
}

/// By id; empty where there is no node.
fn admins(nodes: &[NodeConfig]) -> Vec<String> {
    let last = nodes.last().map_or(0, |node| usize::from(node.id) + 1);
    let mut admins = vec![String::new(); last];
    nodes.iter().for_each(|node| admins[usize::from(node.id)].clone_from(&node.admin));
    admins
}

fn check_run(spec: &RunSpec) -> Result<(), String> {
    if spec.in_flight == 0 {
        return Err("in_flight must be above 0".into());
    }
    match spec.rate_per_worker {
        Some(rate) if !(rate > 0.0 && rate.is_finite()) => Err("rate must be above 0".into()),
        _ => Ok(()),
    }
}
