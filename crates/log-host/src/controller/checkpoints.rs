//! The meaning of a checkpoint for the rest of the replica, and how it goes on from one. [`crate::disk::checkpoint`] has its state.
//!
//! A checkpoint is given up when this replica's lead ends (what was scanned may be rolled back), and when its store is
//! replaced. Everything else it survives. One that is being published then is published, and counts for the store that it is of only.

use std::sync::atomic::Ordering;

use highwater_consensus::Members;
use highwater_core::{Durability, EntryIndex, StreamId, Timestamp};
use highwater_kit::checkpointing::{RETRY_AFTER, Undo};
use highwater_seam::{CheckpointNews, CheckpointOrder, LogPosition, Nanos, Resume};

use super::LogController;
use crate::disk::checkpoint::{Contents, Located, Resumed, Settling, streams_of};
use crate::hooks;
use crate::messages::Command;

impl LogController {
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
        let Some((epoch, floor)) = self.desk.shared.progress.copy_point(leading) else {
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
        if !self.checkpointing.is(number) {
            self.desk.late("about a checkpoint that was given up");
        }
        let workers = self.desk.workers();
        if let Some((_, floor)) = self.checkpointing.located(number, stream.0, located, workers).copied() {
            self.desk.order(CheckpointOrder::Scan { number, floor });
        }
    }

    fn on_scanned(&mut self, now: Nanos, number: u64, newest: Timestamp) {
        if !self.checkpointing.is_scanning(number) {
            return self.desk.late("about a checkpoint that was given up");
        }
        let leading = self.leadership.leading();
        if leading.is_none() && !self.desk.shared.is_certain() {
            return self.give_up_checkpoint(now, "what became of this node's transactions is not known yet");
        }
        let position = self.desk.shared.progress.position(leading.is_some());
        // Whoever has just lost the lead may have a mark below the floor that it chose as a leader.
        let floor = self.checkpointing.scans_for().map_or(Timestamp::ZERO, |(_, floor)| *floor);
        let complete_at = position.max(newest).max(floor);
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
        if !self.checkpointing.is(number) {
            self.desk.late("about a checkpoint that was given up");
        }
        let Some(settled) = self.checkpointing.settled(number, stream.0, decided) else { return };
        let (streams, mut released) = streams_of(&settled.parts);
        self.released.clone_from(&released);
        let known = self.desk.shared.progress.members().into_iter().chain(self.election.members().cloned());
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
            if !self.checkpointing.keeps_store() {
                self.desk.late("about a checkpoint of the store before");
            }
            // Then one of this store begins at once.
            self.watch_store();
            let released = std::mem::take(&mut self.released);
            self.desk.command_all(|stream| Command::CheckpointPublished(released[stream.0 as usize]));
        }
    }

    /// What was scanned may not stay.
    pub(super) fn give_up_checkpoint(&mut self, now: Nanos, why: &'static str) {
        let undo = self.checkpointing.give_up();
        self.undo_checkpoint(now, undo, why);
    }

    /// Another store takes the place of the one in use, and there is no checkpoint of it.
    pub(super) fn leave_checkpoints(&mut self, now: Nanos, why: &'static str) {
        let undo = self.checkpointing.replace_store();
        self.undo_checkpoint(now, undo, why);
    }

    fn undo_checkpoint(&mut self, now: Nanos, undo: Option<Undo>, why: &'static str) {
        let Some(Undo { told, kept }) = undo else { return };
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
        let has_disk = self.desk.shared.options.durability.has_disk();
        has_disk && self.receiver.has_copied() && !self.checkpointing.keeps_store()
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
        shared.progress.restart(contents.epoch, contents.members.clone(), from.floor, &starts);
        self.remembered = Some(contents.members.clone());
        self.desk.starting_at(from.positions[workers]);
        self.checkpointing.resumed();
        let (floor, complete_at) = (from.floor, from.complete_at);
        let positions: Vec<LogPosition> = from.positions.to_vec();
        self.desk.shared.resume(Some(Resumed { contents, floor, complete_at, positions }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {

    use highwater_consensus::{RecoveryPoint, Voter};
    use highwater_core::{Epoch, Incarnation, NodeId, Schema};
    use highwater_store::Store;

    use super::*;
    use crate::control::Granted;
    use crate::messages::Report;
    use highwater_kit::copy::RETRY_AFTER as ASK_AFTER;
    use highwater_seam::Controller;
    use highwater_seam::memory::Account;
    use highwater_seam::options::Options;

    const STREAM: StreamId = StreamId(0);

    fn voter(node: u8) -> Voter {
        Voter { node: NodeId(node), incarnation: Incarnation(1) }
    }

    /// Of node 1 of three, which votes and follows nobody yet.
    fn controller(durability: Durability) -> LogController {
        let options = Options { durability, ..Options::new(NodeId(1), 3, 1, Incarnation(1)) };
        let account = Account::new(&options, 1);
        let shared = crate::testing::shared(options, account);
        let schema = Schema::new(vec![]);
        let mut controller = LogController::new(shared, schema.clone(), Store::new(schema));
        let level = controller.desk.shared.options.levels;
        for peer in [0, 2] {
            controller.peer_up(0, NodeId(peer), Incarnation(1), level);
        }
        controller.on_genesis(0, members());
        controller
    }

    fn members() -> Members {
        Members::new(Epoch(0), (0..3).map(voter).collect())
    }

    fn ordered(controller: &mut LogController) -> Vec<CheckpointOrder> {
        let mut out = highwater_seam::ControlOutbox::default();
        controller.desk.hand_out(&mut out);
        out.checkpoint
    }

    /// Up to the order to publish: the checkpoint's number.
    fn publishing(controller: &mut LogController, now: Nanos) -> u64 {
        controller.begin_checkpoint(now);
        let number = controller.checkpointing.number();
        let located = (EntryIndex(1), LogPosition(0), RecoveryPoint::default());
        controller.on_checkpoint_from(now, number, STREAM, Some(located));
        controller.on_checkpoint_news(now, CheckpointNews::Scanned { number, newest: Timestamp::ZERO });
        controller.on_checkpoint_settled(now, number, STREAM, Some(EntryIndex(0)));
        let orders = ordered(controller);
        let is = |order: &CheckpointOrder| matches!(order, CheckpointOrder::Publish { number: of, .. } if *of == number);
        assert!(orders.iter().any(is), "{orders:?}");
        number
    }

    /// The leader says that this replica is too far behind; it copies a state, and that is complete.
    fn copy(controller: &mut LogController, now: Nanos) {
        controller.on_too_far(now, STREAM, controller.checkpointing.store());
        let donor = NodeId(2);
        controller.receiver.park();
        let name = controller.receiver.ask(now + ASK_AFTER, donor, 1);
        let (epoch, floor, starts) = (Epoch(0), Timestamp::ZERO, vec![EntryIndex(1)]);
        controller.on_copy_grant(now, donor, name, Granted { epoch, members: members(), floor, starts });
        controller.on_copied(name, STREAM, Timestamp::ZERO);
        controller.turn_receiving(now);
        assert!(controller.receiver.store_is_complete());
    }

    /// A publication waits for syncs of a slow disk, as a node does that falls behind: both come together. Whoever then counts what
    /// was copied as kept loses it with its process, and everybody counts on it.
    /// Once: `LASTSAVE` and `INFO` counted a checkpoint of the store before for one of the store in use.
    /// Once: all data gone with one disk of three. A checkpoint of the state before, published when the node had copied
    /// another one (its syncs were slow, as the node was), counted for the copy: nothing began another one, `status` and
    /// `no_restart` said nothing, and after a power cut the copies were on no disk.
    #[test]
    fn a_checkpoint_of_the_store_before_is_none_of_what_was_copied_since() {
        for durability in [Durability::Sync, Durability::Async] {
            let mut controller = controller(durability);
            let old = publishing(&mut controller, 1);
            copy(&mut controller, 2);
            assert!(controller.lacks_checkpoint());
            controller.on_checkpoint_news(3, CheckpointNews::Published(old));
            assert!(controller.lacks_checkpoint(), "{durability:?}: what was copied is on no disk");
            assert!(!controller.keeps_store(), "nor does LASTSAVE say so");
            assert!(controller.describe(3).copying_bytes.is_some(), "and whoever asks hears it");
            let volatile = controller.desk.shared.store_is_volatile.load(Ordering::Relaxed);
            assert_eq!(volatile, durability == Durability::Async);
            // The next one begins at once, and is of what was copied.
            let now = 4 + RETRY_AFTER;
            controller.turn_receiving(now);
            assert!(controller.checkpointing.is(old + 1));
            let new = publishing(&mut controller, now);
            controller.on_checkpoint_news(now, CheckpointNews::Published(new));
            assert!(!controller.lacks_checkpoint() && controller.describe(now).copying_bytes.is_none());
        }
    }

    /// A stream says it once, of the store that it has; who hears it late threw the copy away that had come since.
    #[test]
    fn a_stream_of_the_store_before_that_is_too_far_behind_does_not_cost_the_copy() {
        let mut controller = controller(Durability::Memory);
        let before = controller.checkpointing.store();
        copy(&mut controller, 1);
        controller.on_report(2, Report::TooFar { stream: STREAM, store: before });
        assert!(controller.receiver.store_is_complete(), "it is about a store that is gone");
        assert_eq!(controller.desk.came_late("about the store before"), 1);
        let store = controller.checkpointing.store();
        controller.on_report(2, Report::TooFar { stream: STREAM, store });
        assert!(!controller.receiver.store_is_complete(), "this one is about the copy");
    }

    /// Workers answer once for each time that they are told. A cell that is restarted under a worker at work would be wrong for ever.
    #[test]
    fn who_let_go_of_an_earlier_store_has_not_let_go_of_this_one() {
        let mut controller = controller(Durability::Memory);
        let now = 10 * ASK_AFTER;
        controller.on_too_far(now, STREAM, controller.checkpointing.store());
        let earlier = controller.receiver.park();
        let parking = controller.receiver.park();
        let parked = |parking| Report::Parked { parking, stream: STREAM, members: None };
        controller.on_report(now, parked(earlier));
        assert!(controller.receiver.is_parking(parking), "it waits for this one's answers");
        assert_eq!(controller.desk.came_late("about a store that was let go of"), 1);
        controller.on_report(now, parked(parking));
        assert!(!controller.receiver.is_parking(parking));
    }

    /// One that was only scanned is given up, and its late answers are nobody's.
    #[test]
    fn late_answers_of_a_scan_of_the_store_before_are_not_taken() {
        let mut controller = controller(Durability::Sync);
        controller.begin_checkpoint(1);
        let old = controller.checkpointing.number();
        let located = (EntryIndex(1), LogPosition(0), RecoveryPoint::default());
        controller.on_checkpoint_from(1, old, STREAM, Some(located));
        copy(&mut controller, 2);
        let scanned = CheckpointNews::Scanned { number: old, newest: Timestamp::ZERO };
        for news in [scanned, CheckpointNews::Published(old), CheckpointNews::Failed(old)] {
            controller.on_checkpoint_news(3, news);
            assert!(controller.lacks_checkpoint(), "{news:?}");
        }
        let orders = ordered(&mut controller);
        assert!(orders.iter().any(|order| matches!(order, CheckpointOrder::Abandon(_))), "{orders:?}");
        assert!(!orders.iter().any(|order| matches!(order, CheckpointOrder::Publish { .. })), "{orders:?}");
    }

    /// It was, and whoever writes it does not bear that: a leader chose the floor, and lost its lead while it scanned (seed 62000893 with disks).
    #[test]
    fn a_checkpoint_is_not_complete_before_its_floor() {
        let mut controller = controller(Durability::Sync);
        let mark_at = |controller: &LogController, mark| {
            controller.desk.shared.progress.restart(Epoch(0), members(), Timestamp(mark), &[EntryIndex(1)]);
        };
        mark_at(&controller, 500);
        controller.begin_checkpoint(1);
        let number = controller.checkpointing.number();
        let located = (EntryIndex(1), LogPosition(0), RecoveryPoint::default());
        controller.on_checkpoint_from(1, number, STREAM, Some(located));
        mark_at(&controller, 7);
        controller.on_checkpoint_news(2, CheckpointNews::Scanned { number, newest: Timestamp(3) });
        controller.on_checkpoint_settled(2, number, STREAM, Some(EntryIndex(0)));
        let complete_at = ordered(&mut controller).into_iter().find_map(|order| match order {
            CheckpointOrder::Publish { complete_at, .. } => Some(complete_at),
            _ => None,
        });
        assert_eq!(complete_at, Some(Timestamp(500)));
    }
}
