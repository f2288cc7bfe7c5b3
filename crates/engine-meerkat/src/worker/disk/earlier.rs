//! A replica that comes back, and the records of its earlier life.

use std::collections::BTreeMap;

use highwater_core::{Epoch, Timestamp};
use highwater_kit::validation::payload::Payload;
use highwater_seam::Nanos;

#[derive(Default)]
pub struct Earlier {
    /// Records that were handed in.
    replayed: u64,
    /// Its writes of this epoch that committed, and are not installed yet: it may have to be left out.
    held: BTreeMap<Timestamp, Payload>,
    /// It had paused for this epoch when it ended.
    paused: Option<Epoch>,
}

impl Earlier {
    /// Another record is handed in: not a time, but an order.
    pub fn next(&mut self) -> Nanos {
        self.replayed += 1;
        self.replayed
    }

    /// It had begun another epoch.
    pub fn begin(&mut self) {
        self.paused = None;
    }

    pub fn pause(&mut self, epoch: Epoch) {
        self.paused = Some(epoch);
    }

    pub fn paused(&self) -> Option<Epoch> {
        self.paused
    }

    /// Something committed, and is to be installed once it is known that it need not be left out.
    pub fn hold(&mut self, ts: Timestamp, payload: Payload) {
        self.held.insert(ts, payload);
    }

    pub fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    pub fn take_held(&mut self) -> BTreeMap<Timestamp, Payload> {
        std::mem::take(&mut self.held)
    }
}
