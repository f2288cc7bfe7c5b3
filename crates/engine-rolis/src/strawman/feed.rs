//! All workers' transactions go into one entry: see [`funnel`](crate::strawman::funnel).

use std::sync::Arc;

use highwater_core::{Abort, Epoch, Timestamp};
use highwater_kit::attempt::Ends;
use highwater_seam::Outbox;
use highwater_store::{Occ, Store};

use crate::lead::feed::{Feed, Gathered};
use crate::strawman::funnel::{Entrance, SharedEntry};

/// Into the entry that all workers share.
pub struct IntoFunnel {
    funnel: Entrance,
    /// The epoch that is led.
    epoch: Epoch,
}

impl IntoFunnel {
    /// Takes what all workers commit.
    pub fn new(funnel: Entrance) -> IntoFunnel {
        IntoFunnel { funnel, epoch: Epoch(0) }
    }
}

impl Feed for IntoFunnel {
    const SHARED: bool = true;

    fn open(&mut self, epoch: Epoch, floor: Timestamp, (store, tables): (&Arc<Store>, usize)) {
        self.epoch = epoch;
        let store = Some(store.clone());
        *self.funnel.lock() =
            SharedEntry { epoch: Some(epoch), floor, store, tables, ..SharedEntry::default() };
    }

    fn close(&self, out: &mut Outbox) {
        *self.funnel.lock() = SharedEntry::default();
        out.wake_workers = true;
    }

    fn gathered(&self, _occ: &mut Occ, full: bool, max_entry_bytes: usize) -> (usize, Timestamp) {
        let mut open = self.funnel.lock();
        open.full = full || open.bytes.len() >= max_entry_bytes;
        (open.bytes.len(), open.floor)
    }

    fn take(&self, now: Timestamp, mut buffer: Vec<u8>) -> Option<Gathered> {
        let mut open = self.funnel.lock();
        let closed = now.max(open.floor);
        open.floor = closed;
        let count = std::mem::take(&mut open.count);
        let span = (open.first, open.last);
        buffer.append(&mut open.bytes);
        Some(Gathered { closed, count, span, bytes: buffer })
    }

    fn commit(&self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        self.funnel.in_epoch(self.epoch).commit(occ)
    }

    fn roll_back(&self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        self.funnel.in_epoch(self.epoch).roll_back(occ)
    }
}
