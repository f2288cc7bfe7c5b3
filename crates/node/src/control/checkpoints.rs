//! When a checkpoint is due, and what the controller has done about it.
//!
//! One is due when the journal has grown, and when the disk is low: what fills it may be the journal itself, which grows no more once
//! writes are refused. Then as many as are kept, for the oldest says what the journal still
//! needs, and one more now and then.

use std::sync::Arc;

use highwater_core::NodeId;
use highwater_seam::memory::MemoryStatus;
use highwater_seam::{CheckpointNews, CheckpointOrder, Controller, Nanos};

use crate::storage::{CheckpointDesk, JournalQueues};

/// How often it is looked whether one is due.
const LOOK_EVERY: Nanos = 100_000_000;
/// Pause after one that the disk refused: each is said in the log, and a full disk stays full for a while.
const FAILED_PAUSE: Nanos = 10_000_000_000;
/// The same, and between two that made too little room, on a disk that is low.
const LOW_PAUSE: Nanos = 1_000_000_000;

/// By how many bytes the journal may grow before a checkpoint is due: by `every_bytes`, or by what the store takes if that is more, so
/// that checkpoints write no more than the journal that they replace. But no further than a quarter of the memory: whoever
/// starts again holds in it what it reads of the journal.
fn due_after(every_bytes: u64, memory: MemoryStatus) -> u64 {
    every_bytes.max(memory.used).min(memory.shares.whole / 4)
}

/// A node's checkpoints, as its control thread sees them.
pub struct Checkpoints {
    desk: CheckpointDesk,
    queues: Arc<JournalQueues>,
    /// One is due once the journal has grown by so many bytes; see [`due_after`].
    every_bytes: u64,
    /// Bytes of the journal when the last one began, or when this process did.
    journal_bytes: u64,
    looked: Nanos,
    /// None is asked for before this.
    not_before: Nanos,
    /// How many checkpoints are kept.
    kept: usize,
    /// How many were begun since the disk is low.
    begun_low: usize,
    /// If these made too little room: when to try another one.
    low_again: Nanos,
}

impl Checkpoints {
    /// Of a node that keeps a journal; `replayed`: bytes of it that had to be read since the last checkpoint.
    pub fn new(
        desk: CheckpointDesk,
        queues: Arc<JournalQueues>,
        every_bytes: u64,
        replayed: u64,
        kept: usize,
    ) -> Checkpoints {
        queues.took(replayed);
        Checkpoints {
            desk,
            queues,
            every_bytes,
            journal_bytes: 0,
            looked: 0,
            not_before: 0,
            kept,
            begun_low: 0,
            low_again: 0,
        }
    }

    /// Asks the controller for one if it is time.
    pub fn turn(&mut self, now: Nanos, controller: &mut dyn Controller) {
        let memory = controller.memory();
        self.queues.set_state(memory.used, controller.copies_state());
        if now < self.not_before || now.saturating_sub(self.looked) < LOOK_EVERY {
            return;
        }
        self.looked = now;
        let grown = self.queues.taken() - self.journal_bytes;
        if !self.queues.is_low() {
            self.begun_low = 0;
        }
        let makes_room = self.queues.is_low()
            && !self.queues.is_lost()
            && (self.begun_low < self.kept || now >= self.low_again);
        // So does one that makes up for files that are gone.
        let makes_up = self.queues.is_thin() && !self.queues.is_lost();
        if makes_room || makes_up || grown >= due_after(self.every_bytes, memory) {
            controller.checkpoint(now, CheckpointNews::Wanted);
        }
    }

    /// Does what the controller wants.
    pub fn take(&mut self, node: NodeId, order: CheckpointOrder, controller: &dyn Controller) {
        match order {
            CheckpointOrder::Scan { number, floor } => {
                self.journal_bytes = self.queues.taken();
                self.begun_low += usize::from(self.queues.is_low());
                self.low_again = self.looked + LOW_PAUSE;
                self.desk.scan(number, floor, controller.store());
            }
            CheckpointOrder::Publish { number, complete_at, engine, released, anew } => {
                self.desk.publish(number, complete_at, engine, (released, anew));
            }
            CheckpointOrder::Abandon(why) => {
                tracing::info!(%node, "a checkpoint is given up: {why}");
                self.desk.abandon();
                self.due();
            }
        }
    }

    /// The disk refused one: another one is due, after a pause.
    pub fn failed(&mut self, now: Nanos) {
        // On a low disk a checkpoint is what makes room: before what is left of it is used up.
        self.not_before = now + if self.queues.is_low() { LOW_PAUSE } else { FAILED_PAUSE };
        self.due();
    }

    /// Another one is due: the last one came to nothing.
    fn due(&mut self) {
        self.begun_low = self.begun_low.saturating_sub(1);
        self.journal_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::{Incarnation, NodeId};
    use highwater_seam::Options;

    use super::*;

    #[test]
    fn a_checkpoint_is_due_by_the_setting_the_data_and_the_memory() {
        let mut options = Options::new(NodeId(0), 3, 1, Incarnation(1));
        options.memory_bytes = 8 << 30;
        let shares = options.shares().expect("there is enough");
        let used = |used| MemoryStatus { shares, used, logs: 0, most: shares.store };
        assert_eq!(due_after(1 << 30, used(0)), 1 << 30);
        assert_eq!(due_after(1 << 30, used(3 << 29)), 3 << 29, "as much as the data");
        assert_eq!(due_after(1 << 30, used(5 << 30)), 2 << 30, "a quarter of the memory");
        assert_eq!(due_after(4 << 30, used(0)), 2 << 30);
    }
}
