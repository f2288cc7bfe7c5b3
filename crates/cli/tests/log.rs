//! `highwater log` as a user meets it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use assert_cmd::Command;
use highwater_disk::{Journal, JournalOptions};
use highwater_node::storage::DataDirectory;
use serde_json::Value;

fn log(args: &[&str], dir: &Path) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let output = command.arg("log").args(args).arg(dir).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Two segments, three records; the directory stays locked while the answer lives.
fn journal(dir: &Path) -> DataDirectory {
    let directory = DataDirectory::open(dir).unwrap();
    for life in [&[&b"one"[..], b"two"][..], &[b"and a longer one than that"]] {
        let options = JournalOptions { journal: 7, writers: 2, segment_bytes: 1 << 16 };
        let (mut journal, _) = Journal::open(directory.clone(), options, &mut |_| {}).unwrap();
        for (writer, record) in life.iter().enumerate() {
            journal.append(writer as u16, record).unwrap();
        }
        journal.close().unwrap();
    }
    directory
}

#[test]
fn a_whole_journal_is_shown_and_verified_for_people_and_programs() {
    let folder = tempfile::tempdir().unwrap();
    drop(journal(folder.path()));
    let (code, page, error) = log(&["dump"], folder.path());
    assert_eq!(code, 0, "{error}");
    assert!(page.contains("6f6e65\n") && page.contains("616e642061206c6f6e676572206f6e65..\n"), "{page}");
    assert!(
        page.contains("3 in 2 groups, 32 B of content") && page.contains("writer 0   at position 29"),
        "{page}"
    );

    let (code, lines, _) = log(&["dump", "--json", "--content", "--writer", "1"], folder.path());
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, lines.len()), (0, 2));
    assert_eq!((&lines[0]["content"], &lines[0]["position"]), (&"74776f".into(), &3.into()));
    assert_eq!((&lines[1]["records"], &lines[1]["positions"][0]), (&3.into(), &29.into()));

    let (code, page, _) = log(&["verify"], folder.path());
    assert!(code == 0 && page.ends_with("verdict    whole\n") && !page.contains("torn"), "{page}");
    let (code, line, _) = log(&["verify", "--json"], folder.path());
    let report: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (code, &report["whole"], &report["running"], &report["torn"]),
        (0, &true.into(), &false.into(), &Value::Null)
    );
}

#[test]
fn damage_is_a_negative_verdict_that_names_file_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    drop(journal(folder.path()));
    let file =
        fs::OpenOptions::new().write(true).open(folder.path().join("journal-0000000000000001")).unwrap();
    file.write_all_at(b"spoilt", 4096 + 70).unwrap();
    for action in ["dump", "verify"] {
        let (code, _, error) = log(&[action], folder.path());
        assert_eq!(code, 1, "{error}");
        assert!(error.contains("journal-0000000000000001 is damaged at offset 4096"), "{error}");
    }
    let (code, line, _) = log(&["verify", "--json"], folder.path());
    let report: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((code, &report["whole"], &report["damage"]["offset"]), (1, &false.into(), &4096.into()));
}

#[test]
fn a_torn_end_is_said_and_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    drop(journal(folder.path()));
    let file =
        fs::OpenOptions::new().write(true).open(folder.path().join("journal-0000000000000002")).unwrap();
    file.write_all_at(b"some of a group", 3 * 4096).unwrap();
    let (code, page, error) = log(&["verify"], folder.path());
    assert_eq!(code, 0, "{error}");
    assert!(page.contains("torn end   15 bytes at offset 12288 of journal-0000000000000002"), "{page}");
}

#[test]
fn a_running_nodes_journal_is_read_and_it_is_said_that_it_may_be_behind() {
    let folder = tempfile::tempdir().unwrap();
    let _lock = journal(folder.path());
    let (code, page, _) = log(&["verify"], folder.path());
    assert!(code == 0 && page.contains("this may be behind"), "{page}");
}

#[test]
fn no_directory_and_no_journal_are_said_so() {
    let folder = tempfile::tempdir().unwrap();
    for action in ["dump", "verify"] {
        let (code, _, error) = log(&[action], &folder.path().join("none"));
        assert!(code == 5 && error.contains("No such file or directory"), "{error}");
        let (code, _, error) = log(&[action], folder.path());
        assert!(code == 5 && error.contains("there is no journal in it"), "{error}");
    }
    let file = folder.path().join("file");
    fs::write(&file, b"x").unwrap();
    let (code, _, error) = log(&["verify"], &file);
    assert!(code == 5 && error.contains("not a directory"), "{error}");
}

/// A last file that was cut was called whole, at a torn end at most.
#[test]
fn a_file_that_was_cut_is_named_with_where_it_ends_now() {
    let folder = tempfile::tempdir().unwrap();
    drop(journal(folder.path()));
    let [first, last] = [1, 2].map(|number| folder.path().join(format!("journal-{number:016}")));
    let cut = |path: &Path, len: u64| {
        let whole = fs::read(path).unwrap();
        fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
        let (code, _, error) = log(&["verify"], folder.path());
        fs::write(path, whole).unwrap();
        assert!(code == 1 && error.contains("was cut"), "{len}: {error}");
        error
    };
    for len in [4096, 4096 + 70, 8192] {
        let error = cut(&last, len);
        assert!(error.contains(&format!("journal-0000000000000002 is damaged at offset {len}")), "{error}");
    }
    for len in [0, 100] {
        assert!(cut(&last, len).contains("journal-0000000000000002 is damaged at offset 0"));
    }
    let error = cut(&first, 4096 + 70);
    assert!(error.contains("journal-0000000000000001 is damaged at offset 4096"), "{error}");
    assert_eq!(log(&["verify"], folder.path()).0, 0);
    // A copy that ends with the last group is whole in an archive, which says so itself.
    fs::write(folder.path().join("chain.json"), "{}").unwrap();
    fs::OpenOptions::new().write(true).open(&last).unwrap().set_len(8192).unwrap();
    assert_eq!(log(&["verify"], folder.path()).0, 0);
}
