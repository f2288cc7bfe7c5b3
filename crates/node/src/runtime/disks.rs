//! The threads that keep a node's files, and what they tell the replica.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use highwater_core::Incarnation;
use highwater_disk::Disk;
use highwater_disk::journal::DEFAULT_SEGMENT_BYTES;
use highwater_seam::Controller;

use crate::config::{Config, Durability};
use crate::control::checkpoints::Checkpoints;
use crate::error::NodeError;
use crate::shared::Shared;
use crate::storage::{CheckpointRules, CheckpointThread, FolderWatch, JournalQueues, JournalThread, Storage};

/// With [`Durability::Async`], from one sync of the journal to the next: small beside the window and to an election, long beside a sync.
const ASYNC_PACE: Duration = Duration::from_millis(4);

/// Who keeps a node's files.
pub(super) struct Disks<D: Disk> {
    pub(super) journal: JournalThread<D>,
    pub(super) checkpoint: CheckpointThread<D>,
    pub(super) watch: FolderWatch<D>,
    pub(super) checkpoints: Checkpoints,
}

impl<D: Disk<File: Send> + Clone> Disks<D> {
    pub(super) fn new(
        config: &Config,
        incarnation: Incarnation,
        storage: Storage<D>,
        shared: &Arc<Shared>,
        controller: &mut dyn Controller,
    ) -> Result<Disks<D>, NodeError> {
        let woken = Arc::downgrade(shared);
        let wake = move |writer| woken.upgrade().into_iter().for_each(|shared| shared.wake_writer(writer));
        let queues = Arc::new(JournalQueues::new(config.cluster.workers + 1, wake));
        shared.set_journal(queues.clone());
        let mut journal = storage.journal;
        // What one checkpoint gives back is what is written before the next one.
        journal.reclaim((config.storage.checkpoint_mb * (1 << 20) / DEFAULT_SEGMENT_BYTES) as usize + 1);
        // What a new leader makes a follower adopt, and what fills its window, twice if it was asked for twice: beyond that nobody sends
        // it anything before it has synced.
        let options = config.options(incarnation);
        let of_worker = options.log_retain_bytes as u64 + 2 * options.max_in_flight_bytes as u64;
        let most_waiting = of_worker * u64::from(config.cluster.workers);
        let journal = JournalThread::new(journal, queues.clone(), most_waiting);
        let journal = match config.cluster.durability {
            // Nobody waits but the window.
            Durability::Async => {
                let window = Duration::from_millis(config.storage.async_window_ms);
                journal.paced(ASYNC_PACE.min(window / 4))
            }
            _ => journal,
        };
        queues.begin(storage.starts);
        controller.set_disk(queues.disk_state());
        let rules = CheckpointRules {
            incarnation: incarnation.0,
            parts: config.cluster.workers,
            threads: config.storage.checkpoint_threads,
            keep: NonZeroUsize::new(config.storage.checkpoints_kept).unwrap_or(NonZeroUsize::MIN),
        };
        let watch = FolderWatch::new(storage.disk.clone(), queues.clone());
        let (kept, damaged) = (storage.checkpoints, storage.damaged);
        let (checkpoint, desk) = CheckpointThread::new(storage.disk, rules, queues.clone(), kept, damaged);
        let every_bytes = config.storage.checkpoint_mb << 20;
        let kept = config.storage.checkpoints_kept;
        let checkpoints = Checkpoints::new(desk, queues, every_bytes, storage.replayed, kept);
        Ok(Disks { journal, checkpoint, watch, checkpoints })
    }
}
