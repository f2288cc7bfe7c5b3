//! Jobs that read the whole store, each on a thread of its own; and what the process and the store weigh.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_core::View;
use highwater_core::contain::contain;
use highwater_seam::Controller;
use highwater_store::Store;
use highwater_workloads::{Workload, audit};

use crate::admin::protocol::{AdminResponse, CheckReport, DiskReport, MemoryReport};
use crate::clock::monotonic;
use crate::held::HeldBytes;
use crate::load::RunSpec;
use crate::shared::{ControlLetter, Shared};
use crate::storage::JournalQueues;

/// Audit rows looked up at one time.
const AUDIT_ROWS: usize = 1 << 16;
/// Jobs at one time, at most: each has a thread, and reads the whole store.
const MAX_JOBS: usize = 8;

/// Runs a workload's conditions.
pub fn check(shared: &Arc<Shared>, store: Arc<Store>, connection: u64, workload: Arc<dyn Workload>) {
    answer_later(shared, connection, move || {
        let report = |check: highwater_workloads::Check| CheckReport {
            name: check.name.to_string(),
            failure: check.result.err(),
        };
        AdminResponse::Checks { checks: workload.check(&*store).into_iter().map(report).collect() }
    });
}

pub fn digest(shared: &Arc<Shared>, store: Arc<Store>, connection: u64) {
    answer_later(shared, connection, move || {
        let (digest, mut bytes) = (store.digest(), 0);
        for (table, _) in store.schema().iter() {
            store.for_each(table, &mut |key, value| bytes += (key.len() + value.len()) as u64);
        }
        AdminResponse::Digest {
            digest: format!("{:032x}", digest.hash),
            rows: digest.rows.iter().sum(),
            bytes,
        }
    });
}

/// Counts the acknowledged audit rows that are not there.
pub fn audit(
    shared: &Arc<Shared>,
    store: Arc<Store>,
    connection: u64,
    generator: u32,
    acknowledged: Vec<(u32, u32)>,
) {
    answer_later(shared, connection, move || {
        // Piece by piece: a range may name four billion rows that are not there.
        let pieces = acknowledged.iter().flat_map(|&(first, last)| {
            (first..=last)
                .step_by(AUDIT_ROWS)
                .map(move |from| (from, last.min(from.saturating_add(AUDIT_ROWS as u32 - 1))))
        });
        let missing = pieces.map(|(first, last)| {
            audit::lost(&*store, (first..=last).map(|sequence| (generator, sequence))).len() as u64
        });
        AdminResponse::AuditMissing { missing: missing.sum() }
    });
}

/// Lets a workload look at what earlier runs left; the load then starts.
pub fn prepare_run(shared: &Arc<Shared>, store: Arc<Store>, connection: u64, spec: RunSpec) {
    let letters = shared.clone();
    run_aside(shared, connection, move || {
        spec.workload.resume(&*store);
        letters.control.post(ControlLetter::Start { connection, spec: Arc::new(spec) });
    });
}

fn answer_later(shared: &Arc<Shared>, connection: u64, job: impl FnOnce() -> AdminResponse + Send + 'static) {
    let letters = shared.clone();
    run_aside(shared, connection, move || {
        let response = job();
        letters.answer(connection, response);
    });
}

/// Runs a job on its own thread. A panic there (a store that is not quiescent after all) is its answer.
fn run_aside(shared: &Arc<Shared>, connection: u64, job: impl FnOnce() + Send + 'static) {
    let letters = shared.clone();
    let fail = move |message: String| letters.answer(connection, AdminResponse::Error { message });
    let Some(job_slot) = JobSlot::take(shared) else {
        return fail(format!("{MAX_JOBS} jobs run already; ask again when one is done"));
    };
    let refused = fail.clone();
    let body = move || {
        let _job_slot = job_slot;
        // A new thread inherits the control thread's priority, which a long job must not have.
        let _ = rustix::process::setpriority_process(None, 0);
        if let Err(panicked) = contain(job) {
            fail(format!("the job failed: {panicked}"));
        }
    };
    if let Err(error) = std::thread::Builder::new().name("admin-job".into()).spawn(body) {
        refused(format!("no thread for the job: {error}"));
    }
}

/// The right to run a job; given back when dropped.
struct JobSlot(Arc<Shared>);

impl JobSlot {
    fn take(shared: &Arc<Shared>) -> Option<JobSlot> {
        // Only the control thread takes, so that nobody else can come between looking and taking.
        if shared.jobs.load(Ordering::Relaxed) >= MAX_JOBS {
            return None;
        }
        shared.jobs.fetch_add(1, Ordering::Relaxed);
        Some(JobSlot(shared.clone()))
    }
}

impl Drop for JobSlot {
    fn drop(&mut self) {
        self.0.jobs.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Resident memory of this process.
pub fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// How the disk is.
pub fn disk(queues: &JournalQueues) -> DiskReport {
    let (ballast, ballast_wanted) = queues.ballast();
    let trouble = queues.trouble(monotonic());
    DiskReport { low: queues.is_low(), full: queues.is_full(), ballast, ballast_wanted, trouble }
}

/// What the node may use, and uses.
pub fn memory(shared: &Shared, controller: &dyn Controller) -> MemoryReport {
    let HeldBytes { requests, replies, sending, receiving } = shared.held();
    let (status, memory) = (controller.memory(), controller.store().memory());
    let limit = |bytes: u64| if bytes == u64::MAX { 0 } else { bytes };
    MemoryReport {
        budget: limit(status.shares.whole),
        store_budget: limit(status.shares.store),
        log_budget: status.shares.logs,
        work_budget: status.shares.work,
        buffer_budget: status.shares.buffers,
        most: limit(status.most),
        records: memory.records,
        index: memory.index,
        retired: memory.retired,
        reserved: memory.reserved,
        logs: status.logs,
        requests,
        replies,
        sending,
        receiving,
    }
}

/// Bytes in use by a store.
pub fn store_bytes(store: &Store) -> u64 {
    let memory = store.memory();
    memory.records + memory.index + memory.retired
}
