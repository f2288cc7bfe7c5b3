//! Up to where it is noted down that all is over everywhere, and the checkpoint that waits for it.

use std::sync::atomic::Ordering;

use highwater_core::{Durability, Timestamp};

use crate::journal::{Journal, Record};
use crate::worker::context::Context;

#[derive(Default)]
pub struct Settling {
    closed: Timestamp,
    /// A checkpoint that is to be settled, by its number, once all up to here is over everywhere.
    settles: Option<(u64, Timestamp)>,
}

impl Settling {
    pub fn closed(&self) -> Timestamp {
        self.closed
    }

    /// Another epoch begins: nothing of it is.
    pub fn begin(&mut self) {
        self.closed = Timestamp::ZERO;
    }

    /// An earlier life noted it down.
    pub fn closed_before(&mut self, ts: Timestamp) {
        self.closed = self.closed.max(ts);
    }

    pub fn note(&mut self, journal: &mut Journal, context: &Context) {
        let closed = context.shared.closed();
        if closed > self.closed {
            self.closed = closed;
            journal.write(&Record::Closed(closed));
            context.cell().noted.store(closed.0, Ordering::Relaxed);
        }
    }

    /// A checkpoint waits.
    pub fn settle(&mut self, number: u64, newest: Timestamp) {
        self.settles = Some((number, newest));
    }

    /// Up to where, if one does.
    pub fn awaits(&self) -> Option<Timestamp> {
        self.settles.map(|(_, newest)| newest)
    }

    /// The checkpoint that waits no more: all of it is over everywhere, and that is noted down where disks may be cut.
    pub fn take_settled(&mut self, journal: &mut Journal, context: &Context) -> Option<u64> {
        let is_async = context.options().durability == Durability::Async;
        let closed = |newest| !is_async || context.shared.closed() >= newest;
        let (number, _) = self.settles.take_if(|(_, newest)| closed(*newest))?;
        if is_async {
            self.note(journal, context);
        }
        Some(number)
    }
}
