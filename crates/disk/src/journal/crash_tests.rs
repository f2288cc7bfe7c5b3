//! Random lives of a journal that end at any operation, one after the other.

use highwater_core::Random;

use super::*;
use crate::SimulatedDisk;
use crate::simulated::Fault;

const WRITERS: u16 = 3;
const OPTIONS: JournalOptions =
    JournalOptions { journal: 77, writers: WRITERS, segment_bytes: 5 * BLOCK_BYTES };

/// What was ever appended and not cut, in order, and what is known of it.
#[derive(Default)]
struct Model {
    records: Vec<(u16, Vec<u8>)>,
    /// So many of the first are durable.
    synced: usize,
    released: [u64; WRITERS as usize],
    next: u64,
}

impl Model {
    /// A record that no other equals, unless it is too short to differ.
    fn record(&mut self, random: &mut Random) -> (u16, Vec<u8>) {
        let len = match random.below(10) {
            0 => 0,
            1 => 1,
            2 => random.between(3000, 9000),
            3 => random.between(20_000, 40_000),
            _ => random.between(8, 300),
        };
        self.next += 1;
        let mut bytes = vec![self.next as u8; len as usize];
        let tag = self.next.to_le_bytes();
        let shared = bytes.len().min(tag.len());
        bytes[..shared].copy_from_slice(&tag[..shared]);
        (random.below(WRITERS.into()) as u16, bytes)
    }

    /// Where each record ends for its writer.
    fn ends(&self) -> Vec<u64> {
        let mut positions = [0; WRITERS as usize];
        let end = |(writer, bytes): &(u16, Vec<u8>)| {
            positions[usize::from(*writer)] += bytes.len() as u64;
            positions[usize::from(*writer)]
        };
        self.records.iter().map(end).collect()
    }

    /// How many of the records there are after `found` was recovered: it is one stretch of them, which begins with what was not
    /// released, at the latest.
    fn judge(&self, found: &[(u16, u64, Vec<u8>)]) -> usize {
        let ends = self.ends();
        let released = |i: &usize| ends[*i] <= self.released[usize::from(self.records[*i].0)];
        let needed = (0..self.records.len()).take_while(released).count();
        let fits = |start: &usize| {
            let stretch =
                self.records[*start..].iter().zip(&ends[*start..]).map(|((w, b), end)| (*w, *end, &**b));
            self.records.len() - start >= found.len()
                && stretch.take(found.len()).eq(found.iter().map(|(w, end, b)| (*w, *end, &**b)))
        };
        let starts: Vec<_> = (0..=needed).filter(fits).collect();
        // Records without bytes are all alike, and of a segment whose first group was torn the head may be all that is left: it can be
        // several stretches. If one of them has all that was synced, it is that.
        let enough = starts.iter().find(|start| *start + found.len() >= self.synced);
        let start = enough.or(starts.last()).expect("what was recovered is a stretch of what was appended");
        start + found.len()
    }
}

type Found = Vec<(u16, u64, Vec<u8>)>;

fn open(disk: &SimulatedDisk) -> (Result<(Journal<SimulatedDisk>, Summary), JournalError>, Found) {
    let mut found = Vec::new();
    let opened = Journal::open(disk.clone(), OPTIONS, &mut |record| {
        found.push((record.writer, record.position, record.bytes.to_vec()));
    });
    (opened, found)
}

/// One life: opens the journal, judges what is there, and goes on until something fails or it has done enough.
fn live(disk: &SimulatedDisk, model: &mut Model, random: &mut Random) -> Result<(), JournalError> {
    let (opened, found) = open(disk);
    let (mut journal, summary) = opened?;
    journal.reclaim(random.below(4) as usize);
    let there = model.judge(&found);
    assert!(there >= model.synced, "{there} of {} synced records are there: {summary:?}", model.synced);
    model.records.truncate(there);
    model.synced = there;
    let ends = model.ends();
    for writer in 0..WRITERS {
        let last = (0..there).rev().find(|&i| model.records[i].0 == writer).map_or(0, |i| ends[i]);
        assert_eq!(journal.synced()[usize::from(writer)], last);
    }
    for _ in 0..random.between(1, 40) {
        match random.below(12) {
            11 => {
                journal.take_ballast()?;
            }
            10 => journal.hold_ballast(Ballast::Segment, random.between(5, 12) * BLOCK_BYTES)?,
            9 => {
                // As a checkpoint does.
                let synced = journal.synced().to_vec();
                for (writer, &up_to) in synced.iter().enumerate() {
                    model.released[writer] = up_to;
                    journal.release(writer as u16, up_to)?;
                }
            }
            8 => journal.reserve()?,
            0..=4 => {
                let (writer, bytes) = model.record(random);
                model.records.push((writer, bytes.clone()));
                journal.append(writer, &bytes)?;
            }
            5 | 6 => {
                journal.sync()?;
                model.synced = model.records.len();
            }
            _ => {
                let writer = random.below(WRITERS.into()) as usize;
                let up_to = random.below(journal.synced()[writer] + 1);
                model.released[writer] = model.released[writer].max(up_to);
                journal.release(writer as u16, up_to)?;
            }
        }
    }
    if random.one_in(3) {
        journal.close()?;
        model.synced = model.records.len();
    }
    Ok(())
}

/// The power fails in every operation of the second life, and in any of the next ones.
#[test]
fn whatever_was_synced_is_there_in_order_after_crashes_at_every_operation() {
    let (mut crashes, mut cuts, mut whole, mut reclaimed) = (0, 0, 0, 0);
    for seed in 0..60 {
        for at in 0.. {
            let disk = SimulatedDisk::new(seed * 1000 + at);
            let (mut model, mut random) = (Model::default(), Random::new(seed));
            live(&disk, &mut model, &mut random).unwrap();
            disk.crash();
            disk.fail_power(at);
            let mut done = live(&disk, &mut model, &mut random).is_ok() && disk.is_powered();
            for _ in 0..4 {
                crashes += 1;
                disk.crash();
                reclaimed += disk.names().unwrap().iter().filter(|name| is_reclaimed(name)).count();
                let mut read_only = 0;
                match read(&disk, &mut |_| read_only += 1).expect("no crash looks like damage").cut {
                    Some(_) => cuts += 1,
                    None => whole += 1,
                }
                disk.fail_power(random.below(40));
                let ended = live(&disk, &mut model, &mut random);
                assert!(ended.is_ok() || !disk.is_powered(), "{ended:?}");
            }
            done |= at > 200;
            if done {
                break;
            }
        }
    }
    let counts = format!("{crashes} crashes, {cuts} ends cut, {whole} not, {reclaimed} files reclaimed");
    assert!(crashes > 2000 && cuts > 100 && whole > 200 && reclaimed > 100, "{counts}");
}

/// A process that is killed leaves what it wrote in the page cache. What the next one finds there and tells to be durable has
/// to be, even if a sync failed before.
#[test]
fn what_a_life_recovered_is_durable_even_if_the_last_ones_sync_failed() {
    for seed in 0..400 {
        let disk = SimulatedDisk::new(seed);
        let (mut model, mut random) = (Model::default(), Random::new(seed));
        live(&disk, &mut model, &mut random).unwrap();
        disk.inject(Fault::FailSync, random.below(6));
        let _ = live(&disk, &mut model, &mut random);
        disk.heal();
        // No crash of the machine between these two.
        let (opened, found) = open(&disk);
        drop(opened.unwrap());
        model.synced = model.judge(&found);
        disk.crash();
        live(&disk, &mut model, &mut random).unwrap();
    }
}

/// Records may be missing then, at the end; others never come instead, and a gap is an error.
#[test]
fn a_disk_that_lies_loses_or_misdirects_never_makes_up_records() {
    let (mut noticed, mut shorter, mut whole) = (0, 0, 0);
    for seed in 0..1500 {
        let fault = [Fault::LieAboutSync, Fault::LoseWrite, Fault::MisdirectWrite, Fault::CorruptRead];
        let disk = SimulatedDisk::new(seed);
        let (mut model, mut random) = (Model::default(), Random::new(seed));
        live(&disk, &mut model, &mut random).unwrap();
        disk.inject(fault[seed as usize % 4], random.below(8));
        let _ = live(&disk, &mut model, &mut random);
        disk.crash();
        match open(&disk) {
            (Ok(_), found) => match model.judge(&found) {
                there if there < model.synced => shorter += 1,
                _ => whole += 1,
            },
            (Err(JournalError::Damaged { .. }), found) => {
                model.judge(&found);
                noticed += 1;
            }
            (Err(error), _) => panic!("{error}"),
        }
    }
    assert!(noticed > 50 && whole > 200, "{noticed} noticed, {shorter} shorter, {whole} whole");
}
