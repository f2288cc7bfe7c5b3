//! What a run of a workload reports: as JSON, and as a table for people.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use highwater_node::admin::protocol::Quantiles;
use serde::Serialize;

use super::instructions::InstructionReport;
use super::neighbours::NeighbourReport;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::numbers::{Spread, bytes, micros, short};
use crate::verify::Findings;

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunReport {
    /// As the command line names it.
    pub workload: String,
    /// Its name.
    pub engine: String,
    /// How many replicas.
    pub replicas: usize,
    /// Workers per replica.
    pub workers: u16,
    /// Seconds measured.
    pub seconds: f64,
    /// Released commits.
    pub committed: u64,
    /// Released roll-backs that the procedures decided (TPC-C: 1 % of NewOrder).
    pub user_aborts: u64,
    /// Attempts that ended in a conflict; each was tried again.
    pub conflict_aborts: u64,
    /// Requests given up after too many conflicts.
    pub gave_up: u64,
    /// Requests that the procedures refused as malformed: in no figure of throughput or latency.
    pub bad_requests: u64,
    /// Requests whose outcome was lost with leadership.
    pub unknown: u64,
    /// Released transactions (commits and roll-backs) per second.
    pub tps: f64,
    /// From submission to release, in microseconds.
    pub released_latency_us: Quantiles,
    /// CPU time over the measured seconds.
    pub cpu_seconds: CpuSeconds,
    /// Released transactions (commits and the roll-backs that the specification's mix asks for) per CPU-second of the
    /// whole leader process, load generator and network included.
    pub transactions_per_leader_cpu_second: f64,
    /// The same, turned over: the leader's CPU time per released transaction.
    pub execute_cpu_us_per_transaction: f64,
    /// A follower's CPU time (whole process, receiving included) per transaction that it applied; mean over the
    /// followers. Read-only transactions are not logged, so they are not applied and not counted.
    pub apply_cpu_us_per_transaction: Option<f64>,
    /// A follower's CPU time per transaction that the leader released, read-only ones included.
    pub follower_cpu_us_per_released: Option<f64>,
    /// Log bytes per released transaction.
    pub log_bytes_per_transaction: f64,
    /// Log bytes per transaction that wrote something.
    pub log_bytes_per_logged_transaction: Option<f64>,
    /// Resident memory of the processes.
    pub resident_bytes: ResidentBytes,
    /// How far the loaded replica's engine got while it was measured, in its own terms: what its workers count, by name. Figures that went down are
    /// not among them.
    pub engine_figures: BTreeMap<String, u64>,
    /// By procedure name.
    pub per_procedure: BTreeMap<String, Procedure>,
    /// Who shared the machine with an engine alone, on purpose.
    pub neighbours: Option<NeighbourReport>,
    /// Instructions over the measured seconds, if they were counted.
    pub instructions: Option<InstructionReport>,
    /// The same in user mode, for each transaction that the leader released; the leader's first.
    pub instructions_per_transaction: Option<Vec<f64>>,
    /// The consistency conditions, digests and audit rows after the run; `None` with `--no-check`.
    pub checks: Option<Findings>,
    /// How it was run.
    pub config: RunConfig,
}

/// CPU time of the processes over the measured seconds.
#[derive(Clone, Debug, Serialize)]
pub struct CpuSeconds {
    /// The leader's process.
    pub leader: f64,
    /// Of that, in the kernel; by samples.
    pub leader_kernel: Option<f64>,
    /// The others.
    pub followers: Vec<f64>,
    /// The load generators': of workers a part of the leader's, sampled; of remote clients their threads', and no part of the leader's.
    pub load: f64,
}

/// Resident memory of the processes.
#[derive(Clone, Debug, Serialize)]
pub struct ResidentBytes {
    /// The leader's process.
    pub leader: Resident,
    /// The others.
    pub followers: Vec<Resident>,
}

/// Resident memory of one process over a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Resident {
    /// When counting began.
    pub start: u64,
    /// 10 s later, if it went on that long.
    pub at_10_s: Option<u64>,
    /// When counting ended.
    pub end: u64,
    /// Bytes that the store itself had in use at the end.
    pub store_end: u64,
}

/// One procedure's share.
#[derive(Clone, Debug, Serialize)]
pub struct Procedure {
    /// Released commits.
    pub committed: u64,
    /// Released roll-backs.
    pub user_aborts: u64,
    /// From submission to release, in microseconds.
    pub released_latency_us: Quantiles,
}

/// All that decides the figures.
#[derive(Clone, Debug, Serialize)]
pub struct RunConfig {
    /// The workload's options.
    pub workload_options: BTreeMap<String, String>,
    /// Unreleased transactions per worker, or per connection of remote clients, at most.
    pub in_flight: u32,
    /// The remote clients, if the load came from there.
    pub remote: Option<RemoteConfig>,
    /// Transactions per second asked for; as fast as possible if absent.
    pub rate: Option<f64>,
    /// Seconds run before counting.
    pub warmup_seconds: f64,
    /// Seed of the request streams.
    pub seed: u64,
    /// Every n-th request wrote an audit row; 0 for none.
    pub audit_every: u32,
    /// `memory`: a majority holds it in memory before it is released; `sync`: on its disks; `none` without replication.
    pub durability: String,
    /// Config keys of the replicas that differ from the defaults.
    pub set: BTreeMap<String, String>,
    /// The command line.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
}

/// Remote clients.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RemoteConfig {
    /// Connections.
    pub connections: u32,
    /// Threads that generate, send and count.
    pub threads: u32,
}

/// Several runs: the fields of the median run (by transactions per leader CPU-second), the spreads, and all runs.
#[derive(Debug, Serialize)]
pub struct BenchReport {
    /// The median run.
    #[serde(flatten)]
    pub median: RunReport,
    /// Smallest, median and largest of the headline figures.
    pub spread: BTreeMap<&'static str, Spread>,
    /// Every run, in order.
    pub runs: Vec<RunReport>,
}

impl BenchReport {
    /// Sums up runs.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(runs: Vec<RunReport>) -> BenchReport {
        let mut order: Vec<usize> = (0..runs.len()).collect();
        let key = |at: &usize| runs[*at].transactions_per_leader_cpu_second;
        order.sort_by(|a, b| key(a).total_cmp(&key(b)));
        let median = runs[order[(order.len() - 1) / 2]].clone();
        let spread = |figure: fn(&RunReport) -> f64| Spread::of(runs.iter().map(figure));
        let spread = BTreeMap::from([
            ("tps", spread(|run| run.tps)),
            ("transactions_per_leader_cpu_second", spread(|run| run.transactions_per_leader_cpu_second)),
            ("execute_cpu_us_per_transaction", spread(|run| run.execute_cpu_us_per_transaction)),
            ("p50_us", spread(|run| run.released_latency_us.p50)),
            ("p99_us", spread(|run| run.released_latency_us.p99)),
        ]);
        BenchReport { median, spread, runs }
    }
}

/// A figure of a run whose checks fail is worth nothing.
pub fn verdict(runs: &[RunReport]) -> Result<()> {
    let trouble = runs.iter().filter_map(|run| run.checks.as_ref()?.trouble()).next();
    trouble.map_or(Ok(()), |trouble| Err(Failure::negative(trouble)))
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: String| writeln!(f, "  {name:<22}{value}");
        row("released", format!("{}/s over {:.1} s", short(self.tps), self.seconds))?;
        row(
            "per leader CPU-second",
            format!(
                "{}  ({:.2} us a transaction)",
                short(self.transactions_per_leader_cpu_second),
                self.execute_cpu_us_per_transaction
            ),
        )?;
        row("latency", latency(&self.released_latency_us))?;
        let released = self.committed + self.user_aborts;
        let share = 100.0 * self.conflict_aborts as f64 / (released + self.conflict_aborts).max(1) as f64;
        row(
            "committed",
            format!(
                "{}, rolled back {}, conflicts {} ({share:.2} %)",
                self.committed, self.user_aborts, self.conflict_aborts
            ),
        )?;
        let path = |name| self.engine_figures.get(name).copied().unwrap_or(0);
        let (fast, slow) = (path("fast path"), path("slow path"));
        if fast + slow > 0 {
            let share = 100.0 * fast as f64 / (fast + slow) as f64;
            row("one round trip", format!("{share:.1} % of {} decided", fast + slow))?;
        }
        if self.gave_up + self.unknown > 0 {
            row("not released", format!("{} given up, {} unknown", self.gave_up, self.unknown))?;
        }
        if self.bad_requests > 0 {
            row("bad requests", format!("{}, counted nowhere else", self.bad_requests))?;
        }
        let followers: Vec<_> = self.cpu_seconds.followers.iter().map(|s| format!("{s:.2}")).collect();
        let load = self.cpu_seconds.load;
        row(
            "CPU seconds",
            match self.config.remote {
                None => format!(
                    "leader {:.2} (load {load:.2}), followers [{}]",
                    self.cpu_seconds.leader,
                    followers.join(", ")
                ),
                Some(_) => {
                    format!("leader {:.2}, followers [{}]", self.cpu_seconds.leader, followers.join(", "))
                }
            },
        )?;
        if let Some(kernel) = self.cpu_seconds.leader_kernel {
            let each = 1e6 * kernel / released.max(1) as f64;
            row("in the kernel", format!("leader {kernel:.2} CPU seconds ({each:.2} us a transaction)"))?;
        }
        if let Some(NeighbourReport { wanted_share, shares, .. }) = &self.neighbours {
            let shares: Vec<_> = shares.iter().map(|share| format!("{share:.2}")).collect();
            let shares = shares.join(", ");
            row("neighbours", format!("took [{shares}] of a core, followers {wanted_share:.2}"))?;
        }
        if let (Some(counted), Some(each)) = (&self.instructions, &self.instructions_per_transaction) {
            let each: Vec<_> = each.iter().map(|count| short(*count)).collect();
            let kernel = counted.kernel.first().copied().unwrap_or_default() as f64 / released.max(1) as f64;
            let each = each.join(", ");
            row("instructions", format!("user {each} a transaction, the leader's kernel {}", short(kernel)))?;
        }
        if let Some(RemoteConfig { connections, threads }) = self.config.remote {
            let each = 1e6 * load / released.max(1) as f64;
            row(
                "remote clients",
                format!(
                    "{connections} connection(s), {threads} thread(s), {load:.2} CPU seconds ({each:.2} us a transaction)"
                ),
            )?;
        }
        if let (Some(apply), Some(per_released)) =
            (self.apply_cpu_us_per_transaction, self.follower_cpu_us_per_released)
        {
            let against = apply / self.execute_cpu_us_per_transaction;
            row(
                "follower CPU",
                format!(
                    "{apply:.2} us an applied transaction ({against:.2} of executing), {per_released:.2} us a released one"
                ),
            )?;
        }
        if self.log_bytes_per_transaction > 0.0 {
            row("log", format!("{:.0} bytes a transaction", self.log_bytes_per_transaction))?;
        }
        row("resident", self.resident_bytes.to_string())?;
        for (name, procedure) in &self.per_procedure {
            let Procedure { committed, user_aborts, released_latency_us } = procedure;
            let count = short((committed + user_aborts) as f64);
            row(&format!("  {name}"), format!("{count:>6}  {}", latency(released_latency_us)))?;
        }
        match &self.checks {
            Some(findings) => row("checks", findings.to_string()),
            None => row("checks", "skipped (--no-check)".into()),
        }
    }
}

impl fmt::Display for ResidentBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leader {}", self.leader)?;
        self.followers.iter().try_for_each(|follower| write!(f, "; {follower}"))
    }
}

impl fmt::Display for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", bytes(self.start))?;
        if let Some(at_10_s) = self.at_10_s {
            write!(f, " > {} (10 s)", bytes(at_10_s))?;
        }
        write!(f, " > {} (store {})", bytes(self.end), bytes(self.store_end))
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(trouble) = self.trouble() {
            return write!(f, "FAILED: {trouble}");
        }
        let (passed, replicas) = (self.passed.len(), self.digests.len());
        write!(f, "{passed} conditions hold on {replicas} replica(s)")?;
        if replicas > 1 {
            f.write_str(", digests equal")?;
        }
        write!(f, ", {} rows, {}", self.rows, bytes(self.bytes))?;
        if self.acknowledged > 0 {
            write!(f, ", 0 of {} acknowledged rows missing", self.acknowledged)?;
        }
        Ok(())
    }
}

/// The quantiles on one line.
pub fn latency(quantiles: &Quantiles) -> String {
    let Quantiles { p50, p95, p99, p999, max } = *quantiles;
    let mut line = String::new();
    for (name, us) in [("p50", p50), ("p95", p95), ("p99", p99), ("p99.9", p999), ("max", max)] {
        let _ = write!(line, "{name} {}  ", micros(us));
    }
    line.trim_end().to_string()
}
