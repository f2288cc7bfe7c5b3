//! The thread that keeps a node's journal: one sync for what all workers wrote meanwhile.
//!
//! Where nobody waits for a sync one begins some milliseconds after the one before, and takes more with it: each costs CPU time, here and
//! in the system, and wakes the workers. What comes after a while of silence, as promises do, waits for nothing.
//!
//! The next segment is always reserved, and so is the [ballast](Ballast): room for a checkpoint, without which no segment is ever given back, and
//! for another segment. Where that cannot be, the disk is *low*: the controller is told, so that the cluster stops
//! writing before this disk is full. What is left of the current segment is for elections and reads, which write a little: syncs then
//! come at a pace at which it lasts: 64 MiB for half an hour of reads without a break.
//!
//! When that is used up, too, the disk is *full*: nothing is taken out of the queues, so that what waits to be synced stays bounded. Then
//! a checkpoint is scanned, into its part of the ballast; and once it waits for nothing but the sync of what it relies on, the journal's
//! part becomes the next segment. Not before: else a node that catches up would fill that, too, and the checkpoint would wait for more.
//! (But for a node that copies the state: it has none to scan before it has caught up, and catches up with what it has synced.)
//! The published checkpoint gives back the journal before it.
//!
//! Two other troubles are waited out like a full disk, and said in the status: no file descriptor, or no memory, is left for the next file; and the folder
//! is [not the one](super::watch) that a later start would find, where a sync makes nothing durable that counts.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater_disk::journal::Files;
use highwater_disk::{Ballast, Disk, Journal, JournalError, journal};

use super::queue::JournalQueues;
use super::trouble::Part;
use super::watch::{LOOK_EVERY, words_of};
use crate::clock::monotonic;

/// On a full disk, how long until the next look whether there is room.
const FULL_RETRY: Duration = Duration::from_millis(100);
/// On a low disk, how long what is left would last at the pace of now, if each sync takes a block.
const LASTS: Duration = Duration::from_secs(900);
/// Longest pause between two syncs on a low disk: a leader whose streams stand still for about a second is given up.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// What a manifest takes: of a thousand workers' streams and tables, and more.
const MANIFEST_BYTES: u64 = 256 << 10;
/// The ballast grows in such steps, and in quarters of a segment if these are smaller: each is a call to the file system.
const LONGEST_STEP: u64 = 16 << 20;

pub struct JournalThread<D: Disk> {
    journal: Journal<D>,
    queues: Arc<JournalQueues>,
    /// What all workers may have accepted that is not synced.
    most_waiting: u64,
    /// What the ballast has for a segment and for a checkpoint, if all of it is held.
    held: Option<(u64, u64)>,
    /// Before this it does not look whether there is room for another segment.
    reserve_at: Option<Instant>,
    /// From one sync to the next, at least.
    pace: Duration,
    /// Before this no sync begins.
    sync_at: Option<Instant>,
    /// No descriptor was left for a file that is needed.
    starved: Option<JournalError>,
    /// The queues' knowledge of the journal's files.
    told: Option<Files>,
    /// Something was synced and not told, for the folder was lost.
    untold: bool,
}

impl<D: Disk> JournalThread<D> {
    /// Ready to run. From here on the queues tell what is durable. `most_waiting`: what all workers may have accepted that is not synced.
    ///
    /// # Panics
    /// If the journal has not a writer for each queue.
    pub fn new(journal: Journal<D>, queues: Arc<JournalQueues>, most_waiting: u64) -> JournalThread<D> {
        assert_eq!(journal.synced().len(), queues.workers(), "each worker has its own position");
        queues.publish(journal.synced());
        let (pace, reserve_at, sync_at) = (Duration::ZERO, None, None);
        JournalThread {
            journal,
            queues,
            most_waiting,
            held: None,
            reserve_at,
            pace,
            sync_at,
            starved: None,
            told: None,
            untold: false,
        }
    }

    /// Lets so much time pass from the beginning of one sync to that of the next.
    pub fn paced(self, pace: Duration) -> JournalThread<D> {
        JournalThread { pace, ..self }
    }

    /// Until `stopping` says so (whoever makes it say so calls [`JournalQueues::ring`]); then it syncs what was put in before.
    ///
    /// # Errors
    /// The disk failed: nothing more is told to be durable, and the node has to end.
    pub fn run(mut self, stopping: impl Fn() -> bool) -> io::Result<()> {
        self.queues.attach();
        let result =
            self.keep(stopping).and_then(|has_room| if has_room { self.journal.close() } else { Ok(()) });
        if let Err(error) = &result {
            tracing::error!("the journal ends, and the node with it: {error}");
        }
        result.map_err(io::Error::other)
    }

    /// Until it is to stop; whether the disk has room then.
    fn keep(&mut self, stopping: impl Fn() -> bool) -> Result<bool, JournalError> {
        loop {
            // Before the queues are looked at: what was put in before it was set is found.
            let last = stopping();
            let has_room = self.turn()?;
            self.queues.set_at_work(None);
            if last {
                return Ok(has_room);
            }
            match (has_room, self.queues.is_low()) {
                (true, false) if self.starved.is_none() => std::thread::park(),
                (false, _) | (true, false) => std::thread::park_timeout(FULL_RETRY),
                (true, true) => self.pause(&stopping),
            }
        }
    }

    /// Syncs all that is there, until there is nothing, or once if the disk is low; whether the disk has room.
    fn turn(&mut self) -> Result<bool, JournalError> {
        loop {
            self.keep_pace();
            self.queues.set_at_work(Some(monotonic()));
            if self.queues.is_lost() {
                self.stand_still();
                return Ok(false);
            }
            if self.journal.unsynced_bytes() == 0 {
                // What stood still for a folder that was lost goes on; what was synced meanwhile is where a start finds it.
                self.queues.set_full(false);
                if self.untold && self.finds_its_folder() {
                    self.untold = false;
                    self.queues.publish(self.journal.synced());
                }
            }
            // On a full disk what cannot be written must not pile up here: it stays in the queues, which are bounded.
            if !self.queues.is_full() {
                self.append()?;
            }
            self.release()?;
            self.reserve()?;
            self.tell_files();
            if self.journal.unsynced_bytes() == 0 {
                return Ok(true);
            }
            let bytes = self.journal.unsynced_bytes();
            self.sync_at = (!self.pace.is_zero()).then(|| Instant::now() + self.pace);
            let synced = match self.must_stop(bytes) {
                true => Err(self.why_no_room()),
                false => {
                    let begun = Instant::now();
                    let synced = self.journal.sync().map(drop);
                    self.queues.syncs().count(begun.elapsed().as_nanos() as u64);
                    synced
                }
            };
            if synced.is_ok() {
                self.queues.took(bytes);
                // Before anybody is woken, who may look.
                if self.queues.set_full(false) {
                    tracing::info!("the journal has room again");
                }
            }
            // The folder may have gone while it was synced, which may take long; whoever looks may have been kept from it.
            if synced.is_ok() && !self.has_its_folder() {
                self.untold = true;
                continue;
            }
            self.queues.publish(self.journal.synced());
            match synced {
                Ok(()) if self.queues.is_low() => return Ok(true),
                Ok(()) => {}
                Err(JournalError::Full { .. }) if self.take_ballast()? => {}
                Err(error @ JournalError::NoDescriptor { .. }) => {
                    self.starve(error);
                    self.stand_still();
                    return Ok(false);
                }
                Err(error @ JournalError::Full { .. }) => {
                    self.queues.set_straits(true);
                    if self.queues.set_full(true) {
                        tracing::warn!("{error}; writes wait");
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Looks for the folder itself if nobody has for a while; whether it is not known to be lost.
    fn has_its_folder(&self) -> bool {
        if !self.queues.was_looked_at_within(LOOK_EVERY + LOOK_EVERY / 2) {
            let look = self.queues.begin_look();
            if let Ok(Some(why)) = self.journal.disk().why_lost() {
                self.queues.set_lost(look, Some(words_of(&why)));
            }
        }
        !self.queues.is_lost()
    }

    /// Looks for the folder now, whoever else has; whether a start would find it.
    fn finds_its_folder(&self) -> bool {
        let look = self.queues.begin_look();
        match self.journal.disk().why_lost() {
            Ok(None) => !self.queues.is_lost(),
            Ok(Some(why)) => {
                self.queues.set_lost(look, Some(words_of(&why)));
                false
            }
            Err(_) => false,
        }
    }

    /// Takes nothing more, and has the others told, as on a full disk: a leader makes way, if a majority of the others goes on.
    fn stand_still(&self) {
        self.queues.set_full(true);
        self.queues.set_low(true);
    }

    /// Waits for a descriptor, and says so.
    fn starve(&mut self, error: JournalError) {
        let words = match error {
            JournalError::NoDescriptor { descriptor: false, .. } => {
                format!(
                    "{error}: the journal cannot open its next file for now, and tries again until it can"
                )
            }
            _ => format!(
                "{error}: no file descriptor is left for the journal, and it is tried again until there is one; raise the limit \
                 (ulimit -n, LimitNOFILE=)"
            ),
        };
        if self.queues.troubles.set(Part::Journal, Some(words.clone())) {
            tracing::error!("{words}");
        }
        self.starved = Some(error);
    }

    /// Everything that is needed is open.
    fn be_fed(&mut self) {
        if self.starved.take().is_some() {
            self.queues.troubles.set(Part::Journal, None);
            tracing::info!("the journal can open its files again");
        }
    }

    fn why_no_room(&self) -> JournalError {
        let full = || JournalError::Full { segment_bytes: self.journal.segment_bytes() };
        self.starved.clone().unwrap_or_else(full)
    }

    fn tell_files(&mut self) {
        let files = self.journal.files();
        if files != self.told {
            self.told = files;
            self.queues.set_files(files);
        }
    }

    fn keep_pace(&mut self) {
        let left = self.sync_at.take().and_then(|at| at.checked_duration_since(Instant::now()));
        // Parked it would be woken by every write.
        left.into_iter().for_each(std::thread::sleep);
    }

    /// Without all of the ballast no segment but a life's first one is begun, though there may be room: a checkpoint needs that first,
    /// unless there will be none before something is synced.
    fn must_stop(&self, bytes: u64) -> bool {
        self.held.is_none()
            && self.journal.has_begun()
            && !self.queues.needs_sync()
            && bytes > self.journal.room_bytes()
    }

    /// On a full disk, if a checkpoint waits for what is not synced, or cannot begin: the next segment is the ballast. Whether there was
    /// any.
    fn take_ballast(&mut self) -> Result<bool, JournalError> {
        if !self.queues.needs_sync() {
            return Ok(false);
        }
        match self.journal.take_ballast() {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(error @ JournalError::NoDescriptor { .. }) => {
                self.starve(error);
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        tracing::warn!(
            mib = self.journal.room_bytes() >> 20,
            "the disk is full: the journal goes on in its ballast, so that a checkpoint can be published that makes room"
        );
        self.held = None;
        self.queues.set_straits(true);
        Ok(true)
    }

    /// Has the next segment reserved, and says so if it cannot be.
    fn reserve(&mut self) -> Result<(), JournalError> {
        let now = Instant::now();
        if self.reserve_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        match self.hold_all() {
            Ok(()) => {
                self.reserve_at = None;
                self.be_fed();
                if self.queues.set_low(false) {
                    tracing::info!("the disk has room again for the journal and its ballast");
                }
                Ok(())
            }
            Err(error @ JournalError::Full { .. }) => {
                self.reserve_at = Some(now + FULL_RETRY);
                if self.queues.set_low(true) {
                    let left = self.journal.room_bytes() >> 10;
                    tracing::warn!("{error}; {left} KiB are left of the last one, for elections and reads");
                }
                Ok(())
            }
            Err(error @ JournalError::NoDescriptor { .. }) => {
                self.reserve_at = Some(now + FULL_RETRY);
                self.starve(error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The ballast comes before the next segment, and a life's first segment before that.
    fn hold_all(&mut self) -> Result<(), JournalError> {
        if !self.journal.has_begun() {
            self.journal.reserve()?;
        }
        self.hold_ballast()?;
        self.journal.reserve()
    }

    /// Has as much ballast held as the next checkpoint needs, and the journal meanwhile.
    fn hold_ballast(&mut self) -> Result<(), JournalError> {
        let queues = self.queues.clone();
        let Some(_ballast) = queues.look_after_ballast() else {
            // Whether there is room shows once the checkpoint is there, or is not.
            let full = JournalError::Full { segment_bytes: self.journal.segment_bytes() };
            return if self.queues.is_low() { Err(full) } else { Ok(()) };
        };
        if self.queues.take_ballast_news() {
            self.held = None;
        }
        let segment_bytes = self.journal.segment_bytes();
        let step = (segment_bytes / 4).min(LONGEST_STEP);
        let checkpoint = self.queues.checkpoint_room().next_multiple_of(step);
        // No more can wait than was ever written, in steps: a small cluster holds little.
        let written: u64 = self.journal.synced().iter().sum();
        let waiting = self.most_waiting.min(written.next_multiple_of(step));
        let segment = waiting.max(segment_bytes);
        if self.held == Some((segment, checkpoint)) {
            return Ok(());
        }
        let parts = [
            (Ballast::Identity, journal::format::BLOCK_BYTES),
            (Ballast::Manifest, MANIFEST_BYTES),
            (Ballast::Checkpoint, checkpoint),
            (Ballast::Segment, segment),
        ];
        self.held = None;
        // Each, though there may be no room for another one.
        let hold = |held: Result<(), _>, (part, len)| held.and(self.journal.hold_ballast(part, len));
        let held = parts.into_iter().fold(Ok(()), hold);
        let all = parts.iter().map(|(_, len)| len).sum();
        self.queues.set_ballast(self.journal.held_ballast()?, all);
        held?;
        self.held = Some((segment, checkpoint));
        if self.queues.set_straits(false) {
            tracing::info!("the disk has room again for the ballast");
        }
        Ok(())
    }

    /// On a low disk: lets so much time pass that what is left lasts, and then waits for writes.
    fn pause(&self, stopping: &impl Fn() -> bool) {
        let blocks = (self.journal.room_bytes() / journal::format::BLOCK_BYTES).max(1);
        let until = Instant::now() + (LASTS / blocks.min(u32::MAX.into()) as u32).min(LONGEST_PAUSE);
        while let Some(left) = until.checked_duration_since(Instant::now()).filter(|_| !stopping()) {
            std::thread::park_timeout(left);
        }
        if self.queues.held_bytes() == 0 && !stopping() {
            std::thread::park_timeout(FULL_RETRY);
        }
    }

    fn append(&mut self) -> Result<(), JournalError> {
        for worker in 0..self.queues.workers() {
            for write in self.queues.take(worker) {
                self.journal.append(worker as u16, &write)?;
            }
        }
        Ok(())
    }

    fn release(&mut self) -> Result<(), JournalError> {
        for worker in 0..self.queues.workers() {
            // A worker may have released what another life's journal held, or what it knows before it is told.
            let up_to = self.queues.released(worker).min(self.journal.synced()[worker]);
            self.journal.release(worker as u16, up_to)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
