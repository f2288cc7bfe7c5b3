use super::format::GROUP_HEAD_BYTES;
use super::*;
use crate::SimulatedDisk;
use crate::simulated::Fault;

fn options(writers: u16) -> JournalOptions {
    JournalOptions { journal: 77, writers, segment_bytes: MIN_SEGMENT_BYTES }
}

type Found = Vec<(u16, u64, Vec<u8>)>;

fn open_with(
    disk: &SimulatedDisk,
    options: JournalOptions,
) -> Result<(Journal<SimulatedDisk>, Summary, Found), JournalError> {
    let mut found = Vec::new();
    let each = &mut |record: Record<'_>| found.push((record.writer, record.position, record.bytes.to_vec()));
    let (journal, summary) = Journal::open(disk.clone(), options, each)?;
    Ok((journal, summary, found))
}

fn open(disk: &SimulatedDisk) -> (Journal<SimulatedDisk>, Summary, Found) {
    open_with(disk, options(2)).unwrap()
}

fn found(disk: &SimulatedDisk) -> (Result<Summary, JournalError>, Found) {
    let mut found = Vec::new();
    let summary =
        read(disk, &mut |record| found.push((record.writer, record.position, record.bytes.to_vec())));
    (summary, found)
}

/// Three groups in three segments, of two writers.
fn three_segments(disk: &SimulatedDisk) -> Journal<SimulatedDisk> {
    let (mut journal, ..) = open(disk);
    for byte in 1..=3 {
        journal.append(0, &[byte; 100]).unwrap();
        journal.append(1, &[byte; 3000]).unwrap();
        journal.sync().unwrap();
    }
    assert_eq!(journal.segments(), 3);
    journal
}

fn damage(disk: &SimulatedDisk) -> (String, u64, String) {
    match open_with(disk, options(2)) {
        Err(JournalError::Damaged { file, offset, what }) => (file, offset, what),
        other => panic!("{:?}", other.map(|(_, summary, _)| summary)),
    }
}

#[test]
fn what_was_synced_comes_back_with_its_positions_and_appending_goes_on() {
    let disk = SimulatedDisk::new(1);
    let (mut journal, summary, none) = open(&disk);
    assert!(none.is_empty() && summary.segments.is_empty() && disk.names().unwrap().is_empty());
    assert_eq!(journal.sync().unwrap(), [0, 0], "nothing to sync, nothing done");
    assert_eq!(journal.append(0, b"one").unwrap(), 3);
    assert_eq!(journal.append(1, b"two").unwrap(), 3);
    assert_eq!(journal.append(0, b"three").unwrap(), 8);
    assert_eq!(journal.synced(), [0, 0]);
    assert_eq!(journal.sync().unwrap(), [8, 3]);
    journal.append(1, b"never synced").unwrap();
    drop(journal);
    disk.crash();

    let expected = vec![(0, 3, b"one".to_vec()), (1, 3, b"two".to_vec()), (0, 8, b"three".to_vec())];
    let (mut journal, summary, records) = open(&disk);
    assert_eq!((records, summary.groups, summary.records), (expected, 1, 3));
    assert_eq!(journal.append(1, b"four").unwrap(), 7);
    assert_eq!(journal.sync().unwrap(), [8, 7]);
    journal.close().unwrap();
    let (summary, records) = found(&disk);
    let summary = summary.unwrap();
    assert_eq!(
        (records.len(), summary.positions, summary.segments.len(), summary.unproved),
        (4, vec![8, 7], 2, false)
    );
}

#[test]
fn records_of_any_size_and_writers_of_any_number() {
    let disk = SimulatedDisk::new(1);
    let (mut journal, ..) = open_with(&disk, options(256)).unwrap();
    let big = vec![9; (65 << 20) + 1];
    for (writer, bytes) in [(255, &b""[..]), (0, b"x"), (7, &big), (255, b"y"), (3, &[])] {
        journal.append(writer, bytes).unwrap();
    }
    journal.sync().unwrap();
    drop(journal);
    disk.crash();
    let (_, summary, records) = open_with(&disk, options(256)).unwrap();
    let shape: Vec<_> =
        records.iter().map(|(writer, position, bytes)| (*writer, *position, bytes.len())).collect();
    assert_eq!(shape, [(255, 0, 0), (0, 1, 1), (7, big.len() as u64, big.len()), (255, 1, 1), (3, 0, 0)]);
    assert_eq!(records[2].2, big);
    assert_eq!((summary.segments.len(), summary.positions[7]), (3, big.len() as u64));

    let one = SimulatedDisk::new(1);
    let (mut journal, ..) = open_with(&one, options(1)).unwrap();
    journal.append(0, &[]).unwrap();
    journal.close().unwrap();
    assert_eq!(found(&one).1, [(0, 0, vec![])]);
}

#[test]
fn many_appends_are_one_sync_while_they_fit_into_a_segment() {
    let disk = SimulatedDisk::new(1);
    let wide = JournalOptions { segment_bytes: 1 << 20, ..options(2) };
    let (mut journal, ..) = open_with(&disk, wide).unwrap();
    journal.append(0, b"first").unwrap();
    journal.sync().unwrap();
    let before = disk.changes();
    (0..1000).for_each(|n| assert!(journal.append(n % 2, &[5; 100]).is_ok()));
    journal.sync().unwrap();
    assert_eq!(disk.changes() - before, 3, "a write, a sync, the proof");
    let before = disk.changes();
    (0..20).for_each(|_| assert!(journal.append(0, &[5; 100_000]).is_ok()));
    assert!(journal.unsynced_bytes() > 2_000_000);
    journal.sync().unwrap();
    assert!(disk.changes() - before > 6 && journal.segments() > 2);
    assert_eq!((journal.unsynced_bytes(), found(&disk).1.len()), (0, 1021));
}

#[test]
fn released_segments_go_and_the_positions_stay() {
    let disk = SimulatedDisk::new(1);
    let mut journal = three_segments(&disk);
    journal.release(0, 300).unwrap();
    assert_eq!(journal.segments(), 3, "writer 1 needs them all");
    journal.release(1, 3000).unwrap();
    assert_eq!(journal.segments(), 2);
    journal.release(1, 9000).unwrap();
    journal.release(1, 1).unwrap();
    assert_eq!((journal.segments(), disk.names().unwrap().len()), (1, 1), "the last one is never removed");
    drop(journal);
    disk.crash();
    let (mut journal, _, records) = open(&disk);
    assert_eq!(records.iter().map(|(_, position, _)| *position).collect::<Vec<_>>(), [300, 9000]);
    journal.append(0, b"more").unwrap();
    assert_eq!(journal.sync().unwrap(), [304, 9000]);
}

/// A changed byte is an error, or harmless because no record depends on it: zeros that fill up a group's last block, which nobody
/// reads; the proof behind the last group, which proves that one and is proved by nothing; and what is behind the proof, which is
/// a torn end without a record.
#[test]
fn every_changed_byte_of_a_closed_journal_is_noticed_or_harmless() {
    let disk = SimulatedDisk::new(1);
    let (mut journal, ..) = open(&disk);
    for byte in 1..=4 {
        journal.append(0, &[byte; 700]).unwrap();
        journal.append(1, &[byte; 90]).unwrap();
        journal.sync().unwrap();
    }
    journal.close().unwrap();
    let (_, records) = found(&disk);
    let (mut noticed, mut harmless) = (0, 0);
    for name in disk.names().unwrap() {
        for at in 0..disk.bytes_of(&name).unwrap().len() as u64 {
            disk.spoil(&name, at, 0x11);
            let (summary, now) = found(&disk);
            match summary {
                Ok(_) => {
                    assert!(now == records, "{name} {at}");
                    harmless += 1;
                    let in_group = at % BLOCK_BYTES < (GROUP_HEAD_BYTES + 790 + 16) as u64;
                    let last = name == segment_name(4) && at >= 2 * BLOCK_BYTES;
                    assert!(at >= BLOCK_BYTES && (!in_group || last), "{name} {at}");
                }
                Err(JournalError::Damaged { .. }) => {
                    assert!(records.starts_with(&now), "{name} {at}");
                    noticed += 1;
                }
                Err(error) => panic!("{error}"),
            }
            disk.spoil(&name, at, 0x11);
        }
    }
    let (heads, groups) = (disk.names().unwrap().len() * BLOCK_BYTES as usize, 4 * (GROUP_HEAD_BYTES + 806));
    assert_eq!(noticed, heads + groups, "and {harmless} harmless");
}

#[test]
fn damage_in_the_middle_names_file_and_offset() {
    let spoilt = |spoil: &dyn Fn(&SimulatedDisk)| {
        let disk = SimulatedDisk::new(1);
        three_segments(&disk).close().unwrap();
        spoil(&disk);
        damage(&disk)
    };
    let (file, offset, what) = spoilt(&|disk| disk.spoil(&segment_name(2), BLOCK_BYTES + 200, 1));
    assert_eq!(
        (&*file, offset, &*what),
        ("journal-0000000000000002", 4096, "the group's records are not what was written")
    );
    let (file, offset, what) = spoilt(&|disk| disk.spoil(&segment_name(3), BLOCK_BYTES + 200, 1));
    assert_eq!((&*file, offset), ("journal-0000000000000003", 4096));
    assert_eq!(what, "the group's records are not what was written, and a later group is at 8192");
    let (file, _, what) = spoilt(&|disk| disk.lose(&segment_name(2)));
    assert_eq!(
        (&*file, &*what),
        ("journal-0000000000000002", "the file is missing, and later ones are there")
    );
    let (file, _, what) = spoilt(&|disk| disk.spoil(&segment_name(3), 100, 1));
    assert_eq!((&*file, &*what), ("journal-0000000000000003", "the segment's head is not what was written"));
    let (file, _, what) = spoilt(&|disk| disk.rename(&segment_name(3), &segment_name(4)).unwrap_or_default());
    assert_eq!(
        (&*file, &*what),
        ("journal-0000000000000003", "the file is missing, and later ones are there")
    );
    let (file, _, what) =
        spoilt(&|disk| disk.replace(&segment_name(2), &disk.bytes_of(&segment_name(1)).unwrap()));
    assert_eq!((&*file, &*what), ("journal-0000000000000002", "it is another segment's file"));
    let (file, offset, what) = spoilt(&|disk| {
        let short = &disk.bytes_of(&segment_name(2)).unwrap()[..5000];
        disk.replace(&segment_name(2), short);
    });
    assert_eq!(
        (&*file, offset, &*what),
        ("journal-0000000000000002", 4096, "the group is longer than its file: it was cut")
    );
}

#[test]
fn a_segment_of_another_journal_and_an_older_copy_of_one_are_recognised() {
    let disk = SimulatedDisk::new(1);
    let wide = JournalOptions { segment_bytes: 1 << 16, ..options(2) };
    let (mut journal, ..) = open_with(&disk, wide).unwrap();
    journal.append(0, b"old").unwrap();
    journal.sync().unwrap();
    let old = disk.bytes_of(&segment_name(1)).unwrap();
    journal.append(0, b"new").unwrap();
    journal.close().unwrap();
    let (mut journal, ..) = open_with(&disk, wide).unwrap();
    journal.append(0, b"newer").unwrap();
    journal.close().unwrap();
    let copied = disk.fork(1);
    copied.replace(&segment_name(1), &old);
    let (file, offset, what) = damage(&copied);
    assert_eq!(
        (&*file, offset, &*what),
        ("journal-0000000000000001", 8192, "the segment ends here, too early")
    );

    let other = SimulatedDisk::new(1);
    let (mut journal, ..) = open_with(&other, JournalOptions { journal: 78, ..wide }).unwrap();
    journal.append(0, b"other").unwrap();
    journal.close().unwrap();
    disk.replace(&segment_name(1), &other.bytes_of(&segment_name(1)).unwrap());
    assert_eq!(damage(&disk).2, "it belongs to another journal");
}

/// What a record holds is not searched for heads that are none of this place.
#[test]
fn a_record_that_looks_like_a_journal_is_a_record() {
    let disk = SimulatedDisk::new(1);
    three_segments(&disk).close().unwrap();
    let copy = disk.bytes_of(&segment_name(3)).unwrap();
    let (mut journal, ..) = open(&disk);
    journal.append(0, &copy).unwrap();
    journal.sync().unwrap();
    drop(journal);
    // The head of the group is lost: what is left of it begins with the record, and holds the copy of another segment.
    disk.spoil(&segment_name(4), BLOCK_BYTES + 2 * BLOCK_BYTES, 1);
    disk.spoil(&segment_name(4), disk.bytes_of(&segment_name(4)).unwrap().len() as u64 - BLOCK_BYTES, 1);
    let (summary, records) = found(&disk);
    assert_eq!((records.len(), summary.unwrap().cut.unwrap().offset), (6, 4096));
}

#[test]
fn a_full_disk_harms_nothing_and_what_was_appended_waits_for_room() {
    let disk = SimulatedDisk::new(1);
    let mut journal = three_segments(&disk);
    // Two segments are cut to two blocks each, the third has its three; and three more less a byte.
    disk.set_capacity(Some(10 * BLOCK_BYTES - 1));
    journal.append(0, &[4; 5000]).unwrap();
    let full = JournalError::Full { segment_bytes: 4 * BLOCK_BYTES };
    assert_eq!(journal.sync().unwrap_err(), full);
    journal.append(1, &[4; 10]).unwrap();
    assert_eq!(journal.sync().unwrap_err(), full);
    assert_eq!((journal.synced(), found(&disk).1.len()), (&[300, 9000][..], 6));
    journal.release(0, 200).unwrap();
    journal.release(1, 6000).unwrap();
    assert_eq!(journal.sync().unwrap(), [5300, 9010], "there is room for two more");
    journal.close().unwrap();
    assert_eq!(open(&disk).2.len(), 4);

    let none = SimulatedDisk::new(1);
    none.set_capacity(Some(0));
    let (mut journal, ..) = open(&none);
    journal.append(0, b"x").unwrap();
    assert!(matches!(journal.sync(), Err(JournalError::Full { .. })));
    none.set_capacity(None);
    assert_eq!(journal.sync().unwrap(), [1, 0]);
}

#[test]
fn a_reserved_segment_tells_of_a_full_disk_while_there_is_room_yet() {
    let disk = SimulatedDisk::new(1);
    let (mut journal, ..) = open(&disk);
    assert_eq!(journal.room_bytes(), 0);
    journal.reserve().unwrap();
    assert_eq!(journal.room_bytes(), BLOCK_BYTES, "of three blocks one is the head's and one the proof's");
    disk.set_capacity(Some(5 * BLOCK_BYTES));
    journal.append(0, b"one").unwrap();
    journal.sync().unwrap();
    let full = JournalError::Full { segment_bytes: MIN_SEGMENT_BYTES };
    assert_eq!((journal.reserve().unwrap_err(), journal.room_bytes()), (full, 0));
    disk.set_capacity(None);
    journal.reserve().unwrap();
    journal.reserve().unwrap();
    assert_eq!(disk.names().unwrap().len(), 2, "one at a time");
    // A group that is longer than a segment takes the place of the one that was reserved.
    journal.append(1, &[2; 9000]).unwrap();
    assert_eq!(journal.sync().unwrap(), [3, 9000]);
    journal.reserve().unwrap();
    drop(journal);
    disk.crash();
    let (journal, summary, records) = open(&disk);
    assert_eq!((records.len(), summary.segments.len(), journal.room_bytes()), (2, 2, 0));
    assert_eq!(disk.names().unwrap().len(), 2, "what was reserved and not begun is given back");
}

#[test]
fn after_a_failed_write_or_sync_nothing_is_done_any_more() {
    for fault in [Fault::FailWrite, Fault::FailSync, Fault::FailSyncNames] {
        let disk = SimulatedDisk::new(1);
        let mut journal = three_segments(&disk);
        disk.inject(fault, 0);
        journal.append(0, &[4; 5000]).unwrap();
        let error = journal.sync().unwrap_err();
        assert!(matches!(&error, JournalError::Failed { .. }), "{error:?}");
        assert!(error.to_string().contains("Input/output error"), "{error}");
        let changes = disk.changes();
        assert_eq!(journal.sync().unwrap_err(), error);
        assert_eq!(journal.append(0, b"x").unwrap_err(), error);
        assert_eq!(journal.release(0, 100).unwrap_err(), error);
        assert_eq!((disk.changes(), journal.synced()), (changes, &[300, 9000][..]));
        assert_eq!(journal.close().unwrap_err(), error);
    }
}

#[test]
fn a_disk_that_cannot_be_read_is_no_empty_journal() {
    let disk = SimulatedDisk::new(1);
    three_segments(&disk).close().unwrap();
    for after in 0..3 {
        disk.inject(Fault::FailRead, after);
        let error = open_with(&disk, options(2)).map(|(_, summary, _)| summary).unwrap_err();
        assert!(matches!(&error, JournalError::Unreadable { .. }), "{error:?}");
    }
    assert_eq!(open(&disk).2.len(), 6);
}

#[test]
fn writers_may_become_more_and_not_fewer() {
    let disk = SimulatedDisk::new(1);
    three_segments(&disk).close().unwrap();
    let error = open_with(&disk, options(1)).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "the journal has 2 writers, not 1: their number cannot shrink");
    let (mut journal, ..) = open_with(&disk, options(3)).unwrap();
    journal.append(2, b"new").unwrap();
    assert_eq!(journal.sync().unwrap(), [300, 9000, 3]);
    journal.close().unwrap();
    assert_eq!(open_with(&disk, options(3)).unwrap().2.len(), 7);
}

#[test]
fn a_journal_can_be_read_while_it_is_written() {
    let disk = SimulatedDisk::new(1);
    let mut journal = three_segments(&disk);
    assert_eq!(found(&disk).1.len(), 6);
    journal.append(0, b"x").unwrap();
    journal.sync().unwrap();
    assert_eq!((found(&disk).1.len(), found(&disk).0.unwrap().unproved), (7, false));
}

/// Lives that end before they wrote anything, or soon after, leave no preallocated segment behind each time.
#[test]
fn restarts_cost_a_block_or_two_each() {
    let disk = SimulatedDisk::new(1);
    let wide = JournalOptions { segment_bytes: 1 << 20, ..options(2) };
    for _ in 0..10 {
        drop(open_with(&disk, wide).unwrap());
        let (mut journal, ..) = open_with(&disk, wide).unwrap();
        journal.append(0, b"x").unwrap();
        journal.sync().unwrap();
    }
    let sizes: Vec<usize> =
        disk.names().unwrap().iter().map(|name| disk.bytes_of(name).unwrap().len()).collect();
    assert_eq!((sizes.len(), &sizes[..9], sizes[9]), (10, &[8192; 9][..], 1 << 20));
}

/// A journal that took all of a disk left no room for the checkpoint that would have given some of it back.
#[test]
fn on_a_full_disk_the_ballast_is_the_next_segment_once() {
    let disk = SimulatedDisk::new(1);
    let (mut journal, ..) = open(&disk);
    assert!(!journal.take_ballast().unwrap(), "there is none");
    journal.hold_ballast(Ballast::Segment, 2 * MIN_SEGMENT_BYTES).unwrap();
    disk.set_capacity(Some(2 * MIN_SEGMENT_BYTES));
    journal.append(0, b"one").unwrap();
    let full = JournalError::Full { segment_bytes: MIN_SEGMENT_BYTES };
    assert_eq!(journal.sync().unwrap_err(), full);
    assert!(journal.take_ballast().unwrap() && !journal.take_ballast().unwrap());
    assert_eq!(journal.sync().unwrap(), [3, 0]);
    assert_eq!((journal.held_ballast().unwrap(), journal.segments()), (0, 1));
    // Then a little room is enough for a little.
    journal.append(0, &[2; 7 * BLOCK_BYTES as usize]).unwrap();
    assert!(journal.sync().is_err() && !journal.take_ballast().unwrap());
    disk.set_capacity(Some(16 * BLOCK_BYTES));
    assert!(journal.take_ballast().unwrap());
    journal.sync().unwrap();
    assert_eq!((disk.free_bytes().unwrap(), journal.segments()), (4 * BLOCK_BYTES, 2));
    drop(journal);
    disk.crash();
    let (_, _, records) = open(&disk);
    assert_eq!(records.len(), 2);
}

/// Bytes of a record that fills a segment of five blocks.
const FILLS: usize = 3 * BLOCK_BYTES as usize - 100;

/// Segments of five blocks, one group each; the released ones are kept.
fn reclaiming(disk: &SimulatedDisk) -> Journal<SimulatedDisk> {
    let options = JournalOptions { segment_bytes: 5 * BLOCK_BYTES, ..options(2) };
    let (mut journal, ..) = open_with(disk, options).unwrap();
    journal.reclaim(2);
    for byte in 1..=4 {
        journal.append(0, &[byte; FILLS]).unwrap();
        journal.sync().unwrap();
    }
    let synced = journal.synced()[0];
    journal.release(0, synced).unwrap();
    journal
}

fn names(disk: &SimulatedDisk) -> Vec<String> {
    let mut names = disk.names().unwrap();
    names.sort_unstable();
    names
}

#[test]
fn released_files_are_written_anew_and_what_they_held_is_never_found() {
    let disk = SimulatedDisk::new(1);
    let mut journal = reclaiming(&disk);
    assert_eq!(
        names(&disk),
        ["journal-0000000000000004", &reclaimed_name(1), &reclaimed_name(2)],
        "two are kept"
    );
    journal.reserve().unwrap();
    assert_eq!(names(&disk), ["journal-0000000000000004", "journal-0000000000000005", &reclaimed_name(2)]);
    // One that is less than full, over one that was.
    journal.append(1, b"short").unwrap();
    journal.append(0, &[9; BLOCK_BYTES as usize]).unwrap();
    journal.sync().unwrap();
    drop(journal);
    disk.crash();
    let (summary, records) = found(&disk);
    let summary = summary.unwrap();
    assert_eq!((summary.segments.len(), records.len(), summary.cut), (2, 3, None));
    let (_, _, records) = open(&disk);
    assert_eq!(records.last().unwrap().2, [9; BLOCK_BYTES as usize]);
    assert!(names(&disk).iter().all(|name| !is_reclaimed(name)), "no other life knows what they hold");
}

#[test]
fn a_torn_group_over_an_older_one_is_the_end() {
    let disk = SimulatedDisk::new(1);
    let mut journal = reclaiming(&disk);
    let at = |journal: &Journal<SimulatedDisk>| (journal.segments.back().unwrap().name(), journal.end);
    journal.append(0, &[7; 100]).unwrap();
    journal.sync().unwrap();
    let (file, end) = at(&journal);
    assert_eq!((&*file, end), ("journal-0000000000000005", 2 * BLOCK_BYTES));
    drop(journal);
    // The head of the next one came, and of its records nothing: the proof's place has a group with records.
    let head = GroupHead { journal: 77, segment: 5, offset: end, number: 6, len: 100, records: 1, crc: 1 };
    let mut segment = disk.open(&file).unwrap();
    segment.write_at(end, &head.encode()).unwrap();
    segment.sync().unwrap();
    let (summary, records) = found(&disk);
    let summary = summary.unwrap();
    assert_eq!(records.last().unwrap().2, [7; 100]);
    assert_eq!(summary.cut, Some(Cut { file, offset: end, bytes: BLOCK_BYTES }));
    assert!(!summary.unproved);
}

#[test]
fn what_is_kept_for_later_goes_when_others_need_the_room() {
    let disk = SimulatedDisk::new(1);
    let mut journal = reclaiming(&disk);
    // Beside the blocks that files have already.
    disk.set_capacity(Some((15 + 3) * BLOCK_BYTES));
    journal.hold_ballast(Ballast::Checkpoint, 3 * BLOCK_BYTES).unwrap();
    let [ballast, last] = ["ballast-checkpoint", "journal-0000000000000004"];
    assert_eq!(names(&disk), [ballast, last, &reclaimed_name(1), &reclaimed_name(2)], "there was room");
    journal.hold_ballast(Ballast::Checkpoint, 4 * BLOCK_BYTES).unwrap();
    assert_eq!(names(&disk), [ballast, last, &reclaimed_name(1)], "one is enough");
    journal.reserve().unwrap();
    let next = "journal-0000000000000005";
    assert_eq!(names(&disk), [ballast, last, next], "what was kept takes no room");

    let error = journal.hold_ballast(Ballast::Checkpoint, 9 * BLOCK_BYTES).unwrap_err();
    assert!(matches!(error, JournalError::Full { .. }), "{error}");
    assert_eq!((names(&disk).len(), journal.held_ballast().unwrap()), (3, 4 * BLOCK_BYTES));
}

/// What is longer than the ballast that became its segment makes that longer, if it can be.
#[test]
fn a_reserved_segment_grows_for_a_group_that_is_longer() {
    let disk = SimulatedDisk::new(1);
    let mut journal = reclaiming(&disk);
    journal.reserve().unwrap();
    disk.set_capacity(Some(15 * BLOCK_BYTES));
    journal.append(0, &[5; 6 * BLOCK_BYTES as usize]).unwrap();
    assert!(matches!(journal.sync().unwrap_err(), JournalError::Full { .. }));
    assert_eq!(names(&disk).len(), 3, "it is reserved yet");
    disk.set_capacity(None);
    journal.sync().unwrap();
    assert_eq!(disk.bytes_of("journal-0000000000000005").unwrap().len() as u64, 9 * BLOCK_BYTES);
    drop(journal);
    disk.crash();
    let (_, _, records) = open(&disk);
    assert_eq!(records.last().unwrap().2, [5; 6 * BLOCK_BYTES as usize]);
}

fn to_damage(disk: &SimulatedDisk, from: u64) -> (Summary, Vec<u8>) {
    let mut bytes = Vec::new();
    let summary = read_to_damage(disk, from, &mut |record| {
        bytes.push(record.bytes[0]);
        std::ops::ControlFlow::Continue(())
    });
    (summary.unwrap(), bytes)
}

type Spoils<'a> = &'a dyn Fn(&SimulatedDisk);

/// Of a disk that was damaged in the middle nothing was read at all, not even what stands before that.
#[test]
fn what_stands_before_damage_is_read_and_so_is_what_stands_in_later_files() {
    let name = |segment| segment_name(segment);
    let spoils: [(Spoils<'_>, u64, u64); 4] = [
        (&|disk| disk.spoil(&name(2), BLOCK_BYTES + 200, 1), 2, BLOCK_BYTES),
        (&|disk| disk.spoil(&name(2), 20, 1), 2, 0),
        (&|disk| disk.lose(&name(2)), 2, 0),
        (&|disk| disk.replace(&name(2), &disk.bytes_of(&name(2)).unwrap()[..5000]), 2, BLOCK_BYTES),
    ];
    for (spoil, segment, offset) in spoils {
        let disk = SimulatedDisk::new(1);
        drop(three_segments(&disk));
        spoil(&disk);
        assert!(matches!(found(&disk).0, Err(JournalError::Damaged { .. })));
        let (summary, bytes) = to_damage(&disk, 0);
        let damage = summary.damage.expect("it is damaged");
        assert_eq!((damage.segment, damage.offset, damage.file), (segment, offset, name(segment)));
        assert_eq!((bytes, summary.groups, summary.positions), (vec![1, 1], 1, vec![100, 3000]));
        // Behind it a part begins that is whole again.
        let (summary, bytes) = to_damage(&disk, 3);
        assert_eq!((bytes, summary.damage, summary.positions), (vec![3, 3], None, vec![300, 9000]));
    }
    let disk = SimulatedDisk::new(1);
    drop(three_segments(&disk));
    assert_eq!(to_damage(&disk, 0), (found(&disk).0.unwrap(), vec![1, 1, 2, 2, 3, 3]));
}

/// A file that somebody had cut was said to hold "not what was written"; and of the last one nothing was said.
#[test]
fn a_file_that_was_cut_is_called_cut() {
    let disk = SimulatedDisk::new(1);
    let journal = three_segments(&disk);
    let whole = disk.bytes_of(&segment_name(1)).unwrap();
    for (len, at) in [(100, 0), (BLOCK_BYTES, BLOCK_BYTES), (BLOCK_BYTES + 70, BLOCK_BYTES)] {
        disk.replace(&segment_name(1), &whole[..len as usize]);
        let (file, offset, what) = damage(&disk);
        assert!(file == segment_name(1) && offset == at && what.contains("was cut"), "{offset} {what}");
    }
    disk.replace(&segment_name(1), &whole);
    journal.close().unwrap();
    let last = segment_name(3);
    let whole = disk.bytes_of(&last).unwrap();
    let end = found(&disk).0.unwrap().segments[2].end;
    assert_eq!(found(&disk).0.unwrap().truncated, None);
    for len in [BLOCK_BYTES, BLOCK_BYTES + 3500, end, end + 1] {
        disk.replace(&last, &whole[..len as usize]);
        assert_eq!(found(&disk).0.unwrap().truncated, Some(len), "cut at {len}");
    }
}

/// Once a node had no descriptor left, the journal's next file was the end of the node. Whatever opens a file may fail so, and is tried again:
/// at each of the calls that can, once and several times in a row. So is what fails for want of memory, and because a signal came.
/// Once: ENOMEM and EINTR while the journal opened a file or took room ended the node (EMFILE and ENFILE did not any
/// more)
#[test]
fn a_process_without_descriptors_harms_nothing_and_goes_on_once_it_has_some() {
    const ROUNDS: u8 = 9;
    let work = |disk: &SimulatedDisk| -> u64 {
        let (mut failures, mut tries) = (0, 0);
        let mut again = |result: Result<(), JournalError>| match result {
            Ok(()) => true,
            Err(JournalError::NoDescriptor { .. }) => {
                failures += 1;
                tries += 1;
                assert!(tries < 1000, "it goes on");
                false
            }
            Err(error) => panic!("{error}"),
        };
        // A start opens many files, and fails in words if it cannot.
        let mut journal = loop {
            match open_with(disk, options(2)) {
                Ok((journal, ..)) => break journal,
                Err(error) => {
                    let known = ["os error 24", "os error 12", "os error 4)"];
                    assert!(known.iter().any(|known| error.to_string().contains(known)), "{error}");
                }
            }
        };
        journal.reclaim(2);
        for byte in 1..=ROUNDS {
            while !again(journal.hold_ballast(Ballast::Checkpoint, u64::from(byte) * 1000)) {}
            while !again(journal.hold_ballast(Ballast::Segment, MIN_SEGMENT_BYTES)) {}
            while !again(journal.held_ballast().map(drop)) {}
            let reserved = if byte % 3 == 0 { journal.take_ballast().map(drop) } else { journal.reserve() };
            again(reserved);
            journal.append(0, &[byte; 100]).unwrap();
            journal.append(1, &vec![byte; if byte == 5 { 9000 } else { 3000 }]).unwrap();
            while !again(journal.sync().map(drop)) {}
            let synced = journal.synced().to_vec();
            if byte > 4 {
                while !again(journal.release(0, synced[0] - 300)) {}
                while !again(journal.release(1, synced[1] - 9000)) {}
            }
        }
        let files = journal.files().unwrap();
        let names = (0..10).find_map(|_| disk.names().ok()).unwrap();
        for number in files.first..=files.last {
            assert!(names.contains(&segment_name(number)), "{files:?} {names:?}");
        }
        journal.close().unwrap();
        failures
    };
    // Of an earlier life, whose last segment is cut by this one.
    let disk_with_one = || {
        let disk = SimulatedDisk::new(1);
        let (mut journal, ..) = open(&disk);
        journal.append(0, &[0; 100]).unwrap();
        journal.sync().unwrap();
        disk
    };
    let calm = disk_with_one();
    assert_eq!(work(&calm), 0);
    let expected = open(&calm).0.synced().to_vec();
    let mut failed = 0;
    for at in 0..150 {
        for (fault, in_a_row) in
            [(Fault::NoDescriptor, 1), (Fault::NoDescriptor, 3), (Fault::NoMemory, 2), (Fault::Signal, 2)]
        {
            let disk = disk_with_one();
            (0..in_a_row).for_each(|more| disk.inject(fault, at + more));
            failed += work(&disk);
            disk.heal();
            disk.crash();
            let (journal, _, records) = open(&disk);
            assert_eq!(journal.synced(), expected, "at {at}");
            let last = records.iter().rev().find(|(writer, ..)| *writer == 1).unwrap();
            assert_eq!(last.2, [ROUNDS; 3000], "at {at}");
        }
    }
    assert!(failed > 200, "{failed} calls failed");
}
