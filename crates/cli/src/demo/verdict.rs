//! How the demo ends: what held, in figures.

use std::fmt;

use crate::counting::Counts;
use crate::failover::{Failover, Rejoin};
use crate::numbers::{bytes, short};
use crate::verify::Findings;

/// The figures of a demo that ran to its end.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// How many replicas.
    pub replicas: usize,
    /// Nobody leads.
    pub leaderless: bool,
    /// Transactions released over all leaders.
    pub released: u64,
    /// Median of the released transactions per second while all replicas ran, before the kill.
    pub tps_before: f64,
    /// The same after the killed replica was back.
    pub tps_after: f64,
    /// The kill.
    pub failover: Failover,
    /// The return.
    pub rejoin: Rejoin,
    /// How long the replicas took to hold the same after the load stopped.
    pub converge_ms: f64,
    /// The checks.
    pub findings: Findings,
    /// What those did who counted under sessions.
    pub counts: Counts,
    /// What is wrong with what their counters hold, if anything is.
    pub miscounted: Option<String>,
}

impl Verdict {
    /// Why it is negative, if it is.
    pub fn trouble(&self) -> Option<String> {
        self.findings.trouble().or_else(|| self.miscounted.clone())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { failover, rejoin, findings, .. } = self;
        let mark = |good: bool| if good { "ok  " } else { "FAIL" };
        writeln!(
            f,
            "{} throughput     {} transactions released; {}/s before the kill, {}/s at the end",
            mark(self.released > 0),
            short(self.released as f64),
            short(self.tps_before),
            short(self.tps_after),
        )?;
        writeln!(
            f,
            "{} failover       replica {} killed, {}: {:.0} ms without a release{}",
            mark(true),
            failover.victim,
            match self.leaderless {
                true => "the others went on".to_string(),
                false => format!("replica {} took over", failover.successor),
            },
            failover.gap_ms,
            if self.leaderless { " at most" } else { "" }
        )?;
        writeln!(
            f,
            "{} rejoin         voter again {:.2} s after its start, {} copied under load, longest gap {:.0} ms",
            mark(true),
            rejoin.seconds,
            bytes(rejoin.store_bytes),
            rejoin.longest_gap_ms
        )?;
        writeln!(
            f,
            "{} convergence    all {} replicas applied all that was decided, {:.0} ms after the load stopped",
            mark(true),
            self.replicas,
            self.converge_ms
        )?;
        let (passed, failed) = (findings.passed.len(), findings.failed.len());
        writeln!(
            f,
            "{} consistency    {passed} TPC-C conditions hold on every replica, {failed} failures",
            mark(failed == 0 && passed > 0)
        )?;
        for check in &findings.failed {
            writeln!(f, "       replica {}: {}: {}", check.replica, check.name, check.failure)?;
        }
        let digest = findings.digests.first().map_or("", String::as_str);
        let equal = findings.digests_equal();
        let shown = if equal { digest.to_string() } else { findings.digests.join(", ") };
        writeln!(
            f,
            "{} digests        {} on {} replicas: {shown} ({} rows, {})",
            mark(equal),
            if equal { "equal" } else { "DIFFER" },
            findings.digests.len(),
            short(findings.rows as f64),
            bytes(findings.bytes)
        )?;
        writeln!(
            f,
            "{} durability     {} of {} acknowledged audit rows missing",
            mark(findings.missing == 0),
            findings.missing,
            findings.acknowledged
        )?;
        let Counts { counters, increments, repeated, asked } = self.counts;
        writeln!(
            f,
            "{} exactly once   {counters} counters, {increments} increments, each done once; {repeated} requests were repeated, {asked} outcomes asked for",
            mark(self.miscounted.is_none() && increments > 0)
        )
    }
}
