//! `highwater torture` for a few seconds: faults through the proxy, a verdict, and nothing left behind.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Ports that were free a moment ago may be another cluster's by now: one cluster at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn torture(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    command.arg("torture").args(args);
    command
}

#[test]
fn a_short_torture_finds_nothing_and_makes_progress() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let faults = "kill-leader,pause,partition";
    let args = ["--seconds", "8", "--rate", "400", "--means", "proxy", "--seed", "5", "--faults", faults];
    let output = torture(&args).arg("--json").arg(&path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{text}");
    for wanted in
        ["seed 5", "links        the proxy", "kill -9 of replica", "strictly serializable", "equal on 3"]
    {
        assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
    }
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert!(report["ok"].as_u64().unwrap() > 100, "{report}");
    // What the clients counted is what the checker saw, and the opening and the final reads besides.
    let counted = |of: &Value| -> u64 {
        ["ok", "fail", "info"].iter().map(|status| of[status].as_u64().unwrap()).sum()
    };
    let snapshots = &report["snapshots"];
    assert!(report["checked"].as_u64().unwrap() > counted(&report) + counted(snapshots), "{report}");
    // Snapshot reads are in the history, and some were answered by followers.
    assert_eq!(report["checked_snapshots"], snapshots["ok"], "{report}");
    assert!(report["by_followers"].as_u64().unwrap() > 20, "{report}");
    // So are those that asked for freshness.
    let bounded = ["within", "since"].map(|asked| report["bounded"][asked].as_u64());
    assert!(bounded.iter().all(|answered| *answered > Some(20)), "{report}");
    assert!(report["faults"].as_object().unwrap().len() >= 2, "{report}");
    assert!(!Path::new(report["history"].as_str().unwrap()).exists(), "{report}");
}

/// Nobody leads: clients are spread over the replicas, and go on beside one that is dead, hangs or is cut off.
#[test]
fn a_short_torture_of_an_engine_without_a_leader_finds_nothing() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let faults = "kill,pause,partition,rolling";
    let args = ["--engine", "meerkat-strict", "--seconds", "15", "--rate", "300", "--means", "proxy"];
    let args = [&args[..], &["--seed", "2", "--faults", faults]].concat();
    let output = torture(&args).arg("--json").arg(&path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{text}");
    for wanted in ["3 replicas of meerkat-strict", "verdict      strictly serializable", "equal on 3"] {
        assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
    }
    assert!(!text.contains("leads") && !text.contains("snapshot"), "{text}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(
        (report["engine"].as_str(), report["level"].as_str()),
        (Some("meerkat-strict"), Some("strict"))
    );
    assert!(
        report["ok"].as_u64() > Some(100) && report["counts"]["increments"].as_u64() > Some(100),
        "{text}"
    );
    assert!(report["faults"].as_object().unwrap().len() >= 2, "{text}");
    // Who was dead has been left out and taken in again.
    assert!(report["failovers"].as_u64() > Some(1), "{text}");
}

/// Nothing waits for disks: a crash of all may take what was acknowledged last, and nothing else.
#[test]
fn a_crash_of_all_replicas_takes_no_more_than_a_window() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let args = ["--seconds", "8", "--rate", "800", "--means", "proxy", "--seed", "8", "--faults", "kill-all"];
    let output =
        torture(&args).args(["--set", "cluster.durability=async", "--json"]).arg(&path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{text}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(report["window_ms"], 100, "{text}");
    let crashes = report["faults"]["kill-all"].as_u64().unwrap();
    assert_eq!(report["losses"].as_array().unwrap().len() as u64, crashes, "{text}");
    assert!(crashes > 1 && report["ok"].as_u64() > Some(100), "{text}");
    assert!(text.contains("strictly serializable") && text.contains("equal on 3"), "{text}");
}

/// Replicas that are asked to end hand their lead over, and refer who asks to others. (Some clients lose their patience after 400 ms,
/// which a machine with other work may take for a hand-over; those are not the replicas' fault.)
#[test]
fn a_rolling_restart_breaks_no_connection_that_waits_for_a_reply() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let args = ["--seconds", "14", "--rate", "400", "--means", "proxy", "--seed", "4", "--faults", "rolling"];
    let output =
        torture(&args).args(["--set", "cluster.durability=sync", "--json"]).arg(&path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{text}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert!(report["ok"].as_u64() > Some(100) && report["faults"]["rolling"].as_u64() > Some(1), "{text}");
    let broken = [&report["broken"], &report["snapshots"]["broken"]].map(Value::as_u64);
    assert_eq!(broken, [Some(0); 2], "{text}");
}

#[test]
fn hard_use_is_counted_and_what_it_costs_others_is_measured() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    // Three episodes of at most some 6 s: each kind comes once before any comes again.
    let args = ["--seconds", "16", "--rate", "300", "--means", "proxy", "--seed", "3", "--clients", "5"];
    let output =
        torture(&args).args(["--faults", "vanish,storms,hogs"]).arg("--json").arg(&path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{text}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let done = [
        ("vanish", "connections that stop within a command"),
        ("storms", "connections in storms"),
        ("hogs", "CPU hogs"),
    ];
    for (kind, what) in done {
        let missed = report["missed"].as_array().unwrap().iter().any(|missed| missed == kind);
        assert!(!missed && report["guests"][kind][what].as_u64() > Some(3), "{kind}: {text}");
        assert!(report["latency"][kind]["count"].as_u64() > Some(10), "{kind}: {text}");
    }
    assert_eq!(report["trouble"], Value::Array(Vec::new()), "{text}");
    assert!(report["resident_bytes"].as_u64() > Some(1 << 20), "{text}");
}

/// Disks of 1.5 GiB, filled to the last byte: refusals are clean, reads go on, service returns.
/// Once: a disk that was full of the node's own journal stayed full for ever: writes were refused, so the journal grew no
/// more, and no checkpoint was due (small groups take whole blocks, which do not count towards `storage.checkpoint_mb`;
/// or the last checkpoint found no room)
#[test]
fn a_short_torture_fills_disks_and_makes_room_again() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let args =
        ["--seconds", "12", "--rate", "400", "--means", "proxy", "--seed", "9", "--faults", "disk-full"];
    let output =
        torture(&args).args(["--set", "cluster.durability=sync", "--json"]).arg(&path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    if text.contains("this machine lets nobody mount") {
        assert_eq!(output.status.code(), Some(2), "{text}");
        // Told to whoever runs the tests, captured or not.
        let mut terminal = std::io::stderr();
        std::io::Write::write_all(&mut terminal, format!("\nNOT TESTED: full disks: {text}\n").as_bytes())
            .unwrap();
        return;
    }
    assert!(output.status.success(), "{text}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let weighed = &report["guests"]["disk-full"];
    assert!(weighed["writes of a MiB acknowledged"].as_u64() > Some(10), "{text}");
    assert_eq!(report["trouble"], Value::Array(Vec::new()), "{text}");
    assert!(text.contains("strictly serializable") && text.contains("equal on 3"), "{text}");
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains("/highwater-"), "{mounts}");
}

/// Needs a build that can: `cargo test -p highwater --features failing-syncs --test torture`.
/// Once: a node whose fsync failed ended with exit code 3 (`cannot start`) and `cannot run an event loop: ..`: a
/// supervisor may take that for a bad config.
#[cfg(feature = "failing-syncs")]
#[test]
fn replicas_whose_syncs_fail_end_with_words_and_lose_nothing() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let args =
        ["--seconds", "8", "--rate", "400", "--means", "proxy", "--seed", "6", "--faults", "fsync-fails"];
    let output =
        torture(&args).args(["--set", "cluster.durability=sync", "--json"]).arg(&path).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success(), "{text}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert!(report["guests"]["fsync-fails"]["replicas ended"].as_u64() > Some(1), "{text}");
    assert!(text.contains("strictly serializable") && text.contains("equal on 3"), "{text}");
}

/// Without disks nothing can be full or fail.
#[test]
fn full_disks_need_disks() {
    let output = torture(&["--faults", "disk-full"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("--faults disk-full needs disks") && text.contains("cluster.durability=sync"),
        "{text}"
    );
}

#[test]
fn an_interrupted_torture_leaves_nothing_behind() {
    let _alone = alone();
    let mut command = torture(&["--seconds", "60", "--rate", "200", "--faults", "pause"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // Under way: namespaces (if this machine has them), replicas, clients, and one replica stopped.
    lines.find(|line| line.as_ref().unwrap().contains(" stopped")).unwrap().unwrap();
    let family = children(child.id());
    assert!(family.len() >= 7, "three replicas and four client processes at least: {family:?}");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child.id() as i32).unwrap(),
        rustix::process::Signal::INT,
    )
    .unwrap();
    let status = child.wait().unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    for pid in family {
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is still there");
    }
    let own = |directory: &str, prefix: String| -> Vec<String> {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with(&prefix)).collect()
    };
    let id = child.id();
    assert!(own("/sys/class/net", format!("hwt{id}b")).is_empty());
    assert!(own("/var/run/netns", format!("hwt{id}n")).is_empty());
    let temporary = std::env::temp_dir();
    assert!(own(temporary.to_str().unwrap(), format!("highwater-{id}-")).is_empty());
}

/// The ids of a process's children.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // After the name in parentheses: state, then the parent.
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        rest.split(' ').nth(1).and_then(|id| id.parse().ok()) == Some(parent)
    })
    .collect()
}
