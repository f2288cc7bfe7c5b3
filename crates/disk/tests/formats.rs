//! What the first build of each format wrote is read for ever, and what this build writes is the same, byte by byte.
//!
//! `formats/NAME.hex` is a file as it was written: its length, then the bytes that are not zero, by offset. A change of a
//! format raises its number and adds files; those that are here stay as they are. Files that are missing are written by
//! `HIGHWATER_WRITE_FORMATS=1 cargo test -p highwater-disk --test files formats::`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::checkpoint::support::{Leader, PLENTY, SMALL, load, publish, schema};
use highwater_core::evidence::{Begun, Start, Starts};
use highwater_core::{Incarnation, NodeId};
use highwater_disk::journal::MIN_SEGMENT_BYTES;
use highwater_disk::{Disk, Identity, Journal, JournalOptions, SimulatedDisk, Tables};

/// Bytes in a line.
const LINE: usize = 32;

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(format!("{name}.hex"))
}

fn to_hex(bytes: &[u8]) -> String {
    let mut text = format!("{}\n", bytes.len());
    for (at, line) in bytes.chunks(LINE).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0)) {
        write!(text, "{:06x} ", at * LINE).unwrap();
        line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

fn from_hex(text: &str) -> Vec<u8> {
    let mut lines = text.lines();
    let mut bytes = vec![0; lines.next().unwrap().parse().unwrap()];
    for (offset, hex) in lines.map(|line| line.split_once(' ').unwrap()) {
        let offset = usize::from_str_radix(offset, 16).unwrap();
        for (at, byte) in (0..hex.len()).step_by(2).enumerate() {
            bytes[offset + at] = u8::from_str_radix(&hex[byte..byte + 2], 16).unwrap();
        }
    }
    bytes
}

/// Everything on a disk is as it was written then; and a disk on which nothing else is.
fn as_it_was(format: &str, written: &SimulatedDisk) -> SimulatedDisk {
    let then = SimulatedDisk::new(2);
    for name in written.names().unwrap() {
        let bytes = written.bytes_of(&name).unwrap();
        let path = place(&format!("{format}-{name}"));
        if !path.exists() && std::env::var_os("HIGHWATER_WRITE_FORMATS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, to_hex(&bytes)).unwrap();
        }
        let kept = from_hex(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")));
        assert!(bytes == kept, "{name} is written otherwise than by the first build of {format}");
        then.create(&name, kept.len() as u64).unwrap();
        then.replace(&name, &kept);
    }
    then
}

/// A disk with a file as it was written then, which this build writes otherwise.
fn as_it_was_once(format: &str, name: &str) -> SimulatedDisk {
    let disk = SimulatedDisk::new(2);
    let kept = from_hex(&fs::read_to_string(place(&format!("{format}-{name}"))).unwrap());
    disk.create(name, kept.len() as u64).unwrap();
    disk.replace(name, &kept);
    disk
}

fn identity(starts: Starts, begun: Begun, past: bool) -> Identity {
    let (cluster, node, incarnation) = ("north".into(), NodeId(2), Incarnation(0x0123_4567_89ab_cdef));
    Identity { cluster, node, incarnation, starts, begun, past, tables: Tables::default() }
}

fn starts() -> Starts {
    let last = vec![Start { number: 0x1122_3344_5566_7788, had: 99 }, Start { number: 5, had: 1 << 40 }];
    Starts::new(7, last)
}

/// Tables had other numbers then.
#[test]
fn identities_of_formats_1_and_2_are_refused() {
    for format in [1, 2] {
        let then = as_it_was_once(&format!("identity-{format}"), "identity");
        let refused = Identity::read(&then).unwrap_err().to_string();
        assert!(refused.contains(&format!("format {format} is older than")), "{refused}");
    }
}

#[test]
fn identities_of_format_3() {
    let tables = Tables::of(&schema());
    let identity = Identity { tables, ..identity(starts(), Begun::Segment(3), true) };
    let disk = SimulatedDisk::new(1);
    identity.write(&disk).unwrap();
    let then = as_it_was("identity-3", &disk);
    assert_eq!(Identity::read(&then).unwrap(), Some(identity));
}

#[test]
fn journals_of_format_1() {
    let options = || JournalOptions { journal: 77, writers: 2, segment_bytes: MIN_SEGMENT_BYTES };
    let disk = SimulatedDisk::new(1);
    let (mut journal, _) = Journal::open(disk.clone(), options(), &mut |_| {}).unwrap();
    let records: [(u16, &[u8]); 3] = [(0, b"one"), (1, b"two"), (0, &[7; 5000])];
    for (writer, bytes) in records {
        journal.append(writer, bytes).unwrap();
        journal.sync().unwrap();
    }
    journal.close().unwrap();
    let then = as_it_was("journal-1", &disk);
    let mut found = Vec::new();
    let (journal, _) =
        Journal::open(then, options(), &mut |record| found.push((record.writer, record.bytes.to_vec())))
            .unwrap();
    assert_eq!(found, records.map(|(writer, bytes)| (writer, bytes.to_vec())));
    assert_eq!(journal.synced(), [5003, 3]);
}

#[test]
fn checkpoints_of_format_1() {
    let mut leader = Leader::new(schema());
    leader.fill(12, 9);
    let disk = SimulatedDisk::new(1);
    let manifest = publish(&disk, &leader, SMALL).unwrap();
    let then = as_it_was("checkpoint-1", &disk);
    let loaded = load(&then, schema(), PLENTY).unwrap();
    assert!(loaded.skipped.is_empty());
    assert_eq!(loaded.number(), Some(manifest.number));
    assert_eq!(loaded.digest(), Some(leader.store.digest()));
}
