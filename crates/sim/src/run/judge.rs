//! What is asked of a run that came to its end; and the story of one that did not.

use std::fmt::Write as _;

use highwater_checker::{Level, Options, check};
use highwater_core::{NodeId, Timestamp};
use highwater_engine_rolis::remains::Trust;
use highwater_store::Digest;

use super::failure::{FailureKind, Verdict};
use super::stages::Run;
use crate::house::House;
use crate::library::{self, ACCOUNTS, OPENING};
use crate::units::MS;
use crate::world::remains::DiskRemains;

/// Controllers' last words that are kept per node for a report.
const LAST_WORDS: usize = 14;

impl<H: House> Run<H> {
    pub(super) fn judge(&self) -> Result<(), Verdict> {
        self.judge_replicas()?;
        self.judge_clusters()?;
        self.judge_disks()?;
        self.judge_guests()?;
        let verdict = check(&self.clients.journal.history(), &self.promised());
        if let Some(first) = verdict.anomalies.first() {
            let kinds: Vec<String> =
                verdict.found.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            return self.fail(FailureKind::Anomaly, format!("{}. First: {}", kinds.join(", "), first.text));
        }
        if let Some(wrong) = self.clients.journal.contradictions() {
            return self.fail(FailureKind::Promise("what a transaction sees is of one moment"), wrong);
        }
        Ok(())
    }

    fn judge_guests(&self) -> Result<(), Verdict> {
        match self.guests.as_ref().map_or(Ok(()), |guests| guests.judge(&self.world)) {
            Ok(()) => Ok(()),
            Err((kind, what)) => self.fail(kind, what),
        }
    }

    /// What the engine's histories must show.
    fn promised(&self) -> Options {
        let engine = self.plan.engine().expect("a plan names an engine");
        let level = if engine.abilities().real_time { Level::Strict } else { Level::Serializable };
        Options { level, ..Options::strict() }
    }

    fn judge_replicas(&self) -> Result<(), Verdict> {
        let store = |id: NodeId| self.world.replica(id).expect("all are up").controller.store();
        let (written, refused) = self.clients.journal.audits();
        for id in self.world.belonging() {
            let store = store(id);
            if let Some(row) = written.iter().find(|row| !library::audited(&*store, **row)) {
                let what =
                    format!("{id} has lost audit row {row}; {}", self.clients.journal.who_audits(*row));
                return self.fail(FailureKind::Promise("what was acknowledged is there"), what);
            }
            if let Some(row) = refused.iter().find(|row| library::audited(&*store, **row)) {
                let what = format!("{id} holds audit row {row}; {}", self.clients.journal.who_audits(*row));
                return self.fail(FailureKind::Promise("what was refused is not there"), what);
            }
            let shows = |key| library::counted(&*store, key);
            if let Some(wrong) = self.clients.counters.judge(shows) {
                let what = format!("{id}: {wrong}");
                return self.fail(FailureKind::Promise("what runs under a session happens once"), what);
            }
            let total = library::total(&*store);
            if total != u64::from(ACCOUNTS * OPENING) {
                let what = format!("{id}'s accounts hold {total}, not {}", ACCOUNTS * OPENING);
                return self.fail(FailureKind::Promise("the bank's total never changes"), what);
            }
        }
        let first = self.world.belonging().next().expect("somebody votes");
        let digest = store(first).digest();
        match self.world.belonging().find(|id| store(*id).digest() != digest) {
            Some(id) => {
                let differ = store(id).differences(&store(first), 4).join("; ");
                self.fail(FailureKind::Diverged, format!("{id}'s rows are not those of {first}: {differ}"))
            }
            None => Ok(()),
        }
    }

    /// Nodes of a cluster that is over have no part in the one that was founded from it.
    fn judge_clusters(&self) -> Result<(), Verdict> {
        let status = |id| self.world.status(id);
        let old: Vec<_> = self.world.old_nodes().filter_map(status).collect();
        let new: Vec<_> = self.world.ids().filter_map(status).collect();
        for (one, other) in old.iter().flat_map(|old| new.iter().map(move |new| (old, new))) {
            if one.votes_by(other) || other.votes_by(one) || one.ask == Some(other.node) {
                let what =
                    format!("{}, of a cluster that is over, and {} know each other", one.node, other.node);
                return self.fail(FailureKind::Promise("clusters do not mix"), what);
            }
        }
        Ok(())
    }

    /// What `highwater recover` and backups would find: the present, and before it nothing but moments that there were.
    fn judge_disks(&self) -> Result<(), Verdict> {
        let first = self.world.belonging().next().expect("somebody votes");
        let present = self.world.replica(first).expect("all are up").controller.store().digest();
        let wrong = |id: NodeId, what: String| {
            self.fail(FailureKind::Promise("a disk holds the past"), format!("the disk of {id}: {what}"))
        };
        for id in self.world.belonging() {
            for disk in self.world.disk_remains(id) {
                if let Err(why) = is_the_past(&disk, &present) {
                    return wrong(id, why);
                }
            }
        }
        Ok(())
    }

    /// The faults, the last words of every node, and how each stands.
    pub(super) fn story(&self) -> String {
        let mut text = String::from("faults:\n");
        for (at, what) in &self.hand.said {
            let _ = writeln!(text, "{:>10.3} ms {what}", *at as f64 / MS as f64);
        }
        for id in self.world.ids() {
            let _ = writeln!(text, "{id}, last events:");
            let own: Vec<_> = self.world.log.iter().filter(|(_, node, _)| *node == id).collect();
            for (at, _, what) in &own[own.len().saturating_sub(LAST_WORDS)..] {
                let _ = writeln!(text, "{:>10.3} ms {what}", *at as f64 / MS as f64);
            }
            match self.world.status(id) {
                None => text.push_str("  is down\n"),
                Some(status) => {
                    let leads = if status.leads() { " (leads)" } else { "" };
                    let _ = writeln!(text, "  {status:?}{leads}");
                }
            }
            for worker in self.world.replica(id).map_or(&[][..], |replica| &replica.workers) {
                let _ = writeln!(text, "  {}", worker.describe());
            }
        }
        text.push_str(&self.clients.delegates.describe());
        text.push_str(&self.guests.as_ref().map_or(String::new(), |guests| guests.describe()));
        text
    }
}

/// Moments that are looked at, beside the last one.
const MOMENTS: u64 = 3;

fn is_the_past(disk: &DiskRemains, present: &Digest) -> Result<(), String> {
    let (_, latest) = disk.moments(Trust::Accepted)?;
    if disk.state_at(Trust::Accepted, latest)?.digest() != *present {
        return Err(format!("what it holds at {latest} is not the present"));
    }
    let (earliest, latest) = disk.moments(Trust::Decided)?;
    for at in 0..=MOMENTS {
        let moment = Timestamp(earliest.0 + (latest.0 - earliest.0) / MOMENTS * at);
        let total = library::total(&*disk.state_at(Trust::Decided, moment)?);
        if total != u64::from(ACCOUNTS * OPENING) {
            return Err(format!("its accounts hold {total} at {moment}, not {}", ACCOUNTS * OPENING));
        }
    }
    Ok(())
}
