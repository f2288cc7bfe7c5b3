//! Adds up what the workers counted.

use hdrhistogram::Histogram;
use highwater_seam::Nanos;

use super::stats::{SLICE, SLICES, WorkerStats, histogram};
use crate::admin::protocol::{LoadReport, ProcedureReport, Quantiles};
use crate::clock::{monotonic, process_cpu};
use crate::shared::Shared;

/// Readings at the start of what a report covers.
#[derive(Clone, Copy, Debug)]
pub struct Baseline {
    at: Nanos,
    cpu: Nanos,
    conflicts: u64,
    log_bytes: u64,
}

impl Baseline {
    /// As of now.
    pub fn read(shared: &Shared) -> Baseline {
        Baseline {
            at: monotonic(),
            cpu: process_cpu(),
            conflicts: shared.total(|counters| &counters.conflicts),
            log_bytes: shared.total(|counters| &counters.log_bytes),
        }
    }
}

/// The counts of all workers between two readings.
pub fn report(stats: &[WorkerStats], from: Baseline, to: Baseline) -> LoadReport {
    let mut latency = histogram();
    let mut procedures: Vec<(ProcedureReport, Histogram<u32>)> = Vec::new();
    for kind in stats.iter().flat_map(|worker| &worker.kinds) {
        let at = procedures.iter().position(|(report, _)| report.name == kind.name).unwrap_or_else(|| {
            procedures.push((ProcedureReport { name: kind.name.into(), ..Default::default() }, histogram()));
            procedures.len() - 1
        });
        let (report, merged) = &mut procedures[at];
        report.committed += kind.committed;
        report.user_aborts += kind.user_aborts;
        merged.add(&kind.latency).expect("all histograms have the same bounds");
        latency.add(&kind.latency).expect("all histograms have the same bounds");
    }
    let per_procedure: Vec<ProcedureReport> = procedures
        .into_iter()
        .filter(|(report, _)| report.committed + report.user_aborts > 0)
        .map(|(report, latency)| ProcedureReport { released_latency_us: quantiles(&latency), ..report })
        .collect();
    let first_release_ns = stats.iter().map(|worker| worker.first_release).filter(|at| *at > 0).min();
    LoadReport {
        seconds: (to.at - from.at) as f64 / 1e9,
        running: stats.iter().any(|worker| worker.running),
        committed: per_procedure.iter().map(|procedure| procedure.committed).sum(),
        user_aborts: per_procedure.iter().map(|procedure| procedure.user_aborts).sum(),
        conflict_aborts: to.conflicts - from.conflicts,
        gave_up: stats.iter().map(|worker| worker.gave_up).sum(),
        bad_requests: stats.iter().map(|worker| worker.bad_requests).sum(),
        unknown: stats.iter().map(|worker| worker.unknown).sum(),
        released_latency_us: quantiles(&latency),
        per_procedure,
        generator_cpu_ns: stats.iter().map(|worker| worker.generator_ns).sum(),
        process_cpu_ns: to.cpu - from.cpu,
        log_bytes: to.log_bytes - from.log_bytes,
        audit: audit(stats),
        slices: slices(stats, to.at),
        slices_end_ns: to.at / SLICE * SLICE,
        first_release_ns: first_release_ns.unwrap_or(0),
        last_release_ns: stats.iter().map(|worker| worker.last_release).max().unwrap_or(0),
    }
}

/// What clients counted, over the time of a replica's own report: its CPU time, conflicts and log are in that one.
pub fn of_clients(stats: &[WorkerStats], replica: LoadReport) -> LoadReport {
    let from = Baseline { at: 0, cpu: 0, conflicts: 0, log_bytes: 0 };
    let counted = report(stats, from, Baseline { at: monotonic(), ..from });
    let LoadReport { seconds, conflict_aborts, process_cpu_ns, log_bytes, .. } = replica;
    LoadReport { seconds, conflict_aborts, process_cpu_ns, log_bytes, ..counted }
}

/// By generator number: the workers answer in any order.
fn audit(stats: &[WorkerStats]) -> Vec<(u32, Vec<(u32, u32)>)> {
    let ranges = |worker: &WorkerStats| Some((worker.audit_generator?, worker.audit.as_slice().to_vec()));
    let mut audit: Vec<_> = stats.iter().filter_map(ranges).collect();
    audit.sort_unstable();
    audit
}

/// The last minute before `now`, in complete slices, oldest first.
fn slices(stats: &[WorkerStats], now: Nanos) -> Vec<u32> {
    let end = now / SLICE;
    let start = end.saturating_sub(SLICES as u64 - 1);
    (start..end).map(|slice| stats.iter().map(|worker| worker.slices.get(slice)).sum()).collect()
}

fn quantiles(latency: &Histogram<u32>) -> Quantiles {
    let at = |quantile| latency.value_at_quantile(quantile) as f64 / 1e3;
    if latency.is_empty() {
        return Quantiles::default();
    }
    Quantiles { p50: at(0.5), p95: at(0.95), p99: at(0.99), p999: at(0.999), max: latency.max() as f64 / 1e3 }
}

#[cfg(test)]
mod tests {
    use highwater_core::Outcome;

    use super::*;

    #[test]
    fn bad_requests_of_all_workers_are_told_apart_from_what_was_released() {
        let at = |at| Baseline { at, cpu: 0, conflicts: 0, log_bytes: 0 };
        let mut stats = [WorkerStats::new(&["a.b"], None), WorkerStats::new(&["a.b"], None)];
        for (worker, outcome) in [
            (0, Outcome::Committed),
            (0, Outcome::BadRequest),
            (1, Outcome::RolledBack),
            (1, Outcome::BadRequest),
        ] {
            stats[worker].count(0, outcome, 5000, SLICE);
        }
        let report = report(&stats, at(0), at(1_000_000_000));
        assert_eq!((report.released(), report.bad_requests), (2, 2));
        assert_eq!((report.per_procedure[0].committed, report.per_procedure[0].user_aborts), (1, 1));
    }
}
