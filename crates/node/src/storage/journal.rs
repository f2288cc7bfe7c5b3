//! The thread that keeps a node's journal: one sync for what all workers wrote meanwhile.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use highwater_disk::{Disk, Journal, JournalError};

use super::queue::JournalQueues;

/// On a full disk, how long until the next look whether there is room.
const FULL_RETRY: Duration = Duration::from_millis(100);

/// The thread.
pub struct JournalThread<D: Disk> {
    journal: Journal<D>,
    queues: Arc<JournalQueues>,
}

impl<D: Disk> JournalThread<D> {
    /// Ready to run. From here on the queues tell what is durable.
    ///
    /// # Panics
    /// If the journal has not a writer for each queue.
    pub fn new(journal: Journal<D>, queues: Arc<JournalQueues>) -> JournalThread<D> {
        assert_eq!(journal.synced().len(), queues.workers(), "each worker has its own position");
        queues.publish(journal.synced());
        JournalThread { journal, queues }
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
            match has_room {
                true => std::thread::park(),
                false => std::thread::park_timeout(FULL_RETRY),
            }
        }
    }

    /// Syncs all that is there, until there is nothing; whether the disk has room.
    fn turn(&mut self) -> Result<bool, JournalError> {
        loop {
            // On a full disk what cannot be written must not pile up here: it stays in the queues, which are bounded.
            if !self.queues.is_full() {
                self.append()?;
            }
            self.release()?;
            if self.journal.unsynced_bytes() == 0 {
                return Ok(true);
            }
            let synced = self.journal.sync().map(drop);
            self.queues.publish(self.journal.synced());
            match synced {
                Ok(()) if self.queues.set_full(false) => tracing::info!("the journal has room again"),
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
