//! The thread that keeps a node's journal: one sync for what all workers wrote meanwhile.
//!
//! Where nobody waits for a sync one begins some milliseconds after the one before, and takes more with it: each costs CPU time, here and
//! in the system, and wakes the workers. What comes after a while of silence, as promises do, waits for nothing.
//!
//! The next segment is always reserved, and room is left for a checkpoint, without which no segment is ever given back. Where that cannot be, the disk is *low*: the controller is told, so that the cluster stops
//! writing before this disk is full. What is left of the current segment is for elections and reads, which write a little: syncs then
//! come at a pace at which it lasts: 64 MiB for half an hour of reads without a break.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use highwater_disk::{Disk, Journal, JournalError, journal};

use super::queue::JournalQueues;

/// On a full disk, how long until the next look whether there is room.
const FULL_RETRY: Duration = Duration::from_millis(100);
/// On a low disk, how long what is left would last at the pace of now, if each sync takes a block.
const LASTS: Duration = Duration::from_secs(900);
/// Longest pause between two syncs on a low disk: a leader whose streams stand still for about a second is given up.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// The thread.
pub struct JournalThread<D: Disk> {
    journal: Journal<D>,
    queues: Arc<JournalQueues>,
    /// Before this it does not look whether there is room for another segment.
    reserve_at: Option<Instant>,
    /// From one sync to the next, at least.
    pace: Duration,
    /// Before this no sync begins.
    sync_at: Option<Instant>,
}

impl<D: Disk> JournalThread<D> {
    /// Ready to run. From here on the queues tell what is durable.
    ///
    /// # Panics
    /// If the journal has not a writer for each queue.
    pub fn new(journal: Journal<D>, queues: Arc<JournalQueues>) -> JournalThread<D> {
        assert_eq!(journal.synced().len(), queues.workers(), "each worker has its own position");
        queues.publish(journal.synced());
        JournalThread { journal, queues, reserve_at: None, pace: Duration::ZERO, sync_at: None }
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
            if last {
                return Ok(has_room);
            }
            match (has_room, self.queues.is_low()) {
                (true, false) => std::thread::park(),
                (false, _) => std::thread::park_timeout(FULL_RETRY),
                (true, true) => self.pause(&stopping),
            }
        }
    }

    /// Syncs all that is there, until there is nothing, or once if the disk is low; whether the disk has room.
    fn turn(&mut self) -> Result<bool, JournalError> {
        loop {
            self.keep_pace();
            // On a full disk what cannot be written must not pile up here: it stays in the queues, which are bounded.
            if !self.queues.is_full() {
                self.append()?;
            }
            self.release()?;
            self.reserve()?;
            if self.journal.unsynced_bytes() == 0 {
                return Ok(true);
            }
            let bytes = self.journal.unsynced_bytes();
            self.sync_at = (!self.pace.is_zero()).then(|| Instant::now() + self.pace);
            let synced = self.journal.sync().map(drop);
            if synced.is_ok() {
                self.queues.took(bytes);
            }
            self.queues.publish(self.journal.synced());
            match synced {
                Ok(()) if self.queues.set_full(false) => tracing::info!("the journal has room again"),
                Ok(()) if self.queues.is_low() => return Ok(true),
                Ok(()) => {}
                Err(error @ JournalError::Full { .. }) => {
                    if self.queues.set_full(true) {
                        tracing::warn!("{error}; writes wait");
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn keep_pace(&mut self) {
        let left = self.sync_at.take().and_then(|at| at.checked_duration_since(Instant::now()));
        // Parked it would be woken by every write.
        left.into_iter().for_each(std::thread::sleep);
    }

    /// Has the next segment reserved, and says so if it cannot be.
    fn reserve(&mut self) -> Result<(), JournalError> {
        let now = Instant::now();
        if self.reserve_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        match self.journal.reserve_and_leave(self.queues.checkpoint_room()) {
            Ok(()) => {
                self.reserve_at = None;
                if self.queues.set_low(false) {
                    tracing::info!("the disk has room again for the journal");
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
            Err(error) => Err(error),
        }
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
