//! The checker's verdict on the history.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use highwater_checker::{History, Level, Options, Sessions, Status, check};

use super::losses::{Allowance, Loss, Losses};
use crate::failure::{Failure, Result};

/// What the checker says.
pub struct Judgement {
    /// Transactions looked at.
    pub checked: usize,
    /// Snapshot reads among them that were answered.
    pub snapshots: usize,
    /// How long that took.
    pub seconds: f64,
    /// In words.
    pub anomalies: Vec<String>,
    /// What each crash of all replicas took, where one may.
    pub losses: Vec<Loss>,
    /// What they took that they may not, in words.
    pub trouble: Vec<String>,
    /// When each committed transaction of the leaders began, and when its client was told so; in the order of the latter.
    pub committed: Vec<(u64, u64)>,
}

/// Checks the history: transactions are strictly serializable, or (`level`) serializable; snapshots are of moments in that order, never
/// go back on one connection, are as fresh as they were asked to be, and hold what their client wrote if it had a token. `allowance`: what
/// may be lost.
pub fn judge(directory: &Path, level: Level, allowance: &Allowance) -> Result<Judgement> {
    let began = Instant::now();
    let entries = fs::read_dir(directory).map_err(Failure::negative)?.flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|suffix| suffix == "jsonl"));
    files.sort();
    let history = History::read(&files).map_err(Failure::negative)?;
    println!("checking {} transactions", history.txns.len());
    let losses = Losses::find(&history, allowance);
    // Who reads snapshots without tokens writes nothing.
    let sessions = Sessions { monotonic_reads: true, read_your_writes: true };
    let options = match level {
        Level::Strict => Options { sessions, ..Options::strict() },
        // Order is all that is promised then, to single clients, too.
        level => Options { level, ..Options::strict() },
    };
    let mut anomalies = Vec::new();
    for (which, history) in losses.histories(&history) {
        let verdict = check(&history, &options);
        let explained = verdict.anomalies.iter();
        anomalies.extend(explained.map(|anomaly| format!("{which}{}: {}", anomaly.kind, anomaly.text)));
        if verdict.anomalies.is_empty() && !verdict.passed() {
            anomalies.push(format!("{which}not explained: {:?}", verdict.found));
        }
    }
    let committed = history.txns.iter().filter(|txn| txn.status == Status::Ok && !txn.snap);
    let mut committed: Vec<(u64, u64)> = committed.filter_map(|txn| Some((txn.t0, txn.t1?))).collect();
    committed.sort_unstable_by_key(|(_, told)| *told);
    let Losses { each: losses, trouble, .. } = losses;
    let snapshots = history.txns.iter().filter(|txn| txn.snap && txn.status == Status::Ok).count();
    let (checked, seconds) = (history.txns.len(), began.elapsed().as_secs_f64());
    Ok(Judgement { checked, snapshots, seconds, anomalies, losses, trouble, committed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_may_be_old_but_not_go_back_on_one_connection() {
        let directory = tempfile::tempdir().unwrap();
        let append = r#"{"p":0,"t0":10,"t1":20,"st":"ok","ops":[["a","l0.0",1]]}"#;
        let snapshot = |process: u64, t0: u64, read: &str| {
            let t1 = t0 + 5;
            format!(
                r#"{{"p":{process},"t0":{t0},"t1":{t1},"st":"ok","ops":[["r","l0.0",{read}]],"snap":true}}"#
            )
        };
        let judged = [1, 2].map(|old| {
            let lines = [append.to_string(), snapshot(1, 30, "[1]"), snapshot(old, 40, "[]")];
            fs::write(directory.path().join("client.jsonl"), lines.join("\n")).unwrap();
            judge(directory.path(), Level::Strict, &Allowance::default()).unwrap()
        });
        let [same, other] = judged;
        assert!(!same.anomalies.is_empty());
        assert_eq!((other.anomalies.len(), other.snapshots, other.committed), (0, 2, vec![(10, 20)]));
    }

    #[test]
    fn a_snapshot_holds_what_it_was_asked_to_hold() {
        let directory = tempfile::tempdir().unwrap();
        let append = r#"{"p":0,"t0":10,"t1":20,"st":"ok","ops":[["a","l0.0",1]]}"#;
        let read = |process: u64, since: u64| {
            format!(
                r#"{{"p":{process},"t0":60,"t1":65,"st":"ok","ops":[["r","l0.0",[]]],"snap":true,"since":{since}}}"#
            )
        };
        // A bound that begins behind the append, one that begins before, and a token of the client's own.
        let anomalies = [(1, 30), (1, 20), (0, 5)].map(|(process, since)| {
            let lines = [append.to_string(), read(process, since)];
            fs::write(directory.path().join("client.jsonl"), lines.join("\n")).unwrap();
            judge(directory.path(), Level::Strict, &Allowance::default()).unwrap().anomalies.len()
        });
        assert_eq!(anomalies, [1, 0, 1]);
    }

    #[test]
    fn a_stale_read_in_one_of_the_files_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let append = r#"{"p":0,"t0":10,"t1":20,"st":"ok","ops":[["a","l0.0",1]]}"#;
        let good = r#"{"p":1,"t0":30,"t1":40,"st":"ok","ops":[["r","l0.0",[1]]]}"#;
        let stale = r#"{"p":1,"t0":30,"t1":40,"st":"ok","ops":[["r","l0.0",[]]]}"#;
        fs::write(directory.path().join("client-0.jsonl"), append).unwrap();
        let judged = [good, stale].map(|read| {
            fs::write(directory.path().join("client-1.jsonl"), read).unwrap();
            judge(directory.path(), Level::Strict, &Allowance::default()).unwrap()
        });
        let [good, stale] = judged;
        assert_eq!((good.checked, good.anomalies.len(), good.committed), (2, 0, vec![(10, 20), (30, 40)]));
        assert!(!stale.anomalies.is_empty());
        // An engine that promises no real time may show it, and no engine what contradicts itself.
        let judge_order =
            || judge(directory.path(), Level::Serializable, &Allowance::default()).unwrap().anomalies.len();
        assert_eq!(judge_order(), 0);
        let skewed =
            r#"{"p":2,"t0":30,"t1":40,"st":"ok","ops":[["r","l0.0",[1]],["r","l1.0",[]],["r","l0.0",[]]]}"#;
        fs::write(directory.path().join("client-1.jsonl"), skewed).unwrap();
        assert!(judge_order() > 0);
    }
}
