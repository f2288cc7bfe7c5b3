//! The epoch that a worker takes part in.

use highwater_core::Epoch;

use crate::hooks;
use crate::shared::{Seat, Shared};

/// Its part in epochs.
#[derive(Default)]
pub(super) struct Sitting {
    /// The epoch that it takes part in, if it takes part in one.
    seat: Option<Seat>,
    /// It promised this epoch, and does nothing in the one before.
    paused: Option<Epoch>,
    /// The last epoch that it has begun, and whose records it has; [`Epoch(0)`](Epoch): none.
    began: Epoch,
}

impl Sitting {
    pub fn seat(&self) -> Option<&Seat> {
        self.seat.as_ref()
    }

    /// The epoch that it takes part in, if it takes part in one.
    pub fn epoch(&self) -> Option<Epoch> {
        self.seat.as_ref().map(|seat| seat.epoch)
    }

    /// Whether it votes, and coordinates.
    pub fn votes(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| seat.votes)
    }

    /// The epoch that it works in now, if it does: not while it pauses, or other workers still install what came before.
    pub fn working(&self, shared: &Shared) -> Option<Epoch> {
        let epoch = self.epoch()?;
        let open = self.paused.is_none() && shared.open_epoch() == Some(epoch);
        (open || hooks::goes_on_when_promised()).then_some(epoch)
    }

    /// The epoch for which it pauses, if it does.
    pub fn paused(&self) -> Option<Epoch> {
        self.paused
    }

    /// The last epoch that it has begun.
    pub fn began(&self) -> Epoch {
        self.began
    }

    pub fn pause(&mut self, epoch: Epoch) {
        self.paused = Some(epoch);
    }

    /// Records are of this epoch from here on.
    pub fn begin(&mut self, epoch: Epoch) {
        self.began = epoch;
    }

    /// Takes part in an epoch.
    pub fn take(&mut self, seat: Seat) {
        (self.seat, self.paused) = (Some(seat), None);
    }

    /// Takes part in none.
    pub fn leave(&mut self) {
        (self.seat, self.paused) = (None, None);
    }
}
