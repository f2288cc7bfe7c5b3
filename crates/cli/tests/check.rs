//! `highwater check` as a user meets it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use tempfile::TempDir;

const STALE: &str = concat!(
    r#"{"p":0,"t0":10,"t1":20,"st":"ok","ops":[["a","x",1]]}"#,
    "\n",
    r#"{"p":1,"t0":30,"t1":40,"st":"ok","ops":[["r","x",[]]]}"#,
    "\n",
);
const SNAP: &str = concat!(
    r#"{"p":2,"t0":10,"t1":20,"st":"ok","ops":[["a","x",1]]}"#,
    "\n",
    r#"{"p":2,"t0":30,"t1":40,"st":"ok","snap":true,"ops":[["r","x",[]]]}"#,
    "\n",
);

/// A folder that is gone with the test.
struct Folder(TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        files.iter().for_each(|(name, text)| fs::write(folder.path(name), text).unwrap());
        folder
    }

    /// Runs the command there; returns its exit code, standard output and standard error.
    fn check(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        let output = command.arg("check").args(args).current_dir(self.0.path()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[test]
fn a_verdict_is_an_exit_code_and_a_page() {
    let folder = Folder::new(&[("stale.jsonl", STALE), ("snap.jsonl", SNAP)]);
    let (code, page, error) = folder.check(&["stale.jsonl"]);
    assert_eq!(code, 1, "{error}");
    assert!(page.contains("FAILED") && page.contains("G-single-realtime"), "{page}");
    assert!(page.contains("T1 comes before T0: T1 read x = [], without the 1 that T0 appended."), "{page}");
    assert!(page.lines().count() < 40 && error.contains("1 anomaly"), "{page}\n{error}");

    let (code, page, error) = folder.check(&["stale.jsonl", "--level", "serializable"]);
    assert_eq!((code, page.contains("passed: no anomaly")), (0, true), "{page}\n{error}");
}

#[test]
fn snapshot_reads_keep_what_is_asked_of_them() {
    let folder = Folder::new(&[("snap.jsonl", SNAP)]);
    assert_eq!(folder.check(&["snap.jsonl"]).0, 0);
    assert_eq!(folder.check(&["snap.jsonl", "--session", "monotonic-reads"]).0, 0);
    let (code, page, _) = folder.check(&["snap.jsonl", "--session", "monotonic-reads,read-your-writes"]);
    assert_eq!((code, page.contains("G-single-process")), (1, true), "{page}");
    assert_eq!(folder.check(&["snap.jsonl", "--level", "session"]).0, 1);
}

#[test]
fn several_files_are_one_history_and_can_be_exported() {
    let lines: Vec<&str> = STALE.lines().collect();
    let folder = Folder::new(&[("a.jsonl", lines[0]), ("b.jsonl", lines[1])]);
    let (code, report, _) =
        folder.check(&["a.jsonl", "b.jsonl", "--json", "--edn", "out.edn", "--events", "out.json"]);
    assert_eq!(code, 1);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["passed"], false);
    assert_eq!(report["found"]["G-single-realtime"], 1);
    assert_eq!(report["counts"]["transactions"], 2);
    let edn = fs::read_to_string(folder.path("out.edn")).unwrap();
    assert!(
        edn.starts_with("{:index 0 :time 10 :process 0 :type :invoke :f :txn :value [[:append :x 1]]}"),
        "{edn}"
    );
    let events: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path("out.json")).unwrap()).unwrap();
    assert_eq!(events.as_array().unwrap().len(), 4);
}

#[test]
fn what_cannot_be_read_is_exit_code_5_and_one_line_with_its_place() {
    let folder = Folder::new(&[("bad.jsonl", "\n{\"p\":0}\n"), ("empty.jsonl", "")]);
    for (file, reason) in [
        ("bad.jsonl", "bad.jsonl:2: missing field"),
        ("none.jsonl", "none.jsonl: "),
        ("empty.jsonl", "nothing to judge"),
    ] {
        let (code, page, error) = folder.check(&[file]);
        assert_eq!((code, page.as_str()), (5, ""), "{error}");
        assert!(error.lines().last().unwrap().contains(reason), "{error}");
    }
}
