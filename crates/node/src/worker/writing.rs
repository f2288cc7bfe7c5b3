//! A worker's way to the journal: what it wants written goes into its queue, and what is durable is told to its engine.

use std::sync::Arc;

use bytes::Bytes;
use highwater_seam::{LogPosition, Nanos, Outbox, Worker};

use crate::storage::JournalQueues;

/// One worker's.
pub(super) struct Writing {
    queues: Arc<JournalQueues>,
    index: usize,
    /// What the engine knows.
    told: u64,
    /// What found no room in the queue.
    waiting: Vec<Bytes>,
}

impl Writing {
    pub fn new(queues: Arc<JournalQueues>, index: usize) -> Writing {
        let told = queues.synced(index).0;
        Writing { queues, index, told, waiting: Vec::new() }
    }

    /// Tells the engine how far what it wrote is durable, if that is news.
    pub fn tell(&mut self, now: Nanos, engine: &mut dyn Worker) {
        let synced = self.queues.synced(self.index).0;
        if synced > self.told {
            self.told = synced;
            engine.synced(now, LogPosition(synced));
        }
    }

    /// Whether something found no room in the queue.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes what a turn wants written.
    pub fn take(&mut self, out: &mut Outbox) {
        self.waiting.append(&mut out.writes);
        self.queues.put(self.index, &mut self.waiting);
    }
}
