//! One file's bytes: as they are seen, as they are kept, and what lies between.

use std::sync::Arc;

use highwater_core::Random;

/// What a disk writes as a unit, in bytes.
const SECTOR: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Contents {
    /// As the process sees it.
    seen: Vec<u8>,
    /// What a crash keeps for sure.
    kept: Vec<u8>,
    /// What was done since the last sync, oldest first.
    unsynced: Vec<Change>,
    open: Arc<()>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl Contents {
    /// A new file of so many zeros, its length unsynced.
    pub(super) fn created(len: u64) -> Contents {
        let mut contents = Contents::default();
        contents.set_len(len as usize);
        contents
    }

    pub(super) fn synced(bytes: Vec<u8>) -> Contents {
        Contents { seen: bytes.clone(), kept: bytes, ..Contents::default() }
    }

    /// The same bytes, seen and kept, which nobody has open.
    pub(super) fn fork(&self) -> Contents {
        let Contents { seen, kept, unsynced, .. } = self;
        Contents { seen: seen.clone(), kept: kept.clone(), unsynced: unsynced.clone(), open: Arc::new(()) }
    }

    pub(super) fn seen(&self) -> &[u8] {
        &self.seen
    }

    /// To be held by whoever has the file open.
    pub(super) fn handle(&self) -> Arc<()> {
        self.open.clone()
    }

    pub(super) fn is_open(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        put(&mut self.seen, offset as usize, bytes);
        self.unsynced.push(Change::Write { offset: offset as usize, bytes: bytes.to_vec() });
    }

    /// A write that the process sees and the disk does not get.
    pub(super) fn seem_to_write(&mut self, offset: u64, bytes: &[u8]) {
        put(&mut self.seen, offset as usize, bytes);
    }

    /// A write that the disk gets and the process does not see: it was meant for somewhere else.
    pub(super) fn write_elsewhere(&mut self, offset: u64, bytes: &[u8], random: &mut Random) {
        let sectors = (self.seen.len() / SECTOR).max(1) as u64;
        let within = offset as usize % SECTOR;
        let offset = random.below(sectors) as usize * SECTOR + within;
        let fits = bytes.len().min(self.seen.len().saturating_sub(offset));
        self.unsynced.push(Change::Write { offset, bytes: bytes[..fits].to_vec() });
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.seen.resize(len, 0);
        self.unsynced.push(Change::SetLen(len));
    }

    pub(super) fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            apply(&mut self.kept, change);
        }
    }

    /// Keeps any part of what was unsynced, and forgets the rest.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        let unsynced = std::mem::take(&mut self.unsynced);
        keep_some(&mut self.kept, unsynced, random);
    }

    /// What is seen is what was kept.
    pub(super) fn crash(&mut self, random: &mut Random) {
        self.fail_sync(random);
        self.seen.clone_from(&self.kept);
        self.open = Arc::new(());
    }

    pub(super) fn spoil(&mut self, offset: usize, by: u8) {
        self.sync();
        self.kept[offset] ^= by;
        self.seen[offset] ^= by;
    }
}

fn put(into: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if !bytes.is_empty() && into.len() < end {
        into.resize(end, 0);
    }
    if !bytes.is_empty() {
        into[offset..end].copy_from_slice(bytes);
    }
}

fn apply(kept: &mut Vec<u8>, change: Change) {
    match change {
        Change::Write { offset, bytes } => put(kept, offset, &bytes),
        Change::SetLen(len) => kept.resize(len, 0),
    }
}

/// All of it one time in four, nothing one time in four; else each change has its own fate.
fn keep_some(kept: &mut Vec<u8>, unsynced: Vec<Change>, random: &mut Random) {
    match random.below(4) {
        0 => unsynced.into_iter().for_each(|change| apply(kept, change)),
        1 => {}
        _ => {
            // Writes pass each other, but not a change of length.
            for run in unsynced.split_inclusive(|change| matches!(change, Change::SetLen(_))) {
                keep_some_of_run(kept, run.to_vec(), random);
            }
        }
    }
}

fn keep_some_of_run(kept: &mut Vec<u8>, mut run: Vec<Change>, random: &mut Random) {
    let last_len = run.pop_if(|change| matches!(change, Change::SetLen(_)));
    while !run.is_empty() {
        let next = random.below(run.len() as u64) as usize;
        if let Change::Write { offset, bytes } = run.swap_remove(next) {
            keep_some_of_write(kept, offset, &bytes, random);
        }
    }
    if let Some(Change::SetLen(len)) = last_len {
        let reached = match random.below(3) {
            0 => return,
            1 => len,
            _ => len.min(kept.len()) + random.below(len.abs_diff(kept.len()) as u64 + 1) as usize,
        };
        kept.resize(reached, 0);
    }
}

fn keep_some_of_write(kept: &mut Vec<u8>, offset: usize, bytes: &[u8], random: &mut Random) {
    match random.below(4) {
        0 => {}
        1 => put(kept, offset, bytes),
        2 => put(kept, offset, &bytes[..random.below(bytes.len() as u64 + 1) as usize]),
        _ => {
            let mut start = 0;
            while start < bytes.len() {
                let end = bytes.len().min(start + SECTOR - (offset + start) % SECTOR);
                if random.one_in(2) {
                    put(kept, offset + start, &bytes[start..end]);
                }
                start = end;
            }
        }
    }
}
