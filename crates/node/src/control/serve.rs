//! What each admin request does.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use highwater_engines::{Controller, Nanos};
use highwater_workloads::Workload;

use super::inspect;
use super::loads::{Errand, Loads};
use crate::admin::protocol::{AdminRequest, AdminResponse, StatusReport, WorkloadSpec};
use crate::clock::process_cpu;
use crate::library;
use crate::load::RunSpec;
use crate::shared::{LoadCommand, Shared};

/// What requests work on.
pub struct Context<'a> {
    /// Now.
    pub now: Nanos,
    /// The node.
    pub shared: &'a Arc<Shared>,
    /// The replica's controller.
    pub controller: &'a dyn Controller,
    /// Loads under way.
    pub loads: &'a mut Loads,
}

impl Context<'_> {
    /// Serves a request of a connection; `None` if the answer comes later.
    pub fn serve(self, connection: u64, request: AdminRequest) -> Option<AdminResponse> {
        self.try_serve(connection, request).unwrap_or_else(|message| Some(AdminResponse::Error { message }))
    }

    fn try_serve(self, connection: u64, request: AdminRequest) -> Result<Option<AdminResponse>, String> {
        match request {
            AdminRequest::Status => {
                return Ok(Some(AdminResponse::Status(Box::new(self.status()))));
            }
            AdminRequest::Load { workload } => {
                let (workload, done) = (build(&workload)?, Arc::new(AtomicU64::new(0)));
                let errand = Errand::Populate { done: done.clone(), said: self.now };
                self.loads.send(connection, errand, self.shared, LoadCommand::Populate { workload, done });
            }
            AdminRequest::Run { workload, in_flight, rate, seed, audit_every, audit_base } => {
                let spec = RunSpec {
                    workload: build(&workload)?,
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
                inspect::check(self.shared, self.controller.store(), connection, build(&workload)?);
            }
            AdminRequest::Digest => inspect::digest(self.shared, self.controller.store(), connection),
            AdminRequest::AuditMissing { generator, acknowledged } => {
                inspect::audit(self.shared, self.controller.store(), connection, generator, acknowledged);
            }
            AdminRequest::Shutdown => {
                tracing::info!("asked to end over the admin port");
                self.shared.end();
                return Ok(Some(AdminResponse::Done));
            }
        }
        Ok(None)
    }

    fn status(&self) -> StatusReport {
        let status = self.controller.status(self.now);
        let shared = self.shared;
        StatusReport {
            engine: shared.engine.name().into(),
            cpu_ns: process_cpu(),
            resident_bytes: inspect::resident_bytes(),
            store_bytes: inspect::store_bytes(&self.controller.store()),
            memory: inspect::memory(shared, self.controller),
            uptime_seconds: (self.now - shared.started) as f64 / 1e9,
            executed: shared.total(|counters| &counters.executed),
            applied: shared.total(|counters| &counters.applied),
            snapshot_reads: shared.total(|counters| &counters.snapshot_reads),
            log_bytes: shared.total(|counters| &counters.log_bytes),
            clients: shared.clients(),
            admins: shared.admins.clone(),
            ..StatusReport::of(status)
        }
    }
}

fn build(spec: &WorkloadSpec) -> Result<Arc<dyn Workload>, String> {
    library::workload(&spec.name, &spec.options)
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
