//! From nothing to the most that is legal, and disks with no room.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use highwater_core::limits::{MAX_KEY_BYTES, MAX_VALUE_BYTES};
use highwater_core::{Schema, Timestamp};
use highwater_disk::checkpoint::{published, remove_leftovers, remove_old};
use highwater_disk::{Ballast, Disk, SimulatedDisk, ballast};
use highwater_store::Applier;

use super::support::{
    FROM_BALLAST, How, Leader, PLENTY, SMALL, TABLES, checkpoint, load, names, publish, schema,
};

/// Writes and loads it in several ways; it is the same each time.
fn assert_survives(leader: &Leader, schema: &Schema) {
    for (parts, budget) in [(1, 1), (1, usize::MAX), (3, 4000), (64, 1000)] {
        let disk = SimulatedDisk::new(3);
        let how = How { parts, budget, expected_bytes: leader.store.used(), keep: 1, ..SMALL };
        let manifest = publish(&disk, leader, how).unwrap();
        assert_eq!((manifest.parts.len(), names(&disk).len()), (parts.into(), usize::from(parts) + 1));
        disk.crash();
        let loaded = load(&disk, schema.clone(), PLENTY).unwrap();
        assert_eq!(loaded.digest(), Some(leader.store.digest()), "{parts} parts of {budget}");
        assert_eq!(loaded.found.unwrap().0, manifest);
        let bytes: usize = names(&disk).iter().map(|name| disk.bytes_of(name).unwrap().len()).sum();
        let of_manifest = disk.bytes_of(&manifest.file()).unwrap().len();
        assert_eq!(manifest.len_bytes() as usize + of_manifest, bytes, "no more room is kept than is used");
    }
}

#[test]
fn no_tables_no_rows_one_row() {
    assert_survives(&Leader::new(Schema::default()), &Schema::default());
    let mut leader = Leader::new(schema());
    assert_survives(&leader, &schema());
    leader.write(1, b"", Some(b""));
    assert_survives(&leader, &schema());
}

#[test]
fn the_longest_key_and_value_of_every_kind_of_table() {
    let mut leader = Leader::new(schema());
    leader.fill(20, 100);
    for table in 0..TABLES {
        let long = vec![b'k'; MAX_KEY_BYTES];
        let key = if table % 2 == 0 { &u64::MAX.to_be_bytes()[..] } else { &long };
        leader.write(table, key, Some(&vec![table; MAX_VALUE_BYTES]));
    }
    for (parts, budget) in [(1, 1 << 20), (64, 1)] {
        let disk = SimulatedDisk::new(3);
        publish(&disk, &leader, How { parts, budget, keep: 1, ..SMALL }).unwrap();
        assert_eq!(load(&disk, schema(), PLENTY).unwrap().digest(), Some(leader.store.digest()));
    }
}

/// Tombstones are in a checkpoint, because an older write of another stream may be applied after it was loaded.
#[test]
fn many_tombstones_stay_dead() {
    let mut leader = Leader::new(schema());
    for table in 0..TABLES {
        (0..2000u64).for_each(|number| leader.write(table, &number.to_be_bytes(), Some(b"value")));
    }
    let puts = leader.log.clone();
    for table in 0..TABLES {
        (0..2000u64).for_each(|number| leader.write(table, &number.to_be_bytes(), None));
    }
    assert_survives(&leader, &schema());
    let disk = SimulatedDisk::new(3);
    let manifest = publish(&disk, &leader, SMALL).unwrap();
    assert_eq!(manifest.records(), 2000 * u64::from(TABLES));
    let (_, store) = load(&disk, schema(), PLENTY).unwrap().found.unwrap();
    let mut applier = Applier::new(store.clone());
    for (_, body) in &puts {
        applier.apply(body, Timestamp::ZERO, Timestamp::MAX).unwrap();
    }
    assert_eq!(store.digest(), leader.store.digest(), "no row is back");
}

#[test]
fn a_full_disk_publishes_nothing_and_gives_its_room_back() {
    let mut leader = Leader::new(schema());
    leader.fill(30, 50);
    let disk = SimulatedDisk::new(3);
    let first = publish(&disk, &leader, SMALL).unwrap();
    let before = leader.store.digest();
    leader.fill(40, 60);
    let files = names(&disk);
    let used: usize = files.iter().map(|name| disk.bytes_of(name).unwrap().len()).sum();
    let mut refused = 0;
    for (step, expected_bytes) in [(97, 0), (301, 30_000)] {
        for room in (0..).step_by(step) {
            disk.set_capacity(Some(used as u64 + room));
            let how = How { expected_bytes, ..SMALL };
            match publish(&disk, &leader, how) {
                Ok(manifest) => {
                    assert_eq!(load(&disk, schema(), PLENTY).unwrap().digest(), Some(leader.store.digest()));
                    disk.set_capacity(None);
                    // The older one is wanted again for the next round.
                    names(&disk).iter().filter(|name| !files.contains(name)).for_each(|name| disk.lose(name));
                    assert!(manifest.number > first.number);
                    break;
                }
                Err(error) => {
                    assert!(error.is_full(), "{error}");
                    assert!(error.to_string().contains("checkpoint-0002."), "{error}");
                    assert_eq!(names(&disk), files, "the room is given back");
                    let loaded = load(&disk, schema(), PLENTY).unwrap();
                    assert_eq!(
                        (loaded.number(), loaded.digest()),
                        (Some(first.number), Some(before.clone()))
                    );
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 50, "{refused} times");
}

/// And what comes to nothing is ballast again.
#[test]
fn on_a_full_disk_a_checkpoint_is_written_where_ballast_is_held() {
    let mut leader = Leader::new(schema());
    leader.fill(30, 50);
    let disk = SimulatedDisk::new(3);
    publish(&disk, &leader, SMALL).unwrap();
    leader.fill(40, 60);
    let free = |room: u64| {
        let files = names(&disk);
        let used: usize = files.iter().map(|name| disk.bytes_of(name).unwrap().len()).sum();
        disk.set_capacity(Some(used as u64 + room));
    };
    Ballast::Checkpoint.hold(&disk, 5000).unwrap();
    Ballast::Manifest.hold(&disk, 10_000).unwrap();
    free(0);
    let files = names(&disk);
    assert!(publish(&disk, &leader, FROM_BALLAST).unwrap_err().is_full(), "5000 bytes are not enough");
    assert_eq!((names(&disk), ballast::held(&disk).unwrap() >= 15_000), (files, true));
    free(20_000);
    Ballast::Checkpoint.hold(&disk, 20_000).unwrap();
    free(0);
    let manifest = publish(&disk, &leader, FROM_BALLAST).unwrap();
    assert_eq!((manifest.parts.len(), ballast::held(&disk).unwrap()), (1, 0));
    assert!(disk.free_bytes().unwrap() > 10_000, "what it did not need is room again");
    assert_eq!(load(&disk, schema(), PLENTY).unwrap().digest(), Some(leader.store.digest()));
}

#[test]
fn so_many_are_kept_and_strange_files_are_left_alone() {
    let (disk, mut leader) = (SimulatedDisk::new(3), Leader::new(schema()));
    let strangers = ["checkpoint-notes.txt", "checkpoint-1.manifest", "journal-0001", "identity"];
    strangers.iter().for_each(|name| disk.replace(name, b"not ours"));
    let kept = |disk: &SimulatedDisk| published(disk).unwrap().into_iter().collect::<Vec<_>>();
    for number in 1..=6 {
        leader.fill(3, 3);
        let manifest = checkpoint(&disk, &leader, How { keep: 3, ..SMALL }).unwrap();
        assert_eq!(manifest.number, number);
        assert_eq!(kept(&disk), (number.saturating_sub(2).max(1)..=number).collect::<Vec<_>>());
    }
    // One that is obviously not whole does not count, and an older one stays for it.
    disk.lose("checkpoint-0005.part-0");
    let manifest = checkpoint(&disk, &leader, How { keep: 3, ..SMALL }).unwrap();
    assert_eq!(kept(&disk), [4, 5, 6, 7]);
    // Keeping one: all older ones go, but never the one that is known to be good.
    let good = load(&disk, schema(), PLENTY).unwrap().found.unwrap().0;
    assert_eq!(good, manifest);
    publish(&disk, &leader, SMALL).unwrap();
    let one = NonZeroUsize::MIN;
    assert_eq!(remove_old(&disk, &good, one, &BTreeSet::new()).unwrap(), [4, 5, 6]);
    assert_eq!(kept(&disk), [7, 8]);
    assert!(remove_leftovers(&disk).unwrap().is_empty());
    assert!(strangers.iter().all(|name| disk.bytes_of(name).is_some()));
}

/// A byte of checkpoint 2 had changed, and the node had started from checkpoint 1. The next publication kept 2, which looks whole, and
/// removed 1, the only one that was known to be good.
#[test]
fn a_checkpoint_that_was_found_damaged_is_not_kept_in_the_place_of_a_good_one() {
    let (disk, mut leader) = (SimulatedDisk::new(3), Leader::new(schema()));
    let kept = |disk: &SimulatedDisk| published(disk).unwrap().into_iter().collect::<Vec<_>>();
    for _ in 1..=2 {
        leader.fill(3, 3);
        checkpoint(&disk, &leader, SMALL).unwrap();
    }
    let middle = disk.bytes_of("checkpoint-0002.part-0").unwrap().len() / 2;
    disk.spoil("checkpoint-0002.part-0", middle as u64, 1);
    let loaded = load(&disk, schema(), PLENTY).unwrap();
    assert_eq!(loaded.number(), Some(1));
    let damaged: BTreeSet<u64> = loaded.skipped.iter().map(|(number, _)| *number).collect();
    assert_eq!(damaged, BTreeSet::from([2]));
    leader.fill(3, 3);
    let third = publish(&disk, &leader, SMALL).unwrap();
    let two = NonZeroUsize::new(2).unwrap();
    assert_eq!(remove_old(&disk, &third, two, &damaged).unwrap(), [2]);
    assert_eq!(kept(&disk), [1, 3]);
    assert!(remove_leftovers(&disk).unwrap().is_empty(), "its parts went, too");
    // Keeping one: the damaged one, and all that is older than the one that is good.
    let fourth = publish(&disk, &leader, SMALL).unwrap();
    assert_eq!(remove_old(&disk, &fourth, NonZeroUsize::MIN, &BTreeSet::from([3])).unwrap(), [1, 3]);
}

/// Files of a checkpoint without a manifest go; those of one with a damaged manifest stay, for somebody to look at.
#[test]
fn leftovers_are_files_without_a_manifest() {
    let (disk, leader) = (SimulatedDisk::new(3), Leader::new(schema()));
    publish(&disk, &leader, SMALL).unwrap();
    publish(&disk, &leader, SMALL).unwrap();
    disk.lose("checkpoint-0001.manifest");
    disk.spoil("checkpoint-0002.manifest", 20, 1);
    disk.replace("checkpoint-0003.manifest-new", b"half");
    disk.replace("checkpoint-0002.manifest-new", b"half");
    let mut removed = remove_leftovers(&disk).unwrap();
    removed.sort();
    let gone = [
        "checkpoint-0001.part-0",
        "checkpoint-0001.part-1",
        "checkpoint-0002.manifest-new",
        "checkpoint-0003.manifest-new",
    ];
    assert_eq!(removed, gone);
    assert_eq!(
        names(&disk),
        ["checkpoint-0002.manifest", "checkpoint-0002.part-0", "checkpoint-0002.part-1"]
    );
}
