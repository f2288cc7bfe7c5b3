//! Before and after the load: accounts are opened, everything is read once more, and the history is judged.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use highwater_checker::{History, Options, Sessions, Status, check};

use super::client::session::{Asks, Session, Setup};
use super::client::work::{ACCOUNTS, List, Lists, Step, Task, Values};
use super::director::Event;
use crate::failure::{Failure, Result};
use crate::fleet::Fleet;
use crate::settle;

/// How long a whole cluster may take to answer one transaction.
const PATIENCE: Duration = Duration::from_secs(10);
/// And how long it may refuse.
const STUBBORN: Duration = Duration::from_secs(30);
/// Keys read in one transaction.
const READS: usize = 8;
/// Of its own kind, so that a directory of histories holds nothing else under the suffix.
const EVENTS: &str = "faults.json";

/// Somebody besides the load who writes history: a client with a number of its own.
#[derive(Clone, Copy, Debug)]
pub struct Notary<'a> {
    /// Its number.
    pub number: u64,
    /// How many write history.
    pub of: u64,
    /// Where it goes.
    pub directory: &'a Path,
}

/// Gives every account its opening balance, on every replica.
pub fn open_accounts(notary: Notary<'_>, doors: &[SocketAddr], fleet: &Fleet) -> Result<()> {
    let mut session = notary.session(Asks::Leader, doors, "opening")?;
    let mut values = Values::new(notary.number, notary.of);
    insist("the accounts cannot be opened", || {
        if !session.connected() {
            return Ok(Status::Fail);
        }
        let ids: Vec<i64> = (0..ACCOUNTS).map(|_| values.fresh()).collect();
        session.open_accounts(&ids)
    })?;
    finish(session)?;
    // From now on no snapshot is without them.
    settle::converge(fleet).map(drop)
}

/// Reads every list that ever was, and the accounts: of the leader, or of one replica's snapshots.
pub fn read_everything(
    notary: Notary<'_>,
    asks: Asks,
    doors: &[SocketAddr],
    generations: &[u32],
) -> Result<()> {
    let name = format!("final-{}", notary.number);
    let mut session = notary.session(asks, doors, &name)?;
    let lists: Vec<Step> = generations
        .iter()
        .enumerate()
        .flat_map(|(slot, last)| (0..=*last).map(move |generation| List { slot, generation }))
        .map(|list| Step { list, append: None })
        .collect();
    let tasks = lists.chunks(READS).map(|steps| Task::Lists(steps.to_vec())).chain([Task::Total]);
    for task in tasks {
        insist(&format!("the final reads ({asks:?}) are refused"), || match session.connected() {
            true => session.run(&task, &Lists::default()),
            false => Ok(Status::Fail),
        })?;
    }
    if let Some(trouble) = session.trouble.first() {
        return Err(Failure::negative(format!("at the final reads: {trouble}")));
    }
    finish(session)
}

type FileSession = Session<BufWriter<File>>;

impl Notary<'_> {
    fn session(&self, asks: Asks, doors: &[SocketAddr], name: &str) -> Result<FileSession> {
        let Notary { number, of, directory } = *self;
        let path = directory.join(format!("{name}.jsonl"));
        let cannot = |error| Failure::cannot_start(format!("cannot write {}: {error}", path.display()));
        let file = BufWriter::new(File::create(&path).map_err(cannot)?);
        let setup = Setup { asks, doors: doors.to_vec(), number, of, patience: PATIENCE, seed: number };
        Ok(Session::new(setup, file))
    }
}

fn finish(session: FileSession) -> Result<()> {
    session.finish().map_err(|error| Failure::negative(format!("cannot write the history: {error}")))
}

/// Tries until it is told committed.
fn insist(what: &str, mut attempt: impl FnMut() -> std::io::Result<Status>) -> Result<()> {
    let began = Instant::now();
    loop {
        let status =
            attempt().map_err(|error| Failure::negative(format!("cannot write the history: {error}")))?;
        match status {
            Status::Ok => return Ok(()),
            _ if began.elapsed() > STUBBORN => {
                return Err(Failure::negative(format!("{what} for {} s", STUBBORN.as_secs())));
            }
            _ => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Every replica's digest, once all have applied everything.
pub fn digests(fleet: &Fleet) -> Result<Vec<String>> {
    settle::converge(fleet)?;
    (0..fleet.len())
        .map(|node| {
            let mut link = fleet.link(node)?;
            link.digest().map(|digest| digest.digest).map_err(|error| link.failure(error))
        })
        .collect()
}

/// Leaves the faults beside the history: the same clock.
pub fn write_events(directory: &Path, events: &[Event]) -> Result<()> {
    let path = directory.join(EVENTS);
    let write = || {
        let mut file = BufWriter::new(File::create(&path)?);
        for event in events {
            serde_json::to_writer(&mut file, event)?;
            file.write_all(b"\n")?;
        }
        file.flush()
    };
    write().map_err(|error| Failure::negative(format!("cannot write {}: {error}", path.display())))
}

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
