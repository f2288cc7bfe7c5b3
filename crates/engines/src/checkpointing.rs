//! A checkpoint under way, as an engine's controller knows it: the same steps for all engines, and what each of them finds in them is its own.
//!
//! | stage | who has to do something | then |
//! |---|---|---|
//! | locating | every worker says from where on its records are needed | the host scans the store |
//! | scanning | the host | the workers settle it |
//! | settling | every worker says that what the scan may have met is on disk, and stays | the host publishes |
//! | publishing | the host | |
//!
//! It can be given up until the host publishes; what is published cannot be taken back, and need not be. Late answers are known by their
//! number. What a checkpoint is, and why a scan beside load makes one: [decision
//! 0011](../../../docs/decisions/0011-a-checkpoint-is-a-copy-to-oneself.md).

use std::collections::BTreeMap;

use highwater_core::Timestamp;

use crate::seam::Nanos;

/// Pause after a checkpoint that came to nothing.
pub(crate) const RETRY_AFTER: Nanos = 200_000_000;

/// A checkpoint under way, if there is one. `B`: what is known when it begins; `F`: what a worker finds; `S`: what it says when it has settled.
pub(crate) struct Checkpointing<B, F, S> {
    /// Counts those that were begun.
    number: u64,
    stage: Option<Stage<B, F, S>>,
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
pub(crate) struct Whole<B, F, S> {
    /// As it began.
    pub begun: B,
    /// At or above everything that was scanned.
    pub complete_at: Timestamp,
    /// By worker.
    pub parts: Vec<(F, S)>,
}

/// What has to be undone of one that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    /// The host has to hear of it.
    pub told: bool,
    /// Tombstones were kept for it.
    pub kept: bool,
}

impl<B, F, S> Default for Checkpointing<B, F, S> {
    fn default() -> Self {
        Checkpointing { number: 0, stage: None, not_before: 0 }
    }
}

impl<B, F, S> Checkpointing<B, F, S> {
    /// Whether one may begin: there is none, and the last one is long enough ago if it came to nothing.
    pub fn may_begin(&self, now: Nanos) -> bool {
        self.stage.is_none() && now >= self.not_before
    }

    /// The number of the last one.
    #[cfg(test)]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Begins one; its number.
    pub fn begin(&mut self, begun: B) -> u64 {
        self.number += 1;
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

    /// It is published; whether it was this one.
    pub fn published(&mut self, number: u64) -> bool {
        let is = matches!(self.stage, Some(Stage::Publishing)) && number == self.number;
        if is {
            self.stage = None;
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

    /// The host could not. Whether tombstones were kept for it.
    pub fn failed(&mut self, now: Nanos, number: u64) -> bool {
        let stage = if number == self.number { self.stage.take() } else { None };
        self.not_before = now + RETRY_AFTER;
        matches!(stage, Some(Stage::Locating { .. } | Stage::Scanning { .. }))
    }
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

    #[test]
    fn late_answers_are_of_another_checkpoint() {
        let (mut two, old) = settling();
        assert_eq!(two.give_up(), Some(Undo { told: true, kept: false }));
        let number = two.begin("later");
        assert!(two.located(old, 0, 1, 1).is_none() && two.settled(old, 0, 'x').is_none());
        assert!(!two.failed(5, old) && two.is(number) && !two.is(old));
        assert_eq!(two.located(number, 0, 1, 1), Some(&"later"));
        assert!(two.failed(5, number) && !two.may_begin(5) && two.may_begin(5 + RETRY_AFTER));
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
