//! `highwater checkpoint` as an operator meets it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::sync::Arc;

use assert_cmd::Command;
use highwater_core::{Clock, IndexKind, KeyKind, Schema, TableId, TableSpec, Timestamp, Transaction};
use highwater_disk::checkpoint::{Scan, WriteStep, Writer};
use highwater_disk::{Disk, SimulatedDisk};
use highwater_store::{Occ, Store};
use serde_json::Value;
use tempfile::TempDir;

/// Two checkpoints, of two parts each, in a real folder.
fn folder() -> TempDir {
    let spec = |name, keys| TableSpec { name, keys, index: IndexKind::Hash };
    let store = Store::new(Schema::new(vec![spec("numbers", KeyKind::U64), spec("words", KeyKind::Bytes)]));
    let mut occ = Occ::new(store.clone(), Arc::new(Clock::counter()));
    let (disk, folder) = (SimulatedDisk::new(1), tempfile::tempdir().unwrap());
    for number in 0..2u64 {
        occ.begin();
        occ.put(TableId(0), &(7 + number).to_be_bytes(), b"seven").unwrap();
        occ.put(TableId(1), b"a \"word\"", b"\xff").unwrap();
        occ.commit().unwrap();
        occ.begin();
        occ.put(TableId(1), b"gone", b"").unwrap();
        occ.delete(TableId(1), b"gone").unwrap();
        occ.commit().unwrap();
        let scan = Scan { floor: Timestamp(1), parts: 2, expected_bytes: 0, from_ballast: false };
        let (writer, parts) = Writer::begin(&disk, &store, scan).unwrap();
        let write = |mut part: highwater_disk::checkpoint::PartWriter<_>| loop {
            match part.step(100).unwrap() {
                WriteStep::More(more) => part = more,
                WriteStep::Done(written) => return written,
            }
        };
        let written = parts.into_iter().map(write).collect();
        writer.publish(&disk, written, Timestamp::MAX, b"\x01engine".to_vec()).unwrap();
    }
    for name in disk.names().unwrap() {
        fs::write(folder.path().join(&name), disk.bytes_of(&name).unwrap()).unwrap();
    }
    folder
}

/// Runs the command in the folder; returns its exit code, standard output and standard error.
fn checkpoint(folder: &TempDir, args: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
    let args = args.split_whitespace();
    let output = command.arg("checkpoint").args(args).current_dir(folder.path()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

#[test]
fn whole_ones_are_verified() {
    let folder = folder();
    let (code, page, error) = checkpoint(&folder, "verify .");
    assert_eq!(code, 0, "{page}{error}");
    let lines: Vec<&str> = page.lines().collect();
    assert!(lines[0].starts_with("checkpoint 2      whole    4 records, "), "{page}");
    assert!(lines[1].starts_with("checkpoint 1      whole    3 records, ") && lines.len() == 2, "{page}");

    let (code, line, _) = checkpoint(&folder, "verify . --json --number 1");
    let found = &json(&line)["checkpoints"];
    assert_eq!((code, found.as_array().unwrap().len()), (0, 1));
    assert!(found[0]["whole"] == true && found[0]["records"] == 3 && found[0]["number"] == 1, "{line}");
}

#[test]
fn damage_is_told_with_file_and_offset_and_is_a_negative_verdict() {
    let folder = folder();
    let part = folder.path().join("checkpoint-0002.part-1");
    let mut bytes = fs::read(&part).unwrap();
    bytes[40] ^= 1;
    fs::write(&part, bytes).unwrap();
    fs::remove_file(folder.path().join("checkpoint-0002.part-0")).unwrap();
    let (code, page, error) = checkpoint(&folder, "verify .");
    let said = error.lines().last().unwrap();
    assert_eq!((code, said), (1, "highwater: 1 of 2 checkpoint(s) cannot be loaded"), "{page}");
    assert!(page.contains("checkpoint 2      DAMAGED  checkpoint-0002.part-0: cannot open: "), "{page}");
    assert!(
        page.contains("checkpoint 2      DAMAGED  checkpoint-0002.part-1 is damaged at byte 28: "),
        "{page}"
    );
    assert!(page.contains("checkpoint 1      whole"), "{page}");
    let (code, line, _) = checkpoint(&folder, "verify . --json");
    assert_eq!((code, json(&line)["checkpoints"][0]["errors"].as_array().unwrap().len()), (1, 2), "{line}");

    // What can be read of it is shown all the same.
    let (code, page, _) = checkpoint(&folder, "dump . --records");
    assert!(code == 1 && page.contains("checkpoint 2 cannot be read: checkpoint-0002.part-0"), "{page}");
    assert!(page.contains("numbers 7 = \"seven\""), "{page}");
}

#[test]
fn a_dump_shows_manifest_and_records() {
    let folder = folder();
    let (code, page, error) = checkpoint(&folder, "dump . --number 2 --records");
    assert_eq!(code, 0, "{error}");
    for shown in [
        "checkpoint 2\n",
        "makes a state of it",
        "0        \"numbers\" with integer keys\n",
        "1        \"words\" with byte-string keys\n",
        "parts        2, ",
        "  checkpoint-0002.part-1  ",
        "engine       7 bytes: \\x01engine\n",
        "numbers 7 = \"seven\"\n",
        "numbers 8 = \"seven\"\n",
        "words \"a \\\"word\\\"\" = \"\\xff\"\n",
        "words \"gone\" deleted\n",
    ] {
        assert!(page.contains(shown), "{shown} in\n{page}");
    }
    assert!(!page.contains("checkpoint 1\n"), "{page}");

    let (code, lines, _) = checkpoint(&folder, "dump . --json --records");
    let lines: Vec<Value> = lines.lines().map(json).collect();
    assert_eq!((code, lines.len()), (0, 2 + 4 + 3));
    assert!(lines[0]["number"] == 2 && lines[0]["format"] == 1 && lines[0]["records"] == 4);
    assert_eq!(lines[0]["parts"][1]["file"], "checkpoint-0002.part-1");
    let gone = lines.iter().find(|line| line["key"] == "gone").unwrap();
    assert!(gone["value"].is_null() && gone["table"] == "words", "{gone}");
    assert!(lines.iter().any(|line| line["key"] == 8 && line["value"] == "seven"));
}

#[test]
fn a_folder_without_checkpoints_is_said_to_be_one() {
    let folder = folder();
    for (args, wanted) in [
        ("verify no/such/folder", "cannot open no/such/folder: "),
        ("verify checkpoint-0001.manifest", "cannot open checkpoint-0001.manifest: "),
        ("dump . --number 3", ".: there is no checkpoint 3 (there: 1, 2)"),
    ] {
        let (code, page, error) = checkpoint(&folder, args);
        assert_eq!((code, page.as_str()), (5, ""), "{args}: {error}");
        assert!(error.contains(wanted) && error.lines().count() == 1, "{args}: {error}");
    }
    for file in fs::read_dir(folder.path()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let (code, _, error) = checkpoint(&folder, "dump .");
    assert_eq!((code, error.as_str()), (5, "highwater: .: no checkpoint is there\n"));
}
