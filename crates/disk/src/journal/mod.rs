//! An append-only journal of opaque records of up to [`MAX_WRITERS`] writers, made durable together: one sync for all that
//! was appended since the last one, whoever appended it (*group commit*).
//!
//! # Shape
//!
//! ```text
//! journal-0000000000000001          journal-0000000000000002           one sequence of files, *segments*, preallocated
//! | head | group 1 | group 2 |      | head | group 3 | proof |  zeros |
//!          | head | record | record | ..  up to a whole number of blocks
//! ```
//!
//! A *group* is what one sync made durable. It is in one segment; records longer than a segment get one of their own size. The
//! bytes are in [`format`](mod@format), and in docs/internals/journal.md.
//!
//! # Torn, or damaged?
//!
//! A crash leaves any part of what was not synced: of the last group any blocks, in any order. It must be cut, because nobody
//! was told that it is there. Of what was synced nothing may be missing: if something is, that is damage, and must not be
//! mistaken for a torn end, because then records that were relied on would vanish without a word. What tells them apart is
//!
//! > **Invariant.** No byte of group *n* + 1, and no head of a segment that begins with it, is handed to the disk before the
//! > sync of group *n* has returned, or recovery has found group *n* and synced it again.
//!
//! So if anything of a later group or segment is found, group *n* was synced, and where it is not whole it is damaged; if nothing
//! is, it may have been torn, and none but group *n* can have been. Recovery therefore reads groups in order, and at the first
//! that is not whole looks for the head of a later one in the rest of its file. It finds none that isn't one: a head has its
//! journal's number, its segment's, its own place and number under its checksum, so that a stale one, a misdirected one and a
//! copy of one in a record's content pass for nothing. A block that was synced is not written again with other bytes, so that a
//! torn write harms what it was to write and nothing else.
//!
//! - Behind the last group goes a *proof*, the head of an empty group, without a sync of its own. The next group overwrites it.
//!   It proves that the last group was synced, once the system has written it out, or [`close`](Journal::close) had it synced.
//!   Without it, damage to the very last group looks like a torn end: no journal could know.
//! - Every life of a process begins a new segment, whose head tells where the groups of the one before end. What a torn group
//!   left behind stays behind that end for ever, is cut off, and never gets between new groups.
//! - What recovery reads may be in the page cache only: a process that was killed, or whose sync failed, left it there. So before
//!   [`open`](Journal::open) returns, the last segment's head, and its last group unless that is proved to have been synced, are
//!   written once more, byte for byte, and synced.
//!
//! A group survives as a whole or not at all: one checksum is over all of its records, and they need none of their own.
//!
//! # What is left out
//!
//! A disk that says it synced the last group, and did not, is believed: nothing else tells. Nor does the journal notice that
//! somebody put an older copy of *all* of it in its place; whoever promised something by it has to.

mod batch;
pub mod error;
pub mod format;
pub mod scan;
mod window;

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;

use batch::Batch;
pub use error::JournalError;
use error::{failed, unreadable};
use format::{BLOCK_BYTES, GROUP_HEAD_BYTES, GroupHead, SegmentHead, is_reclaimed, reclaimed_name};
pub use format::{MAX_WRITERS, segment_name, segment_number};
pub use scan::{
    Cut, Damage, Record, SegmentSummary, Summary, last_begun, read, read_from, read_to_damage, read_while,
    segments,
};

use crate::disk::{is_full, lacks_descriptor, lacks_for_now};
use crate::{Ballast, Disk, DiskFile, Identity, IdentityError, ballast};

/// Shortest segment: its head, a group of one block, a proof.
pub const MIN_SEGMENT_BYTES: u64 = 3 * BLOCK_BYTES;
/// What a segment has unless it is said otherwise.
pub const DEFAULT_SEGMENT_BYTES: u64 = 64 << 20;

const DIRECTORY: &str = "the directory";

/// How a journal is kept.
#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    /// Number of a new journal: one that no other has, random for instance. One that exists keeps its own.
    pub journal: u64,
    /// How many writers append to it; 1 to [`MAX_WRITERS`], and no fewer than it had before.
    pub writers: u16,
    /// Length of a segment, rounded up to whole blocks; at least [`MIN_SEGMENT_BYTES`].
    pub segment_bytes: u64,
}

/// A journal, open for appending.
///
/// A writer's *position* is the number of bytes of its records from the journal's birth on.
#[derive(Debug)]
pub struct Journal<D: Disk> {
    disk: D,
    journal: u64,
    segment_bytes: u64,
    /// The files, oldest first.
    segments: VecDeque<Segment>,
    /// Where the last segment's groups end.
    end: u64,
    /// The last segment, if this life began it.
    current: Option<Current<D::File>>,
    /// The disk's [identity](crate::Identity) says with which segment this life began to write.
    noted: bool,
    /// The next one, reserved, with nothing in it yet: to a recovery a segment that was being made.
    spare: Option<Current<D::File>>,
    /// Files of segments that nobody needs, by the numbers that they had. What was written once is overwritten without that the file
    /// system has anything to note down, and syncs take half the time.
    reclaimed: VecDeque<u64>,
    /// So many of them at most.
    most_reclaimed: usize,
    next_group: u64,
    /// Appended and not synced.
    batches: VecDeque<Batch>,
    /// The last group's memory, for the next one.
    emptied: Batch,
    appended: Vec<u64>,
    synced: Vec<u64>,
    released: Vec<u64>,
    /// Why nothing can be done any more.
    failed: Option<JournalError>,
}

/// Numbers of a journal's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    pub first: u64,
    /// The last, one that is reserved included.
    pub last: u64,
    /// The first in which anything may still be written.
    pub written: Option<u64>,
}

/// A file of the journal.
#[derive(Debug)]
struct Segment {
    number: u64,
    /// Where each writer stood before it.
    positions: Vec<u64>,
    /// Its file can be written anew: it is as long as a new one would be.
    whole: bool,
}

#[derive(Debug)]
struct Current<F> {
    file: F,
    len: u64,
    /// It was another segment before.
    reused: bool,
}

impl<D: Disk> Journal<D> {
    /// Opens the directory's journal, or begins one, and hands out all of its records, in the order in which they were synced.
    /// What was torn is cut, and the summary says so; what is returned as part of the journal is synced.
    ///
    /// # Errors
    /// As [`read`]; [`Writers`](JournalError::Writers) and [`Failed`](JournalError::Failed) besides.
    ///
    /// # Panics
    /// If the options make no sense.
    pub fn open(
        disk: D,
        options: JournalOptions,
        each: &mut dyn FnMut(Record<'_>),
    ) -> Result<(Journal<D>, Summary), JournalError> {
        let opened = Journal::open_while(disk, options, &mut scan::on(each))?;
        Ok(opened.expect("nobody said that no more is wanted"))
    }

    /// The same, for as long as more is wanted; `None` if no more was: nothing was changed then.
    ///
    /// # Errors
    /// As [`open`](Journal::open).
    ///
    /// # Panics
    /// If the options make no sense.
    pub fn open_while(
        disk: D,
        options: JournalOptions,
        each: &mut dyn FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> Result<Option<(Journal<D>, Summary)>, JournalError> {
        assert!((1..=MAX_WRITERS).contains(&options.writers), "a journal has 1 to {MAX_WRITERS} writers");
        assert!(
            options.segment_bytes >= MIN_SEGMENT_BYTES,
            "a segment has {MIN_SEGMENT_BYTES} bytes at least"
        );
        let scan = scan::scan(&disk, each)?;
        if scan.stopped {
            return Ok(None);
        }
        let found = scan.summary.positions.len() as u16;
        if found > options.writers {
            return Err(JournalError::Writers { found, expected: options.writers });
        }
        if let Some(last) = scan.summary.segments.last() {
            let group = scan.last_group.filter(|_| scan.summary.unproved);
            write_again(&disk, &last.file, group)?;
        }
        // Of another life's nobody knows what they hold.
        let names = disk.names().map_err(unreadable(DIRECTORY))?;
        let leftovers = names.into_iter().filter(|name| is_reclaimed(name));
        for name in scan.unfinished.map(segment_name).into_iter().chain(leftovers) {
            disk.remove(&name).map_err(failed(&name, "remove"))?;
        }
        disk.sync_names().map_err(failed(DIRECTORY, "sync"))?;

        let mut summary = scan.summary;
        summary.positions.resize(options.writers.into(), 0);
        let segment = |segment: &SegmentSummary| Segment {
            number: segment.number,
            positions: segment.positions.clone(),
            whole: false,
        };
        let journal = Journal {
            disk,
            journal: scan.journal.unwrap_or(options.journal),
            segment_bytes: options.segment_bytes.next_multiple_of(BLOCK_BYTES),
            segments: summary.segments.iter().map(segment).collect(),
            end: summary.segments.last().map_or(0, |segment| segment.end),
            current: None,
            noted: false,
            spare: None,
            reclaimed: VecDeque::new(),
            most_reclaimed: 0,
            next_group: scan.next_group,
            batches: VecDeque::new(),
            emptied: Batch::default(),
            appended: summary.positions.clone(),
            synced: summary.positions.clone(),
            released: vec![0; options.writers.into()],
            failed: None,
        };
        Ok(Some((journal, summary)))
    }

    /// From now on files of released segments are kept to be written anew, so many of them at most. They are given back where
    /// [ballast](Journal::hold_ballast) needs the room.
    pub fn reclaim(&mut self, most: usize) {
        self.most_reclaimed = most;
    }

    /// Appends a record in memory, behind all others; its writer's position with it. It is not safe before
    /// [`sync`](Journal::sync). A record without bytes ends where the one before it does, and is synced and released with it.
    ///
    /// # Errors
    /// [`TooLong`](JournalError::TooLong) beyond 4 GiB; [`Failed`](JournalError::Failed).
    ///
    /// # Panics
    /// If there is no such writer.
    pub fn append(&mut self, writer: u16, bytes: &[u8]) -> Result<u64, JournalError> {
        self.check()?;
        if u32::try_from(bytes.len()).is_err() {
            return Err(JournalError::TooLong { bytes: bytes.len() });
        }
        let most = self.segment_bytes - 2 * BLOCK_BYTES;
        if self.batches.back().is_none_or(|batch| batch.whole_bytes_with(bytes.len()) > most) {
            self.batches.push_back(std::mem::take(&mut self.emptied));
        }
        let position = &mut self.appended[usize::from(writer)];
        *position += bytes.len() as u64;
        self.batches.back_mut().expect("one was just pushed").push(writer, bytes);
        Ok(*position)
    }

    /// Makes all that was appended durable; the positions of all writers, by number. What does not fit into one segment takes
    /// several syncs.
    ///
    /// # Errors
    /// [`Full`](JournalError::Full) and [`NoDescriptor`](JournalError::NoDescriptor): what was appended stays appended, and
    /// [`synced`](Journal::synced) tells how much of it is durable by now. [`Failed`](JournalError::Failed).
    pub fn sync(&mut self) -> Result<&[u64], JournalError> {
        self.check()?;
        let written = self.write_batches();
        self.note_failure(written).map(|()| &*self.synced)
    }

    /// Reserves the next segment ahead of need, unless it is there: so a full disk shows while what is left of this one can still be
    /// written.
    ///
    /// # Errors
    /// [`Full`](JournalError::Full) and [`NoDescriptor`](JournalError::NoDescriptor): nothing is harmed, and
    /// [`room_bytes`](Journal::room_bytes) are left. [`Failed`](JournalError::Failed).
    pub fn reserve(&mut self) -> Result<(), JournalError> {
        self.check()?;
        if self.spare.is_some() {
            return Ok(());
        }
        let reserved = self.reserve_segment(self.segment_bytes).map(|file| self.spare = Some(file));
        self.note_failure(reserved)
    }

    /// The next segment is the [ballast](Ballast::Segment), on a disk that has no room for another one; where that is used up, a file as
    /// short as what waits. Whether there is one.
    ///
    /// # Errors
    /// [`NoDescriptor`](JournalError::NoDescriptor); [`Failed`](JournalError::Failed).
    pub fn take_ballast(&mut self) -> Result<bool, JournalError> {
        self.check()?;
        if self.spare.is_some() {
            return Ok(false);
        }
        let name = self.next_name();
        let taken = Ballast::Segment.become_file(&self.disk, &name);
        // It holds zeros: no group was ever written to it.
        let spare = |file: D::File| Ok(Current { len: file.len()?, file, reused: false });
        let taken = taken.and_then(|file| file.map(spare).transpose());
        let taken =
            taken.map_err(failed(&name, "make a segment of the ballast")).map(|spare| self.spare = spare);
        self.note_failure(taken)?;
        if self.spare.is_none() && self.unsynced_bytes() > 0 {
            match self.reserve_segment(self.unsynced_bytes() + 2 * BLOCK_BYTES) {
                Ok(spare) => self.spare = Some(spare),
                Err(JournalError::Full { .. }) => {}
                Err(error) => self.note_failure(Err(error))?,
            }
        }
        Ok(self.spare.is_some())
    }

    /// Has so much ballast held on the journal's disk. Where there is no room for it, what was [reclaimed](Journal::reclaim) gives way.
    ///
    /// # Errors
    /// [`Full`](JournalError::Full): what was held is held, and nothing is reclaimed.
    /// [`NoDescriptor`](JournalError::NoDescriptor); [`Failed`](JournalError::Failed).
    pub fn hold_ballast(&mut self, kind: Ballast, len: u64) -> Result<(), JournalError> {
        self.check()?;
        let held = self.hold_and_give_way(kind, len);
        self.note_failure(held)
    }

    fn hold_and_give_way(&mut self, kind: Ballast, len: u64) -> Result<(), JournalError> {
        loop {
            match kind.hold(&self.disk, len).map_err(|error| full_or(error, len, "the ballast", "hold")) {
                Err(JournalError::Full { .. }) if self.give_back()? => {}
                held => return held,
            }
        }
    }

    /// Bytes of its disk that are held as ballast.
    ///
    /// # Errors
    /// [`NoDescriptor`](JournalError::NoDescriptor); [`Failed`](JournalError::Failed).
    pub fn held_ballast(&mut self) -> Result<u64, JournalError> {
        self.check()?;
        let mut held = 0;
        let measured = ballast::held(&self.disk).map(|bytes| held = bytes);
        self.note_failure(measured.map_err(failed("the ballast", "measure")))?;
        Ok(held)
    }

    /// Length of a segment.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Bytes that can be written before another segment has to be reserved, what frames records included.
    pub fn room_bytes(&self) -> u64 {
        let left = |segment: &Current<D::File>, end: u64| (segment.len - end).saturating_sub(BLOCK_BYTES);
        let current = self.current.as_ref().map_or(0, |current| left(current, self.end));
        current + self.spare.as_ref().map_or(0, |spare| left(spare, BLOCK_BYTES))
    }

    /// Whether this life has a segment to write to.
    pub fn has_begun(&self) -> bool {
        self.current.is_some()
    }

    /// Where each writer's durable records end.
    pub fn synced(&self) -> &[u64] {
        &self.synced
    }

    /// The disk that has its files.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    /// Bytes that were appended and are not synced, with what frames them.
    pub fn unsynced_bytes(&self) -> u64 {
        self.batches.iter().map(Batch::whole_bytes).sum()
    }

    /// A writer says that it needs nothing up to this position any more. Files in which nobody needs anything are removed or
    /// [reclaimed](Journal::reclaim), oldest first, each for good before the next one, so that no crash leaves a gap. It is not remembered over a restart: what was
    /// released, and whose file is still there, is handed out again.
    ///
    /// # Errors
    /// [`Failed`](JournalError::Failed).
    ///
    /// # Panics
    /// If there is no such writer, or it is not synced so far.
    pub fn release(&mut self, writer: u16, up_to: u64) -> Result<(), JournalError> {
        self.check()?;
        let writer = usize::from(writer);
        assert!(up_to <= self.synced[writer], "a writer releases what is synced");
        self.released[writer] = self.released[writer].max(up_to);
        while self.is_first_released() {
            let first = self.segments.pop_front().expect("the first of two");
            let away = self.put_away(&first);
            self.note_failure(away)?;
        }
        Ok(())
    }

    /// For good.
    fn put_away(&mut self, segment: &Segment) -> Result<(), JournalError> {
        let (name, reclaimed) = (segment.name(), reclaimed_name(segment.number));
        let wanted = segment.whole && self.reclaimed.len() < self.most_reclaimed;
        let reclaim = if wanted { self.disk.reclaim(&name, &reclaimed) } else { Ok(false) };
        match reclaim {
            Ok(true) => {
                self.disk.sync_names().map_err(failed(DIRECTORY, "sync"))?;
                self.reclaimed.push_back(segment.number);
                return Ok(());
            }
            // It is removed, which takes no descriptor; and what somebody has removed already needs no more.
            Ok(false) => {}
            Err(error) if lacks_descriptor(&error) || lacks_for_now(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(&name, "reclaim")(error)),
        }
        match self.disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(&name, "remove")(error)),
            _ => self.disk.sync_names().map_err(failed(DIRECTORY, "sync")),
        }
    }

    /// Which journal it is.
    pub fn number(&self) -> u64 {
        self.journal
    }

    /// Numbers of its first and its last file, one that is reserved included; and of the first in which anything may still be written,
    /// if there is one. `None`: it has no file.
    pub fn files(&self) -> Option<Files> {
        let last = self.segments.back().map(|last| last.number);
        let spare = self.spare.as_ref().map(|_| last.unwrap_or(0) + 1);
        let current = last.filter(|_| self.current.is_some());
        let first = self.segments.front().map(|first| first.number).or(spare)?;
        Some(Files { first, last: spare.or(last)?, written: current.or(spare) })
    }

    /// How many files it has.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Syncs everything, the proof behind it too: the next start will know that nothing is missing.
    ///
    /// # Errors
    /// As [`sync`](Journal::sync).
    pub fn close(mut self) -> Result<(), JournalError> {
        self.sync()?;
        let Some(current) = &mut self.current else { return Ok(()) };
        current.file.sync().map_err(failed(&self.segments[self.segments.len() - 1].name(), "sync"))
    }

    fn check(&self) -> Result<(), JournalError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// After a failure nothing is done any more; on a full disk one may wait.
    fn note_failure(&mut self, result: Result<(), JournalError>) -> Result<(), JournalError> {
        if let Err(error @ JournalError::Failed { .. }) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    /// The last segment is never released: it knows the positions.
    fn is_first_released(&self) -> bool {
        let Some(second) = self.segments.get(1) else { return false };
        second.positions.iter().zip(&self.released).all(|(before, released)| before <= released)
    }

    fn write_batches(&mut self) -> Result<(), JournalError> {
        if self.batches.is_empty() {
            return Ok(());
        }
        while let Some(mut batch) = self.batches.pop_front() {
            if let Err(error) = self.write_batch(&mut batch) {
                self.batches.push_front(batch);
                return Err(error);
            }
            self.emptied = batch.cleared();
        }
        let proof = self.group_head(0, 0, 0);
        let mut block = [0; BLOCK_BYTES as usize];
        block[..GROUP_HEAD_BYTES].copy_from_slice(&proof.encode());
        let (current, name) = self.current();
        current.file.write_at(proof.offset, &block).map_err(failed(&name, "write"))
    }

    /// One group, one sync.
    fn write_batch(&mut self, batch: &mut Batch) -> Result<(), JournalError> {
        let whole = batch.whole_bytes();
        // Behind every group there is room for a proof.
        if self.current.as_ref().is_none_or(|current| self.end + whole + BLOCK_BYTES > current.len) {
            self.begin_segment(whole)?;
        }
        self.note_begun()?;
        let head = self.group_head(batch.len(), batch.records(), batch.crc());
        let bytes = batch.finish(&head);
        let (current, name) = self.current();
        current.file.write_at(head.offset, bytes).map_err(failed(&name, "write"))?;
        current.file.sync().map_err(failed(&name, "sync"))?;
        self.end += whole;
        self.next_group += 1;
        batch.advance(&mut self.synced);
        Ok(())
    }

    fn begin_segment(&mut self, group_bytes: u64) -> Result<(), JournalError> {
        let number = self.segments.back().map_or(1, |last| last.number + 1);
        let name = segment_name(number);
        let needed = group_bytes + 2 * BLOCK_BYTES;
        if let Some(spare) = self.spare.as_mut().filter(|spare| spare.len < needed) {
            // One group alone is longer than a segment.
            spare.file.grow(needed).map_err(|error| full_or(error, needed, &name, "grow"))?;
            spare.len = needed;
        }
        let Current { mut file, len, reused } = match self.spare.take() {
            Some(spare) => spare,
            None => self.reserve_segment(needed.max(self.segment_bytes))?,
        };
        let head = SegmentHead {
            journal: self.journal,
            segment: number,
            first_group: self.next_group,
            previous_end: self.end,
            positions: self.synced.clone(),
            reused,
        };
        file.write_at(0, &head.encode()).map_err(failed(&name, "write"))?;
        file.sync().map_err(failed(&name, "sync"))?;
        self.disk.sync_names().map_err(failed(DIRECTORY, "sync"))?;
        self.cut_last_segment()?;
        self.segments.push_back(Segment { number, positions: head.positions, whole: false });
        self.current = Some(Current { file, len, reused });
        self.end = BLOCK_BYTES;
        Ok(())
    }

    /// Has the disk's identity say where this life began to write, before anything that it writes counts: without that segment the disk has
    /// [forgotten](highwater_core::evidence). Its head is durable, so what is said is true.
    fn note_begun(&mut self) -> Result<(), JournalError> {
        if self.noted {
            return Ok(());
        }
        let first = self.segments.back().expect("a segment was begun").number;
        Identity::note_begun(&self.disk, first).map_err(|error| match error {
            IdentityError::Disk { what, error } => full_or(error, BLOCK_BYTES, "identity", what),
            error => {
                let (file, what) = ("identity".into(), "note in it that the journal has begun:");
                JournalError::Failed { file, what, error: error.to_string() }
            }
        })?;
        self.noted = true;
        Ok(())
    }

    /// The file of the next segment, with room for so many bytes and nothing in it that would be taken for its own.
    fn reserve_segment(&mut self, len: u64) -> Result<Current<D::File>, JournalError> {
        let name = self.next_name();
        if len == self.segment_bytes
            && let Some(number) = self.reclaimed.pop_front()
        {
            let renewed = self.renew(number, &name);
            if matches!(renewed, Err(JournalError::NoDescriptor { .. })) {
                self.reclaimed.push_front(number);
            }
            return renewed;
        }
        let file = self.disk.create(&name, len).map_err(|error| full_or(error, len, &name, "create"))?;
        Ok(Current { file, len, reused: false })
    }

    /// Makes a reclaimed file the next segment's. Its old head goes for good before it has that name: else a crash might leave another
    /// segment's head there. Groups are told apart by the segment's number in their heads.
    fn renew(&self, number: u64, name: &str) -> Result<Current<D::File>, JournalError> {
        let from = reclaimed_name(number);
        let mut file = self.disk.open(&from).map_err(failed(&from, "open"))?;
        file.write_at(0, &[0; BLOCK_BYTES as usize]).map_err(failed(&from, "write"))?;
        file.sync().map_err(failed(&from, "sync"))?;
        self.disk.rename(&from, name).map_err(failed(&from, "rename"))?;
        Ok(Current { file, len: self.segment_bytes, reused: true })
    }

    /// Gives back the room of a file that was reclaimed; whether there was one.
    fn give_back(&mut self) -> Result<bool, JournalError> {
        let Some(number) = self.reclaimed.pop_back() else { return Ok(false) };
        let name = reclaimed_name(number);
        self.disk.remove(&name).map_err(failed(&name, "remove")).map(|()| true)
    }

    fn next_name(&self) -> String {
        segment_name(self.segments.back().map_or(1, |last| last.number + 1))
    }

    /// Gives back what the last segment did not use, if that is worth a new file when this one is not needed any more. Its end is in the
    /// next one's head, so it need not be synced.
    fn cut_last_segment(&mut self) -> Result<(), JournalError> {
        let Some(last) = self.segments.back_mut() else { return Ok(()) };
        let name = last.name();
        let used =
            |current: &Current<D::File>| current.len == self.segment_bytes && self.end >= current.len / 4 * 3;
        if self.most_reclaimed > 0 && self.current.as_ref().is_some_and(used) {
            last.whole = true;
            self.current = None;
            return Ok(());
        }
        let mut file = match self.current.take() {
            Some(current) => current.file,
            None => match self.disk.open(&name) {
                // It keeps the room until nobody needs it: the next segment is there already, and must not be begun twice.
                Err(error) if lacks_descriptor(&error) || lacks_for_now(&error) => return Ok(()),
                file => file.map_err(failed(&name, "open"))?,
            },
        };
        file.set_len(self.end).map_err(failed(&name, "cut"))
    }

    fn group_head(&self, len: u64, records: u32, crc: u32) -> GroupHead {
        let segment = self.segments.back().expect("there is a segment to write to").number;
        GroupHead {
            journal: self.journal,
            segment,
            offset: self.end,
            number: self.next_group,
            len,
            records,
            crc,
        }
    }

    fn current(&mut self) -> (&mut Current<D::File>, String) {
        let name = self.segments.back().expect("there is a segment to write to").name();
        (self.current.as_mut().expect("this life began a segment"), name)
    }
}

impl Segment {
    fn name(&self) -> String {
        segment_name(self.number)
    }
}

fn full_or(error: io::Error, len: u64, name: &str, what: &'static str) -> JournalError {
    if is_full(&error) { JournalError::Full { segment_bytes: len } } else { failed(name, what)(error) }
}

/// Writes the head of a segment, and a group of it, as they are: a system whose sync failed may have them in memory alone, and
/// believe them written.
fn write_again<D: Disk>(disk: &D, name: &str, group: Option<GroupHead>) -> Result<(), JournalError> {
    let mut file = disk.open(name).map_err(unreadable(name))?;
    let places = [Some((0, BLOCK_BYTES)), group.map(|head| (head.offset, head.whole_bytes()))];
    for (offset, len) in places.into_iter().flatten() {
        let mut bytes = vec![0; len as usize];
        let read = file.read_at(offset, &mut bytes).map_err(unreadable(name))?;
        file.write_at(offset, &bytes[..read]).map_err(failed(name, "write"))?;
    }
    file.sync().map_err(failed(name, "sync"))
}

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod tests;
