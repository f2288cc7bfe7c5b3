//! What a torture found, on one page.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use highwater_checker::Level;
use serde::Serialize;

use super::client::Outcomes;
use super::client::fresh::Bounded;
use super::events::Event;
use super::latency::Latency;
use super::losses::Loss;
use super::schedule::FaultKind;
use crate::counting::Counts;
use crate::failure::{Failure, Result};
use crate::numbers::bytes;
use crate::report_file::write_json;

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Repeats the schedule.
    pub seed: u64,
    /// Of the replicas.
    pub engine: &'static str,
    /// What the history was held against.
    pub level: &'static str,
    /// Nobody leads.
    #[serde(skip)]
    pub leaderless: bool,
    /// There are snapshots to be read.
    #[serde(skip)]
    pub reads_snapshots: bool,
    /// Of load.
    pub seconds: f64,
    /// How many.
    pub replicas: u8,
    /// Of each replica.
    pub workers: u16,
    /// How many.
    pub clients: u16,
    /// How links were broken.
    pub links: String,
    /// How the transactions ended that asked whoever leads, or any replica where nobody does.
    #[serde(flatten)]
    pub transactions: Outcomes,
    /// Of those who counted under sessions.
    pub counts: Counts,
    /// And those that asked any replica for a snapshot.
    pub snapshots: Outcomes,
    /// Of these, those that asked for freshness.
    pub bounded: Bounded,
    /// Of all of them, answered by followers, at least; the leader runs them as transactions.
    pub by_followers: u64,
    /// Faults by kind.
    pub faults: BTreeMap<FaultKind, u64>,
    /// Kinds that were asked for and did not come: the run was too short.
    pub missed: Vec<FaultKind>,
    /// What guests did how often, by kind.
    pub guests: BTreeMap<FaultKind, BTreeMap<String, u64>>,
    /// How often the lead went to another replica while faults of a kind lasted; without a leader, how often the epoch changed.
    pub leader_changes: BTreeMap<FaultKind, u64>,
    /// How long the clients' transactions took, by what went on.
    pub latency: BTreeMap<String, Latency>,
    /// The most memory that a replica was seen to have resident.
    pub resident_bytes: u64,
    /// How often the lead went to another replica; without a leader, how often the epoch changed.
    pub failovers: u64,
    /// Times without a commit.
    pub gaps: Gaps,
    /// One per replica, after everything was applied.
    pub digests: Vec<String>,
    /// Transactions that the checker looked at.
    pub checked: usize,
    /// Snapshot reads among them.
    pub checked_snapshots: usize,
    /// How long it took.
    pub check_seconds: f64,
    /// What it found, in words.
    pub anomalies: Vec<String>,
    /// Milliseconds of acknowledged transactions that a crash of all replicas may take, if any may be lost.
    pub window_ms: Option<u64>,
    /// What each of these crashes took.
    pub losses: Vec<Loss>,
    /// What clients saw that must not happen, in words.
    pub trouble: Vec<String>,
    /// Where the history is, if it is kept.
    pub history: String,
}

/// The longest times without a commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Gaps {
    /// Of all, in milliseconds.
    pub longest_ms: f64,
    /// What was going on.
    pub during: Vec<String>,
    /// While the cluster was whole, in milliseconds.
    pub whole_ms: f64,
    /// The longest that each kind of fault had a part in, in milliseconds.
    pub by_kind_ms: BTreeMap<FaultKind, f64>,
}

impl Gaps {
    /// Of commits (in order) between the load's begin and end.
    pub fn of(commits: &[u64], (began, ended): (u64, u64), events: &[Event], unrest: &[(u64, u64)]) -> Gaps {
        let mut times = vec![began];
        times.extend(commits.iter().copied().filter(|at| (began..ended).contains(at)));
        times.push(ended);
        let gaps = || times.windows(2).map(|pair| (pair[0], pair[1]));
        let meets = |(from, to): (u64, u64), (begin, end): (u64, u64)| begin < to && from < end;
        let longest = gaps().max_by_key(|(from, to)| to - from).unwrap_or_default();
        let whole = gaps().filter(|gap| !unrest.iter().any(|spell| meets(*gap, *spell)));
        let during = events.iter().filter(|event| meets(longest, (event.from_ns, event.to_ns)));
        let mut by_kind_ms = BTreeMap::new();
        for event in events {
            let met = gaps().filter(|gap| meets(*gap, (event.from_ns, event.to_ns)));
            let most: &mut f64 = by_kind_ms.entry(event.kind).or_default();
            *most = met.map(millis).fold(*most, f64::max);
        }
        Gaps {
            longest_ms: millis(longest),
            during: during.map(|event| event.what.clone()).collect(),
            whole_ms: whole.map(millis).fold(0.0, f64::max),
            by_kind_ms,
        }
    }
}

fn millis((from, to): (u64, u64)) -> f64 {
    (to - from) as f64 / 1e6
}

impl Report {
    /// Why the verdict is negative, if it is.
    pub fn failure(&self) -> Option<String> {
        let first = |what: &str, all: &[String]| all.first().map(|first| format!("{what}: {first}"));
        if !self.anomalies.is_empty() {
            return first(&format!("the history is not {}", self.promise()), &self.anomalies);
        }
        if let Some(trouble) = first("a client saw what must not happen", &self.trouble) {
            return Some(trouble);
        }
        if self.digests.windows(2).any(|pair| pair[0] != pair[1]) {
            return Some(format!("the replicas' digests differ: {}", self.digests.join(", ")));
        }
        (self.transactions.ok == 0).then(|| "nothing was committed".into())
    }

    /// What the history has to be.
    fn promise(&self) -> &'static str {
        if self.level == Level::Strict.name() { "strictly serializable" } else { "serializable" }
    }

    /// Prints it, writes the JSON if asked, and turns a negative verdict into a failure.
    pub fn publish(&self, json: Option<&Path>) -> Result<()> {
        print!("\n{self}");
        if let Some(path) = json {
            write_json(path, self)?;
        }
        self.failure().map_or(Ok(()), |why| Err(Failure::negative(why)))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { seed, engine, seconds, replicas, workers, clients, links, .. } = self;
        writeln!(
            f,
            "torture      seed {seed}, {seconds:.0} s, {replicas} replicas of {engine}, {workers} worker(s), {clients} clients"
        )?;
        writeln!(f, "links        {links}")?;
        let Outcomes { ok, fail, info, broken } = self.transactions;
        let rate = ok as f64 / seconds;
        writeln!(
            f,
            "transactions {ok} ok, {fail} fail, {info} unknown ({broken} by broken connections); {rate:.0} ok/s"
        )?;
        let Counts { counters, increments, repeated, asked } = self.counts;
        writeln!(
            f,
            "counters     {counters} with {increments} increments under sessions; {repeated} requests repeated, {asked} outcomes asked for"
        )?;
        if self.reads_snapshots {
            self.show_snapshots(f)?;
        }
        let faults: Vec<_> =
            self.faults.iter().map(|(kind, count)| format!("{count} {}", kind.name())).collect();
        let total: u64 = self.faults.values().sum();
        writeln!(f, "faults       {total}: {}", faults.join(", "))?;
        if !self.missed.is_empty() {
            let missed: Vec<_> = self.missed.iter().map(|kind| kind.name()).collect();
            writeln!(f, "not tried    {}: the run was too short", missed.join(", "))?;
        }
        for (kind, counts) in &self.guests {
            let counts: Vec<_> = counts.iter().map(|(what, n)| format!("{n} {what}")).collect();
            writeln!(f, "  {:<12}{}", kind.name(), counts.join(", "))?;
        }
        let changes = if self.leaderless { "epochs      " } else { "failovers   " };
        writeln!(f, "{changes} {}", self.failovers)?;
        let changes = self.leader_changes.iter().filter(|(_, count)| **count > 0);
        let changes: Vec<_> = changes.map(|(kind, count)| format!("{count} {}", kind.name())).collect();
        if !changes.is_empty() {
            writeln!(f, "  during     {}", changes.join(", "))?;
        }
        writeln!(f, "latency      of the clients' transactions, by what went on")?;
        for (kind, latency) in &self.latency {
            let gap = self.gaps.by_kind_ms.iter().find(|(known, _)| known.name() == kind.as_str());
            let gap = gap.map_or(String::new(), |(_, ms)| format!("; longest gap {ms:.0} ms"));
            writeln!(f, "  {kind:<12}{latency}{gap}")?;
        }
        writeln!(f, "memory       {} resident at most", bytes(self.resident_bytes))?;
        let Gaps { longest_ms, during, whole_ms, .. } = &self.gaps;
        let during = if during.is_empty() { String::new() } else { format!(" ({})", during.join("; ")) };
        writeln!(f, "longest gap  {longest_ms:.0} ms{during}; {whole_ms:.0} ms while the cluster was whole")?;
        if let Some(window_ms) = self.window_ms {
            let (crashes, took) =
                (self.losses.len(), self.losses.iter().filter(|loss| loss.transactions > 0));
            let lost: usize = took.clone().map(|loss| loss.transactions).sum();
            let writes: usize = took.clone().map(|loss| loss.writes).sum();
            let most = |of: fn(&Loss) -> f64| took.clone().map(of).fold(0.0, f64::max);
            let (span, before) = (most(|loss| loss.span_ms), most(|loss| loss.before_ms));
            writeln!(
                f,
                "lost         {lost} acknowledged transactions, {writes} of them writes, in {} of {crashes} crashes of all; within {span:.1} ms at most, of {window_ms} ms allowed; acknowledged {before:.1} ms before the crash at the earliest",
                took.clone().count()
            )?;
        }
        let equal = self.digests.windows(2).all(|pair| pair[0] == pair[1]);
        let digests = if equal { "equal" } else { "DIFFERENT" };
        writeln!(f, "digests      {digests} on {} replicas", self.digests.len())?;
        let (checked, took) = (self.checked, self.check_seconds);
        let not = if self.anomalies.is_empty() { "" } else { "NOT " };
        let snapshots = match self.reads_snapshots {
            true => format!(", {} snapshot reads among them", self.checked_snapshots),
            false => String::new(),
        };
        writeln!(
            f,
            "verdict      {not}{}: {checked} transactions checked in {took:.1} s{snapshots}",
            self.promise()
        )?;
        for anomaly in self.anomalies.iter().chain(&self.trouble) {
            writeln!(f, "\n{anomaly}")?;
        }
        Ok(())
    }
}

impl Report {
    fn show_snapshots(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcomes { ok, fail, info, .. } = self.snapshots;
        let by_followers = self.by_followers;
        writeln!(
            f,
            "snapshots    {ok} ok, {fail} fail, {info} unknown; {by_followers} or more by followers"
        )?;
        let Bounded { within, since, refused } = self.bounded;
        writeln!(
            f,
            "  fresh      {within} ok within a bound, {since} ok with a token, {refused} refused as not fresh"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_told_apart() {
        let ms = |ms: u64| ms * 1_000_000;
        let commits = [ms(10), ms(20), ms(320), ms(330), ms(380)];
        let event = Event {
            kind: FaultKind::Pause,
            what: "replica 1 stopped".into(),
            from_ns: ms(25),
            to_ns: ms(300),
            leader_changes: 0,
        };
        let gaps = Gaps::of(&commits, (ms(0), ms(400)), &[event], &[(ms(25), ms(325))]);
        let during = vec!["replica 1 stopped".to_string()];
        let by_kind_ms = BTreeMap::from([(FaultKind::Pause, 300.0)]);
        assert_eq!(gaps, Gaps { longest_ms: 300.0, during, whole_ms: 50.0, by_kind_ms });
    }

    #[test]
    fn silence_is_one_long_gap() {
        assert_eq!(Gaps::of(&[], (0, 5_000_000), &[], &[]).longest_ms, 5.0);
    }
}
