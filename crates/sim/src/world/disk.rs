//! A machine's disk, as its replica sees it: records, in the order of writing, how many of them are surely there, and checkpoints.
//!
//! How records and checkpoints come to bytes and back, and what befalls the bytes, is the business of the crate `disk`, with tests of
//! its own. Here a crash leaves what was synced, and of the rest of each writer's records those before some point: writers are written
//! one after the other, so none of them says anything about another. Of checkpoints it leaves the published ones, and perhaps the one
//! whose publication was under way.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use highwater_core::evidence::{Begun, Claim, Found, Start, Starts, Verdict, judge};
use highwater_core::{Random, Timestamp};
use highwater_seam::{DiskState, LogPosition, Nanos, Replica, Resume, releasable};
use highwater_store::{Export, Importer, Store};

use super::event::Event;
use super::starting::Step;
use crate::faults::Lack;
use crate::network::Channel;

/// What a group takes at least.
const BLOCK_BYTES: u64 = 4096;
/// Records of a process that nobody hears of: as one does in a minute or so, in which it notes down what time it is.
const UNHEARD_RECORDS: usize = 64;
/// So many older copies are kept for whoever restores one.
const COPIES: usize = 4;

/// One machine's disk.
#[derive(Default)]
pub(super) struct Disk {
    /// In the order of writing; with the position of its writer that it brought.
    pub(super) records: VecDeque<(Channel, LogPosition, Bytes)>,
    /// How many of them survive a crash.
    pub synced: usize,
    /// How many records there were when, as far as not all of these are synced.
    unsynced: VecDeque<(usize, Nanos)>,
    /// Since when records were lost in crashes that the replica has not caught up with.
    pub lost_since: Option<Nanos>,
    /// How many were released, and are gone: records are counted from the disk's first on.
    gone: usize,
    /// It is at work.
    pub syncing: bool,
    /// How far the synced records of each writer go, and all of them; the controller's last.
    synced_to: Vec<LogPosition>,
    written_to: Vec<LogPosition>,
    /// Published, oldest first.
    pub(super) checkpoints: Vec<Checkpoint>,
    /// The store with which the process on it began: what that holds follows from the disk.
    pub began_with: Weak<Store>,
    /// Being written.
    pub scan: Option<Scan>,
    /// It is about to be published.
    pub publication: Option<Publication>,
    /// It is about to be full: so many bytes still fit.
    pub room: Option<u64>,
    /// A sync takes so much longer.
    pub slowness: Nanos,
    /// It answers nothing: what was begun ends when this does.
    pub hung: bool,
    /// Whoever writes its checkpoints stands still.
    pub holds_checkpoints: bool,
    /// Ends of syncs, and steps of checkpoints, that would have been told meanwhile.
    pub untold: Vec<Event>,
    /// The next sync fails.
    pub fails: bool,
    /// No file can be created or opened.
    pub lacks: Option<Lack>,
    /// Nothing of the sync under way is written anywhere: no file could be opened for it.
    pub unopened: bool,
    /// A sync waits for a file that cannot be opened.
    pub stands: bool,
    /// The steps at which the next starts end early.
    pub early: Vec<Step>,
    /// A start ended early when it had set aside what was left of a life.
    pub in_between: bool,
    /// The record, counted from the disk's first on, that is not what was written.
    pub(super) rotten: Option<usize>,
    /// Starts of a process on it, as its identity knows them: with what was on it when each began.
    starts: Arc<Starts>,
    /// The identity says that something was written.
    begun: bool,
    /// An earlier life was part of a cluster.
    pub past: bool,
    /// Copies that were made when processes started, oldest first.
    copies: VecDeque<Copy>,
    /// It is such a copy.
    pub is_older: bool,
}

/// What a disk held when a process started.
struct Copy {
    /// Starts before.
    starts: Arc<Starts>,
    begun: bool,
    records: VecDeque<(Channel, LogPosition, Bytes)>,
    gone: usize,
    checkpoints: Vec<Checkpoint>,
}

/// A checkpoint on a disk.
#[derive(Clone)]
pub(super) struct Checkpoint {
    /// The store that was scanned; dangling if it was another process's.
    pub of: Weak<Store>,
    pub chunks: Arc<Vec<Vec<u8>>>,
    pub floor: Timestamp,
    pub complete_at: Timestamp,
    pub engine: Vec<u8>,
    /// What of each writer's records is not needed with it.
    pub released: Vec<LogPosition>,
    /// A part of it is not what was written.
    pub rotten: bool,
    /// A start has found that out: it takes the place of none that is whole, and goes when another one is published.
    pub known: bool,
}

/// What has to be published of a scan.
pub(super) struct Publication {
    pub complete_at: Timestamp,
    pub engine: Vec<u8>,
    pub released: Vec<LogPosition>,
    pub anew: LogPosition,
}

/// A scan under way, or at its end.
pub(super) struct Scan {
    pub number: u64,
    /// The store that is scanned.
    pub of: Weak<Store>,
    pub floor: Timestamp,
    /// What is not read yet.
    pub parts: Vec<Export>,
    pub chunks: Vec<Vec<u8>>,
    pub newest: Timestamp,
}

impl Disk {
    fn writer(&self, who: Channel, workers: u16) -> usize {
        match who {
            Channel::Worker(at) => usize::from(at),
            Channel::Control => usize::from(workers),
        }
    }

    pub fn append(
        &mut self,
        now: Nanos,
        who: Channel,
        workers: u16,
        records: impl IntoIterator<Item = Bytes>,
    ) {
        let writer = self.writer(who, workers);
        self.written_to.resize(usize::from(workers) + 1, LogPosition(0));
        for record in records {
            self.written_to[writer].0 += record.len() as u64;
            self.records.push_back((who, self.written_to[writer], record));
        }
        self.unsynced.push_back((self.written(), now));
    }

    /// All that was written is there for good.
    pub fn bring_down(&mut self, workers: u16) {
        self.begun = true;
        self.synced = self.written();
        self.unsynced.clear();
        self.count(workers);
    }

    /// How many of them were released, and are gone.
    pub fn gone(&self) -> usize {
        self.gone
    }

    /// How many records were written in all.
    pub fn written(&self) -> usize {
        self.gone + self.records.len()
    }

    /// The power is gone.
    pub fn crash(&mut self, workers: u16, random: &mut Random) {
        let lost = self.unsynced.front().map(|(_, at)| *at);
        self.unsynced.clear();
        self.lost_since = self.lost_since.into_iter().chain(lost).min();
        let unsynced = self.records.split_off(self.synced - self.gone);
        let mut kept: BTreeMap<Channel, u64> = BTreeMap::new();
        for (who, ..) in &unsynced {
            *kept.entry(*who).or_default() += 1;
        }
        kept.values_mut().for_each(|count| *count = random.below(*count + 1));
        self.records.extend(unsynced.into_iter().filter(|(who, ..)| {
            let left = kept.get_mut(who).expect("it was counted");
            let keeps = *left > 0;
            *left -= u64::from(keeps);
            keeps
        }));
        (self.synced, self.syncing, self.fails) = (self.written(), false, false);
        (self.unopened, self.stands) = (false, false);
        self.untold.clear();
        match (self.scan.take(), self.publication.take()) {
            // The name may have been on the disk already.
            (Some(scan), Some(publication)) if random.one_in(2) => {
                self.publish(scan, publication, usize::MAX, workers)
            }
            _ => {}
        }
        self.count(workers);
    }

    /// Finds out how far what is there goes.
    fn count(&mut self, workers: u16) {
        self.written_to = self.released(workers);
        for (who, position, _) in &self.records {
            let writer = self.writer(*who, workers);
            self.written_to[writer] = *position;
        }
        self.synced_to = self.written_to.clone();
    }

    /// Takes the room for what is to be brought down; whether there is enough.
    pub fn take_room(&mut self) -> bool {
        let Some(room) = &mut self.room else { return true };
        let unsynced = self.records.iter().skip(self.synced - self.gone);
        let bytes: usize = unsynced.map(|(.., record)| record.len()).sum();
        let left = room.checked_sub((bytes as u64).next_multiple_of(BLOCK_BYTES));
        left.is_some_and(|left| {
            *room = left;
            true
        })
    }

    /// These records never got there, though they count as synced.
    pub fn lose(&mut self, records: Range<usize>) {
        self.synced = records.start;
        self.records.drain(records.start - self.gone..records.end - self.gone);
    }

    /// A process is about to start: whether the disk has all that its identity speaks of, by the rule that nodes go by. If not, what is
    /// left of it counts for nothing, and the node begins another life.
    pub fn has_all(&mut self) -> bool {
        let written = self.gone > 0 || !self.records.is_empty();
        let found = Found {
            segment: written.then_some(1),
            bytes: Some(self.bytes()),
            traces: !self.checkpoints.is_empty(),
        };
        let had = self.starts.newest().map_or(0, |start| start.had);
        let begun = if self.begun { Begun::Segment(1) } else { Begun::Nothing };
        let forgot = matches!(judge(Claim { begun, had }, found), Verdict::Forgot(_));
        if !forgot || ignores_lost_names() {
            return true;
        }
        self.empty();
        self.past = true;
        false
    }

    /// A process starts.
    pub fn begin(&mut self, random: &mut Random) {
        let (starts, begun, gone, had) = (self.starts.clone(), self.begun, self.gone, self.bytes());
        let (records, checkpoints) = (self.records.clone(), self.checkpoints.clone());
        self.copies.push_back(Copy { starts, begun, records, gone, checkpoints });
        if self.copies.len() > COPIES {
            self.copies.pop_front();
        }
        Arc::make_mut(&mut self.starts).push(Start { number: random.bits(), had });
    }

    /// A process starts, is heard by nobody, writes a little of what the one before wrote last, and ends.
    pub fn begin_unheard(&mut self, now: Nanos, workers: u16, random: &mut Random) {
        let had = self.bytes();
        Arc::make_mut(&mut self.starts).push(Start { number: random.bits(), had });
        let of_controller = |(who, _, record): &(Channel, LogPosition, Bytes)| {
            (*who == Channel::Control).then(|| record.clone())
        };
        // Whoever reads it reads it again, and learns nothing by it.
        let last = self.records.iter().rev().find_map(of_controller);
        self.append(now, Channel::Control, workers, vec![last; UNHEARD_RECORDS].into_iter().flatten());
        self.bring_down(workers);
    }

    /// The names of its files are lost, but for the identity's.
    pub fn lose_names(&mut self) {
        let (starts, begun, past) = (self.starts.clone(), self.begun, self.past);
        self.empty();
        (self.starts, self.begun, self.past) = (starts, begun, past);
    }

    /// Nothing is on it any more. What befalls the machine goes on.
    pub fn empty(&mut self) {
        let (hung, lacks, early) = (self.hung, self.lacks, std::mem::take(&mut self.early));
        *self = Disk { hung, lacks, early, ..Disk::default() };
    }

    /// Bytes of records that were ever written.
    fn bytes(&self) -> u64 {
        self.written_to.iter().map(|position| position.0).sum()
    }

    /// As its replica is told.
    pub fn state(&self) -> DiskState {
        DiskState {
            low: self.room.is_some() || self.stands,
            starts: self.starts.clone(),
            synced: self.synced_to.iter().map(|position| position.0).sum(),
        }
    }

    /// Whether there can be a copy that is older than the last start.
    pub fn has_older(&self) -> bool {
        self.copies.iter().any(|copy| copy.starts.generation() > 0)
    }

    /// Somebody puts one in its place.
    pub fn restore(&mut self, workers: u16, random: &mut Random) {
        self.copies.retain(|copy| copy.starts.generation() > 0);
        let at = random.below(self.copies.len() as u64) as usize;
        self.copies.truncate(at + 1);
        let copy = self.copies.pop_back().expect("there is one, somebody looked");
        let Copy { starts, begun, records, gone, checkpoints } = copy;
        self.begun = begun;
        (self.starts, self.records, self.gone, self.checkpoints) = (starts, records, gone, checkpoints);
        (self.synced, self.is_older, self.rotten) = (self.written(), true, None);
        self.count(workers);
    }

    /// What nobody needs any more.
    fn released(&self, workers: u16) -> Vec<LogPosition> {
        let oldest = self.checkpoints.first();
        oldest
            .map_or_else(|| vec![LogPosition(0); usize::from(workers) + 1], |oldest| oldest.released.clone())
    }

    /// Whether its identity is that of a life which has written something.
    pub fn remembers_a_life(&self) -> bool {
        self.begun || !self.is_empty()
    }

    pub fn is_empty(&self) -> bool {
        self.written() == 0
    }

    /// A checkpoint is published; of the older ones some are removed, and what of the records only they needed.
    pub fn publish(&mut self, scan: Scan, publication: Publication, keep: usize, workers: u16) {
        let Publication { complete_at, engine, released, anew } = publication;
        let before = self.checkpoints.last().map(|before| &before.released[..]);
        let released = releasable(released, anew, |writer| self.synced_to[writer], before);
        let Scan { of, floor, chunks, newest, .. } = scan;
        // As whoever writes it asserts.
        assert!(
            floor <= complete_at && newest <= complete_at,
            "a checkpoint is complete behind all that it has"
        );
        let chunks = Arc::new(chunks);
        let (rotten, known) = (false, false);
        self.checkpoints.retain(|checkpoint| !checkpoint.known);
        self.checkpoints.push(Checkpoint { of, chunks, floor, complete_at, engine, released, rotten, known });
        let old = self.checkpoints.len().saturating_sub(keep);
        self.checkpoints.drain(..old);
        let released = self.released(workers);
        if keep == usize::MAX {
            return;
        }
        self.trim(&released, workers);
    }

    /// Whether a store follows from what is on the disk: its process began with it, or a checkpoint is of it.
    pub fn keeps(&self, store: &Arc<Store>) -> bool {
        let is = |known: &Weak<Store>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(store));
        is(&self.began_with) || self.checkpoints.iter().any(|checkpoint| is(&checkpoint.of))
    }

    /// Of these positions what is synced.
    pub fn synced_of(&self, mut positions: Vec<LogPosition>) -> Vec<LogPosition> {
        for (position, synced) in positions.iter_mut().zip(&self.synced_to) {
            *position = (*position).min(*synced);
        }
        positions
    }

    /// Removes the records up to there as files are removed: from the front, as far as nobody needs anything.
    pub fn trim(&mut self, released: &[LogPosition], workers: u16) {
        while let Some((who, position, _)) = self.records.front()
            && self.gone < self.synced
            && *position <= released[self.writer(*who, workers)]
        {
            self.records.pop_front();
            self.gone += 1;
        }
    }

    /// Hands a new process what it wrote, from the checkpoint at `base` on.
    ///
    /// # Errors
    /// Why its replica does not go on from that.
    ///
    /// # Panics
    /// If it does not know its own checkpoint.
    pub fn recover(
        &mut self,
        replica: &mut Replica,
        workers: u16,
        base: Option<usize>,
        now: Nanos,
    ) -> Result<(), String> {
        let base = base.map(|at| &self.checkpoints[at]);
        let positions = base.map(|base| base.released.clone());
        if let Some(base) = base {
            let mut importer = Importer::new(replica.controller.store());
            for chunk in base.chunks.iter() {
                importer.import(chunk).expect("a checkpoint of its own");
            }
            let Checkpoint { floor, complete_at, engine, released, .. } = base;
            let (floor, complete_at, positions) = (*floor, *complete_at, &released[..]);
            let resumed = replica.controller.resume(Resume { floor, complete_at, engine, positions });
            resumed.unwrap_or_else(|why| panic!("a checkpoint of its own is refused: {why}"));
        }
        for (who, position, record) in &self.records {
            let writer = self.writer(*who, workers);
            if positions.as_ref().is_some_and(|positions| *position <= positions[writer]) {
                continue;
            }
            let known = match who {
                Channel::Worker(at) => replica.workers[*at as usize].recover(record.clone()),
                Channel::Control => replica.controller.recover(record.clone()),
            };
            // A record may ask for a checkpoint that was damaged: the caller knows whether one was.
            known.map_err(|why| format!("a record of its own is refused: {why}"))?;
        }
        replica.workers.iter_mut().try_for_each(|worker| worker.recovered())?;
        replica.controller.recovered(now);
        Ok(())
    }

    /// What was written up to here is synced: where that moves each worker.
    pub fn take_position(&mut self, upto: usize, workers: u16) -> Vec<Option<LogPosition>> {
        self.synced_to.resize(usize::from(workers) + 1, LogPosition(0));
        let before = self.synced_to.clone();
        for at in self.synced - self.gone..upto - self.gone {
            let (who, position, _) = &self.records[at];
            let writer = self.writer(*who, workers);
            self.synced_to[writer] = *position;
        }
        self.synced = upto;
        self.begun = true;
        self.syncing = false;
        self.unsynced.retain(|(end, _)| *end > upto);
        let moved = before.into_iter().zip(&self.synced_to).take(usize::from(workers));
        moved.map(|(before, now)| (*now > before).then_some(*now)).collect()
    }
}

impl Scan {
    /// Whether it is of this store.
    pub fn is_of(&self, store: &Arc<Store>) -> bool {
        std::ptr::eq(self.of.as_ptr(), Arc::as_ptr(store))
    }

    /// Reads a chunk; whether there is more.
    pub fn step(&mut self, budget_bytes: usize) -> bool {
        let Some(export) = self.parts.last_mut() else { return false };
        let mut chunk = Vec::new();
        let more = export.next_chunk(budget_bytes, &mut chunk);
        if !chunk.is_empty() {
            self.chunks.push(chunk);
        }
        if !more {
            self.newest = self.newest.max(export.newest());
            self.parts.pop();
        }
        !self.parts.is_empty()
    }
}

/// Whether a host goes on as who it was though its journal is gone: never.
#[cfg(feature = "planted")]
fn ignores_lost_names() -> bool {
    highwater_core::planted::on(&highwater_engine_meerkat::planted::LostNamesIgnored)
}

#[cfg(not(feature = "planted"))]
fn ignores_lost_names() -> bool {
    false
}
