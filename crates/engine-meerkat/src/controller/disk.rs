//! The controller's part in durability: what it keeps, checkpoints, and how a replica comes back with its disk.
//!
//! What it must not forget its first worker writes, and a promise, an acceptance and the beginning of an epoch wait for that, with
//! [`Durability::Async`](highwater_core::Durability::Async) as well (see `forgot`).
//!
//! A replica that comes back with its disk is the same voter that it was. It takes no part in the epoch that it was in: it goes on as if it had
//! promised the next one, with the records of its disk, and asks for that. What it coordinated others may have ended meanwhile, or the
//! change does.
//!
//! A checkpoint is a scan of a store that holds nothing but what is decided. Each worker writes anew what is known of
//! transactions that may not be over everywhere, and from there on its records are needed. It is complete when what
//! the scan may have met is on this disk: of a transaction that it met half the rest is there, too.
//!
//! With `async` it is complete when what the scan met is over everywhere, too, and that is on disk.
//!
//! What a learner has copied is on no disk before there is a checkpoint of it: until then it does not ask for a vote.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use highwater_core::codec::{Malformed, Reader};
use highwater_core::{Durability, Epoch, NodeId, Timestamp};
use highwater_kit::checkpointing::{Checkpointing, Undo, Whole};
use highwater_seam::{CheckpointNews, CheckpointOrder, DiskState, LogPosition, Nanos, Resume};
use highwater_store::Store;

use super::forgot::{Came, came};
use super::{MeerkatController, marks_of};
use crate::change::Change;
use crate::control::{Control, Memory, Standing};
use crate::hooks;
use crate::journal::{End, Kept, Remembered};
use crate::shared::{Begin, Command};

/// Format of the engine's words in a checkpoint: `version u8 | workers u16 | newest u64`. The first one told no newest.
const VERSION: u8 = 2;
const FIRST_VERSION: u8 = 1;

/// What is done when something is kept.
pub(super) enum After {
    Send(NodeId, Control),
    Begin(Arc<Begin>),
    Pause(Epoch),
    Nothing,
}

/// What a controller has to do with its disk.
#[derive(Default)]
pub(super) struct Keeping {
    /// Counts what was kept.
    last: u64,
    /// Something is on the disk on which others count, or is about to be: see [`has_a_part`](MeerkatController::has_a_part).
    counts: bool,
    waits: VecDeque<(u64, After)>,
    /// A checkpoint under way, and where workers' records are needed from.
    pub checkpointing: Checkpointing<(), LogPosition, ()>,
    orders: Vec<CheckpointOrder>,
    /// What was copied is complete, and on no disk.
    pub copied: bool,
    /// What was closed when the scan of the checkpoint under way began, and the latest that it has met.
    floor: Timestamp,
    newest: Timestamp,
    pub disk: DiskState,
    /// This process came back with its disk, and has not begun an epoch yet.
    pub came_back: bool,
}

impl MeerkatController {
    fn durability(&self) -> Durability {
        self.shared.options.durability
    }

    /// Whether others count on anything that this node has kept. Before, nothing is written: what was heard of others' disks is written with the
    /// first promise, acceptance or decision. So a disk on which something was written is that of a node that had a part in a cluster, and one
    /// that lost all its files before that has forgotten nothing: it takes part in the birth like a new one. See
    /// docs/decisions/0053-nothing-is-written-before-the-birth.md.
    pub(super) fn has_a_part(&self) -> bool {
        self.keeping.counts
    }

    /// Has something kept on which others count, and does something once they may.
    pub(super) fn keep_on_disk(&mut self, kept: Kept, after: After) {
        if self.durability() == Durability::Memory {
            return self.go(after);
        }
        if !std::mem::replace(&mut self.keeping.counts, true) {
            let met = self.evidence.met();
            met.into_iter().for_each(|met| self.keep_on_disk(Kept::Met(met), After::Nothing));
        }
        self.keeping.last += 1;
        self.shared.commands[0].put(Command::Keep(self.keeping.last, kept));
        self.wakes = true;
        self.keeping.waits.push_back((self.keeping.last, after));
    }

    fn go(&mut self, after: After) {
        match after {
            After::Send(to, message) => self.send(to, message),
            After::Begin(begin) => self.command(|| Command::Begin(begin.clone())),
            After::Pause(epoch) => self.command(|| Command::Pause(epoch)),
            After::Nothing => {}
        }
    }

    pub(super) fn on_kept(&mut self, number: u64) {
        while let Some((_, after)) = self.keeping.waits.pop_front_if(|(at, _)| *at <= number) {
            self.go(after);
        }
    }

    /// Has the workers pause for an epoch: behind what they are about to begin, or their records would be those of the epoch before.
    pub(super) fn pause_workers(&mut self, epoch: Epoch) {
        let begins = |(_, after): &(u64, After)| matches!(after, After::Begin(_));
        if self.keeping.waits.iter().any(begins) {
            self.keeping.waits.push_back((self.keeping.last, After::Pause(epoch)));
        } else {
            self.go(After::Pause(epoch));
        }
    }

    /// This replica takes no part any more: no epoch is begun that was about to be.
    pub(super) fn begin_nothing(&mut self) {
        for (_, after) in &mut self.keeping.waits {
            if matches!(after, After::Begin(_) | After::Pause(_)) {
                *after = After::Nothing;
            }
        }
    }

    /// What the controller must not forget, all of it.
    fn all_kept(&self) -> Vec<Kept> {
        let mut all: Vec<Kept> = self.history.back().cloned().map(Kept::Decided).into_iter().collect();
        if self.promised.number > 0 {
            all.push(Kept::Promised { epoch: self.epoch.next(), round: self.promised });
        }
        all.extend(self.accepted.clone().map(|(round, change)| Kept::Accepted { round, change }));
        all.extend(self.evidence.met().into_iter().map(Kept::Met));
        all
    }

    // ---- checkpoints ----

    /// Begins a checkpoint, unless there is one, or the store is no state that one can be made of.
    pub(super) fn begin_checkpoint(&mut self, now: Nanos) {
        let complete = match self.standing {
            Standing::Voting | Standing::Ready => true,
            Standing::Learning => self.keeping.copied,
            _ => false,
        };
        let fit = self.durability().has_disk() && complete && self.installing == 0;
        if !fit || !self.keeping.checkpointing.may_begin(now) {
            return;
        }
        self.shared.scanning.store(true, Ordering::SeqCst);
        let number = self.keeping.checkpointing.begin(());
        let kept = Arc::new(self.all_kept());
        self.command(|| Command::CheckpointFrom { number, kept: kept.clone() });
    }

    pub(super) fn on_checkpoint_from(&mut self, worker: u16, number: u64, position: LogPosition) {
        let workers = self.shared.options.workers as usize;
        if self.keeping.checkpointing.located(number, worker, position, workers).is_some() {
            // What is closed may be ahead of this node's clock.
            let floor = self.shared.closed();
            self.keeping.floor = floor;
            self.keeping.orders.push(CheckpointOrder::Scan { number, floor });
        }
    }

    pub(super) fn on_checkpoint_news(&mut self, now: Nanos, news: CheckpointNews) {
        match news {
            CheckpointNews::Wanted => self.begin_checkpoint(now),
            CheckpointNews::Scanned { number, newest } if self.keeping.checkpointing.is_scanning(number) => {
                self.shared.scanning.store(false, Ordering::SeqCst);
                self.keeping.newest = newest;
                let complete_at = newest.max(self.shared.clock.now()).max(self.keeping.floor);
                self.keeping.checkpointing.scanned(complete_at);
                self.command(|| Command::CheckpointSettle(number, newest));
            }
            CheckpointNews::Scanned { .. } => {}
            CheckpointNews::Published(number) => {
                let checkpointing = &mut self.keeping.checkpointing;
                let kept = checkpointing.published(number) && checkpointing.keeps_store();
                if kept && self.standing == Standing::Learning {
                    self.standing = Standing::Ready;
                    self.note("what was copied is on this node's disk".into());
                }
            }
            CheckpointNews::Failed(number) => {
                if self.keeping.checkpointing.failed(now, number) {
                    self.shared.scanning.store(false, Ordering::SeqCst);
                }
            }
        }
    }

    pub(super) fn on_checkpoint_settled(&mut self, worker: u16, number: u64) {
        let Some(whole) = self.keeping.checkpointing.settled(number, worker, ()) else { return };
        let Whole { begun: (), complete_at, parts } = whole;
        let mut engine = vec![VERSION];
        engine.extend_from_slice(&self.shared.options.workers.to_le_bytes());
        engine.extend_from_slice(&self.keeping.newest.0.to_le_bytes());
        let mut released: Vec<LogPosition> = parts.into_iter().map(|(position, ())| position).collect();
        // The controller writes nothing by itself.
        released.push(LogPosition(0));
        let anew = LogPosition(0);
        self.keeping.orders.push(CheckpointOrder::Publish { number, complete_at, engine, released, anew });
    }

    /// The store is another one from here on: what was scanned is of no use.
    pub(super) fn leave_store(&mut self) {
        // One that is being published is of what was; who comes back from it finds in the records that it was left.
        self.keeping.copied = false;
        let Some(Undo { told, kept }) = self.keeping.checkpointing.replace_store() else { return };
        if kept {
            self.shared.scanning.store(false, Ordering::SeqCst);
        }
        if told {
            self.keeping.orders.push(CheckpointOrder::Abandon("the store is replaced"));
        }
    }

    /// What was copied goes to the disk at once.
    pub(super) fn keep_copied_state(&mut self, now: Nanos) {
        if self.standing == Standing::Learning && self.keeping.copied {
            self.begin_checkpoint(now);
        }
    }

    pub(super) fn take_orders(&mut self, out: &mut Vec<CheckpointOrder>) {
        out.append(&mut self.keeping.orders);
    }

    // ---- coming back ----

    pub(super) fn resume_from(&mut self, from: Resume<'_>) -> Result<(), String> {
        let workers = self.shared.options.workers as usize;
        let mut reader = Reader::new(from.engine);
        let words = (|| {
            let (version, workers) = (reader.u8()?, reader.u16()?);
            let newest = if version == FIRST_VERSION { from.complete_at } else { Timestamp(reader.u64()?) };
            let known = version == VERSION || version == FIRST_VERSION;
            if known && reader.is_empty() { Ok((workers, newest)) } else { Err(Malformed("version")) }
        })();
        let (written, newest) = words.map_err(|_| "a checkpoint's words are none of this engine's")?;
        if usize::from(written) != workers {
            return Err(format!(
                "the checkpoint was written with another number of workers: {written}; set cluster.workers to it"
            ));
        }
        self.shared.remembered.lock().expect("nobody panics with it").from = newest;
        if from.positions.len() != workers + 1 {
            return Err("a checkpoint of other writers than this engine's".into());
        }
        for (cell, position) in self.shared.cells.iter().zip(from.positions) {
            cell.resumed.store(position.0, Ordering::Relaxed);
        }
        self.shared.keeps_tombstones.store(true, Ordering::SeqCst);
        self.shared.clock.advance_past(from.complete_at);
        Ok(())
    }

    /// Every record was handed in.
    pub(super) fn come_back(&mut self, now: Nanos) {
        let shared = self.shared.clone();
        let remembered = std::mem::take(&mut *shared.remembered.lock().expect("nobody panics with it"));
        let any = remembered.any;
        self.take_up(now, remembered);
        if any {
            self.keeping.counts = true;
            self.be_judged();
        }
    }

    fn take_up(&mut self, now: Nanos, remembered: Remembered) {
        let Remembered { ends, from, decided, promised, accepted, lost, any, met } = remembered;
        self.evidence.recall(met);
        let next = decided.last().map_or(Epoch(1), |change| change.epoch.next());
        self.promised =
            promised.filter(|(epoch, _)| *epoch == next).map_or(self.promised, |(_, round)| round);
        self.accepted = accepted.filter(|(_, change)| change.epoch == next);
        self.promised = self.accepted.as_ref().map_or(self.promised, |(round, _)| self.promised.max(*round));
        self.stirred = now;
        let Some(change) = decided.last().cloned() else {
            if any {
                self.standing = Standing::Bearing;
            }
            return;
        };
        let me = (self.me, self.life);
        self.epoch = change.epoch;
        self.history.push_back(change.clone());
        self.shared.clock.advance_past(change.base);
        self.members = change.members.has_say(me).then(|| change.members.clone());
        if !lost && change.members.has_voter(me) {
            let ends: Vec<End> = ends.into_values().collect();
            let forgets = self.shared.options.forgets && hooks::tells_that_it_forgot();
            let came = if forgets {
                came(&ends, (change.epoch, change.base, change.cut.is_some()), from)
            } else {
                Came::Whole
            };
            self.keeping.came_back = true;
            match came {
                Came::Whole => {
                    self.note(format!("comes back with its disk: a voter of {}", change.epoch));
                    self.standing = Standing::Voting;
                    self.take_seats(decided);
                }
                Came::Forgot(rest) => {
                    self.note(format!(
                        "comes back with its disk, and may have forgotten what was last in {}",
                        change.epoch
                    ));
                    self.standing = Standing::Outside;
                    self.forgot = Memory::Forgot(rest);
                }
            }
            return self.pause(next);
        }
        self.note(format!("comes back without a whole state of {}: it needs a copy", change.epoch));
        self.standing = Standing::Outside;
        self.store = Store::new(self.schema.clone());
        self.marks = marks_of(&self.schema, &self.shared.options);
        self.command(|| Command::Forget);
    }

    /// Workers begin what they had not begun, one change after the other, and take their seats in the last one.
    fn take_seats(&mut self, decided: Vec<Arc<Change>>) {
        self.installing = self.shared.options.workers as usize;
        let last = decided.last().map(|change| change.epoch);
        for change in decided {
            let (store, marks) = (self.store.clone(), self.marks.clone());
            let more = last != Some(change.epoch);
            let begin = Arc::new(Begin { change, store, marks, afresh: false, more });
            self.command(|| Command::Begin(begin.clone()));
        }
    }

    /// What writes is refused when no more may become durable: this disk is about to be full, or those of so many that no majority is left.
    pub(super) fn watch_disks(&mut self, now: Nanos) {
        let low = self.keeping.disk.low;
        let voters = self.members.iter().flat_map(|members| &members.voters);
        let has_room = |node: NodeId| match node == self.me {
            true => !low,
            false => !(self.hears(now, node) && self.beat_of(node).low),
        };
        let room = voters.filter(|(node, _)| has_room(*node)).count() as u32;
        let full = low || self.members.is_some() && room < self.shared.quorums.majority;
        if self.shared.disk_full.swap(full, Ordering::Relaxed) != full {
            let words = if full {
                "disks are about to be full: what writes is refused, reads go on"
            } else {
                "the disks have room: what writes is taken again"
            };
            self.note(words.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use highwater_core::{Clock, Incarnation, Schema};

    use super::*;
    use crate::shared::Shared;
    use highwater_seam::options::Options;

    fn controller(workers: u16) -> MeerkatController {
        let mut options = Options::new(NodeId(0), 3, workers, Incarnation(1));
        options.durability = Durability::Sync;
        let schema = Schema::new(Vec::new());
        let marks = marks_of(&schema, &options);
        let shared = Arc::new(Shared::new(options, Arc::new(Clock::counter()), false));
        MeerkatController::new(shared, schema.clone(), Store::new(schema), marks)
    }

    /// Up to the order to publish: the engine's words in it.
    fn checkpoint(controller: &mut MeerkatController) -> Vec<u8> {
        let (engine, _) = published(controller);
        engine
    }

    /// The same, and when it is complete.
    fn published(controller: &mut MeerkatController) -> (Vec<u8>, Timestamp) {
        let workers = controller.shared.options.workers;
        controller.begin_checkpoint(1);
        let number = controller.keeping.checkpointing.number();
        (0..workers).for_each(|worker| controller.on_checkpoint_from(worker, number, LogPosition(9)));
        controller.on_checkpoint_news(1, CheckpointNews::Scanned { number, newest: Timestamp(5) });
        (0..workers).for_each(|worker| controller.on_checkpoint_settled(worker, number));
        match controller.keeping.orders.pop() {
            Some(CheckpointOrder::Publish { engine, complete_at, .. }) => (engine, complete_at),
            other => panic!("{other:?}"),
        }
    }

    /// One of the store before may be published after a copy has come: that is not on the disk.
    #[test]
    fn a_checkpoint_of_what_was_does_not_keep_what_was_copied() {
        let mut controller = controller(1);
        controller.standing = Standing::Voting;
        checkpoint(&mut controller);
        controller.leave_store();
        (controller.standing, controller.keeping.copied) = (Standing::Learning, true);
        controller.on_checkpoint_news(2, CheckpointNews::Published(1));
        assert_eq!(controller.standing, Standing::Learning);
        checkpoint(&mut controller);
        controller.on_checkpoint_news(3, CheckpointNews::Published(2));
        assert_eq!(controller.standing, Standing::Ready);
    }

    /// Tombstones stay while the host scans, whatever became of a scan that was given up.
    #[test]
    fn a_late_word_of_an_earlier_scan_ends_none_that_goes_on() {
        let (mut controller, now) = (controller(1), 1 << 60);
        controller.standing = Standing::Voting;
        let scans = |controller: &MeerkatController| controller.shared.scanning.load(Ordering::SeqCst);
        controller.begin_checkpoint(1);
        controller.leave_store();
        assert!(!scans(&controller));
        controller.begin_checkpoint(now);
        assert_eq!(controller.keeping.checkpointing.number(), 2);
        for news in [CheckpointNews::Scanned { number: 1, newest: Timestamp(5) }, CheckpointNews::Failed(1)] {
            controller.on_checkpoint_news(now, news);
            assert!(scans(&controller), "{news:?}");
        }
    }

    /// A checkpoint is complete at what was closed when it began, or later: others' clocks may be ahead of this one.
    #[test]
    fn a_checkpoint_is_not_complete_before_its_floor() {
        let mut controller = controller(1);
        controller.standing = Standing::Voting;
        controller.shared.cells[0].closed.store(1 << 40, Ordering::Relaxed);
        let (_, complete_at) = published(&mut controller);
        assert!(complete_at >= Timestamp(1 << 40), "{complete_at}");
    }

    /// As many workers as there may be, and other numbers are refused in words.
    #[test]
    fn a_checkpoint_tells_of_how_many_workers_it_is() {
        for workers in [1, 255, 256] {
            let mut before = controller(workers);
            before.standing = Standing::Voting;
            let engine = checkpoint(&mut before);
            let positions = vec![LogPosition(9); usize::from(workers) + 1];
            let (floor, complete_at) = (Timestamp(1), Timestamp(5));
            let resume = Resume { floor, complete_at, engine: &engine, positions: &positions };
            assert_eq!(controller(workers).resume_from(resume), Ok(()));
            let refused = controller(workers + 1).resume_from(resume).unwrap_err();
            assert!(refused.contains(&format!("another number of workers: {workers}; set")), "{refused}");
            assert!(controller(workers).resume_from(Resume { engine: &[7], ..resume }).is_err());
        }
    }
}
