//! What a checkpoint means for the rest of the replica, and how it goes on from one. [`super::super::checkpoint`] has its state.
//!
//! A checkpoint is given up when this replica's lead ends (what was scanned may be rolled back), and when its store is
//! replaced. Everything else it survives.

use std::sync::atomic::Ordering;

use highwater_consensus::Members;
use highwater_core::{Durability, EntryIndex, StreamId, Timestamp};

use super::super::checkpoint::{Contents, Located, Resumed, Settling, streams_of};
use super::super::hooks;
use super::super::messages::Command;
use super::RolisController;
use crate::checkpointing::{RETRY_AFTER, Undo};
use crate::seam::{CheckpointNews, CheckpointOrder, LogPosition, Nanos, Resume};

impl RolisController {
    pub(super) fn on_checkpoint_news(&mut self, now: Nanos, news: CheckpointNews) {
        match news {
            CheckpointNews::Wanted => self.begin_checkpoint(now),
            CheckpointNews::Scanned { number, newest } => self.on_scanned(now, number, newest),
            CheckpointNews::Published(number) => self.on_published(number),
            CheckpointNews::Failed(number) => {
                if self.checkpointing.failed(now, number) {
                    self.keep_tombstones(false);
                }
            }
        }
    }

    /// Begins a checkpoint, unless there is one, or the store is no state that one can be made of.
    pub(super) fn begin_checkpoint(&mut self, now: Nanos) {
        let fit = self.desk.shared.options.durability.has_disk()
            && self.receiver.store_is_complete()
            && self.election.members().is_some();
        if !fit || !self.checkpointing.may_begin(now) {
            return;
        }
        let leading = self.leadership.leading().map(|ballot| ballot.epoch);
        // What a lead that has ended left in the store may be rolled back while it is scanned, and nobody would know at the end.
        if leading.is_none() && !self.desk.shared.is_certain() {
            self.checkpointing.not_before = now + RETRY_AFTER;
            return;
        }
        // First keep the tombstones, then choose the floor: none at or above it is unlinked any more.
        self.keep_tombstones(true);
        let Some((epoch, floor)) = self.desk.shared.watermark.copy_point(leading) else {
            self.checkpointing.not_before = now + RETRY_AFTER;
            return self.keep_tombstones(false);
        };
        let number = self.checkpointing.begin((epoch, floor));
        self.write_anew();
        self.desk.command_all(|_| Command::CheckpointFrom { number, epoch, floor });
    }

    /// What the controller remembers is written once more, so that with this checkpoint nothing older is needed. (The level in use is
    /// written in the next turn.) Until it is on disk the host keeps what is older.
    fn write_anew(&mut self) {
        self.written_anew = (self.desk.written(), LogPosition(u64::MAX));
        self.written = None;
        self.raising.forget_written();
        self.remember_members();
        for record in self.witness.records() {
            self.desk.write(|| record);
        }
    }

    fn keep_tombstones(&self, keep: bool) {
        if hooks::checkpoint_keeps_tombstones() {
            let serving = &self.desk.shared.serving_copies;
            let _ = if keep {
                serving.fetch_add(1, Ordering::SeqCst)
            } else {
                serving.fetch_sub(1, Ordering::SeqCst)
            };
        }
    }

    pub(super) fn on_checkpoint_from(
        &mut self,
        now: Nanos,
        number: u64,
        stream: StreamId,
        located: Option<Located>,
    ) {
        let Some(located) = located else {
            if self.checkpointing.is(number) {
                self.give_up_checkpoint(now, "the log does not go back to its floor");
            }
            return;
        };
        let workers = self.desk.workers();
        if let Some((_, floor)) = self.checkpointing.located(number, stream.0, located, workers).copied() {
            self.desk.order(CheckpointOrder::Scan { number, floor });
        }
    }

    fn on_scanned(&mut self, now: Nanos, number: u64, newest: Timestamp) {
        if !self.checkpointing.is_scanning(number) {
            return;
        }
        let leading = self.leadership.leading();
        if leading.is_none() && !self.desk.shared.is_certain() {
            return self.give_up_checkpoint(now, "what became of this node's transactions is not known yet");
        }
        let position = match leading {
            Some(_) => self.desk.shared.clock.now(),
            None => self.desk.shared.watermark.mark(),
        };
        let complete_at = position.max(newest);
        // A turn or more has passed: the level in use is among it.
        self.written_anew.1 = self.desk.written();
        self.checkpointing.scanned(complete_at);
        self.keep_tombstones(false);
        let led = leading.map(|ballot| ballot.epoch);
        self.desk.command_all(|_| Command::CheckpointSettle(Settling { number, complete_at, led }));
    }

    pub(super) fn on_checkpoint_settled(
        &mut self,
        now: Nanos,
        number: u64,
        stream: StreamId,
        decided: Option<EntryIndex>,
    ) {
        let Some(decided) = decided else {
            if self.checkpointing.is(number) {
                self.give_up_checkpoint(now, "the epoch ended in which it was scanned");
            }
            return;
        };
        let Some(settled) = self.checkpointing.settled(number, stream.0, decided) else { return };
        let (streams, mut released) = streams_of(&settled.parts);
        self.released.clone_from(&released);
        let known = self.desk.shared.watermark.members().into_iter().chain(self.election.members().cloned());
        let members = known.max_by_key(|members: &Members| members.epoch);
        let members = members.expect("a checkpoint begins when there are members");
        let contents = Contents { epoch: settled.begun.0, members, streams };
        let (from, anew) = self.written_anew;
        released.push(from);
        self.desk.order(CheckpointOrder::Publish {
            number,
            complete_at: settled.complete_at,
            engine: contents.encode(),
            released,
            anew,
        });
    }

    fn on_published(&mut self, number: u64) {
        if self.checkpointing.published(number) {
            self.has_checkpoint = true;
            self.watch_store();
            let released = std::mem::take(&mut self.released);
            self.desk.command_all(|stream| Command::CheckpointPublished(released[stream.0 as usize]));
        }
    }

    /// What was scanned may not stay.
    pub(super) fn give_up_checkpoint(&mut self, now: Nanos, why: &'static str) {
        let Some(Undo { told, kept }) = self.checkpointing.give_up() else { return };
        if kept {
            self.keep_tombstones(false);
        }
        if told {
            self.desk.order(CheckpointOrder::Abandon(why));
        }
        self.checkpointing.not_before = now + RETRY_AFTER;
    }

    /// Whether what this process has copied is lost with it: there is no checkpoint of it yet.
    pub(super) fn lacks_checkpoint(&self) -> bool {
        self.desk.shared.options.durability.has_disk() && self.receiver.has_copied() && !self.has_checkpoint
    }

    /// Tells the workers: with `async` others' disks may lack what this store has.
    pub(super) fn watch_store(&self) {
        let behind = self.desk.shared.options.durability == Durability::Async;
        self.desk.shared.store_is_volatile.store(behind && self.lacks_checkpoint(), Ordering::Relaxed);
    }

    /// Begins one at once if it does. Until it is there nobody may rely on this replica's disk: a learner does not vote.
    pub(super) fn keep_copied_state(&mut self, now: Nanos) -> Option<Nanos> {
        self.lacks_checkpoint().then(|| {
            self.begin_checkpoint(now);
            now + RETRY_AFTER / 4
        })
    }

    // ---- going on from one ----

    pub(super) fn resume_from(&mut self, from: Resume<'_>) -> Result<(), String> {
        let contents = Contents::decode(from.engine);
        let contents =
            contents.map_err(|why| format!("a checkpoint's words are none of this engine's: {why:?}"))?;
        let workers = self.desk.workers();
        if contents.streams.len() != workers || from.positions.len() != workers + 1 {
            return Err(format!(
                "the checkpoint was written with another number of workers: {}; set cluster.workers to it",
                contents.streams.len()
            ));
        }
        let starts: Vec<EntryIndex> = contents.streams.iter().map(|stream| stream.start).collect();
        let shared = &self.desk.shared;
        shared.watermark.restart(contents.epoch, contents.members.clone(), from.floor, &starts);
        shared.rounds.lose_store();
        self.remembered = Some(contents.members.clone());
        self.desk.starting_at(from.positions[workers]);
        self.has_checkpoint = true;
        let (floor, complete_at) = (from.floor, from.complete_at);
        let positions: Vec<LogPosition> = from.positions.to_vec();
        self.desk.shared.resume(Some(Resumed { contents, floor, complete_at, positions }));
        Ok(())
    }
}
