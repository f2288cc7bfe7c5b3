//! Where a worker's transactions go: each into its own stream's open entry, or, with the strawman, all into one.
//!
//! The rest of a worker does not know which. See [`funnel`](crate::strawman::funnel) for the second.

use std::sync::Arc;

use highwater_core::log::ENTRY_HEADER_BYTES;
use highwater_core::{Abort, Epoch, Timestamp};
use highwater_kit::attempt::{Ends, InStore};
use highwater_seam::Outbox;
use highwater_store::{Occ, Store};

use crate::strawman::funnel::{Entrance, SharedEntry};

/// Where a worker's transactions go.
#[derive(Default)]
pub struct Feed(Option<IntoFunnel>);

/// Into the entry that all workers share.
struct IntoFunnel {
    funnel: Entrance,
    /// The epoch that is led.
    epoch: Epoch,
}

/// The open entry, taken out of the feed.
pub struct Gathered {
    /// Timestamp that closes it.
    pub closed: Timestamp,
    /// How many transactions.
    pub count: u32,
    /// Timestamps of the first and last one.
    pub span: (Timestamp, Timestamp),
    /// In wire form.
    pub bytes: Vec<u8>,
}

impl Feed {
    /// Takes what all workers commit.
    pub fn of_all(funnel: Entrance) -> Feed {
        Feed(Some(IntoFunnel { funnel, epoch: Epoch(0) }))
    }

    /// Whether other workers commit into the same entry.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    /// `epoch` opens: transactions of this store may commit, all above `floor`, to so many of its tables.
    pub fn open(&mut self, epoch: Epoch, floor: Timestamp, (store, tables): (&Arc<Store>, usize)) {
        if let Some(shared) = &mut self.0 {
            shared.epoch = epoch;
            let store = Some(store.clone());
            *shared.funnel.lock() =
                SharedEntry { epoch: Some(epoch), floor, store, tables, ..SharedEntry::default() };
        }
    }

    /// Nothing may commit any more.
    pub fn close(&self, out: &mut Outbox) {
        if let Some(shared) = &self.0 {
            *shared.funnel.lock() = SharedEntry::default();
            out.wake_workers = true;
        }
    }

    /// Bytes in the open entry. A shared one is told whether it takes no more, and says what it needs the stream closed up to.
    pub fn gathered(&self, occ: &mut Occ, full: bool, max_entry_bytes: usize) -> (usize, Timestamp) {
        let Some(shared) = &self.0 else { return (occ.log().len() - ENTRY_HEADER_BYTES, Timestamp::ZERO) };
        let mut open = shared.funnel.lock();
        open.full = full || open.bytes.len() >= max_entry_bytes;
        (open.bytes.len(), open.floor)
    }

    /// Takes a shared entry out, closed at `now` or at what was committed last. `None`: the worker has its own.
    pub fn take(&self, now: Timestamp, mut buffer: Vec<u8>) -> Option<Gathered> {
        let mut open = self.0.as_ref()?.funnel.lock();
        let closed = now.max(open.floor);
        open.floor = closed;
        let count = std::mem::take(&mut open.count);
        let span = (open.first, open.last);
        buffer.append(&mut open.bytes);
        Some(Gathered { closed, count, span, bytes: buffer })
    }
}

/// Where a transaction commits: into its worker's own entry as a rule.
impl Ends<Occ> for &Feed {
    #[inline(always)]
    fn commit(&mut self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        match &self.0 {
            None => InStore.commit(occ),
            Some(shared) => shared.funnel.in_epoch(shared.epoch).commit(occ),
        }
    }

    fn roll_back(&mut self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        match &self.0 {
            None => InStore.roll_back(occ),
            Some(shared) => shared.funnel.in_epoch(shared.epoch).roll_back(occ),
        }
    }
}
