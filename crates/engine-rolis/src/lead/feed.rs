//! The way of a worker's transactions: each into its own stream's open entry, as a rule.
//!
//! The rest of a leading worker does not know which; each kind is a policy of its own.

use std::sync::Arc;

use highwater_core::log::ENTRY_HEADER_BYTES;
use highwater_core::{Abort, Epoch, Timestamp};
use highwater_kit::attempt::{Ends, InStore};
use highwater_seam::Outbox;
use highwater_store::{Occ, Store};

/// The place where transactions commit, and from which entries are sealed.
pub trait Feed: Send {
    /// Other workers commit into the same entry.
    const SHARED: bool;

    /// `epoch` opens: transactions of this store may commit, all above `floor`, to so many of its tables.
    fn open(&mut self, epoch: Epoch, floor: Timestamp, store: (&Arc<Store>, usize));

    /// Nothing may commit any more.
    fn close(&self, out: &mut Outbox);

    /// Bytes in the open entry. A shared one is told whether it takes no more, and says what it needs the stream closed up to.
    fn gathered(&self, occ: &mut Occ, full: bool, max_entry_bytes: usize) -> (usize, Timestamp);

    /// Takes a shared entry out, closed at `now` or at what was committed last. `None`: the worker has its own.
    fn take(&self, now: Timestamp, buffer: Vec<u8>) -> Option<Gathered>;

    /// Commits.
    ///
    /// # Errors
    /// As [`Occ::commit`].
    fn commit(&self, occ: &mut Occ) -> Result<Timestamp, Abort>;

    /// Rolls back by the procedure's own decision, at a timestamp.
    ///
    /// # Errors
    /// As [`Occ::commit_rollback`].
    fn roll_back(&self, occ: &mut Occ) -> Result<Timestamp, Abort>;
}

/// A shared entry, taken out of its feed.
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

/// Into the worker's own entry.
pub struct Own;

impl Feed for Own {
    const SHARED: bool = false;

    fn open(&mut self, _epoch: Epoch, _floor: Timestamp, _store: (&Arc<Store>, usize)) {}

    fn close(&self, _out: &mut Outbox) {}

    #[inline]
    fn gathered(&self, occ: &mut Occ, _full: bool, _max_entry_bytes: usize) -> (usize, Timestamp) {
        (occ.log().len() - ENTRY_HEADER_BYTES, Timestamp::ZERO)
    }

    fn take(&self, _now: Timestamp, _buffer: Vec<u8>) -> Option<Gathered> {
        None
    }

    #[inline(always)]
    fn commit(&self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        InStore.commit(occ)
    }

    #[inline]
    fn roll_back(&self, occ: &mut Occ) -> Result<Timestamp, Abort> {
        InStore.roll_back(occ)
    }
}
