//! The commands against real replica processes: small, but all of it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// Ports that were free a moment ago may be another cluster's by now: one cluster at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs the command; returns its exit code and everything it printed.
fn highwater(args: &[&str]) -> (i32, String) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new(env!("CARGO_BIN_EXE_highwater")).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code().unwrap(), text)
}

#[test]
fn the_demo_survives_its_own_murder() {
    let (code, text) = highwater(&["demo", "--plain", "--seconds", "5", "--scale", "0.02", "--rate", "2000"]);
    assert_eq!(code, 0, "{text}");
    for wanted in [
        "kill -9",
        "took over",
        "voter again",
        "TPC-C conditions hold on every replica, 0 failures",
        "equal on 3",
        " 0 of ",
    ] {
        assert!(text.contains(wanted), "{wanted} is missing in\n{text}");
    }
}

/// An engine that the command knows nothing of but its name: two backups hold what the primary answered.
#[test]
fn the_smallest_engine_is_measured_like_any_other() {
    let (code, text) = highwater(&[
        "bench",
        "bank",
        "--engine",
        "backup",
        "--workers",
        "2",
        "--seconds",
        "1",
        "--warmup",
        "0.2",
        "--rate",
        "2000",
    ]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("backup"), "{text}");
}

#[test]
fn a_bench_reports_what_the_issue_asks_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let json = path.to_str().unwrap();
    let (code, text) = highwater(&[
        "bench",
        "tpcc",
        "--seconds",
        "1",
        "--warmup",
        "0.2",
        "--scale",
        "0.02",
        "--rate",
        "2000",
        "--json",
        json,
    ]);
    assert_eq!(code, 0, "{text}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let wanted = "workload engine replicas workers seconds committed user_aborts conflict_aborts tps \
                  released_latency_us cpu_seconds transactions_per_leader_cpu_second \
                  apply_cpu_us_per_transaction log_bytes_per_transaction resident_bytes per_procedure checks config";
    for key in wanted.split_whitespace() {
        assert!(!report[key].is_null(), "{key} is missing in {report}");
    }
    assert_eq!(report["checks"]["failed"], Value::Array(Vec::new()));
    assert_eq!(report["cpu_seconds"]["followers"].as_array().unwrap().len(), 2);
    assert!(report["tps"].as_f64().unwrap() > 500.0, "{report}");
}

/// The same benchmark in Silo's tables: every condition holds on a real store, its index of names included.
#[test]
fn tpcc_is_measured_and_checked_in_silos_layout_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let run = ["bench", "tpcc", "--engine", "silo", "--layout", "silo", "--workers", "2", "--scale", "0.02"];
    let load = ["--seconds", "1", "--warmup", "0.2", "--rate", "2000", "--json", path.to_str().unwrap()];
    let (code, text) = highwater(&[&run[..], &load].concat());
    assert_eq!(code, 0, "{text}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(report["config"]["workload_options"]["layout"], "silo", "{report}");
    let passed = report["checks"]["passed"].as_array().unwrap();
    assert!((1..=12).all(|number| passed.contains(&Value::from(format!("tpcc-{number}")))), "{report}");
    assert!(passed.contains(&Value::from("tpcc-rows")), "{report}");
    assert_eq!(report["bad_requests"], 0, "{report}");
}

/// The Meerkat paper's workloads, skewed, with and without replication: all replicas keep their conditions.
#[test]
fn the_workloads_with_64_byte_rows_are_measured_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.json");
    let json = path.to_str().unwrap();
    for (workload, engine) in
        [("ycsb-t", "silo"), ("ycsb-t", "rolis"), ("retwis", "silo"), ("retwis", "rolis")]
    {
        let run =
            ["bench", workload, "--engine", engine, "--workers", "2", "--scale", "0.001", "--zipf", "0.9"];
        let (code, text) = highwater(
            &[&run[..], &["--seconds", "1", "--warmup", "0.2", "--rate", "2000", "--json", json]].concat(),
        );
        assert_eq!(code, 0, "{text}");
        let report: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(report["config"]["workload_options"]["keys"], "2000", "{report}");
        assert_eq!(report["config"]["workload_options"]["zipf"], "0.9", "{report}");
        let (rows, passed) = (format!("{workload}-rows"), report["checks"]["passed"].as_array().unwrap());
        assert!(passed.contains(&Value::from(rows)), "{report}");
        assert!(workload != "retwis" || passed.contains(&Value::from("retwis-twins")), "{report}");
        assert_eq!(report["bad_requests"], 0, "{report}");
        assert!(report["tps"].as_f64().unwrap() > 500.0, "{report}");
    }
}

#[test]
fn failovers_lose_nothing() {
    let (code, text) = highwater(&[
        "bench",
        "failover",
        "--runs",
        "2",
        "--seconds",
        "0.3",
        "--workload",
        "bank",
        "--rate",
        "2000",
        "--option",
        "accounts=1000",
    ]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("gap in released throughput") && text.contains("0 of "), "{text}");
}
