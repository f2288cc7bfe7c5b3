//! The checker's verdict on the history.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use highwater_checker::{History, Options, Sessions, Status, check};

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
    /// When each committed transaction of the leaders began, and when its client was told so; in the order of the latter.
    pub committed: Vec<(u64, u64)>,
}

/// Checks the history: the leaders' transactions are strictly serializable, snapshots are of moments in that order, and never
/// go back on one connection.
pub fn judge(directory: &Path) -> Result<Judgement> {
    let began = Instant::now();
    let entries = fs::read_dir(directory).map_err(Failure::negative)?.flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|suffix| suffix == "jsonl"));
    files.sort();
    let history = History::read(&files).map_err(Failure::negative)?;
    println!("checking {} transactions", history.txns.len());
    let sessions = Sessions { monotonic_reads: true, read_your_writes: false };
    let verdict = check(&history, &Options { sessions, ..Options::strict() });
    let committed = history.txns.iter().filter(|txn| txn.status == Status::Ok && !txn.snap);
    let mut committed: Vec<(u64, u64)> = committed.filter_map(|txn| Some((txn.t0, txn.t1?))).collect();
    committed.sort_unstable_by_key(|(_, told)| *told);
    let mut anomalies: Vec<String> =
        verdict.anomalies.iter().map(|anomaly| format!("{}: {}", anomaly.kind, anomaly.text)).collect();
    if anomalies.is_empty() && !verdict.passed() {
        anomalies.push(format!("not explained: {:?}", verdict.found));
    }
    let (checked, snapshots) = (history.txns.len(), verdict.counts.snap);
    Ok(Judgement { checked, snapshots, seconds: began.elapsed().as_secs_f64(), anomalies, committed })
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
            judge(directory.path()).unwrap()
        });
        let [same, other] = judged;
        assert!(!same.anomalies.is_empty());
        assert_eq!((other.anomalies.len(), other.snapshots, other.committed), (0, 2, vec![(10, 20)]));
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
            judge(directory.path()).unwrap()
        });
        let [good, stale] = judged;
        assert_eq!((good.checked, good.anomalies.len(), good.committed), (2, 0, vec![(10, 20), (30, 40)]));
        assert!(!stale.anomalies.is_empty());
    }
}
