//! For tests: a replica's shared parts over an engine whose positions are what it was told last.

use std::sync::{Arc, Mutex};

use highwater_consensus::Members;
use highwater_core::{Clock, EntryIndex, Epoch, Timestamp};
use highwater_seam::memory::Account;
use highwater_seam::options::Options;

use crate::progress::Progress;
use crate::shared::Shared;

/// Everything is decided and applied, up to where the store began, or where it has come since.
#[derive(Default)]
pub struct Still(Mutex<(Epoch, Option<Members>, Timestamp)>);

impl Still {
    /// All streams have entered `epoch`.
    pub fn enter(&self, epoch: Epoch, members: Members) {
        let mut at = self.0.lock().expect("nobody panics here");
        (at.0, at.1) = (epoch, Some(members));
    }

    /// Everything is decided and applied up to here.
    pub fn reach(&self, mark: Timestamp) {
        self.0.lock().expect("nobody panics here").2 = mark;
    }

    fn read<T>(&self, part: impl FnOnce(&(Epoch, Option<Members>, Timestamp)) -> T) -> T {
        part(&self.0.lock().expect("nobody panics here"))
    }
}

impl Progress for Still {
    fn epoch(&self) -> Epoch {
        self.read(|at| at.0)
    }

    fn members(&self) -> Option<Members> {
        self.read(|at| at.1.clone())
    }

    fn mark(&self) -> Timestamp {
        self.read(|at| at.2)
    }

    fn mark_in(&self, epoch: Epoch) -> Option<Timestamp> {
        self.read(|at| (at.0 == epoch).then_some(at.2))
    }

    fn applied(&self) -> Timestamp {
        self.mark()
    }

    fn copy_point(&self, leading: Option<Epoch>) -> Option<(Epoch, Timestamp)> {
        self.read(|at| leading.is_none_or(|epoch| epoch == at.0).then_some((at.0, at.2)))
    }

    fn position(&self, _leads: bool) -> Timestamp {
        self.mark()
    }

    fn base(&self, high: Timestamp) -> Timestamp {
        high.next()
    }

    fn restart(&self, epoch: Epoch, members: Members, floor: Timestamp, _starts: &[EntryIndex]) {
        *self.0.lock().expect("nobody panics here") = (epoch, Some(members), floor);
    }

    fn store_is_complete(&self) {}
}

/// The shared state of a fresh replica, and its positions.
pub fn parts(options: Options, account: Account) -> (Arc<Shared>, Arc<Still>) {
    let still = Arc::new(Still::default());
    (Arc::new(Shared::new(options, Arc::new(Clock::counter()), account, still.clone())), still)
}

/// The shared state alone.
pub fn shared(options: Options, account: Account) -> Arc<Shared> {
    parts(options, account).0
}
