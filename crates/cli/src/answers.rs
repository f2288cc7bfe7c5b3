//! What several replicas' answers mean together: asked of their engine.

use highwater_core::NodeId;
use highwater_engines::EngineKind;
use highwater_node::admin::protocol::StatusReport;
use highwater_node::admin::report::asked;
use highwater_seam::Status;

/// Who takes transactions, as far as those know who answered; of several the one of the latest epoch.
pub fn serving(reports: &[Option<StatusReport>]) -> Option<usize> {
    put(reports, EngineKind::serving).flatten().map(at)
}

/// Who does, if all agree who answered, and more than half did.
pub fn agreed(reports: &[Option<StatusReport>]) -> Option<usize> {
    put(reports, EngineKind::agreed).flatten().map(at)
}

/// Who leads a cluster in which everybody has his say and a complete store; else what is missing.
pub fn healthy(reports: &[Option<StatusReport>]) -> Result<usize, String> {
    put(reports, EngineKind::healthy).unwrap_or_else(|| Err(unasked(reports))).map(at)
}

/// Whether everybody has installed everything, and how much that is; else what is missing.
pub fn converged(reports: &[Option<StatusReport>]) -> Result<u64, String> {
    put(reports, EngineKind::converged).unwrap_or_else(|| Err(unasked(reports)))
}

/// The reason why this build cannot judge a cluster that answers: it lacks the engine. `None`: it has it, or nobody answers.
pub fn not_built<'a>(mut reports: impl Iterator<Item = &'a StatusReport>) -> Option<String> {
    reports.next()?.engine.parse::<EngineKind>().err()
}

fn unasked(reports: &[Option<StatusReport>]) -> String {
    not_built(reports.iter().flatten()).unwrap_or_else(|| "no replica answers".into())
}

/// How much of what `leader` has decided `own` has not installed.
pub fn lag(own: &StatusReport, leader: &StatusReport) -> Option<u64> {
    own.engine.parse::<EngineKind>().ok()?.lag(&own.status(), &leader.status())
}

/// Whether the engine has no leader: every replica that has its say takes transactions.
pub fn leaderless(report: &StatusReport) -> bool {
    report.engine.parse::<EngineKind>().is_ok_and(|engine| engine.abilities().leaderless)
}

/// How many of those that answered take transactions, and in which epoch; those of older ones do not count.
pub fn taking(reports: &[Option<StatusReport>]) -> (usize, u64) {
    let serving = || reports.iter().flatten().filter(|report| report.serves());
    let epoch = serving().map(|report| report.epoch).max().unwrap_or_default();
    (serving().filter(|report| report.epoch == epoch).count(), epoch)
}

/// Of the transactions that a replica coordinated, how many were decided in one round, and how many there are; `None` if that is not how
/// the engine counts.
pub fn rounds(report: &StatusReport) -> Option<(u64, u64)> {
    let sum = |name| report.figure(name).iter().sum::<u64>();
    let counts = !report.figure("fast path").is_empty();
    counts.then(|| (sum("fast path"), sum("fast path") + sum("slow path")))
}

/// Up to which timestamp everything is safe, if that is how the engine counts.
pub fn mark(report: &StatusReport) -> Option<u64> {
    report.figure("mark").first().copied()
}

fn put<T>(
    reports: &[Option<StatusReport>],
    question: impl FnOnce(EngineKind, &[Option<Status>]) -> T,
) -> Option<T> {
    asked(reports).map(|(engine, statuses)| question(engine, &statuses))
}

fn at(node: NodeId) -> usize {
    node.0.into()
}
