//! A checkpoint under way, as an engine's controller knows it: the same steps for all engines, and what each of them finds in them is its own.
//!
//! | stage | who has to do something | then |
//! |---|---|---|
//! | locating | every worker says from where on its records are needed | the host scans the store |
//! | scanning | the host | the workers settle it |
//! | settling | every worker says that what the scan may have met is on disk, and stays | the host publishes |
//! | publishing | the host | |
//!
//! The host is the crate `node`: when one is due it decides in `control/checkpoints.rs`, it scans and publishes in `storage/checkpoint.rs`; what the two say to each other is
//! `seam/src/checkpoint.rs`, the files are `disk/src/checkpoint/`.
//!
//! It can be given up until the host publishes; what is published cannot be taken back, and need not be. Late answers are known by their
//! number.
//!
//! **Which store it is of.** A replica whose store is replaced ([`Checkpointing::replace_store`]) may still hear that a checkpoint of the
//! store before was published: a publication waits for syncs of a disk that may be slow. That one says nothing of what was copied since.
//! So every checkpoint has the [`Generation`] of the store that was scanned for it, and [`Checkpointing::keeps_store`] is true only of the
//! store in use. A controller asks that, and has no flag of its own.
//!
//! What a checkpoint is, and why a scan beside load makes one: [decision
//! 0011](../../../docs/decisions/0011-a-checkpoint-is-a-copy-to-oneself.md).

use std::collections::BTreeMap;

use highwater_core::{Generation, Timestamp, planted};
use highwater_seam::Nanos;

/// Pause after a checkpoint that came to nothing.
pub const RETRY_AFTER: Nanos = 200_000_000;

/// A checkpoint under way, if there is one, and whether there is one of the store in use. `B`: what is known when it begins; `F`: what a worker finds; `S`: what it says when it has settled.
pub struct Checkpointing<B, F, S> {
    /// Counts those that were begun.
    number: u64,
    stage: Option<Stage<B, F, S>>,
    /// The store in use.
    store: Generation,
    /// The store that the checkpoint under way, or the last one, is of.
    scanned: Generation,
    /// The newest store of which there is a checkpoint on the disk. Invariant: no later than `store`.
    kept: Option<Generation>,
    /// No other one before this.
    pub not_before: Nanos,
}

enum Stage<B, F, S> {
    Locating { begun: B, found: BTreeMap<u16, F> },
    Scanning { begun: B, found: BTreeMap<u16, F> },
    Settling { begun: B, found: BTreeMap<u16, F>, complete_at: Timestamp, settled: BTreeMap<u16, S> },
    Publishing,
}

/// What all workers found and said, in their order.
pub struct Whole<B, F, S> {
    /// As it began.
    pub begun: B,
    /// At or above everything that was scanned.
    pub complete_at: Timestamp,
    /// By worker.
    pub parts: Vec<(F, S)>,
}

/// What has to be undone of one that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undo {
    /// The host has to hear of it.
    pub told: bool,
    /// Tombstones were kept for it.
    pub kept: bool,
}

impl<B, F, S> Default for Checkpointing<B, F, S> {
    fn default() -> Self {
        let store = Generation::default();
        Checkpointing { number: 0, stage: None, store, scanned: store, kept: None, not_before: 0 }
    }
}

impl<B, F, S> Checkpointing<B, F, S> {
    /// Whether one may begin: there is none, and the last one is long enough ago if it came to nothing.
    #[inline]
    pub fn may_begin(&self, now: Nanos) -> bool {
        self.stage.is_none() && now >= self.not_before
    }

    /// The number of the last one.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether there is a checkpoint of the store in use on this replica's disk.
    pub fn keeps_store(&self) -> bool {
        self.kept == Some(self.store)
    }

    /// The store in use, of those that this replica has had in its process.
    pub fn store(&self) -> Generation {
        self.store
    }

    /// The store in use was loaded from a checkpoint.
    pub fn resumed(&mut self) {
        self.kept = Some(self.store);
    }

    /// Another store takes the place of the one in use: there is no checkpoint of it, whatever becomes of the one under way, which is
    /// given up. What has to be undone of that.
    pub fn replace_store(&mut self) -> Option<Undo> {
        self.store.advance();
        self.give_up()
    }

    /// Begins one of the store in use; its number.
    pub fn begin(&mut self, begun: B) -> u64 {
        self.number += 1;
        self.scanned = self.store;
        self.stage = Some(Stage::Locating { begun, found: BTreeMap::new() });
        self.number
    }

    /// A worker's records are needed from here on. What it began with, once all `workers` have said so: then the host scans.
    pub fn located(&mut self, number: u64, worker: u16, found: F, workers: usize) -> Option<&B> {
        let Some(Stage::Locating { found: all, .. }) = &mut self.stage else { return None };
        if number != self.number {
            return None;
        }
        all.insert(worker, found);
        if all.len() < workers {
            return None;
        }
        if let Some(Stage::Locating { begun, found }) = self.stage.take() {
            self.stage = Some(Stage::Scanning { begun, found });
        }
        self.scans_for()
    }

    /// The beginning of the one that the host scans for.
    pub fn scans_for(&self) -> Option<&B> {
        match &self.stage {
            Some(Stage::Scanning { begun, .. }) => Some(begun),
            _ => None,
        }
    }

    /// The host has scanned everything.
    pub fn scanned(&mut self, complete_at: Timestamp) {
        self.stage = match self.stage.take() {
            Some(Stage::Scanning { begun, found }) => {
                Some(Stage::Settling { begun, found, complete_at, settled: BTreeMap::new() })
            }
            other => other,
        };
    }

    /// Whether the host is scanning for this very checkpoint.
    pub fn is_scanning(&self, number: u64) -> bool {
        matches!(self.stage, Some(Stage::Scanning { .. })) && number == self.number
    }

    /// Whether this very checkpoint is under way.
    pub fn is(&self, number: u64) -> bool {
        self.stage.is_some() && number == self.number
    }

    /// A worker has settled; everything, once all have: then the host publishes.
    pub fn settled(&mut self, number: u64, worker: u16, said: S) -> Option<Whole<B, F, S>> {
        let Some(Stage::Settling { found, settled, .. }) = &mut self.stage else { return None };
        if number != self.number {
            return None;
        }
        settled.insert(worker, said);
        if settled.len() < found.len() {
            return None;
        }
        match self.stage.replace(Stage::Publishing) {
            Some(Stage::Settling { begun, found, complete_at, settled }) => {
                let parts = found.into_values().zip(settled.into_values()).collect();
                Some(Whole { begun, complete_at, parts })
            }
            _ => None,
        }
    }

    /// It is published; whether it was this one. Of which store it is [`keeps_store`](Checkpointing::keeps_store) knows.
    pub fn published(&mut self, number: u64) -> bool {
        let is = matches!(self.stage, Some(Stage::Publishing)) && number == self.number;
        if is {
            self.stage = None;
            self.kept = Some(if forgets_which_store() { self.store } else { self.scanned });
        }
        is
    }

    /// It is given up, unless it is being published. What has to be undone, if so.
    pub fn give_up(&mut self) -> Option<Undo> {
        let undo = match self.stage {
            None | Some(Stage::Publishing) => return None,
            Some(Stage::Locating { .. }) => Undo { told: false, kept: true },
            Some(Stage::Scanning { .. }) => Undo { told: true, kept: true },
            Some(Stage::Settling { .. }) => Undo { told: true, kept: false },
        };
        self.stage = None;
        Some(undo)
    }

    /// The host could not. Whether tombstones were kept for it. Of one that was given up it says nothing: the next one need not wait.
    pub fn failed(&mut self, now: Nanos, number: u64) -> bool {
        if number != self.number {
            return false;
        }
        let stage = self.stage.take();
        self.not_before = now + RETRY_AFTER;
        matches!(stage, Some(Stage::Locating { .. } | Stage::Scanning { .. }))
    }
}

/// Whether a checkpoint counts for the store in use, whichever it is of: never.
fn forgets_which_store() -> bool {
    planted!(OldCheckpointCounts)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Two = Checkpointing<&'static str, u64, char>;

    fn settling() -> (Two, u64) {
        let mut two = Two::default();
        let number = two.begin("floor");
        assert_eq!(two.located(number, 1, 20, 2), None);
        assert_eq!(two.located(number, 0, 10, 2), Some(&"floor"));
        assert!(two.is_scanning(number) && !two.may_begin(Nanos::MAX));
        two.scanned(Timestamp(9));
        (two, number)
    }

    #[test]
    fn each_step_waits_for_all_workers() {
        let (mut two, number) = settling();
        assert!(two.settled(number, 0, 'a').is_none() && !two.published(number));
        let whole = two.settled(number, 1, 'b').unwrap();
        assert_eq!(
            (whole.begun, whole.complete_at, whole.parts),
            ("floor", Timestamp(9), vec![(10, 'a'), (20, 'b')])
        );
        assert_eq!(two.give_up(), None, "what is being published cannot be taken back");
        assert!(two.published(number) && !two.published(number) && two.may_begin(0));
    }

    /// Once: a checkpoint that failed after it was given up put the next one off.
    #[test]
    fn late_answers_are_of_another_checkpoint() {
        let (mut two, old) = settling();
        assert_eq!(two.give_up(), Some(Undo { told: true, kept: false }));
        let number = two.begin("later");
        assert!(two.located(old, 0, 1, 1).is_none() && two.settled(old, 0, 'x').is_none());
        let pause = two.not_before;
        assert!(!two.failed(5, old) && two.is(number) && !two.is(old));
        assert_eq!(two.not_before, pause, "nor does the next one wait for what became of it");
        assert_eq!(two.located(number, 0, 1, 1), Some(&"later"));
        assert!(two.failed(5, number) && !two.may_begin(5) && two.may_begin(5 + RETRY_AFTER));
    }

    #[test]
    fn at_no_stage_does_an_answer_about_an_earlier_one_count() {
        let (mut two, old) = settling();
        two.give_up();
        let number = two.begin("later");
        assert!(two.located(number, 0, 1, 2).is_none() && two.located(number, 1, 2, 2).is_some());
        assert!(!two.is_scanning(old) && two.is_scanning(number));
        two.scanned(Timestamp(9));
        assert!(two.settled(old, 0, 'x').is_none() && two.settled(old, 1, 'x').is_none());
        assert!(two.settled(number, 0, 'a').is_none() && two.settled(number, 1, 'b').is_some());
        assert!(!two.published(old), "its host was late");
        assert!(two.published(number));
    }

    /// A disk that was slow publishes the one of the store before when a copy has come.
    #[test]
    fn a_checkpoint_of_the_store_before_keeps_nothing_of_the_next_one() {
        let (mut two, old) = settling();
        assert!(two.settled(old, 0, 'a').is_none() && two.settled(old, 1, 'b').is_some());
        assert_eq!(two.replace_store(), None, "what is being published cannot be taken back");
        assert!(two.published(old), "its host has to hear nothing");
        assert!(!two.keeps_store(), "it is of the store before");
        let number = two.begin("of the copy");
        two.located(number, 0, 1, 1);
        two.scanned(Timestamp(9));
        assert!(two.settled(number, 0, 'a').is_some() && !two.keeps_store());
        assert!(two.published(number) && two.keeps_store());
        two.replace_store();
        assert!(!two.keeps_store(), "and of no later one");
        two.resumed();
        assert!(two.keeps_store());
    }

    #[test]
    fn what_is_given_up_says_what_has_to_be_undone() {
        let mut two = Two::default();
        assert_eq!(two.give_up(), None);
        let number = two.begin("");
        assert_eq!(two.give_up(), Some(Undo { told: false, kept: true }));
        assert!(!two.is(number));
        let number = two.begin("");
        two.located(number, 0, 1, 1);
        assert_eq!(two.give_up(), Some(Undo { told: true, kept: true }));
    }
}
