//! Files that are not what was written: each byte counts.

use highwater_core::{IndexKind, KeyKind, Schema, TableSpec};
use highwater_disk::SimulatedDisk;
use highwater_disk::checkpoint::{Error, FORMAT_VERSION};

use super::support::{How, Leader, PLENTY, SMALL, load, names, publish, schema};

fn small() -> (SimulatedDisk, Leader) {
    let (disk, mut leader) = (SimulatedDisk::new(7), Leader::new(schema()));
    leader.fill(5, 3);
    publish(&disk, &leader, SMALL).unwrap();
    (disk, leader)
}

/// Nothing can be loaded, for one reason, which names the file.
fn refusal(disk: &SimulatedDisk) -> Error {
    let mut loaded = load(disk, schema(), PLENTY).unwrap();
    assert!(loaded.found.is_none());
    assert_eq!(loaded.skipped.len(), 1);
    loaded.skipped.remove(0).1
}

#[test]
fn every_byte_flipped_is_noticed() {
    let (disk, _) = small();
    for name in names(&disk) {
        let bytes = disk.bytes_of(&name).unwrap();
        for at in 0..bytes.len() {
            for by in [0x01, 0x80, 0xff] {
                let disk = disk.fork(1);
                disk.spoil(&name, at as u64, by);
                let error = refusal(&disk);
                assert!(
                    matches!(&error, Error::Damaged { file, .. } if *file == name),
                    "{name} {at}: {error}"
                );
            }
        }
    }
}

#[test]
fn a_file_of_another_length_is_noticed() {
    let (disk, _) = small();
    for name in names(&disk) {
        let bytes = disk.bytes_of(&name).unwrap();
        let longer = [bytes.as_slice(), &[0; 24]].concat();
        for changed in (0..bytes.len()).map(|len| &bytes[..len]).chain([&longer[..bytes.len() + 1], &longer])
        {
            let disk = disk.fork(1);
            disk.replace(&name, changed);
            let error = refusal(&disk);
            assert!(matches!(&error, Error::Damaged { file, .. } if *file == name), "{name}: {error}");
        }
    }
}

/// Where in the file the first wrong chunk begins is said, and not only that something is wrong.
#[test]
fn damage_is_told_with_its_place() {
    let (disk, _) = small();
    let name = "checkpoint-0001.part-0";
    let bytes = disk.bytes_of(name).unwrap();
    let second = 28 + 8 + u32::from_le_bytes(bytes[28..32].try_into().unwrap()) as u64;
    disk.spoil(name, second + 8 + 3, 1);
    let error = refusal(&disk);
    assert!(matches!(error, Error::Damaged { offset, .. } if offset == second), "{error}");
    assert!(error.to_string().starts_with(&format!("{name} is damaged at byte {second}: ")), "{error}");
}

#[test]
fn files_in_each_others_places_are_noticed() {
    let (disk, leader) = small();
    let swap = |disk: &SimulatedDisk, a: &str, b: &str| {
        let (of_a, of_b) = (disk.bytes_of(a).unwrap(), disk.bytes_of(b).unwrap());
        disk.replace(a, &of_b);
        disk.replace(b, &of_a);
    };
    let parts = disk.fork(1);
    swap(&parts, "checkpoint-0001.part-0", "checkpoint-0001.part-1");
    refusal(&parts);

    // Another cluster's checkpoint of the same number, with as many rows of the same times and lengths.
    let (other, mut theirs) = (SimulatedDisk::new(8), Leader::new(schema()));
    theirs.fill_with(5, 3, 100);
    publish(&other, &theirs, SMALL).unwrap();
    for part in ["checkpoint-0001.part-0", "checkpoint-0001.part-1"] {
        let disk = disk.fork(1);
        disk.replace(part, &other.bytes_of(part).unwrap());
        let said = refusal(&disk).to_string();
        assert!(said.ends_with("it is not the file of which the manifest speaks"), "{said}");
    }

    publish(&disk, &leader, SMALL).unwrap();
    swap(&disk, "checkpoint-0001.manifest", "checkpoint-0002.manifest");
    let loaded = load(&disk, schema(), PLENTY).unwrap();
    assert!(loaded.found.is_none() && loaded.skipped.len() == 2, "{:?}", loaded.skipped);
}

#[test]
fn a_lost_part_is_told_and_the_older_checkpoint_loaded() {
    let (disk, mut leader) = small();
    let before = leader.store.digest();
    leader.fill(9, 2);
    publish(&disk, &leader, SMALL).unwrap();
    disk.lose("checkpoint-0002.part-1");
    let loaded = load(&disk, schema(), PLENTY).unwrap();
    assert_eq!((loaded.number(), loaded.digest()), (Some(1), Some(before)));
    assert!(loaded.skipped[0].1.to_string().starts_with("checkpoint-0002.part-1: cannot open: "));
}

/// What is not damage ends the search, because an older checkpoint would only hide it.
/// Once: a build with more tables did not start from a checkpoint of one with fewer, so that no upgrade could have added
/// a table to nodes with disks.
#[test]
fn other_tables_a_newer_format_and_too_little_memory_are_refused_in_words() {
    let (disk, _) = small();
    let refused = |disk: &SimulatedDisk, schema: Schema, limit| match load(disk, schema, limit) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was loaded, or skipped"),
    };
    let mut specs: Vec<TableSpec> = schema().iter().map(|(_, spec)| spec.clone()).collect();
    specs[1].keys = KeyKind::U64;
    assert_eq!(
        refused(&disk, Schema::new(specs.clone()), PLENTY),
        "checkpoint-0001.manifest is of other tables: table 1 is \"words\" with byte-string keys there and \"words\" with \
         integer keys here"
    );
    specs[1] = TableSpec { name: "names", keys: KeyKind::Bytes, ..specs[1] };
    assert!(
        refused(&disk, Schema::new(specs.clone()), PLENTY).contains("\"names\" with byte-string keys here")
    );
    let fewer = Schema::new(schema().iter().take(3).map(|(_, spec)| spec.clone()).collect());
    assert!(refused(&disk, fewer, PLENTY).ends_with("it has 4 of them, and there are 3 here"));

    // Those that a later build has added are empty.
    let added = TableSpec { name: "added", keys: KeyKind::Bytes, index: IndexKind::Hash };
    let more = Schema::new(schema().iter().map(|(_, spec)| spec.clone()).chain([added]).collect());
    let mut expected = load(&disk, schema(), PLENTY).unwrap().digest().unwrap();
    expected.rows.push(0);
    assert_eq!(load(&disk, more, PLENTY).unwrap().digest(), Some(expected));

    let said = refused(&disk, schema(), 1000);
    assert!(
        said.contains("does not fit: the store takes") && said.ends_with("1000 is all it may take"),
        "{said}"
    );

    let name = "checkpoint-0001.manifest";
    let mut newer = disk.bytes_of(name).unwrap();
    newer[8..10].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    let crc = crc32fast::hash(&[&newer[..12], &newer[16..]].concat());
    newer[12..16].copy_from_slice(&crc.to_le_bytes());
    disk.replace(name, &newer);
    assert_eq!(
        refused(&disk, schema(), PLENTY),
        "checkpoint-0001.manifest has format 2, which is newer than this program's 1"
    );
}

/// Tables may be indexed otherwise than they were: the records are the same.
#[test]
fn another_kind_of_index_loads() {
    let (disk, leader) = small();
    let schema = schema();
    let other = schema.iter().map(|(_, spec)| TableSpec {
        index: match spec.index {
            IndexKind::Hash => IndexKind::Ordered,
            IndexKind::Ordered => IndexKind::Hash,
        },
        ..spec.clone()
    });
    let loaded = load(&disk, Schema::new(other.collect()), PLENTY).unwrap();
    assert_eq!(loaded.digest(), Some(leader.store.digest()));
}

/// The document's example is what is written.
#[test]
fn the_bytes_are_those_of_the_document() {
    let (disk, mut leader) = (SimulatedDisk::new(1), Leader::new(schema()));
    leader.write(0, &7u64.to_be_bytes(), Some(b"ab"));
    publish(&disk, &leader, How { parts: 1, ..SMALL }).unwrap();
    let document = include_str!("../../../../docs/internals/checkpoint.md");
    for name in ["checkpoint-0001.part-0", "checkpoint-0001.manifest"] {
        let (_, shown) = document.split_once(&format!("```text\n{name}\n")).unwrap();
        let lines = shown.lines().take_while(|line| !line.starts_with("```"));
        // What explains stands behind a gap.
        let words = lines.flat_map(|line| line.split("   ").next().unwrap().split(' '));
        let shown: Vec<String> = words.filter(|word| !word.is_empty()).map(str::to_string).collect();
        let bytes: Vec<String> =
            disk.bytes_of(name).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, bytes, "{name}");
    }
}
